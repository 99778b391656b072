//! What can go wrong with a journal, by kind.
//!
//! Not for what a model or a client sees: these are causes for trusted logs, and whoever answers a call maps them.

use std::io;

use procyard_core::MatrixError;
use rusqlite::ErrorCode;

/// Why the journal did not do something. A write that failed has left nothing behind; one that failed with
/// [`JournalError::Io`] may still be found after a crash, and may be repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The lifecycle matrix has no such event.
    #[error("the event is not one of the lifecycle matrix")]
    Event(#[from] MatrixError),
    /// A value cannot be recorded.
    #[error("{field} {problem}")]
    Invalid {
        /// The field at fault.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// This id is taken by something else.
    #[error("the journal has this id with other content; the first stands")]
    Collision,
    /// A later version of the format; open it with the procyard that wrote it.
    #[error("the journal has format version {version}; this procyard reads up to {}", crate::VERSION)]
    Newer {
        /// The version that it says.
        version: i64,
    },
    /// The file is a database, and not a journal.
    #[error("the file is a database of another kind")]
    Foreign,
    /// The file is damaged. It is left as it is.
    #[error("the journal is corrupt: {why}")]
    Corrupt {
        /// What is wrong.
        why: String,
    },
    /// The disk is full.
    #[error("the disk is full; free space and try again")]
    Full,
    /// The journal has reached the size that it was opened with.
    #[error("the journal has reached its ceiling; prune it and try again")]
    Ceiling,
    /// The file or its directory is not for this user to write.
    #[error("the journal cannot be written; check the permissions of its directory")]
    ReadOnly,
    /// Another program held the database for too long.
    #[error("another program holds the journal; try again when it is done")]
    Busy,
    /// [`Journal::close`](crate::Journal::close) was called.
    #[error("the journal is closed")]
    Closed,
    /// The file could not be read or written.
    #[error("the journal could not be read or written")]
    Io(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl JournalError {
    /// Whether the same write will be refused again, however often it is repeated.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Event(_) | Self::Invalid { .. } | Self::Collision)
    }

    pub(crate) fn corrupt(why: impl Into<String>) -> Self {
        Self::Corrupt { why: why.into() }
    }
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io(error.into()),
        }
    }
}

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::corrupt(error.to_string()),
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(_) => Self::Io(error.into()),
            // Not the engine's errors but those of reading a value: a column holds what its table cannot hold.
            None => match error {
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::QueryReturnedNoRows
                | rusqlite::Error::Utf8Error(..) => Self::corrupt(error.to_string()),
                other => Self::Io(other.into()),
            },
        }
    }
}
