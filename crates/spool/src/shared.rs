//! What the writer and the readers of one spool share: which bytes are where.
//!
//! One short lock guards it. It is held to publish, to look up and to copy out of the window, never during file I/O,
//! so no reader keeps the writer waiting for longer than that.
//!
//! Not here: reading and writing files.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procyard_store::{Access, Dir, File};

use crate::format::{self, BLOCK};
use crate::head::Head;
use crate::options::SpoolOptions;
use crate::page::Bounds;
use crate::window::Window;

/// Segment files that one spool keeps open for readers: as many as a full ceiling has, so that random reads in it open
/// none. The one that is written comes on top.
const OPEN_FILES: usize = 10;

/// The most blocks that one look-up covers, 64 KiB: a page that needs more looks up again.
const PLAN_BLOCKS: usize = 4;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: SpoolOptions,
    pub(crate) parent: Arc<dyn Dir>,
    pub(crate) name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    /// The end of the stream.
    pub(crate) total: u64,
    /// Never moves back, whatever else is dropped.
    pub(crate) retained_from: u64,
    pub(crate) segments: VecDeque<Segment>,
    pub(crate) window: Window,
    pub(crate) head: Head,
    /// The bytes of all files.
    pub(crate) disk: u64,
    /// Whether bytes are known to be missing that were within the ceiling.
    pub(crate) degraded: bool,
    dir: Option<Arc<dyn Dir>>,
    /// Open files by the base of their segment, the least recently used first.
    files: VecDeque<(u64, Arc<dyn File>)>,
}

/// One segment file.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The cursor of its first byte, which is its name.
    pub(crate) base: u64,
    /// The cursor after what is published of it.
    pub(crate) end: u64,
    /// The bytes of file that are published.
    pub(crate) len: u64,
    /// The length of the file, which can have old bytes behind the published ones.
    pub(crate) size: u64,
    /// The cursor at which each block begins; `None` until somebody reads in a segment that was found on disk.
    pub(crate) blocks: Option<Vec<u64>>,
    /// Whether its bytes are durable.
    pub(crate) sync: Sync,
    /// Whether it was found on disk, and not written by this process.
    pub(crate) found: bool,
}

/// Whether the bytes of a segment are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sync {
    /// All are.
    Done,
    /// Some may not be yet.
    Due,
    /// Some were to be and may never be.
    Failed,
}

/// Where the bytes at a cursor are.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// In the window.
    Window,
    /// Nowhere: the next byte that is somewhere is at `until`.
    Missing { until: u64 },
    /// In a segment that was not checked yet.
    Unchecked { base: u64, end: u64, len: u64 },
    /// In these blocks.
    Blocks(Plan),
}

/// Blocks of a segment to read.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) base: u64,
    /// Where in the file they begin: a block border.
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// The cursor at which each of them begins, and the one at which the last one ends.
    pub(crate) borders: Vec<u64>,
}

impl Plan {
    /// How many cursors it covers from `cursor` on.
    pub(crate) fn cursors_from(&self, cursor: u64) -> usize {
        let end = self.borders.last().copied().unwrap_or(cursor);
        usize::try_from(end.saturating_sub(cursor)).unwrap_or(usize::MAX)
    }
}

impl Shared {
    pub(crate) fn new(parent: Arc<dyn Dir>, name: &str, options: SpoolOptions) -> Arc<Self> {
        let state = State {
            total: 0,
            retained_from: 0,
            segments: VecDeque::new(),
            window: Window::new(options.window, 0),
            head: Head::new(options.head),
            disk: 0,
            degraded: false,
            dir: None,
            files: VecDeque::new(),
        };
        Arc::new(Self { options, parent, name: name.to_owned(), state: Mutex::new(state) })
    }

    /// The state stays consistent when a thread panics while it holds the lock: each publication is a few
    /// assignments that cannot panic half way.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spool's directory, opened when it is not open.
    pub(crate) fn dir(&self) -> io::Result<Arc<dyn Dir>> {
        if let Some(dir) = &self.lock().dir {
            return Ok(Arc::clone(dir));
        }
        let dir = self.parent.open_dir(&self.name)?;
        self.lock().dir = Some(Arc::clone(&dir));
        Ok(dir)
    }

    pub(crate) fn set_dir(&self, dir: Arc<dyn Dir>) {
        self.lock().dir = Some(dir);
    }

    /// The file of a segment, opened for reading when it is not open.
    pub(crate) fn file(&self, base: u64) -> io::Result<Arc<dyn File>> {
        if let Some(file) = self.lock().open_file(base) {
            return Ok(file);
        }
        let file = self.dir()?.open_file(&format::segment_name(base), Access::Read)?;
        self.lock().keep_open(base, Arc::clone(&file));
        Ok(file)
    }

