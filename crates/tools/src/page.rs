//! Pages of output: from a cursor on, or the end, as safe text or as the exact bytes.
//!
//! Pages compose: each begins where the one before ended, between two units of the stream. A page ends in front of
//! missing bytes; the next one says that they are missing. The raw bytes looked at for one page are bounded.
//!
//! Not for a finished command's result, which has a beginning and an end: see `headtail`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use procyard_api::Encoding;
use procyard_core::PublicError;
use procyard_supervisor::{Page, ReadFrom, Snapshot};
use procyard_text::{
    PageBuilder, PageRequest, Progress, Renderer, SEQUENCE_LIMIT, continuation_len, tail_page,
};

use crate::ground::ground_before;
use crate::segment::{Cursors, Segment, first_segment, last_segment};
use crate::source::{Source, is_damage};

/// A character that the cursor cuts begins at most this many bytes before it.
const LOOK_BACK: usize = 3;

/// Raw bytes of one read, once a page turns out to need many.
const STEP: usize = 256 << 10;

/// Raw bytes looked at for one page. Every unit of the stream ends within [`SEQUENCE_LIMIT`] and a character.
const SCAN_MAX: u64 = (SEQUENCE_LIMIT + STEP) as u64;

/// Raw bytes of the longest tail that is rendered.
const TAIL_MAX: usize = 2 << 20;

/// Raw bytes of the first attempt at a tail.
const TAIL_STEP: usize = 64 << 10;

/// How output is to be shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Budget in bytes: of rendered text, or of raw bytes for base64.
    pub(crate) limit: usize,
    pub(crate) encoding: Encoding,
    /// Show what repainted lines ended as.
    pub(crate) collapse: bool,
}

/// The end of the output, by bytes or by lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    Bytes(u64),
    Lines(u64),
}

/// A page as a result shows it.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) output: String,
    pub(crate) start_cursor: u64,
    pub(crate) next_cursor: u64,
    pub(crate) total_bytes: u64,
    pub(crate) retained_from: u64,
    pub(crate) gap: bool,
    pub(crate) normalized: bool,
    pub(crate) binary: bool,
    /// The page ends where the output does, but for what an unfinished character or sequence holds back.
    pub(crate) reaches_end: bool,
    /// The process as it was at the last read.
    pub(crate) snapshot: Snapshot,
}

/// The page at `cursor`.
pub(crate) async fn forward(source: &dyn Source, cursor: u64, look: &Look) -> Result<Shown, PublicError> {
    match look.encoding {
        Encoding::SafeText => forward_text(source, cursor, look).await,
        Encoding::Base64 => forward_bytes(source, cursor, look.limit).await,
    }
}

/// The end of the output, within the budget from its end.
pub(crate) async fn tail(source: &dyn Source, tail: Tail, look: &Look) -> Result<Shown, PublicError> {
    match look.encoding {
        Encoding::SafeText => tail_text(source, tail, look).await,
        Encoding::Base64 => tail_bytes(source, tail, look.limit).await,
    }
}

async fn forward_text(source: &dyn Source, cursor: u64, look: &Look) -> Result<Shown, PublicError> {
    let back = cursor.min(LOOK_BACK as u64);
    let mut step = look.limit.saturating_add(look.limit / 4).saturating_add(256).min(STEP);
    let mut at = cursor;
    let looked_back = source.read(ReadFrom::Cursor(cursor - back), step + LOOK_BACK).await;
    let damage_behind = back > 0 && looked_back.as_ref().is_err_and(is_damage);
    let (mut page, mut snapshot) = match looked_back {
        // Damaged bytes that only were to be looked back at are none of this page.
        Err(_) if damage_behind => source.read(ReadFrom::Cursor(cursor), step).await?,
        read => read?,
    };
    let reaches = page.next_cursor > cursor || page.next_cursor == cursor && page.total_bytes == cursor;
    if !reaches {
        // The bytes looked back at are there; what is at the cursor is not, or is damaged: this read says so.
        (page, snapshot) = source.read(ReadFrom::Cursor(cursor), step).await?;
    }
    let first = first_segment(&page, cursor);
    let (first_cursor, gap) = (first.start_cursor, first.behind_gap);
    // What is left of a character whose beginning is gone is passed over, as behind a gap.
    let headless =
        damage_behind || first.before_is_cut && first.before.iter().all(|byte| is_continuation(*byte));
    let resync = gap || headless;
    let mut skip = if resync { 0 } else { cut_len(source, &page, &first).await? };
    let request = PageRequest { collapse: look.collapse, resync, ..PageRequest::new(look.limit) };
    let mut builder = PageBuilder::new(&request);
    let mut fed = Cursors::default();
    let skipped = skip > 0;
    let mut reaches_end = false;
    let (ended, end_cursor) = loop {
        let part = first_segment(&page, at);
        if part.behind_gap && at > cursor {
            // A gap that was not there before: bytes fell out between two reads.
            break (true, at);
        }
        let passed = skip.min(part.bytes.len());
        skip -= passed;
        fed.push(&page, part.offset + passed, part.bytes.len() - passed);
        let progress = builder.feed(&part.bytes[passed..]);
        let end = part.end_cursor;
        if progress == Progress::Full {
            break (false, end);
        }
        if part.ends_at_gap {
            break (true, end);
        }
        if end >= page.total_bytes || end <= at {
            reaches_end = end >= page.total_bytes;
            break (snapshot.state.is_terminal() && end >= snapshot.total_bytes, end);
        }
        let advances = fed.len() == 0 || builder.consumed() > 0;
        if end - cursor >= SCAN_MAX && advances {
            break (false, end);
        }
        at = end;
        step = (step * 4).min(STEP);
        (page, snapshot) = match source.read(ReadFrom::Cursor(at), step).await {
            // What is intact is shown; the next page says what is damaged.
            Err(error) if is_damage(&error) && fed.len() > 0 => break (true, end),
            read => read?,
        };
    };
    let text = builder.finish(ended);
    let next_cursor = fed.at(text.consumed).unwrap_or(end_cursor);
    Ok(Shown {
        output: text.text,
        start_cursor: if skipped { fed.at(0).unwrap_or(next_cursor) } else { first_cursor },
        next_cursor,
        total_bytes: page.total_bytes.max(snapshot.total_bytes),
        retained_from: page.retained_from,
        gap,
        normalized: text.normalized,
        binary: text.binary,
        reaches_end: reaches_end || next_cursor >= page.total_bytes,
        snapshot,
    })
}

