//! The durable, ordered journal of a session: what happened to its processes, and what their owners are to be told.
//!
//! One embedded SQLite database holds both halves:
//!
//! - the *outbox*: [`LifecycleEvent`]s in the order in which they were taken, numbered without gaps. [`Journal::append`]
//!   is idempotent by event id, so whoever publishes may ask again after any doubt, a crash included; readers go on
//!   after the sequence number that they have seen, a page at a time;
//! - the *inbox*: [`NotificationRecord`]s for each owner, in the order of completion, from pending to delivered to
//!   acknowledged.
//!
//! What a call acknowledged is on disk: it survives the death of the program and a power cut.
//!
//! ```
//! use procyard_core::*;
//! use procyard_journal::{Appended, EventFilter, Journal, JournalError};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let directory = place.path();
//! let journal = Journal::open(&directory.join("journal.sqlite3"))?;
//! let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
//! let handle = Handle::from_bytes([3; 16]);
//! let started = LifecycleEvent {
//!     id: EventId::from_random([4; 16]),
//!     identity: Identity { handle, owner, origin: Origin { execution: ExecutionId::from_random([5; 16]) } },
//!     kind: EventKind::Started,
//!     state: State::Running,
//!     reason: None,
//!     created_at: Timestamp::from_unix_micros(1),
//!     started_at: Some(Timestamp::from_unix_micros(2)),
//!     finished_at: None,
//!     at: None,
//!     exit_code: None,
//!     signal: None,
//!     diagnostic: None,
//! };
//! assert_eq!(journal.append(&started)?, Appended { sequence: 1, appended: true });
//! // Once more, because the answer was lost: nothing happens.
//! assert_eq!(journal.append(&started)?, Appended { sequence: 1, appended: false });
//! // The same id with other content is a fault of whoever publishes, and the first stands.
//! let other = LifecycleEvent { created_at: Timestamp::from_unix_micros(0), ..started.clone() };
//! assert!(matches!(journal.append(&other), Err(JournalError::Collision)));
//!
//! let page = journal.events_after(0, 100, &EventFilter::all())?;
//! assert_eq!(page.events, [(1, started)]);
//! # Ok(())
//! # }
//! ```
//!
//! # The inbox
//!
//! What owners are due to be told goes in as pending, is delivered, and is acknowledged by the owner; a crash in between
//! delivers again, under the same id. Whoever asks is told what is theirs alone.
//!
//! ```
//! # use procyard_core::*;
//! # use procyard_journal::{Journal, NotificationKind, NotificationRecord};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let journal = Journal::open(&place.path().join("journal.sqlite3"))?;
//! # let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
//! let notice = NotificationRecord {
//!     id: NotificationId::from_random([6; 16]),
//!     handle: Handle::from_bytes([3; 16]),
//!     kind: NotificationKind::Completed,
//!     state: State::Exited,
//!     reason: Some(Reason::Exited),
//!     exit_code: Some(0),
//!     started_at: Some(Timestamp::from_unix_micros(2)),
//!     finished_at: Some(Timestamp::from_unix_micros(3)),
//! };
//! journal.put(owner, &notice)?;
//! let told = journal.pending(owner, 0, 100)?.entries;
//! let ids: Vec<_> = told.iter().map(|entry| entry.record.id).collect();
//! journal.delivered(owner, &ids)?; // handed to the transport
//! journal.acknowledge(owner, &ids)?; // the owner has it
//! assert!(!journal.has_pending(owner)?);
//! # Ok(())
//! # }
//! ```
//!
//! # Costs
//!
//! A write is one transaction and one sync, which up to 64 writes that wait at the same time share; a page of events is one
//! walk of an index. An event takes about a kilobyte; [`JournalOptions::max_bytes`] is the ceiling, at which writes are
//! [`JournalError::Ceiling`] until something is [pruned](Journal::prune). Nothing is removed by itself.
//!
//! # Threads
//!
//! Every call blocks: writes for a sync of the disk, together with the writes of other threads, which share it; reads
//! for a lookup, never for a write. Asynchronous callers put them on blocking threads. A [`Journal`] is cheap to clone,
//! and all its clones are one journal, with one thread that writes.
//!
//! # On disk
//!
//! The database file, and while it is open its `-wal` and `-shm` beside it, are for their user alone (mode 0600). The
//! schema has a version; a later one is refused and left alone, and what is damaged is an error and never overwritten.
//! The file system must be a local one: SQLite's write-ahead log needs memory that is shared between processes
//! (<https://www.sqlite.org/wal.html>).
//!
//! Not for output, nor for what is true of a process now: the journal tells what happened, in order. It has no clock,
//! reads none of the ids that it keeps, and decides nothing about authority; whoever asks is taken for the owner that
//! they name.

mod error;
mod events;
mod inbox;
mod journal;
mod notification;
mod open;
mod prune;
mod row;
mod schema;
mod verify;
mod writer;

pub use error::JournalError;
pub use events::{Appended, EventBounds, EventFilter, EventPage};
pub use inbox::{InboxCounts, InboxEntry, InboxPage, Marked, Put};
pub use journal::{Journal, MARK_MAX, PAGE_MAX};
pub use notification::{Delivery, NotificationKind, NotificationRecord};
pub use open::JournalOptions;
pub use prune::{PRUNE_MAX, Pruned};
pub use schema::VERSION;

#[cfg(doc)]
use procyard_core::LifecycleEvent;
