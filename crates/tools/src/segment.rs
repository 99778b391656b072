//! The contiguous part of a raw page that a rendered page is made of, and the way back from its bytes to cursors.
//!
//! Not for reading or rendering.

use procyard_supervisor::Page;

/// Bytes of a raw page without a gap among them.
pub(crate) struct Segment<'p> {
    pub(crate) bytes: &'p [u8],
    /// Bytes directly before, where they are at hand.
    pub(crate) before: &'p [u8],
    /// Bytes are missing in front of `before`, so that a character that it cuts has its beginning nowhere.
    pub(crate) before_is_cut: bool,
    /// Where they begin in the page.
    pub(crate) offset: usize,
    /// The cursor at which they begin.
    pub(crate) start_cursor: u64,
    /// The cursor behind them: of the gap that ends them, or where the raw page ends.
    pub(crate) end_cursor: u64,
    /// Bytes in front of them, from the cursor that was asked for on, are missing.
    pub(crate) behind_gap: bool,
    /// They end where bytes are missing.
    pub(crate) ends_at_gap: bool,
}

/// The first segment of `page` from `cursor` on; what the page has before it is what `before` comes from.
pub(crate) fn first_segment(page: &Page, cursor: u64) -> Segment<'_> {
    let mut offset = 0;
    for span in &page.spans {
        let earlier = cursor.saturating_sub(span.cursor).min(span.len as u64);
        offset += usize::try_from(earlier).unwrap_or(span.len);
    }
    let (mut behind_gap, mut before_is_cut) = (false, false);
    let mut start_cursor = cursor.max(page.start_cursor);
    let mut contiguous_from = 0;
    let mut end = (page.bytes.len(), page.next_cursor);
    let mut ends_at_gap = false;
    for gap in &page.gaps {
        if gap.offset > offset {
            end = (gap.offset, gap.from);
            ends_at_gap = true;
            break;
        }
        contiguous_from = gap.offset;
        before_is_cut = true;
        if gap.until > cursor {
            behind_gap = true;
            start_cursor = start_cursor.max(gap.until);
        }
    }
    if offset >= end.0 {
        // Nothing to show here: the page only says how far it looked.
        offset = end.0;
    }
    Segment {
        bytes: &page.bytes[offset..end.0],
        before: &page.bytes[contiguous_from.min(offset)..offset],
        before_is_cut,
        offset,
        start_cursor,
        end_cursor: end.1,
        behind_gap,
        ends_at_gap,
    }
}

/// The last segment of `page`: what comes behind its last gap.
pub(crate) fn last_segment(page: &Page) -> Segment<'_> {
    let (offset, start_cursor) =
        page.gaps.last().map_or((0, page.start_cursor), |gap| (gap.offset, gap.until.max(page.start_cursor)));
    Segment {
        bytes: &page.bytes[offset..],
        before: &[],
        before_is_cut: !page.gaps.is_empty(),
        offset,
        start_cursor,
        end_cursor: page.next_cursor,
        behind_gap: !page.gaps.is_empty(),
        ends_at_gap: false,
    }
}

/// From the offsets of bytes that were fed to a renderer to their cursors.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    /// Offset of the first byte, its cursor; ascending, adjacent runs joined.
    runs: Vec<(usize, u64)>,
    len: usize,
}

impl Cursors {
    /// The next `len` bytes fed are those at `offset` of `page`.
    pub(crate) fn push(&mut self, page: &Page, offset: usize, len: usize) {
        for span in &page.spans {
            let from = span.offset.max(offset);
            let to = (span.offset + span.len).min(offset + len);
            if from < to {
                self.run(span.cursor + (from - span.offset) as u64, to - from);
            }
        }
    }

    /// The next `len` bytes fed begin at `cursor`.
    pub(crate) fn run(&mut self, cursor: u64, len: usize) {
        let continues = self.runs.last().is_some_and(|&(at, first)| first + (self.len - at) as u64 == cursor);
        if !continues {
            self.runs.push((self.len, cursor));
        }
        self.len += len;
    }

    /// How many bytes were fed.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The cursor of the byte fed at `offset`; `None` behind the last one.
    pub(crate) fn at(&self, offset: usize) -> Option<u64> {
        if offset >= self.len {
            return None;
        }
        let behind = self.runs.partition_point(|&(at, _)| at <= offset);
        let (at, cursor) = *self.runs.get(behind.checked_sub(1)?)?;
        Some(cursor + (offset - at) as u64)
    }
}
