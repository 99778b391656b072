//! Reading at a cursor, from memory or disk, while the writer writes.
//!
//! Not here: tails (`tail`), and which bytes are where (`shared`).

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use crate::error::ReadError;
use crate::format::{self, BLOCK_LEN, Frame, HeaderCheck, Step};
use crate::page::{Bounds, Page, PageBuilder, Read};
use crate::scan::{first_place, read_full, scan};
use crate::shared::{Lookup, Plan, Shared};

/// Bytes of file that one read may check beyond twice what it returns, so that passing over the other stream, or over
/// many tiny chunks, ends in bounded time.
const SCANNED_AT_MOST: u64 = 1 << 20;

/// How often a read begins anew because the writer dropped the segment it was about to open. Once is rare.
const RESTARTS: usize = 64;

thread_local! {
    /// The blocks of one look-up, 64 KiB at most. A new buffer for each read would cost as much as the read: the
    /// allocator gives memory of this size back to the kernel, which then clears it anew.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A view of a spool for reading.
///
/// Cheap to clone, usable from any thread, independent of the writer: a read sees what was appended before it began,
/// and neither waits for the other beyond a look-up.
#[derive(Debug, Clone)]
pub struct SpoolReader {
    shared: Arc<Shared>,
}

/// What ends the composing of a page early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The writer dropped a segment: where reading can begin has moved.
    Dropped,
    Read(ReadError),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Read(ReadError::Io(error))
    }
}

/// What reading does about damaged frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Ends the page before them, or fails when nothing comes before them.
    Fails,
    /// Passes over them as over a hole.
    IsGap,
}

