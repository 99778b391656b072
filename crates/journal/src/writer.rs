//! The one thread that writes: takes writes from every clone, and gives those that wait at the same time one sync.
//!
//! Not for reading: readers have a connection of their own and never wait for a sync.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::JournalError;

/// The most writes that share one sync.
const BATCH_MAX: usize = 64;

/// How many writes may wait before their callers wait for room.
const QUEUE: usize = 256;

/// So near to its ceiling a write that finds no room was refused by the ceiling and not by the disk: one write makes at
/// most a few pages in each of a few trees.
const CEILING_SLACK: i64 = 16;

/// The way to the thread.
pub(crate) struct Writer {
    queue: SyncSender<Message>,
    /// Guards the right to join the thread; held while that is done.
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Message {
    Write(Box<dyn Write>),
    Close,
}

/// A write that waits for its transaction.
trait Write: Send {
    /// Does it. It may be done again when the transaction that it was in is rolled back.
    fn apply(&mut self, database: &Connection) -> Result<(), JournalError>;

    /// Tells its caller.
    fn settle(self: Box<Self>, committed: Result<(), JournalError>);
}

struct Pending<T, F> {
    work: F,
    outcome: Option<T>,
    reply: SyncSender<Result<T, JournalError>>,
}

impl<T, F> Write for Pending<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T, JournalError> + Send,
{
    fn apply(&mut self, database: &Connection) -> Result<(), JournalError> {
        self.outcome = Some((self.work)(database)?);
        Ok(())
    }

    fn settle(self: Box<Self>, committed: Result<(), JournalError>) {
        let Self { outcome, reply, .. } = *self;
        // A caller that is gone needs no answer.
        let _ = reply.send(committed.and_then(|()| outcome.ok_or(JournalError::Closed)));
    }
}

impl Writer {
    pub(crate) fn start(database: Connection) -> Result<Self, JournalError> {
        let (queue, writes) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("procyard-journal".to_owned())
            .spawn(move || serve(&database, &writes))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }

    /// Has the thread do something within a transaction, and waits until that is on disk.
    pub(crate) fn write<T, F>(&self, work: F) -> Result<T, JournalError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, JournalError> + Send + 'static,
    {
        let (reply, answer) = sync_channel(1);
        let pending = Pending { work, outcome: None, reply };
        self.queue.send(Message::Write(Box::new(pending))).map_err(|_| JournalError::Closed)?;
        answer.recv().unwrap_or(Err(JournalError::Closed))
    }

    /// Ends the thread after the writes that are queued, and waits for that. Idempotent.
    pub(crate) fn close(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let _ = self.queue.send(Message::Close);
            // Its panic was told to whoever waited: their answers never came.
            let _ = thread.join();
        }
    }
}

/// Writes until it is told to close; then the connection closes, which moves the log into the database.
fn serve(database: &Connection, messages: &Receiver<Message>) {
    let mut open = true;
    while open {
        let Ok(first) = messages.recv() else { return };
        let mut batch = Vec::new();
        for message in std::iter::once(first).chain(messages.try_iter().take(BATCH_MAX - 1)) {
            match message {
                Message::Write(write) => batch.push(write),
                Message::Close => {
                    open = false;
                    break;
                }
            }
        }
        write_all(database, batch);
    }
}

/// Writes them in one transaction; where one of them fails, each in its own, so that it fails alone.
fn write_all(database: &Connection, mut batch: Vec<Box<dyn Write>>) {
    match commit(database, &mut batch) {
        Ok(()) => batch.into_iter().for_each(|write| write.settle(Ok(()))),
        Err(error) if batch.len() == 1 => {
            if let Some(write) = batch.pop() {
                write.settle(Err(error));
            }
        }
        // Nobody's fault, and each alone would wait as long again.
        Err(JournalError::Busy) => batch.into_iter().for_each(|write| write.settle(Err(JournalError::Busy))),
        Err(_) => {
            for mut write in batch {
                let committed = commit(database, std::slice::from_mut(&mut write));
                write.settle(committed);
            }
        }
    }
}

fn commit(database: &Connection, batch: &mut [Box<dyn Write>]) -> Result<(), JournalError> {
    if batch.is_empty() {
        return Ok(());
    }
    let committed = Transaction::new_unchecked(database, TransactionBehavior::Immediate)
        .map_err(JournalError::from)
        .and_then(|transaction| {
            for write in batch {
                write.apply(&transaction)?;
            }
            Ok(transaction.commit()?)
        });
    match committed {
        Err(JournalError::Full) if at_ceiling(database)? => Err(JournalError::Ceiling),
        committed => committed,
    }
}

/// Whether it is the ceiling that leaves no room, and not the disk.
fn at_ceiling(database: &Connection) -> Result<bool, JournalError> {
    let pragma = |name| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok(pragma("page_count")?.saturating_add(CEILING_SLACK) >= pragma("max_page_count")?)
}
