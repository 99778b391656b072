//! Segment files: which one is written, when the next one begins, when the oldest goes.
//!
//! Not here: the window, and how frames are laid out (`layout`).

use std::io::{self, IoSlice};
use std::sync::Arc;

use procyard_core::Timestamp;
use procyard_store::{Dir, File};

use crate::format;
use crate::layout::{Batch, FrameEnd, Full, Item};
use crate::shared::{Segment, Shared};

#[derive(Debug)]
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    dir: Option<Arc<dyn Dir>>,
    current: Option<Current>,
    /// The cursor up to which the segments record the stream. What lies between it and the end of the stream is a
    /// hole that is not recorded yet.
    recorded: u64,
    /// The bytes of all segment files that hold frames.
    disk: u64,
    /// Whether names in the spool's directory may not be durable, and whether its own name may not.
    names_unsynced: bool,
    directory_unsynced: bool,
}

/// The segment that is written.
#[derive(Debug)]
struct Current {
    base: u64,
    file: Arc<dyn File>,
    /// The end of its last whole frame; 0 when there is none, not even a header.
    len: u64,
}

impl Recorder {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            dir: None,
            current: None,
            recorded: 0,
            disk: 0,
            names_unsynced: false,
            directory_unsynced: false,
        }
    }

    /// Goes on with the segments that `shared` has. `last` is the newest: its base, its file, and the end of its last
    /// whole frame, to which it was cut.
    pub(crate) fn resume(
        shared: Arc<Shared>,
        dir: Arc<dyn Dir>,
        last: Option<(u64, Arc<dyn File>, u64)>,
    ) -> Self {
        let state = shared.lock();
        let (recorded, disk) = (state.total, state.disk_bytes());
        drop(state);
        Self {
            dir: Some(dir),
            current: last.map(|(base, file, len)| Current { base, file, len }),
            recorded,
            disk,
            names_unsynced: true,
            directory_unsynced: true,
            ..Self::new(shared)
        }
    }

    /// See the field.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Writes `items`, which begin at the cursor `before` and end at `after`. An earlier hole is recorded first, with
    /// the time `hole_at`. After an error the part that is not [`recorded`](Self::recorded) is a hole.
    pub(crate) fn record<'a>(
        &mut self,
        before: u64,
        after: u64,
        hole_at: Timestamp,
        items: impl Iterator<Item = Item<'a>>,
    ) -> io::Result<()> {
        let cutoff = after.saturating_sub(self.shared.options.ceiling());
        self.retire(cutoff, 0);
        if cutoff > before {
            // More than the ceiling at once: everything before it is out, and so is its own beginning.
            self.retire_all();
            self.recorded = cutoff;
            return self.write(skip(items, cutoff - before));
        }
        if self.recorded < before && self.disk == 0 {
            // Nothing is on disk for the hole to follow on: it begins where reading does.
            self.recorded = self.shared.lock().retained_from.clamp(self.recorded, before);
        }
        let hole = (self.recorded < before).then_some(Item::Hole { at: hole_at, until: before });
        self.write(hole.into_iter().chain(items))
    }

    fn write<'a>(&mut self, mut items: impl Iterator<Item = Item<'a>>) -> io::Result<()> {
        let limit = self.shared.options.segment();
        let mut next = items.next();
        while next.is_some() {
            let mut batch = Batch::new(self.open_current()?, self.recorded, limit);
            let mut segment_is_full = false;
            while let Some(item) = next.take() {
                next = match batch.add(item) {
                    Ok(()) => items.next(),
                    Err(full) => {
                        segment_is_full = matches!(full, Full::Segment(_));
                        let (Full::Segment(rest) | Full::Write(rest)) = full;
                        next = Some(rest);
                        break;
                    }
                };
            }
            if !batch.is_empty() {
                self.retire(0, batch.len());
                self.flush(&batch)?;
            }
            if segment_is_full && let Some(full) = self.current.take() {
                self.shared.lock().keep_open(full.base, full.file);
            }
        }
        Ok(())
    }

    /// Sees to a segment to write to and says where in its file to go on.
    fn open_current(&mut self) -> io::Result<u64> {
        if let Some(current) = &self.current {
            if current.len > 0 || current.base == self.recorded {
                return Ok(current.len);
            }
            // It never got a frame, and the stream went on without it.
            let abandoned = format::segment_name(current.base);
            self.current = None;
            self.dir()?.remove_file(&abandoned)?;
        }
        let base = self.recorded;
        let name = format::segment_name(base);
        let dir = self.dir()?;
        let file = match dir.create_file(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A write failed before the segment had a frame, and so did cutting it.
                dir.remove_file(&name)?;
                dir.create_file(&name)?
            }
            result => result?,
        };
        self.names_unsynced = true;
        self.current = Some(Current { base, file, len: 0 });
        Ok(0)
    }

    fn dir(&mut self) -> io::Result<Arc<dyn Dir>> {
        if let Some(dir) = &self.dir {
            return Ok(Arc::clone(dir));
        }
        let Shared { parent, name, .. } = &*self.shared;
        let dir = match parent.create_dir(name) {
            // It was made, and then could not be opened, for want of descriptors perhaps.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => parent.open_dir(name)?,
            result => result?,
        };
        self.directory_unsynced = true;
        self.shared.set_dir(Arc::clone(&dir));
        self.dir = Some(Arc::clone(&dir));
        Ok(dir)
    }

    fn flush(&mut self, batch: &Batch<'_>) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let mut slices = batch.slices();
        let mut rest = slices.as_mut_slice();
        let mut position = batch.start();
        let written = loop {
            if rest.is_empty() {
                break Ok(());
            }
            match current.file.write_vectored_at(rest, position) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => {
                    position += taken as u64;
                    IoSlice::advance_slices(&mut rest, taken);
                }
                Err(error) => break Err(error),
            }
        };
        let whole = batch.frames().partition_point(|frame| frame.position <= position);
        let base = current.base;
        if let Some(last) = batch.frames()[..whole].last() {
            self.disk += last.position - current.len;
            current.len = last.position;
            self.recorded = last.cursor;
        }
        // A torn frame must not lie where the next one is written over part of it. Where it cannot be cut off, this
        // segment ends; readers know where, and its name bounds it for whoever finds it later.
        let abandoned = written.is_err() && current.file.set_len(current.len).is_err();
        if whole > 0 {
            self.publish(base, &batch.frames()[..whole]);
        }
        if abandoned {
            self.current = None;
        }
        written
    }

    fn publish(&self, base: u64, frames: &[FrameEnd]) {
        let mut state = self.shared.lock();
        if state.segments.back().is_none_or(|newest| newest.base != base) {
            let segment = Segment { base, end: base, len: 0, blocks: Some(Vec::new()), unsynced: true };
            state.segments.push_back(segment);
        }
        let Some((segment, last)) = state.segments.back_mut().zip(frames.last()) else { return };
        segment.end = last.cursor;
        segment.len = last.position;
        segment.unsynced = true;
        if let Some(blocks) = &mut segment.blocks {
            blocks.extend(frames.iter().filter_map(|frame| frame.opens_block));
        }
    }

    /// Lets the oldest segments go that end at or before `cutoff`, and further ones until `more` bytes of file fit.
    fn retire(&mut self, cutoff: u64, more: u64) {
        loop {
            let allowed = self.shared.options.disk();
            let mut state = self.shared.lock();
            let Some(oldest) = state.segments.front() else { return };
            let out = oldest.end <= cutoff || self.disk + more > allowed;
            let is_current = self.current.as_ref().is_some_and(|current| current.base == oldest.base);
            if is_current || !out {
                return;
            }
            let segment = state.retire_oldest();
            state.settle_bounds(self.shared.options.ceiling());
            drop(state);
            self.forget(segment);
        }
    }

    fn retire_all(&mut self) {
        if let Some(current) = self.current.take_if(|current| current.len == 0) {
            self.remove_file(current.base);
        }
        self.current = None;
        loop {
            let segment = self.shared.lock().retire_oldest();
            if segment.is_none() {
                return;
            }
            self.forget(segment);
        }
    }

    fn forget(&mut self, segment: Option<Segment>) {
        if let Some(segment) = segment {
            self.disk -= segment.len;
            self.remove_file(segment.base);
        }
    }

    /// A file that cannot be removed now goes when the spool goes.
    fn remove_file(&mut self, base: u64) {
        self.names_unsynced = true;
        if let Some(dir) = &self.dir {
            let _ = dir.remove_file(&format::segment_name(base));
        }
    }

    /// Makes everything that was written durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let unsynced: Vec<u64> = {
            let state = self.shared.lock();
            state.segments.iter().filter(|segment| segment.unsynced).map(|segment| segment.base).collect()
        };
        for base in unsynced {
            self.file(base)?.sync()?;
            let mut state = self.shared.lock();
            if let Some(segment) = state.segments.iter_mut().find(|segment| segment.base == base) {
                segment.unsynced = false;
            }
        }
        if self.names_unsynced {
            self.dir()?.sync()?;
            self.names_unsynced = false;
        }
        if self.directory_unsynced {
            self.shared.parent.sync()?;
            self.directory_unsynced = false;
        }
        Ok(())
    }

    fn file(&self, base: u64) -> io::Result<Arc<dyn File>> {
        match &self.current {
            Some(current) if current.base == base => Ok(Arc::clone(&current.file)),
            _ => self.shared.file(base),
        }
    }
}

/// The items without their first `bytes` bytes of output.
fn skip<'a>(items: impl Iterator<Item = Item<'a>>, bytes: u64) -> impl Iterator<Item = Item<'a>> {
    let mut left = bytes;
    items.filter_map(move |item| match item {
        Item::Output { stream, at, bytes } => {
            let skipped = left.min(bytes.len() as u64);
            left -= skipped;
            #[expect(clippy::cast_possible_truncation, reason = "at most the length of the slice")]
            let bytes = &bytes[skipped as usize..];
            (!bytes.is_empty()).then_some(Item::Output { stream, at, bytes })
        }
        other => (left == 0).then_some(other),
    })
}
