//! The terminal parser: bytes in, tokens out, resumable between any two bytes.
//!
//! It is the state machine of the DEC VT500 series and ECMA-48 as UTF-8 terminals implement it (xterm, and the
//! `vte` parser for what is malformed), reduced to what decides where a sequence ends:
//!
//! - Characters are decoded first. A C1 control is a code point U+0080–009F; a raw byte 0x80–0x9F is invalid.
//! - `ESC` begins a sequence, in any state. A sequence that is cancelled by the beginning of another ends before
//!   it, which makes that place a border between units.
//! - CAN and SUB end a sequence at once. A C1 code point inside an escape or control sequence ends it too.
//! - Other C0 controls inside an escape or control sequence act as if they stood before it: tab, newline and
//!   carriage return are text. Inside a string they are content.
//! - Strings (OSC, DCS, SOS, PM, APC) end at ST, in either form; OSC ends at BEL as well. Other C1 code points
//!   are content.
//! - Characters beyond U+009F and invalid parts inside a sequence are dropped with it.
//! - A sequence that has not ended after [`SEQUENCE_LIMIT`] bytes is given up: it ends there, together with at
//!   most three continuation bytes of a character that the limit cuts.
//!
//! It does not decide what is shown, only what is what.

use crate::scan::{
    Decoded, decode, is_bidi, is_continuation, is_control, plain_text, string_content, whole_csi,
};

/// Bytes, counted from its introducer, after which an unterminated sequence is given up: 1 MiB.
///
/// A string terminator directly behind the limit is still recognised. Whoever offers at least this many bytes and
/// a few more to a [`PageBuilder`](crate::PageBuilder) always gets a page that advances.
pub const SEQUENCE_LIMIT: usize = 1 << 20;

/// The largest parameter that is told apart; larger ones count as this. Another digit still fits.
const MAX_PARAMETER: u16 = 4999;

/// How far a run of text is looked for at once: it begins small, so that text which is often interrupted is not
/// scanned over and over, and doubles while it goes on.
const MIN_WINDOW: usize = 64;
const MAX_WINDOW: usize = 16 << 10;

/// One recognised piece of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// Text that is shown as it is, with tabs, newlines and carriage returns. How text is divided into tokens
    /// depends on how the input was divided.
    Text(&'a str),
    /// A character that is shown as it is and came in two pieces.
    Char(char),
    /// A bidirectional embedding, override or isolate.
    Bidi(char),
    /// A maximal invalid part of this many bytes.
    Invalid(usize),
    /// A C0 control other than tab, newline and carriage return, or DEL.
    Control(u8),
    /// A C1 code point that is complete by itself.
    C1,
    /// Tab, newline, carriage return or backspace inside a sequence, which goes on.
    Executed(u8),
    /// A control sequence with at most one, plain, parameter.
    Csi { parameter: Option<u16>, last: u8 },
    /// Any other sequence: complete, cancelled or given up. Also skipped continuation bytes.
    Sequence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    /// Continuation bytes of a cut character are skipped, so many at most.
    Skip(u8),
    Escape,
    Intermediate,
    Csi,
    String {
        bel: bool,
    },
    /// `ESC` inside a string: ST if a backslash follows.
    StringEscape,
}

#[derive(Debug, Clone)]
pub(crate) struct Parser {
    state: State,
    /// Bytes taken since the last border between units.
    unit: usize,
    /// The beginning of a character, `pending_len` bytes.
    pending: [u8; 4],
    pending_len: usize,
    window: usize,
    parameter: Option<u16>,
    /// The control sequence has nothing but digits so far.
    plain: bool,
}