/// How many bytes at the beginning of `first` belong to a character that begins before it. A read that ends inside of
/// that character is helped by the next one.
async fn cut_len(source: &dyn Source, page: &Page, first: &Segment<'_>) -> Result<usize, PublicError> {
    let mut after = first.bytes[..first.bytes.len().min(LOOK_BACK)].to_vec();
    let whole = continuation_len(first.before, &after);
    if whole < after.len() || whole == 0 || first.ends_at_gap || page.next_cursor >= page.total_bytes {
        return Ok(whole);
    }
    let (next, _) = match source.read(ReadFrom::Cursor(page.next_cursor), LOOK_BACK).await {
        Err(error) if is_damage(&error) => return Ok(whole),
        read => read?,
    };
    let rest = first_segment(&next, page.next_cursor);
    if !rest.behind_gap {
        after.extend_from_slice(rest.bytes);
    }
    Ok(continuation_len(first.before, &after))
}

/// Whether a byte continues a character of UTF-8.
fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

async fn forward_bytes(source: &dyn Source, cursor: u64, limit: usize) -> Result<Shown, PublicError> {
    let mut bytes = Vec::new();
    let mut at = cursor;
    let mut start = None;
    let mut earlier = None;
    let (page, snapshot) = loop {
        let read = source.read(ReadFrom::Cursor(at), limit - bytes.len()).await;
        let (page, snapshot) = match (read, earlier) {
            (Err(error), Some(earlier)) if is_damage(&error) => break earlier,
            (read, _) => read?,
        };
        let part = first_segment(&page, at);
        if part.behind_gap && start.is_some() {
            break (page, snapshot);
        }
        start.get_or_insert((part.start_cursor, part.behind_gap));
        bytes.extend_from_slice(part.bytes);
        let stuck = part.end_cursor <= at;
        at = part.end_cursor;
        let complete = bytes.len() >= limit || part.ends_at_gap || at >= page.total_bytes;
        if complete || stuck || at.saturating_sub(cursor) >= SCAN_MAX {
            break (page, snapshot);
        }
        earlier = Some((page, snapshot));
    };
    let (start_cursor, gap) = start.unwrap_or((cursor, false));
    Ok(Shown {
        output: STANDARD.encode(&bytes),
        start_cursor,
        next_cursor: at,
        total_bytes: page.total_bytes.max(snapshot.total_bytes),
        retained_from: page.retained_from,
        gap,
        normalized: false,
        binary: looks_binary(&bytes),
        reaches_end: at >= page.total_bytes,
        snapshot,
    })
}

