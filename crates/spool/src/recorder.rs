//! Segment files: which one is written, when the next one begins, when the oldest goes.
//!
//! In a flood the oldest file becomes the newest: renamed and written over, its pages are in memory already, which
//! makes appending more than twice as fast as with new files. The old frames in it carry cursors of their own, so
//! nobody takes them for new ones.
//!
//! Not here: the window, and how frames are laid out (`layout`).

use std::io::{self, IoSlice};
use std::sync::Arc;

use procyard_core::Timestamp;
use procyard_store::{Access, Dir, File};

use crate::format;
use crate::layout::{Batch, FrameEnd, Full, Item};
use crate::shared::{Segment, Shared, Sync};

#[derive(Debug)]
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    dir: Option<Arc<dyn Dir>>,
    current: Option<Current>,
    /// The cursor up to which the segments record the stream. What lies between it and the end of the stream is a
    /// hole that is not recorded yet.
    recorded: u64,
    /// A file whose bytes are all dropped, kept to become the next segment: the base in its name, and its size.
    spare: Option<(u64, u64)>,
    /// The bytes of all files.
    disk: u64,
    /// Whether names in the spool's directory may not be durable, and whether its own name may not.
    names_unsynced: bool,
    directory_unsynced: bool,
    /// The newest segment whose name is durable, once somebody has asked for durability: after a power cut, it says
    /// how far the stream had come at least.
    milestone: Option<u64>,
}

/// The segment that is written.
#[derive(Debug)]
struct Current {
    base: u64,
    file: Arc<dyn File>,
    /// The end of its last whole frame; 0 when there is none, not even a header.
    len: u64,
    /// The length of the file: more than `len` while there are old bytes to write over.
    size: u64,
}

