//! Building a page from bytes as they are read.
//!
//! The builder applies whole units only: what it holds is always a text that ends between two units of the input,
//! so that a page can end there at any time. It reads nothing itself and keeps no input.

use crate::binary::Counts;
use crate::collapse::Fold;
use crate::page::{Page, PageRequest};
use crate::parser::{Parser, Token};
use crate::positions::{Positions, Relation};
use crate::renderer::{REPLACEMENT, bidi_label};

/// Whether a page wants more input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It can take more.
    NeedMore,
    /// It is complete; what is fed to it from now on is ignored.
    Full,
}

/// One page, built from as many portions of input as it takes.
///
/// The result depends on the bytes and the gaps, not on how they are divided into portions. A caller that stops
/// after some amount of input, to bound the work, should offer at least [`SEQUENCE_LIMIT`](crate::SEQUENCE_LIMIT)
/// and four more bytes, within which every unit ends; then each page advances.
///
/// ```
/// use procyard_text::{PageBuilder, PageRequest, Progress};
///
/// let mut builder = PageBuilder::new(&PageRequest::new(8));
/// assert_eq!(builder.feed(b"ab\x1b]0;ti"), Progress::NeedMore);
/// assert_eq!(builder.feed(b"tle\x07cdefghijkl"), Progress::Full);
/// let page = builder.finish(false);
/// assert_eq!((page.text.as_str(), page.consumed), ("abcdefgh", 18));
/// ```
#[derive(Debug, Clone)]
pub struct PageBuilder {
    limit: usize,
    parser: Parser,
    fed: usize,
    state: Applied,
    /// Controls inside a sequence that is not complete.
    executed: String,
    fold: Option<Fold>,
    positions: Option<Positions>,
    /// In a collapsed page, what it was behind the last newline: a full page ends there.
    line_end: Option<Applied>,
    /// What it was before a carriage return that was the last unit.
    before_return: Option<Applied>,
    text: String,
    full: bool,
}

/// What has been applied, up to a border between units.
#[derive(Debug, Clone, Copy, Default)]
struct Applied {
    /// Bytes of the input.
    consumed: usize,
    /// Bytes of the text, where lines are complete.
    text: usize,
    counts: Counts,
    normalized: bool,
}

