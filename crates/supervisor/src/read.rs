//! Reading output at a cursor, from the end, or from the head that is always kept.
//!
//! Not for text: bytes come back as they were printed.

use std::sync::Arc;

use procyard_core::{Handle, Owner};
use procyard_spool::{Page, Read, ReadError, SpoolError, SpoolReader};

use crate::entry::Entry;
use crate::shared::{Shared, blocking};
use crate::{ReadFrom, ReadRequest, Snapshot, SupervisorError};

/// The most bytes that one read returns.
pub const READ_MAX: usize = 4 * 1024 * 1024;

/// How far back from the end a read of the last lines looks for their beginning.
const TAIL_SCAN_MAX: u64 = 8 * 1024 * 1024;

/// Reads; from memory where the window has it, else on a blocking thread.
pub(crate) async fn read(
    shared: &Arc<Shared>,
    owner: Owner,
    handle: &Handle,
    request: ReadRequest,
) -> Result<(Page, Snapshot), SupervisorError> {
    shared.admit_calls()?;
    let entry = shared.find(owner, handle)?;
    let had_ended = entry.is_terminal();
    let mut page = read_entry(shared, &entry, request).await?;
    let mut snapshot = entry.snapshot_of(owner).ok_or(SupervisorError::NotFound)?;
    if !had_ended && snapshot.state.is_terminal() {
        // It ended meanwhile: a terminal state never comes with an end of output that was not the last.
        page = read_entry(shared, &entry, request).await?;
        snapshot = entry.snapshot_of(owner).ok_or(SupervisorError::NotFound)?;
    }
    Ok((page, snapshot))
}

pub(crate) async fn read_entry(
    shared: &Arc<Shared>,
    entry: &Arc<Entry>,
    request: ReadRequest,
) -> Result<Page, SupervisorError> {
    let max_bytes = request.max_bytes.min(READ_MAX);
    if let (ReadFrom::Cursor(cursor), Some(reader)) = (request.from, entry.open_reader())
        && let Some(page) = reader.read_window(&Read { cursor, max_bytes, streams: request.streams })
    {
        return page.map_err(refused);
    }
    let (shared, entry) = (Arc::clone(shared), Arc::clone(entry));
    blocking(move || {
        let reader = open(&shared, &entry)?;
        let page = match request.from {
            ReadFrom::Cursor(cursor) => reader.read(&Read { cursor, max_bytes, streams: request.streams }),
            ReadFrom::TailBytes(bytes) => reader.tail(bytes.min(max_bytes as u64), request.streams),
            ReadFrom::TailLines(lines) => {
                reader.tail_lines(lines, TAIL_SCAN_MAX.min(max_bytes as u64), request.streams)
            }
        };
        // A segment is checked when it is first read.
        entry.note_damage(&reader);
        if entry.is_terminal() {
            // Many ended processes are kept, and hardly any of them is read again soon.
            reader.close_files();
        }
        page.map_err(refused)
    })
    .await?
}

/// The head of the stream, from memory.
pub(crate) async fn head(
    shared: &Arc<Shared>,
    owner: Owner,
    handle: &Handle,
) -> Result<(Page, Snapshot), SupervisorError> {
    shared.admit_calls()?;
    let entry = shared.find(owner, handle)?;
    let page = if let Some(reader) = entry.open_reader() {
        reader.head()
    } else {
        let (shared, entry) = (Arc::clone(shared), Arc::clone(&entry));
        blocking(move || open(&shared, &entry).map(|reader| reader.head())).await??
    };
    Ok((page, entry.snapshot_of(owner).ok_or(SupervisorError::NotFound)?))
}

fn open(shared: &Arc<Shared>, entry: &Arc<Entry>) -> Result<SpoolReader, SupervisorError> {
    let mut opened = false;
    let reader = entry
        .reader(|options| {
            opened = true;
            shared.open_spool(entry, options)
        })
        .map_err(|error| match error {
            // Nothing says that it is damaged: it cannot be looked at.
            SpoolError::Io(_) => SupervisorError::Unreadable(Box::new(error)),
            other => SupervisorError::Spool(Box::new(other)),
        })?;
    if opened {
        entry.believe(&reader);
    }
    Ok(reader)
}

fn refused(error: ReadError) -> SupervisorError {
    match error {
        ReadError::CursorAhead { total_bytes } => SupervisorError::CursorAhead { total_bytes },
        ReadError::Corrupt { from, until } => SupervisorError::Damaged { from, until },
        ReadError::Io(_) => SupervisorError::Unreadable(Box::new(error)),
        other => SupervisorError::Spool(Box::new(other)),
    }
}