impl Parser {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Ground,
            unit: 0,
            pending: [0; 4],
            pending_len: 0,
            window: MIN_WINDOW,
            parameter: None,
            plain: true,
        }
    }

    pub(crate) fn resynchronising() -> Self {
        Self { state: State::Skip(3), ..Self::new() }
    }

    /// Bytes of the unit that is not complete; 0 between units.
    pub(crate) fn unit(&self) -> usize {
        self.unit
    }

    /// Takes bytes off the front of `input` until a token is complete. `None`: all were taken.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Token<'a>> {
        while let Some(&byte) = input.first() {
            let token = if self.pending_len > 0 {
                self.join(byte, input)
            } else {
                match self.state {
                    State::Ground => self.ground(byte, input),
                    State::Skip(left) => self.skip(left, byte, input),
                    _ if self.unit >= SEQUENCE_LIMIT && self.state != State::StringEscape => {
                        self.state = State::Skip(3);
                        None
                    }
                    State::String { bel } => self.string(bel, input),
                    _ => self.sequence(byte, input),
                }
            };
            if token.is_some() {
                return token;
            }
        }
        None
    }

    /// Ends the stream, or its contiguous part. What is incomplete becomes a token.
    pub(crate) fn finish(&mut self) -> Option<Token<'static>> {
        let incomplete = match (self.state, self.unit) {
            (_, 0) => None,
            (State::Ground, _) => Some(Token::Invalid(self.pending_len)),
            _ => Some(Token::Sequence),
        };
        *self = Self::new();
        incomplete
    }

    fn ground<'a>(&mut self, byte: u8, input: &mut &'a [u8]) -> Option<Token<'a>> {
        if byte == 0x1B {
            self.window = MIN_WINDOW;
            return self.escape(input);
        }
        if is_control(byte) {
            self.window = MIN_WINDOW;
            *input = &input[1..];
            return Some(Token::Control(byte));
        }
        if byte >= 0x80 {
            let decoded = decode(input);
            if !matches!(decoded, Decoded::Char(_)) {
                self.window = MIN_WINDOW;
                return self.take_decoded(decoded, input);
            }
        }
        let window = &input[..input.len().min(self.window)];
        let text = plain_text(window);
        if text.is_empty() {
            return self.character(input);
        }
        // A character that the window cuts is no interruption.
        if window.len() - text.len() < 4 {
            self.window = (self.window * 2).min(MAX_WINDOW);
        }
        *input = &input[text.len()..];
        Some(Token::Text(text))
    }

    /// A sequence begins. Most are short control sequences and all there, and are taken at once.
    fn escape<'a>(&mut self, input: &mut &'a [u8]) -> Option<Token<'a>> {
        self.begin(State::Escape);
        let Some(length) = whole_csi(input) else {
            self.take(1, input);
            return None;
        };
        let (sequence, rest) = input.split_at(length);
        *input = rest;
        let last = sequence[length - 1];
        if last == b'm' {
            // By far the most frequent: colours, whose parameters say nothing about text.
            return Some(self.end(Token::Sequence));
        }
        for &byte in &sequence[2..length - 1] {
            self.csi_byte(byte);
        }
        Some(self.csi(last))
    }

    /// Completes a character that came in pieces.
    fn join<'a>(&mut self, byte: u8, input: &mut &'a [u8]) -> Option<Token<'a>> {
        let held = self.pending_len;
        self.pending[held] = byte;
        match decode(&self.pending[..=held]) {
            Decoded::Incomplete => {
                self.take(1, input);
                self.pending_len += 1;
                None
            }
            Decoded::Char(ch) => {
                self.take(1, input);
                self.pending_len = 0;
                self.decoded(ch)
            }
            // What was held is the invalid part: it could have been completed until this byte.
            Decoded::Invalid(_) => {
                self.pending_len = 0;
                self.undecoded(held)
            }
        }
    }

    /// A character beyond ASCII, in any state.
    fn character<'a>(&mut self, input: &mut &'a [u8]) -> Option<Token<'a>> {
        self.take_decoded(decode(input), input)
    }

    fn take_decoded<'a>(&mut self, decoded: Decoded, input: &mut &'a [u8]) -> Option<Token<'a>> {
        match decoded {
            Decoded::Char(ch) => {
                self.take(ch.len_utf8(), input);
                self.decoded(ch)
            }
            Decoded::Invalid(part) => {
                self.take(part, input);
                self.undecoded(part)
            }
            Decoded::Incomplete => {
                self.pending_len = input.len();
                self.pending[..input.len()].copy_from_slice(input);
                self.take(input.len(), input);
                None
            }
        }
    }

    fn decoded(&mut self, ch: char) -> Option<Token<'static>> {
        let c1 = u8::try_from(u32::from(ch)).ok().filter(|code| (0x80..=0x9F).contains(code));
        match (self.state, c1) {
            (State::Ground, None) => {
                self.unit = 0;
                Some(if is_bidi(ch) { Token::Bidi(ch) } else { Token::Char(ch) })
            }
            (State::String { .. }, Some(0x9C)) => Some(self.end(Token::Sequence)),
            (State::String { .. }, _) | (_, None) => None,
            (_, Some(code)) => self.c1(code),
        }
    }

    fn undecoded(&mut self, part: usize) -> Option<Token<'static>> {
        if self.state == State::Ground { Some(self.end(Token::Invalid(part))) } else { None }
    }

    /// A C1 code point in the ground state or in an escape or control sequence, which it cancels.
    fn c1(&mut self, code: u8) -> Option<Token<'static>> {
        let cancels = self.state != State::Ground;
        let Some(state) = introduced(code - 0x40) else {
            return Some(self.end(if cancels { Token::Sequence } else { Token::C1 }));
        };
        self.begin(state);
        self.unit = 2;
        cancels.then_some(Token::Sequence)
    }

    fn skip(&mut self, left: u8, byte: u8, input: &mut &[u8]) -> Option<Token<'static>> {
        if is_continuation(byte) && left > 0 {
            self.take(1, input);
            self.state = State::Skip(left - 1);
            if left > 1 {
                return None;
            }
        }
        self.state = State::Ground;
        if self.unit > 0 { Some(self.end(Token::Sequence)) } else { None }
    }

    /// One byte of an escape or control sequence, or the byte after `ESC` in a string.
    fn sequence<'a>(&mut self, byte: u8, input: &mut &'a [u8]) -> Option<Token<'a>> {
        if self.state == State::StringEscape {
            if byte == b'\\' {
                self.take(1, input);
                return Some(self.end(Token::Sequence));
            }
            // Not ST: the `ESC` cancelled the string and begins a sequence of its own.
            self.state = State::Escape;
            self.unit = 1;
            return Some(Token::Sequence);
        }
        if byte >= 0x80 {
            return self.character(input);
        }
        self.take(1, input);
        match (byte, self.state) {
            (0x18 | 0x1A, _) => Some(self.end(Token::Sequence)),
            (0x1B, _) => {
                self.state = State::Escape;
                self.unit = 1;
                Some(Token::Sequence)
            }
            (b'\t' | b'\n' | b'\r' | 0x08, _) => Some(Token::Executed(byte)),
            (0x00..=0x1F | 0x7F, _) => None,
            (0x40..=0x7E, State::Csi) => Some(self.csi(byte)),
            (_, State::Csi) => {
                self.csi_byte(byte);
                None
            }
            (0x20..=0x2F, _) => {
                self.state = State::Intermediate;
                None
            }
            (_, State::Escape) => match introduced(byte) {
                Some(state) => {
                    self.begin(state);
                    None
                }
                None => Some(self.end(Token::Sequence)),
            },
            _ => Some(self.end(Token::Sequence)),
        }
    }

    /// A control sequence ends with its final byte.
    fn csi(&mut self, last: u8) -> Token<'static> {
        let parameter = self.parameter;
        self.end(if self.plain { Token::Csi { parameter, last } } else { Token::Sequence })
    }

    fn csi_byte(&mut self, byte: u8) {
        if byte.is_ascii_digit() && self.plain {
            let digits = self.parameter.unwrap_or(0) * 10 + u16::from(byte - b'0');
            self.parameter = Some(digits.min(MAX_PARAMETER));
        } else {
            self.plain = false;
        }
    }

    fn string<'a>(&mut self, bel: bool, input: &mut &'a [u8]) -> Option<Token<'a>> {
        let within = &input[..input.len().min(SEQUENCE_LIMIT - self.unit)];
        let content = string_content(within, bel);
        self.take(content, input);
        if content == within.len() {
            return None;
        }
        match input[0] {
            0x1B => {
                self.take(1, input);
                self.state = State::StringEscape;
                None
            }
            0xC2 => self.character(input),
            _ => {
                self.take(1, input);
                Some(self.end(Token::Sequence))
            }
        }
    }

    fn begin(&mut self, state: State) {
        self.state = state;
        self.parameter = None;
        self.plain = true;
    }

    fn end<'a>(&mut self, token: Token<'a>) -> Token<'a> {
        self.state = State::Ground;
        self.unit = 0;
        token
    }

    fn take(&mut self, bytes: usize, input: &mut &[u8]) {
        self.unit += bytes;
        *input = &input[bytes..];
    }
}

/// What the byte after `ESC` introduces, if it is an introducer; its C1 form is the byte plus 0x40.
fn introduced(byte: u8) -> Option<State> {
    match byte {
        b'[' => Some(State::Csi),
        b']' => Some(State::String { bel: true }),
        b'P' | b'X' | b'^' | b'_' => Some(State::String { bel: false }),
        _ => None,
    }
}
