//! The journal as its callers hold it.
//!
//! Not for behaviour: outbox, inbox and retention have a file each.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use procyard_core::{Handle, LifecycleEvent, NotificationId, Owner, Timestamp};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::events::{self, EventDraft};
use crate::inbox::{self, NotificationDraft, Wanted};
use crate::writer::Writer;
use crate::{
    Appended, Delivery, EventBounds, EventFilter, EventPage, InboxCounts, InboxPage, JournalError,
    JournalOptions, Marked, NotificationRecord, PRUNE_MAX, Pruned, Put,
};

/// The most entries of one page.
pub const PAGE_MAX: usize = 1000;

/// The most ids that one call marks.
pub const MARK_MAX: usize = 1000;

/// An open journal. Cheap to clone; all clones are one journal, which closes when the last is dropped or any of them
/// says so.
///
/// Every call blocks; see the crate's page. Calls that read see everything whose write was acknowledged before.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Writer,
    /// Guards the connection that reads; held for the reading of one page.
    reader: Mutex<Option<Connection>>,
    /// Told of every change of an inbox.
    inbox_watcher: OnceLock<InboxWatcher>,
}

type InboxWatcher = Box<dyn Fn() + Send + Sync>;

impl Inner {
    fn close(&self) {
        drop(self.reader.lock().unwrap_or_else(PoisonError::into_inner).take());
        // Last, so that the connection that ends last is the one that tidies up.
        self.writer.close();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Journal {
    /// Opens the journal in this file with the default options, and makes it where there is none. The directory must be
    /// there, and should be private, since the engine keeps two more files beside it while it is open.
    ///
    /// What a crash left is repaired by this. A database that is damaged, of a later version or of another program is an
    /// error and is left as it is. Costs a few syncs for a new one, and does not grow with what is in it.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::open_with(path, JournalOptions::default())
    }

    /// The same, with these options.
    pub fn open_with(path: &Path, options: JournalOptions) -> Result<Self, JournalError> {
        let (writer, reader) = crate::open::open(path, options)?;
        let writer = Writer::start(writer)?;
        let inner = Inner { writer, reader: Mutex::new(Some(reader)), inbox_watcher: OnceLock::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Takes an event. When this returns, it is on disk, under the number that it keeps.
    ///
    /// An event that the journal has already, with the same id and the same content, keeps its number and nothing is
    /// written; with other content it is [`JournalError::Collision`]. That holds among threads, across reopening, and
    /// until the event is pruned. What the lifecycle matrix refuses is [`JournalError::Event`].
    pub fn append(&self, event: &LifecycleEvent) -> Result<Appended, JournalError> {
        let draft = EventDraft::of(event)?;
        self.inner.writer.write(move |database| events::append(database, &draft))
    }

    /// The events after this number that the filter admits, at most `limit` of them, which is taken as 1 to
    /// [`PAGE_MAX`].
    pub fn events_after(
        &self,
        sequence: u64,
        limit: usize,
        filter: &EventFilter,
    ) -> Result<EventPage, JournalError> {
        self.read(|database| events::page_after(database, sequence, limit.clamp(1, PAGE_MAX), filter))
    }

    /// The lowest and the highest number that there are.
    pub fn event_bounds(&self) -> Result<EventBounds, JournalError> {
        self.read(events::bounds)
    }

    /// Puts a notification into the inbox of this owner, pending, behind all others. When this returns, it is on disk.
    ///
    /// Idempotent by id, as [`Journal::append`] is; a retry may name the owner of before a [`Journal::transfer`], or the
    /// one since. What [`NotificationRecord::check`] refuses is refused here.
    pub fn put(&self, owner: Owner, record: &NotificationRecord) -> Result<Put, JournalError> {
        let draft = NotificationDraft::of(owner, record)?;
        let put = self.inner.writer.write(move |database| inbox::put(database, &draft))?;
        self.inbox_changed();
        Ok(put)
    }

    /// Has `changed` called after each change of any inbox that shows an owner more than before, so that whoever waits
    /// for a notification can look again. On the thread of whoever made the change: it must not block. One watcher for the
    /// life of the journal: false, and nothing happens, where there is one.
    pub fn watch_inbox(&self, changed: impl Fn() + Send + Sync + 'static) -> bool {
        self.inner.inbox_watcher.set(Box::new(changed)).is_ok()
    }

    fn inbox_changed(&self) {
        if let Some(changed) = self.inner.inbox_watcher.get() {
            changed();
        }
    }

    /// What this owner was not told yet, in the order of completion, after this number (0 for all), at most `limit` of
    /// them, which is taken as 1 to [`PAGE_MAX`].
    pub fn pending(&self, owner: Owner, number: u64, limit: usize) -> Result<InboxPage, JournalError> {
        self.inbox(owner, number, limit, Wanted::Pending)
    }

    /// The same, with what was delivered and is not acknowledged: what is to be delivered again to an owner that may
    /// have lost it.
    pub fn unacknowledged(&self, owner: Owner, number: u64, limit: usize) -> Result<InboxPage, JournalError> {
        self.inbox(owner, number, limit, Wanted::NotAcknowledged)
    }

    fn inbox(
        &self,
        owner: Owner,
        number: u64,
        limit: usize,
        wanted: Wanted,
    ) -> Result<InboxPage, JournalError> {
        self.read(|database| inbox::page_after(database, owner, number, limit.clamp(1, PAGE_MAX), wanted))
    }

    /// Whether there is anything that this owner was not told.
    pub fn has_pending(&self, owner: Owner) -> Result<bool, JournalError> {
        self.read(|database| inbox::has_pending(database, owner))
    }

    /// How many notifications of this owner have come how far. Walks the whole inbox.
    pub fn counts(&self, owner: Owner) -> Result<InboxCounts, JournalError> {
        self.read(|database| inbox::counts(database, owner))
    }

    /// These notifications were handed to the transport of this owner; one that was acknowledged stays so. At most
    /// [`MARK_MAX`] ids.
    pub fn delivered(&self, owner: Owner, ids: &[NotificationId]) -> Result<Marked, JournalError> {
        self.mark(owner, ids, Delivery::Delivered)
    }

    /// This owner says that it has these notifications, delivered or not. At most [`MARK_MAX`] ids.
    pub fn acknowledge(&self, owner: Owner, ids: &[NotificationId]) -> Result<Marked, JournalError> {
        self.mark(owner, ids, Delivery::Acknowledged)
    }

    fn mark(&self, owner: Owner, ids: &[NotificationId], to: Delivery) -> Result<Marked, JournalError> {
        if ids.len() > MARK_MAX {
            return Err(JournalError::Invalid { field: "the ids", problem: "are too many for one call" });
        }
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        self.inner.writer.write(move |database| inbox::mark(database, owner, &ids, to))
    }

    /// Gives the pending notifications of a process to the owner that has it now, at their places in the order, and says
    /// how many that were. Those that were delivered stay with the owner who was told. Events are history and do not
    /// move.
    pub fn transfer(&self, handle: Handle, from: Owner, to: Owner) -> Result<usize, JournalError> {
        let moved = self.inner.writer.write(move |database| inbox::transfer(database, &handle, from, to))?;
        self.inbox_changed();
        Ok(moved)
    }

    /// Removes what is older than this, at most `max_rows` rows, which is taken as 1 to [`PRUNE_MAX`]: the oldest events
    /// up to the first that is not old, then notifications, with `keep_unacknowledged` only those that the owner has
    /// acknowledged. A row's age is the last time that it carries, the end of a process before its start.
    ///
    /// Numbers are not used again, and readers see by [`EventBounds::retained_from`] what they have missed. Nothing is
    /// known of what was removed: an event or notification that is published once more afterwards is taken for a new
    /// one, so that only what nobody will publish again may be pruned.
    pub fn prune(
        &self,
        older_than: Timestamp,
        keep_unacknowledged: bool,
        max_rows: usize,
    ) -> Result<Pruned, JournalError> {
        let max_rows = max_rows.clamp(1, PRUNE_MAX);
        self.inner
            .writer
            .write(move |database| crate::prune::prune(database, older_than, keep_unacknowledged, max_rows))
    }

    /// Reads everything and has the engine check its pages. What is read otherwise is checked row by row as it is read;
    /// this finds also what would be missed, such as a damaged index. Costs as much as the journal is large.
    pub fn verify(&self) -> Result<(), JournalError> {
        self.read(crate::verify::verify)
    }

    /// Closes the journal for every clone, after the writes that are under way, and waits for that. Later calls are
    /// [`JournalError::Closed`]. Idempotent. Nothing is lost without it; the files beside the database stay until the
    /// next opening.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Reads in one transaction, so that what is read belongs together.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, JournalError>) -> Result<T, JournalError> {
        let reader = self.inner.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = reader.as_ref().ok_or(JournalError::Closed)?;
        let transaction = Transaction::new_unchecked(reader, TransactionBehavior::Deferred)?;
        let found = work(&transaction)?;
        transaction.finish()?;
        Ok(found)
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}