impl PageBuilder {
    /// An empty page. The request's `ended` is not looked at: [`PageBuilder::finish`] is told.
    pub fn new(request: &PageRequest) -> Self {
        Self {
            limit: request.limit.max(1),
            parser: if request.resync { Parser::resynchronising() } else { Parser::new() },
            fed: 0,
            state: Applied::default(),
            executed: String::new(),
            fold: request.collapse.then(Fold::default),
            positions: request.positions.then(Positions::default),
            line_end: None,
            before_return: None,
            text: String::new(),
            full: false,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) -> Progress {
        let mut bytes = bytes;
        while !bytes.is_empty() && !self.full {
            // Little more is parsed than fits, so that small pages of large inputs are cheap.
            let room = self.limit.saturating_sub(self.text.len()).clamp(256, 64 << 10);
            let (piece, rest) = bytes.split_at(room.min(bytes.len()));
            self.feed_piece(piece);
            bytes = rest;
        }
        self.progress()
    }

    /// The bytes fed next do not follow those before: some between are lost, or this is another part of the
    /// stream. An incomplete character before becomes U+FFFD, an incomplete sequence is dropped, continuation
    /// bytes behind are skipped. Offsets go on as if nothing were between.
    pub fn gap(&mut self) -> Progress {
        self.complete();
        if !self.full {
            self.parser = Parser::resynchronising();
        }
        self.progress()
    }

    /// Bytes of the input that are in the page so far, up to a border between units.
    pub fn consumed(&self) -> usize {
        self.state.consumed
    }

    /// Whether the page is complete.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// The page. `ended`: what was fed reaches the end of a stream that has ended, so that what is incomplete is
    /// rendered; otherwise it is held back.
    pub fn finish(mut self, ended: bool) -> Page {
        if ended {
            self.complete();
        } else if let Some(before) = self.before_return.filter(|_| !self.full) {
            // Perhaps the first half of a CRLF.
            self.state = before;
        }
        self.write_line();
        let Applied { consumed, counts, normalized, .. } = self.state;
        Page {
            start: 0,
            consumed,
            held_back: if self.full { 0 } else { self.fed - consumed },
            full: self.full,
            normalized,
            binary: counts.look_binary(consumed),
            text: self.text,
            positions: self.positions,
        }
    }

    fn progress(&self) -> Progress {
        if self.full { Progress::Full } else { Progress::NeedMore }
    }

    fn feed_piece(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some(token) = self.parser.next(&mut rest) {
            let end = self.fed + piece.len() - rest.len() - self.parser.unit();
            self.apply(token, end);
            if self.full {
                return;
            }
        }
        self.fed += piece.len();
    }

    /// Ends the contiguous input: applies what is incomplete.
    fn complete(&mut self) {
        if !self.full
            && let Some(token) = self.parser.finish()
        {
            self.apply(token, self.fed);
        }
    }

    /// Applies a token that ends at `end`, or finds that the page is full.
    fn apply(&mut self, token: Token<'_>, end: usize) {
        match token {
            Token::Text(text) => self.text(text, end),
            Token::Char(ch) => self.text(ch.encode_utf8(&mut [0; 4]), end),
            // Belongs to a unit that is not complete yet.
            Token::Executed(byte) => self.executed.push(char::from(byte)),
            Token::Bidi(ch) => self.shown(token, &bidi_label(ch), end),
            Token::Invalid(_) => self.shown(token, REPLACEMENT, end),
            Token::Control(_) | Token::C1 | Token::Csi { .. } | Token::Sequence => self.removed(token, end),
        }
    }

    fn text(&mut self, text: &str, end: usize) {
        let start = end - text.len();
        if self.fold.is_some() {
            self.collapsed_text(text, start);
        } else if self.append(text, start) < text.len() {
            self.full = true;
        }
    }

    /// Appends what fits of text that is shown as it is and begins at `start`; returns how much that was.
    fn append(&mut self, text: &str, start: usize) -> usize {
        let mut fits = text.floor_char_boundary(self.limit.saturating_sub(self.text.len()));
        if fits == 0 && self.text.is_empty() {
            fits = text.chars().next().map_or(0, char::len_utf8);
        }
        if fits > 0 {
            if let Some(positions) = &mut self.positions {
                positions.push(self.text.len(), start, Relation::Straight);
            }
            self.text.push_str(&text[..fits]);
            self.state.consumed = start + fits;
            self.before_return = None;
        }
        fits
    }

    /// The text cannot become longer than this with the next unit. The first one is shown whatever its length.
    fn bound(&self) -> usize {
        if self.length() == 0 { usize::MAX } else { self.limit }
    }

    fn length(&self) -> usize {
        self.fold.as_ref().map_or(self.text.len(), |fold| fold.len(&self.text))
    }

    /// Applies a unit that is shown as something else.
    fn shown(&mut self, token: Token<'_>, shown: &str, end: usize) {
        let (bound, at) = (self.bound(), self.text.len());
        let fits = match &mut self.fold {
            Some(fold) => fold.print_whole(&mut self.text, shown, bound),
            None if at + shown.len() <= bound => {
                self.text.push_str(shown);
                true
            }
            None => false,
        };
        if !fits {
            return self.overflow();
        }
        if let Some(positions) = &mut self.positions {
            positions.push(at, self.state.consumed, Relation::Unit);
        }
        self.unit_applied(token, end);
    }

    /// Applies a unit of which nothing is shown but the controls inside it.
    fn removed(&mut self, token: Token<'_>, end: usize) {
        if !self.executed.is_empty() && !self.execute(end) {
            return self.overflow();
        }
        match (&mut self.fold, token) {
            (Some(fold), Token::Csi { parameter, last }) => fold.csi(&mut self.text, parameter, last),
            (Some(fold), Token::Control(0x08)) => fold.execute(&mut self.text, 0x08, end),
            _ => {}
        }
        self.unit_applied(token, end);
    }

    /// Executes the controls inside a sequence that ends at `end`, if what they add fits.
    fn execute(&mut self, end: usize) -> bool {
        let executed = std::mem::take(&mut self.executed);
        let missing = self.fold.as_ref().map_or(0, Fold::missing);
        if self.length() + missing + executed.len() > self.bound() {
            return false;
        }
        if let Some(positions) = &mut self.positions {
            positions.push(self.text.len(), self.state.consumed, Relation::Unit);
        }
        match &mut self.fold {
            Some(fold) => executed.bytes().for_each(|control| fold.execute(&mut self.text, control, end)),
            None => self.text.extend(executed.chars().filter(|&control| control != '\u{8}')),
        }
        true
    }

    fn unit_applied(&mut self, token: Token<'_>, end: usize) {
        self.state.consumed = end;
        self.state.counts.token(token);
        self.state.normalized = true;
        self.before_return = None;
    }

    /// Text with its newlines and carriage returns, in a collapsed page.
    fn collapsed_text(&mut self, text: &str, start: usize) {
        let mut at = 0;
        while at < text.len() && !self.full {
            let rest = &text[at..];
            at += match rest.as_bytes()[0] {
                b'\r' => self.carriage_return(start + at + 1),
                _ if self.fold.as_ref().is_some_and(Fold::appends) => {
                    let run = rest.find('\r').unwrap_or(rest.len());
                    self.appended(&rest[..run], start + at)
                }
                b'\n' => self.newline(start + at + 1),
                _ => {
                    let run = rest.find(['\r', '\n']).unwrap_or(rest.len());
                    self.painted(&rest[..run], start + at)
                }
            };
        }
    }

    /// Appends lines that are not repainted and begin at `start`; returns how many bytes were applied.
    fn appended(&mut self, text: &str, start: usize) -> usize {
        let fits = self.append(text, start);
        if let Some(newline) = text[..fits].rfind('\n') {
            self.end_line(self.text.len() - (fits - newline - 1), start + newline + 1);
        }
        if fits < text.len() {
            self.overflow();
        }
        fits
    }

    /// Prints text into a line that is repainted, likewise.
    fn painted(&mut self, text: &str, start: usize) -> usize {
        let mut bound = self.bound();
        let Some(fold) = &mut self.fold else { return 0 };
        let mut printed = 0;
        for ch in text.chars() {
            if !fold.print(&mut self.text, ch, bound) {
                break;
            }
            bound = self.limit;
            printed += ch.len_utf8();
        }
        if printed > 0 {
            self.state.consumed = start + printed;
            self.before_return = None;
        }
        if printed < text.len() {
            self.overflow();
        }
        printed
    }

    fn carriage_return(&mut self, end: usize) -> usize {
        self.before_return = Some(self.state);
        self.state.consumed = end;
        self.state.normalized = true;
        if let Some(fold) = &mut self.fold {
            fold.execute(&mut self.text, b'\r', end);
        }
        1
    }

    /// Ends a line that was repainted, or over which the cursor was returned.
    fn newline(&mut self, end: usize) -> usize {
        if self.length() >= self.bound() {
            self.overflow();
            return 0;
        }
        self.write_line();
        self.text.push('\n');
        self.state.consumed = end;
        self.before_return = None;
        self.end_line(self.text.len(), end);
        1
    }

    /// A line ended in the text at `text` and in the input at `input`.
    fn end_line(&mut self, text: usize, input: usize) {
        self.line_end = Some(Applied { consumed: input, text, ..self.state });
        if let Some(fold) = &mut self.fold {
            fold.begin(text, input);
        }
    }

    /// Writes a line that was repainted into the text.
    fn write_line(&mut self) {
        let Some(fold) = &mut self.fold else { return };
        if let (Some(positions), Some((text, input))) = (&mut self.positions, fold.repainted()) {
            positions.push(text, input, Relation::Line);
        }
        fold.write(&mut self.text);
    }

    /// The next unit does not fit. A collapsed page goes back to the last end of a line, if there is one.
    fn overflow(&mut self) {
        self.full = true;
        if let Some(line_end) = self.line_end {
            self.state = line_end;
            self.text.truncate(line_end.text);
            if let Some(fold) = &mut self.fold {
                fold.begin(line_end.text, line_end.consumed);
            }
        }
    }
}
