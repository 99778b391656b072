//! The output of a finished command in one result: all of it, or its beginning and its end within the budget.
//!
//! Works after any flood, since the first bytes of a stream are kept whatever falls out. Not for running
//! processes: those are read page by page.

use procyard_api::Encoding;
use procyard_core::PublicError;
use procyard_supervisor::Snapshot;
use procyard_text::{PageRequest, page};

use crate::page::{Look, Shown, Tail, forward, tail};
use crate::segment::{Cursors, first_segment};
use crate::source::Source;

/// A finished command's output.
#[derive(Debug)]
pub(crate) struct HeadTail {
    pub(crate) shown: Shown,
    /// Bytes left out between the beginning and the end.
    pub(crate) omitted: Option<u64>,
}

/// The output within `limit` bytes of text: a third for the beginning, two thirds for the end.
pub(crate) async fn head_and_tail(source: &dyn Source, limit: usize) -> Result<HeadTail, PublicError> {
    let whole = forward(source, 0, &look(limit)).await?;
    if !whole.gap && whole.next_cursor >= whole.total_bytes {
        return Ok(HeadTail { shown: whole, omitted: None });
    }
    let third = (limit / 3).max(1);
    let head =
        if whole.gap { kept_head(source, third).await? } else { forward(source, 0, &look(third)).await? };
    let rest = whole.total_bytes.saturating_sub(head.next_cursor);
    let end = tail(source, Tail::Bytes(rest), &look((limit - limit / 3).max(1))).await?;
    Ok(join(head, end))
}

fn look(limit: usize) -> Look {
    Look { limit, encoding: Encoding::SafeText, collapse: true }
}

/// The beginning of a stream that is no longer retained from its start.
async fn kept_head(source: &dyn Source, limit: usize) -> Result<Shown, PublicError> {
    let (raw, snapshot) = source.head().await?;
    let part = first_segment(&raw, 0);
    let mut fed = Cursors::default();
    fed.push(&raw, part.offset, part.bytes.len());
    let request = PageRequest { collapse: true, ..PageRequest::new(limit) };
    let text = page(part.bytes, &request);
    Ok(Shown {
        output: text.text,
        start_cursor: part.start_cursor,
        next_cursor: fed.at(text.consumed).unwrap_or(part.end_cursor),
        total_bytes: raw.total_bytes.max(snapshot.total_bytes),
        retained_from: raw.retained_from,
        gap: part.behind_gap,
        normalized: text.normalized,
        binary: text.binary,
        snapshot,
    })
}

fn join(head: Shown, end: Shown) -> HeadTail {
    let omitted = end.start_cursor.saturating_sub(head.next_cursor);
    let mut output = head.output;
    if omitted > 0 {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&marker(omitted, head.next_cursor, &end.snapshot));
    }
    output.push_str(&end.output);
    let lost = omitted > 0 && end.retained_from > head.next_cursor;
    HeadTail {
        shown: Shown {
            output,
            start_cursor: head.start_cursor,
            gap: head.gap || end.gap || lost,
            normalized: head.normalized || end.normalized,
            binary: head.binary || end.binary,
            ..end
        },
        omitted: (omitted > 0).then_some(omitted),
    }
}

fn marker(omitted: u64, from: u64, snapshot: &Snapshot) -> String {
    let kept = if snapshot.retained_from > from {
        format!("; what is still kept of them begins at cursor {}", snapshot.retained_from)
    } else {
        String::new()
    };
    format!("[… {omitted} bytes left out, beginning at cursor {from}{kept} …]\n")
}
