//! The writer: appends to disk and window, keeps within the ceiling, turns write errors into holes.
//!
//! The order is always disk, then publication: what a reader is told of in a segment is there.
//!
//! Not here: segment files (`recorder`), and coalescing small reads of the process into larger chunks, which is for
//! whoever calls [`Spool::append_all`].

use std::io;
use std::sync::{Arc, MutexGuard};

use procyard_core::{Stream, Timestamp};
use procyard_store::Dir;

use crate::layout::Item;
use crate::options::SpoolOptions;
use crate::reader::SpoolReader;
use crate::recorder::Recorder;
use crate::shared::{Shared, State};

/// What an append came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The end of the stream: bytes printed so far.
    pub total_bytes: u64,
    /// Whether bytes are missing from the spool because they could not be written, now or earlier.
    pub degraded: bool,
}

/// The single writer of one process's output.
///
/// Its methods block on file writes, into the page cache unless they say otherwise. Readers
/// ([`reader`](Self::reader)) are independent of it. Dropping it leaves everything where it is.
#[derive(Debug)]
pub struct Spool {
    shared: Arc<Shared>,
    recorder: Recorder,
    /// The end of the stream.
    total: u64,
    degraded: bool,
    last_at: Timestamp,
}

impl Spool {
    /// A new, empty spool in the directory `name` of `parent`.
    ///
    /// Touches no disk: the first append makes the directory, so that a process that prints nothing leaves nothing.
    pub fn create(parent: Arc<dyn Dir>, name: &str, options: SpoolOptions) -> Self {
        let shared = Shared::new(parent, name, options);
        let recorder = Recorder::new(Arc::clone(&shared));
        Self::resume(shared, recorder)
    }

    /// A writer that goes on where `shared` ends.
    pub(crate) fn resume(shared: Arc<Shared>, recorder: Recorder) -> Self {
        let state = shared.lock();
        let (total, degraded) = (state.total, state.degraded);
        drop(state);
        Self { shared, recorder, total, degraded, last_at: Timestamp::from_unix_micros(0) }
    }

    /// Appends a chunk of output that was read from the process at `at`.
    ///
    /// Never fails: bytes that cannot be written become a hole, and later appends go on behind it. Empty `bytes`
    /// append nothing. Costs O(bytes), whatever is retained.
    pub fn append(&mut self, stream: Stream, at: Timestamp, bytes: &[u8]) -> Appended {
        self.append_all(&[(stream, at, bytes)])
    }

    /// Appends several chunks in order with one vectored write (and one more for each segment that becomes full or
    /// 500 buffers that a write has already). Otherwise as [`append`](Self::append).
    pub fn append_all(&mut self, chunks: &[(Stream, Timestamp, &[u8])]) -> Appended {
        let chunks = || chunks.iter().filter(|(_, _, bytes)| !bytes.is_empty());
        let added = chunks().map(|(_, _, bytes)| bytes.len() as u64).sum();
        self.record(chunks().map(|&(stream, at, bytes)| Item::Output { stream, at, bytes }), added);
        let mut state = self.shared.lock();
        let mut last_at = self.last_at;
        for &(stream, at, bytes) in chunks() {
            let cursor = state.total;
            state.head.push(stream, at, cursor, bytes);
            state.window.push(stream, at, bytes);
            state.total += bytes.len() as u64;
            last_at = at;
        }
        let appended = self.publish(state);
        self.last_at = last_at;
        appended
    }

    /// Records that the terminal has another size from here on: a chunk without bytes.
    pub fn mark_resize(&mut self, at: Timestamp, rows: u16, cols: u16) -> Appended {
        self.record([Item::Resize { at, rows, cols }].into_iter(), 0);
        self.last_at = at;
        let mut state = self.shared.lock();
        state.window.push_resize(at, rows, cols);
        self.publish(state)
    }

    /// Makes what was appended durable: segments, names, the directory itself. Blocks until the disk has it.
    ///
    /// A hole that is still to be recorded is recorded first, so that the end of the stream is on disk too; and files
    /// are cut to what they hold.
    ///
    /// After an error it can be called again. But output whose sync the disk refused once is in doubt for good: then the
    /// spool is [`degraded`](Self::degraded), and syncing fails until that output is dropped.
    pub fn sync(&mut self) -> io::Result<()> {
        let hole = self.recorder.record(self.total, self.total, self.last_at, std::iter::empty());
        let synced = self.recorder.sync();
        self.degraded |= self.shared.lock().degraded;
        hole.and(synced)
    }

    /// A view for reading, independent of this writer.
    pub fn reader(&self) -> SpoolReader {
        SpoolReader::new(Arc::clone(&self.shared))
    }

    /// Bytes printed so far, retained or not.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Whether bytes are missing from the spool because they could not be written, or may be after a power cut because
    /// they could not be synced.
    pub fn degraded(&self) -> bool {
        self.degraded
    }

    /// Ends writing. Files are closed and the window's memory is given back, unless it holds bytes that the disk does
    /// not have. Nothing is synced.
    pub fn finish(mut self) -> SpoolReader {
        self.recorder.trim();
        if self.recorder.recorded() == self.total {
            let mut state = self.shared.lock();
            state.window.clear();
            state.settle_bounds(self.shared.options.ceiling());
        }
        self.shared.close();
        self.reader()
    }

    /// Removes the spool from disk. Readers find everything gone: a gap up to the end of the stream.
    pub fn remove(self) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.segments.clear();
        state.disk = 0;
        state.window.clear();
        state.settle_bounds(self.shared.options.ceiling());
        drop(state);
        self.shared.close();
        remove(&*self.shared.parent, &self.shared.name)
    }

    /// Writes items that add `added` bytes; what cannot be written is a hole from then on. The error itself would tell
    /// a reader nothing more.
    fn record<'a>(&mut self, items: impl Iterator<Item = Item<'a>>, added: u64) {
        let before = self.total;
        self.total += added;
        let recorded = self.recorder.record(before, self.total, self.last_at, items);
        self.degraded |= recorded.is_err();
    }

    fn publish(&self, mut state: MutexGuard<'_, State>) -> Appended {
        state.degraded |= self.degraded;
        state.settle_bounds(self.shared.options.ceiling());
        Appended { total_bytes: state.total, degraded: state.degraded }
    }
}

/// Removes the spool `name` of a process that ended, or that a crash left behind. A spool that is not there is fine.
///
/// Blocks on the file system. After an error part of it may be left; removing it again goes on.
pub fn remove(parent: &dyn Dir, name: &str) -> io::Result<()> {
    let dir = match parent.open_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    for entry in dir.list()? {
        dir.remove_file(&entry.name)?;
    }
    parent.remove_dir(name)
}
