//! The whole stream at once: bytes pushed in any portions, safe text appended.
//!
//! It has no budget and collapses nothing: [`PageBuilder`](crate::PageBuilder) does.

use crate::binary::Counts;
use crate::parser::{Parser, Token};

/// What stands for an invalid part.
pub(crate) const REPLACEMENT: &str = "\u{FFFD}";

/// A bidirectional control made visible: `<U+202E>`.
pub(crate) fn bidi_label(ch: char) -> String {
    format!("<U+{:04X}>", u32::from(ch))
}

/// Streaming renderer of one byte stream into safe text.
///
/// What it appends depends only on the bytes, not on how they are divided among calls. A value of some hundred
/// bytes without allocations, so that it can be kept, cloned and resumed.
///
/// ```
/// use procyard_text::Renderer;
///
/// let mut renderer = Renderer::new();
/// let mut text = String::new();
/// renderer.push(b"\x1b[1;3", &mut text);
/// renderer.push(b"2mgreen\x1b[0m \xe6\x97", &mut text);
/// renderer.push(b"\xa5\n", &mut text);
/// renderer.finish(&mut text);
/// assert_eq!(text, "green 日\n");
/// assert!(renderer.normalized());
/// ```
#[derive(Debug, Clone)]
pub struct Renderer {
    parser: Parser,
    counts: Counts,
    bytes: usize,
    normalized: bool,
}

impl Renderer {
    /// A renderer in the ground state.
    pub fn new() -> Self {
        Self::with(Parser::new())
    }

    /// A renderer for a start of which nothing is known: an arbitrary cursor, the place behind a gap or a hole.
    /// It skips up to three leading continuation bytes of a character that was cut.
    pub fn resynchronising() -> Self {
        Self::with(Parser::resynchronising())
    }

    fn with(parser: Parser) -> Self {
        Self { parser, counts: Counts::default(), bytes: 0, normalized: false }
    }

    /// Takes `bytes` and appends their safe text to `out`. An incomplete character or sequence at their end is
    /// kept until its rest comes.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        self.bytes += bytes.len();
        let mut rest = bytes;
        while let Some(token) = self.parser.next(&mut rest) {
            self.show(token, out);
        }
    }

    /// Ends the stream: an incomplete character becomes U+FFFD, an incomplete sequence is dropped. The renderer is
    /// in its ground state afterwards, and can go on.
    pub fn finish(&mut self, out: &mut String) {
        if let Some(token) = self.parser.finish() {
            self.show(token, out);
        }
    }

    /// Whether the bytes so far end between units: where a page may end and another begin.
    pub fn in_ground(&self) -> bool {
        self.parser.unit() == 0
    }

    /// Bytes at the end so far that begin a unit which is not complete yet; 0 in the ground state.
    ///
    /// ```
    /// let mut renderer = procyard_text::Renderer::new();
    /// renderer.push(b"a\x1b[3", &mut String::new());
    /// assert_eq!(renderer.pending(), 3);
    /// ```
    pub fn pending(&self) -> usize {
        self.parser.unit()
    }

    /// Whether anything so far was changed or removed. What is still incomplete does not count.
    pub fn normalized(&self) -> bool {
        self.normalized
    }

    /// Whether the bytes so far look like binary; see [`Counts::look_binary`].
    pub fn binary(&self) -> bool {
        self.counts.look_binary(self.bytes)
    }

    /// What was counted to tell binary from text.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn show(&mut self, token: Token<'_>, out: &mut String) {
        match token {
            Token::Text(text) => return out.push_str(text),
            Token::Char(ch) => return out.push(ch),
            Token::Bidi(ch) => out.push_str(&bidi_label(ch)),
            Token::Invalid(_) => out.push_str(REPLACEMENT),
            Token::Executed(byte) if byte != 0x08 => out.push(char::from(byte)),
            _ => {}
        }
        self.counts.token(token);
        self.normalized = true;
    }
}

impl Default for Renderer {
    fn default() -> Self {
        Self::new()
    }
}

/// The safe text of a whole stream, at once.
///
/// ```
/// assert_eq!(procyard_text::safe_text(b"\x1b]0;title\x07ok\xff\xe2\x80\xaetxt"), "ok\u{fffd}<U+202E>txt");
/// ```
pub fn safe_text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let mut renderer = Renderer::new();
    renderer.push(bytes, &mut out);
    renderer.finish(&mut out);
    out
}
