//! Bounded, cursor-addressed output of a process: a window in memory and a spool on disk.
//!
//! For programs that run other programs and must keep what these print, without knowing how much that will be: a build
//! server, a terminal recorder, an agent's shell. A log file grows until the disk is full, a pipe that nobody reads stops
//! its writer, and a ring in memory is gone with its program. Here
//!
//! - [`Spool`] appends, and never fails, never waits for a reader and never takes more than its ceiling: the oldest bytes
//!   fall out, counting goes on. A full disk makes a *hole*, not an error;
//! - [`SpoolReader`] reads at a *cursor*, a byte offset from the beginning of the stream that names the same byte for ever,
//!   while the writer writes. What fell out or could not be written is a stated [`Gap`], never a silent skip;
//! - the newest bytes are served from memory, and the very first ones ([`SpoolReader::head`]) stay in memory, too.
//!
//! The files are documented byte by byte, enough for a reader in another language (`docs/spool-format.md` in the
//! repository).
//!
//! # Writing and reading
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
//! // Both streams have one order and one cursor; a filter passes over the other stream.
//! let page = reader.read(&Read { cursor: 0, max_bytes: 1024, streams: StreamFilter::Only(Stream::Stderr) })?;
//! assert_eq!(page.bytes, b"warning: unused\n");
//! assert_eq!(page.spans[0].cursor, 10);
//! assert_eq!(page.next_cursor, page.total_bytes);
//!
//! // The end without the rest: it costs what it returns.
//! assert_eq!(reader.tail_lines(1, 4096, StreamFilter::Both)?.bytes, b"warning: unused\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Falling behind
//!
//! A reader that is slower than the writer loses the oldest bytes and is told which:
//!
//! ```
//! # use procyard_core::{Stream, Timestamp};
//! # use procyard_spool::{Read, Spool, SpoolOptions, StreamFilter};
//! # use procyard_store::FsDir;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let now = Timestamp::from_unix_micros(0);
//! let options = SpoolOptions { ceiling: 1000, ..SpoolOptions::default() };
//! let mut spool = Spool::create(FsDir::open(place.path())?, "flood.spool", options);
//! for _ in 0..50 {
//!     spool.append(Stream::Stdout, now, &[b'x'; 100]);
//! }
//! let page = spool.reader().read(&Read { cursor: 0, max_bytes: 4096, streams: StreamFilter::Both })?;
//! assert_eq!((page.start_cursor, page.next_cursor, page.gap), (4000, 5000, true));
//! assert_eq!((page.gaps[0].from, page.gaps[0].until), (0, 4000));
//! assert_eq!(spool.reader().head().bytes.len(), 5000, "the beginning is kept beside it");
//! # Ok(())
//! # }
//! ```
//!
//! # After a restart
//!
//! ```
//! # use procyard_core::{Stream, Timestamp};
//! # use procyard_spool::{Spool, SpoolOptions, SpoolReader, StreamFilter};
//! # use procyard_store::FsDir;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let (dir, now) = (FsDir::open(place.path())?, Timestamp::from_unix_micros(0));
//! # let options = SpoolOptions::default();
//! # Spool::create(dir.clone(), "p.spool", options).append(Stream::Stdout, now, b"before ");
//! // To go on writing: what was appended is there, a torn write is cut off.
//! let (mut spool, found) = Spool::recover(dir.clone(), "p.spool", options)?;
//! assert_eq!((found.total_bytes, found.cut_bytes), (7, 0));
//! spool.append(Stream::Stdout, now, b"after");
//! drop(spool.finish());
//! // To read alone, changing nothing; and to remove it.
//! let reader = SpoolReader::open(dir.clone(), "p.spool", options)?;
//! assert_eq!(reader.tail(100, StreamFilter::Both)?.bytes, b"before after");
//! procyard_spool::remove(&*dir, "p.spool")?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! | | |
//! |---|---|
//! | death of the writing process | everything that an append returned for is there |
//! | power cut | everything before the last [`Spool::sync`] that succeeded is there; of what came later, a prefix, in whole chunks |
//! | full or failing disk | appends go on; what could not be written is a gap, `degraded` says so, and the window may still have it |
//! | damage | a read that meets it is [`ReadError::Corrupt`] with the range; at most 16 KiB around a flipped bit, everything else reads |
//! | a later version of the format | a typed error, and nothing is changed |
//!
//! The newest [`ceiling`](field@SpoolOptions::ceiling) bytes are retained, exactly, unless tiny chunks with their headers would
//! exceed the [bound of the files](SpoolOptions::disk_bound), or they could not be written. The beginning of the stream is in
//! memory while its writer lives and for the readers that it gave out; opened from disk, [`SpoolReader::head`] has it as
//! long as it is retained.
//!
//! # Threads, blocking, costs
//!
//! One writer, any number of readers on any threads; whoever opens a spool for writing sees to it that there is one. No
//! call is asynchronous: appends block on a write into the page cache, `sync` on the disk, reads on the disk unless
//! [`SpoolReader::read_window`] would serve them. A reader makes the writer wait for the copying of a page at most, never
//! for a file.
//!
//! An append costs O(bytes), one vectored write, whatever is retained; a read O(bytes) and one bounded lookup, at any cursor;
//! opening checks the newest segment, an eighth of the ceiling at most. Memory is the window as far as it is filled, the
//! head, and 8 bytes for each 16 KiB that are retained.
//!
//! Not for text: bytes come back as they were printed, and a character may be cut by a page. Not a log: there are no
//! records, levels or rotation by time. No clock: times are handed in.

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