    /// Closes what is open for reading; it is opened anew when it is needed.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let closed = (std::mem::take(&mut state.files), state.dir.take());
        drop(state);
        drop(closed); // closing is file I/O
    }
}

impl State {
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { total_bytes: self.total, retained_from: self.retained_from }
    }

    /// Moves `retained_from` to what the ceiling and the places of the bytes say.
    pub(crate) fn settle_bounds(&mut self, ceiling: u64) {
        // A file that a power cut left empty is no beginning.
        let first = self.segments.iter().find(|segment| segment.len > 0);
        let oldest = first.map_or(u64::MAX, |segment| segment.base).min(self.window.start());
        self.retained_from = self.retained_from.max(oldest).max(self.total.saturating_sub(ceiling));
    }

    /// Takes the bounds of a record for those of the stream: what is not there of that was lost. A stream that goes on
    /// behind the record is believed.
    pub(crate) fn hold_to(&mut self, recorded: Bounds) {
        if recorded.total_bytes < self.total {
            return;
        }
        let first =
            self.segments.iter().find(|segment| segment.len > 0).map_or(self.total, |first| first.base);
        let lost = self.total < recorded.total_bytes || first > recorded.retained_from;
        self.degraded |= lost && recorded.retained_from < recorded.total_bytes;
        self.total = recorded.total_bytes;
        self.retained_from = recorded.retained_from;
        // Empty, and never before what is missing.
        self.window = Window::new(0, recorded.total_bytes);
    }

    /// Where the bytes at `cursor`, `want` of them, are. The cursor must lie before the end of the stream.
    pub(crate) fn lookup(&self, cursor: u64, want: u64) -> Lookup {
        if cursor >= self.window.start() {
            return Lookup::Window;
        }
        let after = self.segments.partition_point(|segment| segment.base <= cursor);
        match after.checked_sub(1).map(|index| &self.segments[index]) {
            Some(segment) if cursor < segment.end => segment.lookup(cursor, want),
            _ => {
                let next = self.segments.get(after).map_or(u64::MAX, |segment| segment.base);
                Lookup::Missing { until: next.min(self.window.start()) }
            }
        }
    }

    fn open_file(&mut self, base: u64) -> Option<Arc<dyn File>> {
        let index = self.files.iter().position(|(open, _)| *open == base)?;
        let entry = self.files.remove(index)?;
        let file = Arc::clone(&entry.1);
        self.files.push_back(entry);
        Some(file)
    }

    /// Keeps a file open, and lets go of the one that was used least recently when there are too many.
    pub(crate) fn keep_open(&mut self, base: u64, file: Arc<dyn File>) {
        if self.files.iter().any(|(open, _)| *open == base) {
            return;
        }
        if self.files.len() == OPEN_FILES {
            self.files.pop_front();
        }
        self.files.push_back((base, file));
    }

    /// Takes note of the size of a segment's file. Of the sum of all, the caller does.
    pub(crate) fn note_size(&mut self, base: u64, size: u64) {
        if let Some(segment) = self.segments.iter_mut().find(|segment| segment.base == base) {
            segment.size = size;
        }
    }

    /// Takes the oldest segment out, so that no look-up finds it any more.
    pub(crate) fn retire_oldest(&mut self) -> Option<Segment> {
        let segment = self.segments.pop_front()?;
        self.files.retain(|(open, _)| *open != segment.base);
        Some(segment)
    }
}

impl Segment {
    fn lookup(&self, cursor: u64, want: u64) -> Lookup {
        let Some(blocks) = &self.blocks else {
            return Lookup::Unchecked { base: self.base, end: self.end, len: self.len };
        };
        let Some(first) = blocks.partition_point(|&begin| begin <= cursor).checked_sub(1) else {
            // Damaged from its beginning: the first block that is there comes later, or none does.
            return Lookup::Blocks(Plan {
                base: self.base,
                offset: 0,
                len: 0,
                borders: vec![self.base, blocks.first().copied().unwrap_or(self.end)],
            });
        };
        let last = blocks
            .partition_point(|&begin| begin < cursor.saturating_add(want))
            .clamp(first + 1, first + PLAN_BLOCKS)
            .min(blocks.len());
        let offset = first as u64 * BLOCK;
        let mut borders = Vec::with_capacity(last - first + 1);
        borders.extend_from_slice(&blocks[first..last]);
        borders.push(blocks.get(last).copied().unwrap_or(self.end));
        #[expect(clippy::cast_possible_truncation, reason = "at most the blocks of one plan")]
        let len = ((last as u64 * BLOCK).min(self.len) - offset) as usize;
        Lookup::Blocks(Plan { base: self.base, offset, len, borders })
    }
}
