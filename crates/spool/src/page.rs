//! What is asked of a stream and what comes back: [`Read`] and [`Page`].
//!
//! Not here: where the bytes come from. A page says the same whether memory or disk served it.

use procyard_core::{Stream, Timestamp};

/// Which streams a read returns. Cursors are those of the combined stream either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StreamFilter {
    /// Everything, in the order it was read from the process.
    #[default]
    Both,
    /// One stream; the bytes of the others are passed over.
    Only(Stream),
}

impl StreamFilter {
    /// Whether output of `stream` is returned.
    pub fn accepts(self, stream: Stream) -> bool {
        match self {
            Self::Both => true,
            Self::Only(only) => only == stream,
        }
    }
}

/// A read at a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The first byte wanted, counted from the beginning of the combined stream.
    pub cursor: u64,
    /// The most bytes to return.
    pub max_bytes: usize,
    /// Which streams.
    pub streams: StreamFilter,
}

/// A part of the stream.
///
/// It covers the cursors from `start_cursor` to `next_cursor`. A page may be shorter than asked for, or empty, before
/// the end of the stream is reached, since the work of one call is bounded: the end is where `next_cursor` equals
/// `total_bytes`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Which bytes are what: adjacent runs that cover `bytes` in order.
    pub spans: Vec<Span>,
    /// Where the page begins: the cursor asked for, or where the first retained byte after it is.
    pub start_cursor: u64,
    /// Where the next read goes on.
    pub next_cursor: u64,
    /// Whether bytes are missing in this page or before it: `gaps` is not empty.
    pub gap: bool,
    /// Which bytes are missing.
    pub gaps: Vec<Gap>,
    /// The changes of the terminal's size in this page: each comes with the page that has the byte after it, so one at
    /// the very end of the stream comes when there is more.
    pub resizes: Vec<Resize>,
    /// Bytes printed so far, retained or not.
    pub total_bytes: u64,
    /// The oldest cursor that can be read.
    pub retained_from: u64,
}

/// A run of bytes of one stream, read from the process at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where the run begins in the page's bytes.
    pub offset: usize,
    /// The cursor of its first byte.
    pub cursor: u64,
    /// Its length in bytes.
    pub len: usize,
    /// Its stream.
    pub stream: Stream,
    /// When it was read from the process.
    pub at: Timestamp,
}

impl Span {
    /// Whether `next` is the rest of the same chunk, or of one that cannot be told from it.
    pub(crate) fn goes_on_with(&self, next: &Self) -> bool {
        self.stream == next.stream && self.at == next.at && self.cursor + self.len as u64 == next.cursor
    }
}

/// Bytes that were printed and cannot be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// How many bytes of the page come before it.
    pub offset: usize,
    /// The first missing byte.
    pub from: u64,
    /// The first byte after it that is there again.
    pub until: u64,
}

/// A change of the terminal's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resize {
    /// How many bytes of the page come before it.
    pub offset: usize,
    /// The cursor of the first byte after it.
    pub cursor: u64,
    /// When.
    pub at: Timestamp,
    /// Rows from then on.
    pub rows: u16,
    /// Columns from then on.
    pub cols: u16,
}

/// What of a stream can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Bytes printed so far, retained or not.
    pub total_bytes: u64,
    /// The oldest cursor that can be read.
    pub retained_from: u64,
}

/// Composes a page from frames and chunks that come in order, each clipped to what the page still takes.
#[derive(Debug)]
pub(crate) struct PageBuilder {
    page: Page,
    filter: StreamFilter,
    max: usize,
    /// The page ends here at the latest.
    until: u64,
}

impl PageBuilder {
    /// A page that begins at `read.cursor`, or at `start` when what is before it is gone.
    pub(crate) fn new(read: &Read, start: u64, until: u64, bounds: Bounds) -> Self {
        let mut page = Page {
            start_cursor: start,
            next_cursor: start,
            total_bytes: bounds.total_bytes,
            retained_from: bounds.retained_from,
            ..Page::default()
        };
        if start > read.cursor {
            page.gaps.push(Gap { offset: 0, from: read.cursor, until: start });
        }
        Self { page, filter: read.streams, max: read.max_bytes, until }
    }

