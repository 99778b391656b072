//! Opening what is on disk: after a crash, to go on; or of a finished process, to read.
//!
//! Only the newest segment is checked whole: it is where a tear can be, and where the stream ends. The others are
//! checked when somebody reads in them.
//!
//! Not here: deciding what is damaged (`scan`).

use std::io;
use std::sync::Arc;

use procyard_store::{Access, Dir, EntryKind, File};

use crate::error::SpoolError;
use crate::format::{self, HeaderCheck};
use crate::options::SpoolOptions;
use crate::page::{Bounds, StreamFilter};
use crate::reader::SpoolReader;
use crate::recorder::Recorder;
use crate::scan::scan;
use crate::shared::{Segment, Shared, Sync};
use crate::window::Window;
use crate::{Read, Spool};

/// A full ceiling takes about nine segments, and tiny ones a few more; this is far beyond either.
const MOST_SEGMENTS: usize = 1 << 16;

/// What opening a spool after a crash found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// The end of the stream: where appending goes on.
    pub total_bytes: u64,
    /// The oldest cursor that can be read.
    pub retained_from: u64,
    /// Bytes of file that were cut off behind the last whole frame: what a write had not finished, and older output
    /// that was being written over.
    pub cut_bytes: u64,
    /// Whether the newest segment has damaged frames before intact ones; reads there say which bytes are lost.
    pub damaged: bool,
    /// Whether the newest segment records bytes that could not be written.
    pub holes: bool,
}

/// The newest segment as it was found.
struct Newest {
    base: u64,
    file_len: u64,
    len: u64,
    damaged: bool,
    holes: bool,
}

impl Spool {
    /// Opens a spool after the death of the process that wrote it, cuts a torn tail, and goes on behind the last whole
    /// frame. A spool that is not there is a new one.
    ///
    /// Checks the newest segment whole (an eighth of the ceiling at most) and no other. Blocks on the file system, and
    /// until the disk has it when something was cut. Nothing else may be writing the spool.
    pub fn recover(
        parent: Arc<dyn Dir>,
        name: &str,
        options: SpoolOptions,
    ) -> Result<(Self, Recovery), SpoolError> {
        let shared = Shared::new(parent, name, options);
        let Some((dir, newest)) = load(&shared, Access::ReadWrite)? else {
            let recorder = Recorder::new(Arc::clone(&shared));
            return Ok((Self::resume(shared, recorder), Recovery::default()));
        };
        let mut recovery = Recovery::default();
        let mut last = None;
        if let Some((newest, file)) = newest {
            recovery.cut_bytes = newest.file_len - newest.len;
            recovery.damaged = newest.damaged;
            recovery.holes = newest.holes;
            if recovery.cut_bytes > 0 {
                file.set_len(newest.len)?;
                // Durably, before anything is appended: after a power cut, frames of before and of now could come
                // together that were never one stream.
                file.sync()?;
                let mut state = shared.lock();
                state.note_size(newest.base, newest.len);
                state.disk = state.segments.iter().map(|segment| segment.size).sum();
            }
            last = Some((newest.base, file, newest.len));
        }
        let bounds = shared.lock().bounds();
        recovery.total_bytes = bounds.total_bytes;
        recovery.retained_from = bounds.retained_from;
        let recorder = Recorder::resume(Arc::clone(&shared), dir, last);
        load_head(&shared);
        Ok((Self::resume(shared, recorder), recovery))
    }
}

impl SpoolReader {
    /// Opens the spool of a finished process for reading. A directory that is not there is an empty spool: the process
    /// printed nothing.
    ///
    /// Changes nothing on disk: a torn tail is ignored. Checks the newest segment whole (an eighth of the ceiling at most) and no other.
    /// Blocks on the file system.
    pub fn open(parent: Arc<dyn Dir>, name: &str, options: SpoolOptions) -> Result<Self, SpoolError> {
        let shared = Shared::new(parent, name, SpoolOptions { window: 0, ..options });
        load(&shared, Access::Read)?;
        shared.close();
        Ok(Self::new(shared))
    }

    /// As [`open`](Self::open), of a process whose record says what was retained when it ended. What is missing of that,
    /// at either end or with the whole directory, is a gap like any other, and the reader is
    /// [`degraded`](Self::degraded): no cursor that was given out leads behind the end of the stream.
    pub fn open_recorded(
        parent: Arc<dyn Dir>,
        name: &str,
        options: SpoolOptions,
        recorded: Bounds,
    ) -> Result<Self, SpoolError> {
        let reader = Self::open(parent, name, options)?;
        reader.hold_to(recorded);
        Ok(reader)
    }
}

type Loaded = Option<(Arc<dyn Dir>, Option<(Newest, Arc<dyn File>)>)>;

/// Finds the segments and where the stream ends. `None` when there is no directory.
fn load(shared: &Shared, access: Access) -> Result<Loaded, SpoolError> {
    let dir = match shared.dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    let mut bases: Vec<u64> = dir
        .list()?
        .iter()
        .filter(|entry| entry.kind == EntryKind::File)
        .filter_map(|entry| format::parse_segment_name(&entry.name))
        .collect();
    if bases.len() > MOST_SEGMENTS {
        return Err(SpoolError::TooManySegments { segments: bases.len() });
    }
    bases.sort_unstable();
    let Some((&base, older)) = bases.split_last() else { return Ok(Some((dir, None))) };

    let file = dir.open_file(&format::segment_name(base), access)?;
    let file_len = file.len()?;
    let scan = scan(&*file, base, file_len, u64::MAX)?;
    if let HeaderCheck::Newer(version) = scan.header {
        return Err(SpoolError::NewerVersion { version });
    }
    let mut state = shared.lock();
    drop(std::mem::replace(&mut state.window, Window::new(shared.options.window, scan.end)));
    state.total = scan.end;
    state.degraded = scan.damaged || scan.holes;
    drop(state);

    let mut segments = Vec::with_capacity(bases.len());
    for (index, &older_base) in older.iter().enumerate() {
        let len = dir.open_file(&format::segment_name(older_base), Access::Read)?.len()?;
        segments.push(Segment {
            base: older_base,
            end: bases[index + 1],
            len,
            size: len,
            blocks: None,
            sync: Sync::Due,
            found: true,
        });
    }
    if scan.len > 0 {
        let blocks = Some(scan.blocks);
        let (end, len) = (scan.end, scan.len);
        segments.push(Segment { base, end, len, size: file_len, blocks, sync: Sync::Due, found: true });
    }
    let mut state = shared.lock();
    state.disk = segments.iter().map(|segment| segment.size).sum();
    state.segments = segments.into();
    state.settle_bounds(shared.options.ceiling());
    drop(state);
    let newest = Newest { base, file_len, len: scan.len, damaged: scan.damaged, holes: scan.holes };
    Ok(Some((dir, Some((newest, file)))))
}

/// Reads the beginning of the stream into the head, when it is still there. A head that cannot be read stays empty.
pub(crate) fn load_head(shared: &Arc<Shared>) {
    let limit = shared.options.head;
    let bounds = shared.lock().bounds();
    if bounds.retained_from > 0 || bounds.total_bytes == 0 || limit == 0 {
        return;
    }
    let read = Read { cursor: 0, max_bytes: limit, streams: StreamFilter::Both };
    let Ok(page) = SpoolReader::new(Arc::clone(shared)).read(&read) else { return };
    let mut state = shared.lock();
    for span in &page.spans {
        let bytes = &page.bytes[span.offset..span.offset + span.len];
        state.head.push(span.stream, span.at, span.cursor, bytes);
    }
}
