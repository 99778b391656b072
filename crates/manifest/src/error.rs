//! What can go wrong with a record, by kind.
//!
//! Not for what a model or a client sees: these are causes for trusted logs, and whoever answers a call maps them.

use std::io;

use procyard_core::{InvalidTransition, MatrixError};

/// Why a manifest could not be loaded. A caller treats the kinds differently: a missing one is forgotten, a
/// corrupt one is reported and kept for a person to look at, a newer one is left alone for its own version.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is none.
    #[error("there is no such manifest")]
    Missing,
    /// It is damaged, or says what no manifest can say.
    #[error("the manifest is corrupt: {why}")]
    Corrupt {
        /// What is wrong.
        why: String,
    },
    /// A later version of the format; open it with the procyard that wrote it.
    #[error("the manifest has format version {version}; this procyard reads up to 2")]
    Newer {
        /// The version that it says.
        version: u64,
    },
    /// The file could not be read.
    #[error("the manifest could not be read")]
    Io(#[source] io::Error),
}

/// Why a manifest was not accepted or not saved. The stored one stands, except after [`ManifestError::Io`], when
/// the old or the new one is stored, whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The value contradicts itself.
    #[error("the manifest is invalid: {field} {problem}")]
    Invalid {
        /// The field at fault.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// What the manifest says of the end of the process is not in the lifecycle matrix.
    #[error("the manifest is invalid: its end does not fit its state")]
    End(#[from] MatrixError),
    /// A field that is fixed was changed.
    #[error("{field} cannot change any more")]
    Fixed {
        /// The field.
        field: &'static str,
    },
    /// A field that only grows went backward.
    #[error("{field} cannot go backward")]
    Backward {
        /// The field.
        field: &'static str,
    },
    /// The state machine has no such step.
    #[error(transparent)]
    Transition(#[from] InvalidTransition),
    /// There is a manifest of this handle already, in whatever condition.
    #[error("there is a manifest of this handle already")]
    AlreadyExists,
    /// The stored manifest does not load, and what does not load is not overwritten.
    #[error("the stored manifest does not load")]
    Stored(#[from] LoadError),
    /// The file could not be written.
    #[error("the manifest could not be written")]
    Io(#[source] io::Error),
}

/// Why a session's directory could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is no such session.
    #[error("there is no such session")]
    Missing,
    /// The directory holds records but nothing says whose they are.
    #[error("the session directory holds records but no anchor")]
    AnchorMissing,
    /// The directory belongs to another session or provider.
    #[error("the session directory belongs to another {what}")]
    Foreign {
        /// `session` or `provider`.
        what: &'static str,
    },
    /// The anchor is damaged.
    #[error("the anchor of the session is corrupt: {why}")]
    Corrupt {
        /// What is wrong.
        why: String,
    },
    /// A later version of the format; open it with the procyard that wrote it.
    #[error("the session has format version {version}; this procyard reads up to 1")]
    Newer {
        /// The version that the anchor says.
        version: u64,
    },
    /// The settings for the anchor cannot be recorded.
    #[error("the anchor settings are invalid: {problem}")]
    Settings {
        /// What is wrong.
        problem: &'static str,
    },
    /// Another supervisor has the session, or the guardian of a dead one is still ending its trees.
    #[error("the session is in use; try again when its supervisor has ended")]
    Locked,
    /// The directory or a file in it could not be read or written.
    #[error("the session directory could not be used")]
    Io(#[from] io::Error),
}
