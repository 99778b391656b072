//! What can be wrong with a spool, typed.
//!
//! Not here: write errors. They never reach a caller as errors; they become holes.

use std::io;

/// Why a spool cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The file system refused.
    #[error("the spool cannot be accessed")]
    Io(#[from] io::Error),
    /// The newest segment was written by a later version of the format.
    #[error("the spool has format version {version}, newer than this program reads: use the newer program")]
    NewerVersion {
        /// The version it has.
        version: u16,
    },
    /// The directory holds more segments than any spool has.
    #[error("the spool has {segments} segments, more than a spool can have")]
    TooManySegments {
        /// How many.
        segments: usize,
    },
}

/// Why a read gives no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The cursor is beyond the end of the stream.
    #[error("the cursor is beyond the {total_bytes} bytes printed so far: read at {total_bytes} or before")]
    CursorAhead {
        /// The end of the stream.
        total_bytes: u64,
    },
    /// The bytes at the cursor were retained and are damaged. What comes before and after is readable.
    #[error("the output from {from} to {until} is damaged: read on at {until}")]
    Corrupt {
        /// The first byte that cannot be read.
        from: u64,
        /// Where intact bytes begin again, or the end of the stream.
        until: u64,
    },
    /// A segment was written by a later version of the format.
    #[error("the output has format version {version}, newer than this program reads: use the newer program")]
    NewerVersion {
        /// The version it has.
        version: u16,
    },
    /// The file system refused.
    #[error("the output cannot be read from its storage: try again")]
    Io(#[from] io::Error),
}