impl Recorder {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            dir: None,
            current: None,
            recorded: 0,
            spare: None,
            disk: 0,
            names_unsynced: false,
            directory_unsynced: false,
            milestone: None,
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
        let (recorded, disk) = (state.total, state.disk);
        // Which names are durable is not known; a process before this one may have asked for it.
        let oldest = state.segments.front().map(|oldest| oldest.base);
        drop(state);
        Self {
            dir: Some(dir),
            milestone: oldest.or(last.as_ref().map(|(base, ..)| *base)),
            current: last.map(|(base, file, len)| Current { base, file, len, size: len }),
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
        let ceiling = self.shared.options.ceiling();
        // What these items push out goes with the next ones: should this process die before they are written, it is
        // still wanted.
        self.retire(before.saturating_sub(ceiling), 0)?;
        let cutoff = after.saturating_sub(ceiling);
        if cutoff > before {
            // More than the ceiling at once: everything before it is out, and so is its own beginning.
            self.begin_anew(cutoff)?;
            return self.write(skip(items, cutoff - before));
        }
        if self.recorded < before {
            let state = self.shared.lock();
            if state.segments.is_empty() {
                // Nothing is on disk for the hole to follow on: it begins where reading does.
                self.recorded = state.retained_from.clamp(self.recorded, before);
            }
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
                let size = self.current.as_ref().map_or(0, |current| current.size);
                self.retire(0, (batch.start() + batch.len()).saturating_sub(size))?;
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
        if let Some(current) = &self.current
            && (current.len > 0 || current.base == self.recorded)
        {
            return Ok(current.len);
        }
        // One that never got a frame, and without which the stream went on.
        let abandoned = self.current.take();
        let tells_the_end = abandoned.as_ref().is_some_and(|current| self.milestone == Some(current.base));
        if let Some(abandoned) = abandoned.as_ref().filter(|_| !tells_the_end) {
            self.discard(abandoned.base, abandoned.size);
        }
        let base = self.recorded;
        let (file, size) = match self.make(base) {
            Ok(made) => made,
            Err(error) => {
                self.current = abandoned.filter(|_| tells_the_end);
                return Err(error);
            }
        };
        self.names_unsynced = true;
        self.current = Some(Current { base, file, len: 0, size });
        if let Some(abandoned) = abandoned.filter(|_| tells_the_end) {
            self.pass_milestone()?;
            self.discard(abandoned.base, abandoned.size);
        }
        Ok(0)
    }

    /// The file of the segment that begins at `base`, and its size.
    fn make(&mut self, base: u64) -> io::Result<(Arc<dyn File>, u64)> {
        let dir = self.dir()?;
        match self.recycle(&*dir, base) {
            Some(recycled) => Ok(recycled),
            None => Ok((create(&*dir, base)?, 0)),
        }
    }

    /// Makes the spare file the one of the segment that begins at `base`, when there is a spare and this works.
    fn recycle(&mut self, dir: &dyn Dir, base: u64) -> Option<(Arc<dyn File>, u64)> {
        let (old, size) = self.spare.take()?;
        let name = format::segment_name(base);
        if dir.rename(&format::segment_name(old), &name).is_err() {
            self.discard(old, size);
            return None;
        }
        let file = dir.open_file(&name, Access::ReadWrite);
        if file.is_err() {
            self.discard(base, size);
        }
        Some((file.ok()?, size))
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
        let grown = position.saturating_sub(current.size);
        self.disk += grown;
        current.size += grown;
        if let Some(last) = batch.frames()[..whole].last() {
            current.len = last.position;
            self.recorded = last.cursor;
        }
        let size = current.size;
        if whole > 0 {
            self.publish(base, size, &batch.frames()[..whole]);
        }
        if written.is_err() {
            // Tidy, not needed: what is left of a torn frame has a cursor that no frame after the hole has.
            self.cut_current();
        }
        written
    }

    /// Cuts the file that is written to its whole frames, if that works.
    fn cut_current(&mut self) {
        let Some(current) = self.current.as_mut().filter(|current| current.size > current.len) else {
            return;
        };
        if current.file.set_len(current.len).is_ok() {
            self.disk -= current.size - current.len;
            current.size = current.len;
            let mut state = self.shared.lock();
            state.note_size(current.base, current.size);
            state.disk = self.disk;
        }
    }

    fn publish(&self, base: u64, size: u64, frames: &[FrameEnd]) {
        let mut state = self.shared.lock();
        if state.segments.back().is_none_or(|newest| newest.base != base) {
            let segment = Segment {
                base,
                end: base,
                len: 0,
                size: 0,
                blocks: Some(Vec::new()),
                sync: Sync::Due,
                found: false,
            };
            state.segments.push_back(segment);
        }
        let Some((segment, last)) = state.segments.back_mut().zip(frames.last()) else { return };
        segment.end = last.cursor;
        segment.len = last.position;
        segment.size = size;
        segment.sync = segment.sync.max(Sync::Due);
        if let Some(blocks) = &mut segment.blocks {
            blocks.extend(frames.iter().filter_map(|frame| frame.opens_block));
        }
        state.disk = self.disk;
    }

    /// Lets the oldest segments go that end at or before `cutoff`, and further ones until `more` bytes of file fit.
    fn retire(&mut self, cutoff: u64, more: u64) -> io::Result<()> {
        let bound = self.shared.options.disk_bound();
        loop {
            let over = self.disk + more >= bound;
            if over && let Some((base, size)) = self.spare.take() {
                self.discard(base, size);
                continue;
            }
            let mut state = self.shared.lock();
            let Some(oldest) = state.segments.front() else { return Ok(()) };
            let (base, size, found) = (oldest.base, oldest.size, oldest.found);
            let is_current = self.current.as_ref().is_some_and(|current| current.base == base);
            if is_current || !(over || oldest.end <= cutoff) {
                return Ok(());
            }
            if self.milestone == Some(base) {
                let is_last = state.segments.len() == 1 && self.current.is_none();
                drop(state);
                if is_last {
                    return Ok(()); // it goes when there is another one
                }
                self.pass_milestone()?;
                continue;
            }
            state.retire_oldest();
            state.settle_bounds(self.shared.options.ceiling());
            drop(state);
            // What was found on disk may hold frames of a stream that went another way after its last sync: in a new
            // segment they could be taken for frames of this one.
            if over || found { self.discard(base, size) } else { self.spare(base, size) }
        }
    }

    /// Lets all segments go and begins a new one at `cutoff`.
    fn begin_anew(&mut self, cutoff: u64) -> io::Result<()> {
        let before = self.current.take();
        let recorded = std::mem::replace(&mut self.recorded, cutoff);
        if self.milestone.is_some() {
            // The next segment is to be there for good before the last one goes.
            if let Some((base, size)) = self.spare.take() {
                self.discard(base, size);
            }
            if let Err(error) = self.open_current() {
                (self.current, self.recorded) = (before, recorded);
                return Err(error);
            }
            self.pass_milestone()?;
        }
        let mut dropped: Vec<(u64, u64, bool)> = Vec::new();
        let mut state = self.shared.lock();
        while let Some(segment) = state.retire_oldest() {
            dropped.push((segment.base, segment.size, segment.found));
        }
        drop(state);
        // The segment that was written is the last of them, unless it has no frame yet.
        if let Some(unused) = before.filter(|current| current.len == 0 && current.base != cutoff) {
            dropped.push((unused.base, unused.size, true));
        }
        for (base, size, found) in dropped {
            if found || self.current.is_some() { self.discard(base, size) } else { self.spare(base, size) }
        }
        Ok(())
    }

    /// Makes a later name durable before the segment goes that tells how far the stream had come when it was last
    /// synced. Costs one sync of the directory for each ceiling of output after a [`sync`](Self::sync), and nothing
    /// where nobody syncs.
    fn pass_milestone(&mut self) -> io::Result<()> {
        self.dir()?.sync()?;
        self.set_milestone();
        Ok(())
    }

    fn set_milestone(&mut self) {
        let newest = self.shared.lock().segments.back().map(|newest| newest.base);
        self.milestone = self.current.as_ref().map(|current| current.base).or(newest);
    }

    /// Keeps a dropped file for the next segment instead of the one that was kept before, which is older: so what is on
    /// disk is without a break at every moment, and always says where the stream ends.
    fn spare(&mut self, base: u64, size: u64) {
        if let Some((base, size)) = self.spare.replace((base, size)) {
            self.discard(base, size);
        }
    }

    /// Removes a file. One that cannot be removed now goes when the spool goes.
    fn discard(&mut self, base: u64, size: u64) {
        self.disk -= size;
        self.shared.lock().disk = self.disk;
        self.names_unsynced = true;
        if let Some(dir) = &self.dir {
            let _ = dir.remove_file(&format::segment_name(base));
        }
    }

    /// Gives up old bytes that were to be written over, so that the files take no more than they hold.
    pub(crate) fn trim(&mut self) {
        if let Some((base, size)) = self.spare.take() {
            self.discard(base, size);
        }
        self.cut_current();
    }

    /// Makes everything that was written durable, as far as it can be; the first error is the one to report.
    ///
    /// What the sync of a segment was for is given up by the kernel when it fails, and the next one succeeds without it
    /// (fsync(2): an error is reported once). So it goes on failing until the segment is dropped.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.trim();
        let unsynced: Vec<(u64, Sync)> = {
            let state = self.shared.lock();
            let due = state.segments.iter().filter(|segment| segment.sync != Sync::Done);
            due.map(|segment| (segment.base, segment.sync)).collect()
        };
        let mut result = Ok(());
        for (base, before) in unsynced {
            let file = match self.file(base) {
                Ok(file) => file,
                Err(error) => {
                    result = result.and(Err(error)); // nothing was asked of the disk yet
                    continue;
                }
            };
            let synced = file.sync();
            let after = if before == Sync::Failed || synced.is_err() { Sync::Failed } else { Sync::Done };
            let mut state = self.shared.lock();
            state.degraded |= after == Sync::Failed;
            if let Some(segment) = state.segments.iter_mut().find(|segment| segment.base == base) {
                segment.sync = after;
            }
            drop(state);
            let lost = || Err(io::Error::other("an earlier sync of the output failed"));
            result = result.and(synced).and(if before == Sync::Failed { lost() } else { Ok(()) });
        }
        result.and(self.sync_names())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        if self.names_unsynced {
            self.dir()?.sync()?;
            self.names_unsynced = false;
        }
        if self.directory_unsynced {
            self.shared.parent.sync()?;
            self.directory_unsynced = false;
        }
        self.set_milestone();
        Ok(())
    }

    fn file(&self, base: u64) -> io::Result<Arc<dyn File>> {
        match &self.current {
            Some(current) if current.base == base => Ok(Arc::clone(&current.file)),
            _ => self.shared.file(base),
        }
    }
}

fn create(dir: &dyn Dir, base: u64) -> io::Result<Arc<dyn File>> {
    let name = format::segment_name(base);
    match dir.create_file(&name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Left by an earlier failure to remove it.
            dir.remove_file(&name)?;
            dir.create_file(&name)
        }
        result => result,
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
