//! The end of the stream without the rest: the last bytes, the last lines.
//!
//! Both walk backward in steps and stop as soon as they have enough, so they cost what they return, not what is
//! retained. Damaged bytes count as missing ones here: a tail shows what there is.
//!
//! Not here: reading a step (`reader`).

use crate::error::ReadError;
use crate::page::{Bounds, Gap, Page, Read, Resize, Span, StreamFilter};
use crate::reader::{Damage, SpoolReader};

/// Cursors that one step backward covers.
const STEP: u64 = 64 << 10;

/// Cursors that a tail of one stream looks through at most beyond sixteen times what it wants: the other stream may
/// have everything recent.
const LOOKED_THROUGH: u64 = 4 << 20;

impl SpoolReader {
    /// The last `max_bytes` bytes of the stream, or of one stream; fewer when fewer are retained, or when the other
    /// stream fills what may be looked through (4 MiB, or 16 × `max_bytes`).
    ///
    /// Blocks on the disk unless the window has them.
    pub fn tail(&self, max_bytes: u64, streams: StreamFilter) -> Result<Page, ReadError> {
        let looked_through = LOOKED_THROUGH.max(max_bytes.saturating_mul(16));
        self.backward(max_bytes, looked_through, streams, |_| None)
    }

    /// The last `lines` lines of the stream, or of one stream, in `max_bytes` bytes at most. A last line without its newline
    /// counts as one.
    ///
    /// When the lines are longer, the page begins in the middle of one perhaps. When the other stream fills what may be looked
    /// through (4 MiB, or 16 × `max_bytes`), there are fewer of them. Blocks on the disk unless the window has them.
    pub fn tail_lines(&self, lines: u64, max_bytes: u64, streams: StreamFilter) -> Result<Page, ReadError> {
        if lines == 0 {
            return self.backward(0, 0, streams, |_| None);
        }
        let looked_through = LOOKED_THROUGH.max(max_bytes.saturating_mul(16));
        // The newline that ends the last line does not begin another one.
        let mut newlines = 0;
        let mut at_end = true;
        self.backward(max_bytes, looked_through, streams, |bytes| {
            for (index, &byte) in bytes.iter().enumerate().rev() {
                if byte == b'\n' && !at_end {
                    newlines += 1;
                    if newlines == lines {
                        return Some(index + 1);
                    }
                }
                at_end = false;
            }
            None
        })
    }

    /// Walks backward from the end until there are `max_bytes` bytes, `begin` says where in a step to begin, or
    /// `looked_through` cursors were covered.
    fn backward(
        &self,
        max_bytes: u64,
        looked_through: u64,
        streams: StreamFilter,
        mut begin: impl FnMut(&[u8]) -> Option<usize>,
    ) -> Result<Page, ReadError> {
        let bounds = self.bounds();
        let total = bounds.total_bytes;
        let oldest = bounds.retained_from.max(total.saturating_sub(looked_through));
        let mut parts: Vec<Page> = Vec::new();
        let mut have = 0;
        let mut until = total;
        // Without a filter, exactly so many cursors are needed; a first step of that size is usually the only one.
        let mut step = if streams == StreamFilter::Both { max_bytes.clamp(1, STEP) } else { STEP };
        while until > oldest && have < max_bytes {
            let from = until.saturating_sub(step).max(oldest);
            let mut part = self.whole(from, until, streams)?;
            if part.start_cursor > until {
                break; // dropped meanwhile
            }
            let missing = max_bytes - have;
            let begins = begin(&part.bytes);
            let surplus = (part.bytes.len() as u64).saturating_sub(missing);
            #[expect(clippy::cast_possible_truncation, reason = "less than the length of the part")]
            let cut = begins.unwrap_or(0).max(surplus as usize);
            if cut > 0 {
                part = cut_front(&part, cut);
            }
            until = from;
            have += part.bytes.len() as u64;
            parts.push(part);
            if begins.is_some() {
                break;
            }
            if streams == StreamFilter::Both {
                step = (max_bytes - have).clamp(1, STEP);
            }
        }
        Ok(join(parts, bounds))
    }

    /// Everything from `from` until `until`, in as many reads as it takes.
    fn whole(&self, from: u64, until: u64, streams: StreamFilter) -> Result<Page, ReadError> {
        let mut parts = Vec::new();
        let mut cursor = from;
        while cursor < until {
            let read = Read { cursor, max_bytes: usize::MAX, streams };
            let part = self.read_until(&read, until, u64::MAX, Damage::IsGap)?;
            if part.next_cursor <= cursor {
                break;
            }
            cursor = part.next_cursor;
            parts.push(part);
        }
        parts.reverse();
        Ok(join(parts, self.bounds()))
    }
}

/// The page without its first `cut` bytes, of which there is at least one.
fn cut_front(page: &Page, cut: usize) -> Page {
    let start_cursor = page
        .spans
        .iter()
        .rev()
        .find(|span| span.offset < cut)
        .map_or(page.start_cursor, |span| span.cursor + span.len.min(cut - span.offset) as u64);
    let spans = page.spans.iter().filter(|span| span.offset + span.len > cut).map(|span| {
        let inside = cut.saturating_sub(span.offset);
        Span {
            offset: span.offset + inside - cut,
            cursor: span.cursor + inside as u64,
            len: span.len - inside,
            ..*span
        }
    });
    let gaps = page.gaps.iter().filter(|gap| gap.offset > cut);
    let resizes = page.resizes.iter().filter(|resize| resize.offset >= cut && resize.cursor >= start_cursor);
    Page {
        bytes: page.bytes[cut..].to_vec(),
        spans: spans.collect(),
        start_cursor,
        gaps: gaps.map(|gap| Gap { offset: gap.offset - cut, ..*gap }).collect(),
        resizes: resizes.map(|resize| Resize { offset: resize.offset - cut, ..*resize }).collect(),
        gap: page.gap,
        next_cursor: page.next_cursor,
        total_bytes: page.total_bytes,
        retained_from: page.retained_from,
    }
}

/// One page of parts that follow on each other, the last one first.
fn join(parts: Vec<Page>, bounds: Bounds) -> Page {
    let Bounds { total_bytes, retained_from } = bounds;
    let mut whole = Page {
        start_cursor: parts.last().map_or(total_bytes, |first| first.start_cursor),
        next_cursor: parts.first().map_or(total_bytes, |last| last.next_cursor),
        total_bytes,
        retained_from,
        ..Page::default()
    };
    if let [_] = parts.as_slice() {
        whole = Page { total_bytes, retained_from, ..parts.into_iter().next().unwrap_or_default() };
    } else {
        whole.bytes.reserve_exact(parts.iter().map(|part| part.bytes.len()).sum());
        for part in parts.into_iter().rev() {
            let before = whole.bytes.len();
            whole.bytes.extend_from_slice(&part.bytes);
            for span in &part.spans {
                let span = Span { offset: span.offset + before, ..*span };
                match whole.spans.last_mut() {
                    Some(last) if last.goes_on_with(&span) => last.len += span.len,
                    _ => whole.spans.push(span),
                }
            }
            for gap in &part.gaps {
                let gap = Gap { offset: gap.offset + before, ..*gap };
                match whole.gaps.last_mut() {
                    Some(last) if last.offset == gap.offset && last.until == gap.from => {
                        last.until = gap.until;
                    }
                    _ => whole.gaps.push(gap),
                }
            }
            let moved = |resize: &Resize| Resize { offset: resize.offset + before, ..*resize };
            whole.resizes.extend(part.resizes.iter().map(moved));
        }
    }
    whole.gap = !whole.gaps.is_empty();
    whole
}