async fn tail_text(source: &dyn Source, tail: Tail, look: &Look) -> Result<Shown, PublicError> {
    let mut step = look.limit.saturating_mul(2).clamp(TAIL_STEP, TAIL_MAX);
    loop {
        let (page, snapshot) = source.read(read_from(tail, step), step).await?;
        let part = last_segment(&page);
        // The end of a character or of a sequence that begins before is not shown, as it is not on a page that begins there.
        let torn = match torn_sequence(source, &part).await {
            Some(torn) => torn,
            None if part.start_cursor > 0 => Torn { rest: rest_of_character(part.bytes), begins: None },
            None => Torn::default(),
        };
        let cut = torn.rest;
        let bytes = &part.bytes[cut..];
        let mut fed = Cursors::default();
        fed.push(&page, part.offset + cut, bytes.len());
        let request = PageRequest {
            collapse: look.collapse,
            ended: snapshot.state.is_terminal() && part.end_cursor >= snapshot.total_bytes,
            ..PageRequest::new(look.limit)
        };
        let text = tail_page(bytes, &request);
        let complete = text.start > 0 || page.bytes.len() < step || part.behind_gap;
        if !complete && step < TAIL_MAX && asks_more(tail, step) {
            step = (step * 4).min(TAIL_MAX);
            continue;
        }
        return Ok(Shown {
            output: text.text,
            start_cursor: if cut + text.start == 0 {
                part.start_cursor
            } else {
                fed.at(text.start).unwrap_or(part.end_cursor)
            },
            next_cursor: match torn.begins {
                // All of it is inside of a sequence that goes on: a reader goes on where that begins.
                Some(begins) if !request.ended => begins,
                _ => fed.at(text.consumed).unwrap_or(part.end_cursor),
            },
            total_bytes: page.total_bytes.max(snapshot.total_bytes),
            retained_from: page.retained_from,
            gap: part.behind_gap,
            normalized: text.normalized,
            binary: text.binary,
            reaches_end: true,
            snapshot,
        });
    }
}

/// What the beginning of a tail is the rest of.
#[derive(Debug, Default)]
struct Torn {
    /// So many bytes belong to it.
    rest: usize,
    /// Where it begins, if the tail does not reach its end.
    begins: Option<u64>,
}

/// The escape sequence that the beginning of a tail is inside of.
async fn torn_sequence(source: &dyn Source, part: &Segment<'_>) -> Option<Torn> {
    if part.start_cursor == 0 || part.behind_gap {
        return None;
    }
    let ground = ground_before(source, part.start_cursor).await;
    let missing = usize::try_from(part.start_cursor.checked_sub(ground)?).ok()?;
    let mut before = Vec::new();
    while before.len() < missing {
        let at = ground + before.len() as u64;
        let (page, _) = source.read(ReadFrom::Cursor(at), missing - before.len()).await.ok()?;
        let read = first_segment(&page, at);
        if read.behind_gap || read.bytes.is_empty() {
            return None;
        }
        before.extend_from_slice(read.bytes);
    }
    let introduced: Vec<u8> = before.iter().chain(part.bytes).copied().take(2).collect();
    if before.is_empty() || !begins_sequence(&introduced) {
        return None;
    }
    let mut builder = PageBuilder::new(&PageRequest::new(usize::MAX));
    builder.feed(&before);
    // Most are a few bytes long. None is longer than what the builder gives up at.
    for (at, byte) in part.bytes.iter().enumerate() {
        if builder.consumed() >= before.len() {
            return Some(Torn { rest: at, begins: None });
        }
        builder.feed(std::slice::from_ref(byte));
    }
    let begins = (builder.consumed() < before.len()).then_some(ground);
    Some(Torn { rest: part.bytes.len(), begins })
}

/// Whether an escape sequence begins here, in the form with `ESC` or in that of one code point.
fn begins_sequence(bytes: &[u8]) -> bool {
    matches!(bytes, [0x1B, ..] | [0xC2, 0x80..=0x9F, ..])
}

async fn tail_bytes(source: &dyn Source, tail: Tail, limit: usize) -> Result<Shown, PublicError> {
    let (page, snapshot) = source.read(read_from(tail, limit), limit).await?;
    let part = last_segment(&page);
    let cut = part.bytes.len().saturating_sub(limit);
    let mut fed = Cursors::default();
    fed.push(&page, part.offset, part.bytes.len());
    Ok(Shown {
        output: STANDARD.encode(&part.bytes[cut..]),
        start_cursor: if cut == 0 { part.start_cursor } else { fed.at(cut).unwrap_or(part.end_cursor) },
        next_cursor: part.end_cursor,
        total_bytes: page.total_bytes.max(snapshot.total_bytes),
        retained_from: page.retained_from,
        gap: part.behind_gap,
        normalized: false,
        binary: looks_binary(&part.bytes[cut..]),
        reaches_end: true,
        snapshot,
    })
}

fn read_from(tail: Tail, step: usize) -> ReadFrom {
    match tail {
        Tail::Bytes(bytes) => ReadFrom::TailBytes(bytes.min(step as u64)),
        Tail::Lines(lines) => ReadFrom::TailLines(lines),
    }
}

fn asks_more(tail: Tail, step: usize) -> bool {
    match tail {
        Tail::Bytes(bytes) => bytes > step as u64,
        Tail::Lines(_) => true,
    }
}

/// How many bytes in front of `bytes` can only be the end of a character.
fn rest_of_character(bytes: &[u8]) -> usize {
    bytes.iter().take(LOOK_BACK).take_while(|&&byte| byte & 0xC0 == 0x80).count()
}

fn looks_binary(bytes: &[u8]) -> bool {
    let mut renderer = Renderer::new();
    renderer.push(bytes, &mut String::new());
    renderer.binary()
}

#[cfg(test)]
mod compose;
#[cfg(test)]
mod tests;
