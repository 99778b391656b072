//! Which of a process's streams a byte came from.
//!
//! Not for cursors: those count through the one combined stream, whatever the byte's own stream is.

use serde::{Deserialize, Serialize};

/// The stream of a chunk of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output, pipe mode.
    Stdout,
    /// Standard error, pipe mode.
    Stderr,
    /// The single stream of a terminal.
    Terminal,
}