    /// Where the page goes on.
    pub(crate) fn cursor(&self) -> u64 {
        self.page.next_cursor
    }

    /// How many more bytes it takes.
    pub(crate) fn room(&self) -> usize {
        self.max - self.page.bytes.len()
    }

    /// Whether nothing more can be added.
    pub(crate) fn is_done(&self) -> bool {
        self.room() == 0 || self.cursor() >= self.until
    }

    /// Whether it has covered nothing yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.page.next_cursor == self.page.start_cursor && self.page.gaps.is_empty()
    }

    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.page.bytes.reserve(bytes.min(self.room()));
    }

    /// Adds output that begins at `cursor`, from where the page goes on and as far as there is room.
    pub(crate) fn output(&mut self, stream: Stream, at: Timestamp, cursor: u64, bytes: &[u8]) {
        let Some((bytes, wanted)) =
            self.clip(stream, cursor, bytes.len()).map(|(range, wanted)| (&bytes[range], wanted))
        else {
            return;
        };
        if wanted {
            self.span(stream, at, bytes.len());
            self.page.bytes.extend_from_slice(bytes);
        }
        self.page.next_cursor += bytes.len() as u64;
    }

    /// As [`output`](Self::output), with the bytes in two pieces.
    pub(crate) fn output_pieces(&mut self, stream: Stream, at: Timestamp, cursor: u64, pieces: [&[u8]; 2]) {
        self.output(stream, at, cursor, pieces[0]);
        self.output(stream, at, cursor + pieces[0].len() as u64, pieces[1]);
    }

    /// Which part of a run the page takes, and whether its bytes are returned or passed over.
    fn clip(&self, stream: Stream, cursor: u64, len: usize) -> Option<(std::ops::Range<usize>, bool)> {
        let end = (cursor + len as u64).min(self.until);
        let from = self.page.next_cursor;
        if end <= from || self.room() == 0 {
            return None;
        }
        debug_assert!(from >= cursor, "runs come in order and without gaps");
        let wanted = self.filter.accepts(stream);
        #[expect(clippy::cast_possible_truncation, reason = "both lie within the run, which is in memory")]
        let (first, mut last) = ((from - cursor) as usize, (end - cursor) as usize);
        if wanted {
            last = last.min(first.saturating_add(self.room()));
        }
        Some((first..last, wanted))
    }

    fn span(&mut self, stream: Stream, at: Timestamp, len: usize) {
        let span = Span { offset: self.page.bytes.len(), cursor: self.page.next_cursor, len, stream, at };
        match self.page.spans.last_mut() {
            Some(last) if last.goes_on_with(&span) => last.len += len,
            _ => self.page.spans.push(span),
        }
    }

    /// Passes over missing bytes up to `until`. A page that is full does not.
    pub(crate) fn gap(&mut self, until: u64) {
        let from = self.page.next_cursor;
        let until = until.min(self.until);
        if until <= from || self.room() == 0 {
            return;
        }
        let offset = self.page.bytes.len();
        match self.page.gaps.last_mut() {
            Some(last) if last.until == from && last.offset == offset => last.until = until,
            _ => self.page.gaps.push(Gap { offset, from, until }),
        }
        if self.page.start_cursor == from {
            self.page.start_cursor = until;
        }
        self.page.next_cursor = until;
    }

    /// Notes a change of the terminal's size at `cursor`.
    pub(crate) fn resize(&mut self, at: Timestamp, cursor: u64, rows: u16, cols: u16) {
        if cursor == self.page.next_cursor {
            self.page.resizes.push(Resize { offset: self.page.bytes.len(), cursor, at, rows, cols });
        }
    }

    pub(crate) fn finish(mut self) -> Page {
        // A change before a byte that is not on this page belongs to the page that has it.
        let next_cursor = self.page.next_cursor;
        self.page.resizes.retain(|resize| resize.cursor < next_cursor);
        self.page.gap = !self.page.gaps.is_empty();
        self.page
    }
}
