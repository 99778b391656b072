//! Pages: what is asked for and what comes back.
//!
//! The work is done by [`PageBuilder`]; nothing here parses.

use crate::builder::PageBuilder;
use crate::positions::Positions;

/// What a page should be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// Budget of rendered text, in bytes of UTF-8; 0 counts as 1. It is exceeded only by a page that shows
    /// one unit (in a collapsed page, with the blanks in front of it).
    pub limit: usize,
    /// Show what repainted lines ended as, and CRLF as LF.
    pub collapse: bool,
    /// The bytes reach the end of a stream that has ended: what is incomplete there is rendered, not held back.
    pub ended: bool,
    /// The bytes begin behind a gap or a hole, so that up to three leading continuation bytes belong to a
    /// character that is lost. For an arbitrary cursor, [`continuation_len`](crate::continuation_len) is exact.
    pub resync: bool,
    /// Keep what [`Page::input_offset`] needs: at worst some words for each character.
    pub positions: bool,
}

impl PageRequest {
    /// A page of at most `limit` bytes of a running stream, not collapsed.
    pub fn new(limit: usize) -> Self {
        Self { limit, collapse: false, ended: false, resync: false, positions: false }
    }
}

/// A piece of rendered output.
///
/// Offsets count the bytes that were fed, without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Safe text.
    pub text: String,
    /// Where in the input the page begins: 0, but for a tail that was cut.
    pub start: usize,
    /// Where in the input the page ends and the next one begins. The parser is in its ground state there.
    pub consumed: usize,
    /// Bytes behind `consumed` that are the beginning of an incomplete unit, or a trailing carriage return in a
    /// collapsed page. 0 in a full page.
    pub held_back: usize,
    /// The budget ended the page: there is more at `consumed`.
    pub full: bool,
    /// The text differs from its bytes: something was removed, replaced or collapsed.
    pub normalized: bool,
    /// The bytes look like binary; see [`Counts::look_binary`](crate::Counts::look_binary).
    pub binary: bool,
    pub(crate) positions: Option<Positions>,
}

impl Page {
    /// The input offset at which the text at `text_offset` begins, if the request asked for positions.
    ///
    /// Exact for text that is not collapsed; inside the `<U+202E>` that stands for a character, where the
    /// character begins. In a line that was repainted, where the line begins.
    ///
    /// ```
    /// use procyard_text::{PageRequest, page};
    ///
    /// let request = PageRequest { positions: true, ..PageRequest::new(100) };
    /// let page = page(b"\x1b[1mready\x1b[0m on \x1b[4mport", &request);
    /// let at = page.text.find("port").unwrap();
    /// assert_eq!(page.input_offset(at), Some(21));
    /// ```
    pub fn input_offset(&self, text_offset: usize) -> Option<usize> {
        self.positions.as_ref().map(|positions| positions.input(text_offset).min(self.consumed))
    }
}

/// Renders one page from the start of `input`, which is contiguous and already filtered to one view of the
/// stream.
///
/// Without `collapse`, pages compose: reading on from `consumed` each time and joining the texts gives the
/// [`safe_text`](crate::safe_text) of the whole stream, whatever the limits are. A page advances if `input` holds
/// a whole unit, which [`SEQUENCE_LIMIT`](crate::SEQUENCE_LIMIT) and four more bytes always do; it may be empty
/// and advance, where all of `input` are sequences.
///
/// ```
/// use procyard_text::{PageRequest, page};
///
/// let stream = "\x1b[32mgrün\x1b[0m\n".as_bytes();
/// let first = page(stream, &PageRequest::new(3));
/// assert_eq!((first.text.as_str(), first.full), ("gr", true));
/// let rest = page(&stream[first.consumed..], &PageRequest::new(100));
/// assert_eq!(rest.text, "ün\n");
/// ```
pub fn page(input: &[u8], request: &PageRequest) -> Page {
    let mut builder = PageBuilder::new(request);
    builder.feed(input);
    builder.finish(request.ended)
}
