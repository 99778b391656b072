//! Bounded, cursor-addressed process output: a window in memory and a spool on disk.
//!
//! One process has one output stream. [`Spool`] appends to it and never fails, never blocks on a reader and never takes
//! more than its ceiling: the oldest bytes fall out, counting goes on. [`SpoolReader`] reads at a *cursor*, a byte
//! offset from the beginning of the stream that names the same byte for ever, while the writer writes; what was
//! dropped or could not be written is a stated gap. The newest bytes are served from memory. What was appended
//! survives the death of the writing process, and what was [synced](Spool::sync) survives a power cut.
//!
//! The format of the files is documented byte by byte in `docs/spool-format.md`.
//!
//! Not for text: bytes come back as they were printed. Not asynchronous: calls block, briefly, and say where. No
//! clock: times are handed in.
//!
//! ```
//! use procyard_core::{Stream, Timestamp};
//! use procyard_spool::{Read, Spool, SpoolOptions, StreamFilter};
//! use procyard_store::FsDir;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! let session = FsDir::open(place.path())?;
//! let mut spool = Spool::create(session, "build.spool", SpoolOptions::default());
//! let reader = spool.reader();
//!
//! let now = Timestamp::from_unix_micros(1_700_000_000_000_000);
//! spool.append(Stream::Stdout, now, b"compiling\n");
//! spool.append(Stream::Stderr, now, b"warning: unused\n");
//!
//! let page = reader.read(&Read { cursor: 0, max_bytes: 1024, streams: StreamFilter::Only(Stream::Stderr) })?;
//! assert_eq!(page.bytes, b"warning: unused\n");
//! assert_eq!(page.spans[0].cursor, 10);
//! assert_eq!(page.next_cursor, page.total_bytes);
//! # Ok(())
//! # }
//! ```

mod error;
mod format;
mod head;
mod layout;
mod open;
mod options;
mod page;
mod reader;
mod recorder;
mod scan;
mod shared;
mod tail;
mod window;
mod writer;

pub use error::{ReadError, SpoolError};
pub use open::Recovery;
pub use options::SpoolOptions;
pub use page::{Bounds, Gap, Page, Read, Resize, Span, StreamFilter};
pub use reader::SpoolReader;
pub use writer::{Appended, Spool, remove};
