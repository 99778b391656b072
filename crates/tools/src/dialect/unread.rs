//! What a process has printed since its caller last looked, within a budget: all of it, or its beginning and its end.
//!
//! Not for waiting: a tool waits first, then reads.

use std::sync::Arc;

use procyard_api::Encoding;
use procyard_core::{ErrorCode, Handle, PublicError};
use procyard_supervisor::{Snapshot, StreamFilter};

use super::places::{Claim, Places};
use crate::headtail::{Ends, ends};
use crate::page::Look;
use crate::source::{Source, Supervised, is_damage};
use crate::toolbox::Toolbox;

/// How often a read begins anew because another result has read on meanwhile, or because of damage.
const ATTEMPTS: usize = 16;

/// That bytes fell out or never reached the disk.
pub(super) const NOT_KEPT: &str = "some of the output is no longer kept";

/// That bytes are there and cannot be trusted.
pub(super) fn damaged_bytes(bytes: u64) -> String {
    format!("{bytes} bytes of the output are damaged")
}

/// Output that was not shown yet.
pub(super) struct Unread {
    /// What is shown, without what lies between its two parts.
    pub(super) head: String,
    /// The end, where not everything is shown.
    pub(super) tail: Option<String>,
    /// Bytes of output that lie between the two parts.
    pub(super) omitted: u64,
    /// Bytes of output that this is, with those that are left out.
    pub(super) bytes: u64,
    /// A line about output that is missing.
    pub(super) missing: Option<String>,
    /// It looks binary.
    pub(super) binary: bool,
    /// The process as it was at the last read.
    pub(super) snapshot: Snapshot,
    /// To be kept with the result.
    pub(super) claim: Claim,
}

impl Unread {
    /// The output, with `marker` where something is left out.
    pub(super) fn text(&self, marker: &str) -> String {
        match &self.tail {
            None => self.head.clone(),
            Some(tail) => format!("{}{marker}{tail}", self.head),
        }
    }
}

pub(super) fn look(limit: usize) -> Look {
    Look { limit, encoding: Encoding::SafeText, collapse: true }
}

pub(super) fn source(toolbox: &Toolbox, handle: Handle) -> Supervised<'_> {
    Supervised {
        supervisor: toolbox.supervisor(),
        owner: toolbox.owner(),
        handle,
        streams: StreamFilter::Both,
    }
}

/// Reads what was not shown yet, in at most `limit` bytes of text.
pub(super) async fn unread(
    toolbox: &Toolbox,
    places: &Arc<Places>,
    handle: Handle,
    limit: usize,
) -> Result<Unread, PublicError> {
    let source = source(toolbox, handle);
    let mut damaged = None;
    for _ in 0..ATTEMPTS {
        let from = places.of(&handle);
        let read = match ends(&source, from, limit).await {
            Err(error) if is_damage(&error) => {
                let until = source.behind_damage(from).await.ok_or(error)?;
                damaged = Some(damaged_bytes(until - from));
                // Nothing was shown of them, and nothing will be.
                if let Some(claim) = claim(toolbox, places, handle, from, until) {
                    claim.seen();
                }
                continue;
            }
            read => read?,
        };
        let Ends { head, tail } = read;
        let last = tail.as_ref().unwrap_or(&head);
        let Some(claim) = claim(toolbox, places, handle, from, last.next_cursor) else { continue };
        let gap = head.gap || tail.as_ref().is_some_and(|tail| tail.gap);
        let missing = damaged.or_else(|| gap.then(|| NOT_KEPT.to_owned()));
        return Ok(Unread {
            bytes: last.next_cursor.saturating_sub(from),
            omitted: tail.as_ref().map_or(0, |tail| tail.start_cursor.saturating_sub(head.next_cursor)),
            missing,
            binary: head.binary || tail.as_ref().is_some_and(|tail| tail.binary),
            snapshot: tail.as_ref().unwrap_or(&head).snapshot.clone(),
            head: head.output,
            tail: tail.map(|tail| tail.output),
            claim,
        });
    }
    let message = "other calls are reading this process at the same time; ask again";
    Err(PublicError::new(ErrorCode::StorageUnavailable, message).retryable())
}

pub(super) fn claim(
    toolbox: &Toolbox,
    places: &Arc<Places>,
    handle: Handle,
    from: u64,
    to: u64,
) -> Option<Claim> {
    places.claim(handle, from, to, |known| toolbox.supervisor().snapshot(toolbox.owner(), known).is_ok())
}
