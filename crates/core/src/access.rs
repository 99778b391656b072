//! The workspace access that a process has.
//!
//! Not for enforcing it: a runner says truthfully what it enforces, a lease is taken for exactly that.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What of the workspace a process may write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "access")]
pub enum WorkspaceAccess {
    /// Nothing.
    ReadOnly,
    /// These paths and what is below them.
    ScopedWrite {
        /// Absolute, normalised paths.
        paths: Vec<PathBuf>,
    },
    /// Everything.
    BroadWrite,
}

impl WorkspaceAccess {
    /// Whether anything may be written.
    pub const fn is_writable(&self) -> bool {
        !matches!(self, WorkspaceAccess::ReadOnly)
    }
}