impl SpoolReader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// What can be read. Takes the lock for a moment and touches no disk.
    pub fn bounds(&self) -> Bounds {
        self.shared.lock().bounds()
    }

    /// Whether bytes are known to be missing that are within the ceiling, since they could not be written or are damaged,
    /// or could not be synced and may be missing after a power cut.
    pub fn degraded(&self) -> bool {
        self.shared.lock().degraded
    }

    /// The bytes of all segment files. Touches no disk.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.lock().disk
    }

    /// Takes the bounds of a record for those of the stream, unless there is more.
    pub(crate) fn hold_to(&self, recorded: Bounds) {
        self.shared.lock().hold_to(recorded);
    }

    /// Closes the files that reads have opened; later reads open them anew.
    pub fn close_files(&self) {
        self.shared.close();
    }

    /// Reads at a cursor.
    ///
    /// Before what is retained, the page begins at the oldest retained byte and has a gap. Beyond the end it fails. With
    /// one stream selected, a page that finds no more of it ends at the end of the stream. Damaged bytes end the page
    /// before them; a read that begins at them fails and says where to go on.
    ///
    /// Blocks on the disk unless [`read_window`](Self::read_window) would serve it. The work is bounded by
    /// `max_bytes`, so a page may be short.
    pub fn read(&self, read: &Read) -> Result<Page, ReadError> {
        let scan = SCANNED_AT_MOST.saturating_add((read.max_bytes as u64).saturating_mul(2));
        self.read_until(read, u64::MAX, scan, Damage::Fails)
    }

    /// As [`read`](Self::read), if it can be served from memory without touching the disk; otherwise `None`.
    ///
    /// Takes the lock for as long as copying the page takes, so it can be called where blocking is not allowed.
    pub fn read_window(&self, read: &Read) -> Option<Result<Page, ReadError>> {
        self.serve_from_window(read, u64::MAX).map_or_else(|error| Some(Err(error)), |page| page.map(Ok))
    }

    /// The beginning of the stream, as many bytes as the options say, whether it is retained or not.
    ///
    /// Touches no disk, unless the spool was opened from disk: then the beginning must still be retained, and the page
    /// is empty when it is not.
    pub fn head(&self) -> Page {
        let state = self.shared.lock();
        if state.head.is_empty() && state.total > 0 {
            drop(state);
            crate::open::load_head(&self.shared);
            let state = self.shared.lock();
            return state.head.page(state.bounds());
        }
        state.head.page(state.bounds())
    }

    /// Serves a read from the window, when it begins there.
    fn serve_from_window(&self, read: &Read, until: u64) -> Result<Option<Page>, ReadError> {
        let state = self.shared.lock();
        let bounds = state.bounds();
        if read.cursor > bounds.total_bytes {
            return Err(ReadError::CursorAhead { total_bytes: bounds.total_bytes });
        }
        let start = read.cursor.max(bounds.retained_from);
        if start < state.window.start() {
            return Ok(None);
        }
        let mut page = PageBuilder::new(read, start, until.min(bounds.total_bytes), bounds);
        state.window.read_into(&mut page);
        Ok(Some(page.finish()))
    }

    /// Reads up to the cursor `until`, checking about `scan` bytes of file at most.
    pub(crate) fn read_until(
        &self,
        read: &Read,
        until: u64,
        scan: u64,
        damage: Damage,
    ) -> Result<Page, ReadError> {
        for _ in 0..RESTARTS {
            if let Some(page) = self.serve_from_window(read, until)? {
                return Ok(page);
            }
            let bounds = self.bounds();
            let start = read.cursor.max(bounds.retained_from);
            let mut page = PageBuilder::new(read, start, until.min(bounds.total_bytes), bounds);
            match self.compose(&mut page, scan, damage) {
                Err(Stop::Read(error)) if page.is_untouched() => return Err(error),
                Err(Stop::Dropped) if page.is_untouched() => {}
                // When it ended early, what was read is good, and the next read meets what ended it.
                Ok(()) | Err(_) => return Ok(page.finish()),
            }
        }
        Err(ReadError::Io(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the output is dropped faster than read",
        )))
    }

    fn compose(&self, page: &mut PageBuilder, mut scan: u64, damage: Damage) -> Result<(), Stop> {
        while !page.is_done() && scan > 0 {
            let state = self.shared.lock();
            let lookup = state.lookup(page.cursor(), page.room() as u64);
            if let Lookup::Window = lookup {
                state.window.read_into(page);
                return Ok(());
            }
            drop(state);
            match lookup {
                Lookup::Window => return Ok(()),
                Lookup::Missing { until } => page.gap(until),
                Lookup::Unchecked { base, end, len } => self.check(base, end, len)?,
                Lookup::Blocks(plan) => {
                    scan = scan.saturating_sub(plan.len.max(1) as u64);
                    let mut scratch = SCRATCH.take();
                    let read = self.read_blocks(&plan, page, &mut scratch, damage);
                    SCRATCH.set(scratch);
                    read?;
                }
            }
        }
        Ok(())
    }

    /// Checks a segment that was found on disk, so that look-ups know its blocks.
    fn check(&self, base: u64, end: u64, len: u64) -> Result<(), Stop> {
        let file = self.segment_file(base)?;
        let scan = scan(&*file, base, len, end)?;
        if let HeaderCheck::Newer(version) = scan.header {
            return Err(Stop::Read(ReadError::NewerVersion { version }));
        }
        let mut state = self.shared.lock();
        let Some(segment) = state.segments.iter_mut().find(|segment| segment.base == base) else {
            // Its file may have been written over meanwhile.
            return Err(Stop::Dropped);
        };
        segment.blocks = Some(scan.blocks);
        state.degraded |= scan.damaged || scan.holes || scan.end < end;
        Ok(())
    }

    /// The file of a segment that a look-up named a moment ago.
    fn segment_file(&self, base: u64) -> Result<Arc<dyn procyard_store::File>, Stop> {
        self.shared.file(base).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound && self.is_dropped(base) {
                Stop::Dropped
            } else {
                error.into()
            }
        })
    }

    /// Whether the writer has dropped a segment, whose file may hold other bytes since then.
    fn is_dropped(&self, base: u64) -> bool {
        !self.shared.lock().segments.iter().any(|segment| segment.base == base)
    }

    /// Reads the blocks of a plan and adds what is in them to the page.
    fn read_blocks(
        &self,
        plan: &Plan,
        page: &mut PageBuilder,
        scratch: &mut Vec<u8>,
        damage: Damage,
    ) -> Result<(), Stop> {
        let mut filled = 0;
        if plan.len > 0 {
            let file = self.segment_file(plan.base)?;
            if scratch.len() < plan.len {
                scratch.resize(plan.len, 0);
            }
            filled = read_full(&*file, &mut scratch[..plan.len], plan.offset)?;
        }
        // Not more than the file has: a hole is any number of cursors.
        page.reserve(plan.len.min(plan.cursors_from(page.cursor())));
        let mut blocks = scratch[..filled].chunks(BLOCK_LEN);
        for (index, border) in plan.borders.windows(2).enumerate() {
            let place = if index == 0 { first_place(plan.offset) } else { 0 };
            let end = add_block(page, blocks.next().unwrap_or_default(), place, border[0]);
            let lost = end.max(page.cursor())..border[1];
            if lost.is_empty() || page.is_done() {
                continue;
            }
            if self.is_dropped(plan.base) {
                return Err(Stop::Dropped);
            }
            match damage {
                Damage::IsGap => page.gap(lost.end),
                Damage::Fails => {
                    return Err(Stop::Read(ReadError::Corrupt { from: lost.start, until: lost.end }));
                }
            }
        }
        Ok(())
    }
}

/// Adds the intact frames of a block that begins at `cursor`, and says where they end; at the latest when the page is
/// done.
fn add_block(page: &mut PageBuilder, block: &[u8], mut place: usize, mut cursor: u64) -> u64 {
    while place <= block.len() && !page.is_done() {
        let Step::Frame(frame, size) = format::step(block, place, cursor) else { break };
        match frame {
            Frame::Output { stream, at, bytes } => page.output(stream, at, cursor, bytes),
            Frame::Hole { until } => page.gap(until),
            Frame::Resize { at, rows, cols } => page.resize(at, cursor, rows, cols),
        }
        cursor = frame.end(cursor);
        place += size;
    }
    cursor
}
