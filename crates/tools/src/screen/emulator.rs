//! The terminal itself: bytes in, a screen out.
//!
//! The emulator is `avt`. Here is what it leaves to its user: bytes that are no text, torn characters, characters without a
//! column (see `marks`), the title, what one short sequence may cost, and that only safe text comes out.
//!
//! Not for where the bytes come from, and not for answering a program: the terminal it runs on does that.

use avt::parser::{Function, State};
use avt::{Cell, Line, Parser, ScreenKind, Terminal};
use procyard_api::{Highlight, Screen, ScreenCursor, ScreenSize};
use procyard_runner::TerminalSize;
use procyard_text::{safe_text, shorten, tail_start};

use super::marks::Marks;

/// Characters of a title.
const TITLE_MAX: usize = 200;

/// Bytes that are kept of a title's sequence.
const TITLE_BYTES_MAX: usize = 4 * TITLE_MAX;

/// Pieces of text in reverse video that are told.
const HIGHLIGHTS_MAX: usize = 32;

/// A terminal without scrollback.
pub(super) struct Emulator {
    terminal: Terminal,
    parser: Parser,
    size: TerminalSize,
    /// The beginning of a character whose rest is to come.
    torn: Vec<u8>,
    /// The bytes come from behind a gap: the rest of a character that is lost may be in front.
    resync: bool,
    title: Title,
    marks: Marks,
}

impl Emulator {
    pub(super) fn new(size: TerminalSize) -> Self {
        let size = TerminalSize { rows: size.rows.max(1), cols: size.cols.max(1) };
        let terminal = Terminal::new(usize::from(size.cols), usize::from(size.rows));
        #[expect(clippy::unwrap_used, reason = "neither is zero, which is all that is refused")]
        let terminal = terminal.unwrap();
        Self {
            terminal,
            parser: Parser::new(),
            size,
            torn: Vec::new(),
            resync: false,
            title: Title::default(),
            marks: Marks::default(),
        }
    }

    /// Paints the last character, whatever marks may follow.
    fn settle(&mut self) {
        self.terminal.execute(self.marks.settle());
    }

    pub(super) fn size(&self) -> TerminalSize {
        self.size
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        if size != self.size && size.rows > 0 && size.cols > 0 {
            self.settle();
            self.size = size;
            self.terminal.resize(usize::from(size.cols), usize::from(size.rows));
        }
    }

    /// Bytes are missing here: what was incomplete stays so.
    pub(super) fn lose_track(&mut self) {
        self.settle();
        self.parser = Parser::new();
        self.torn.clear();
        self.resync = true;
        self.title.give_up();
    }

    /// Takes bytes until `work` cells were painted; returns how many it took.
    pub(super) fn feed(&mut self, bytes: &[u8], work: &mut u64) -> usize {
        let lost = if std::mem::take(&mut self.resync) { tail_start(bytes) } else { 0 };
        let held = self.torn.len();
        let mut joined = std::mem::take(&mut self.torn);
        joined.extend_from_slice(&bytes[lost..]);
        let mut taken = 0;
        for part in joined.utf8_chunks() {
            let fed = self.print(part.valid(), work);
            taken += fed;
            if fed < part.valid().len() {
                return (taken + lost).saturating_sub(held);
            }
            let invalid = part.invalid();
            if invalid.is_empty() {
                continue;
            }
            taken += invalid.len();
            if taken == joined.len() && is_torn(invalid) {
                self.torn = invalid.to_vec();
            } else {
                self.print("\u{fffd}", work);
            }
        }
        bytes.len()
    }

    /// Prints text until `work` is used up; returns how many bytes it took.
    fn print(&mut self, text: &str, work: &mut u64) -> usize {
        let (size, parser, title, marks) = (self.size, &mut self.parser, &mut self.title, &mut self.marks);
        let mut taken = 0;
        let mut chars = text.chars();
        let mut then = None;
        let functions = std::iter::from_fn(|| {
            if let Some(function) = then.take() {
                return Some(function);
            }
            while *work > 0 {
                let ch = chars.next()?;
                taken += ch.len_utf8();
                let before = parser.state;
                let function = parser.feed(ch);
                title.follow(before, parser.state, ch);
                if let Some(function) = function {
                    let function = bounded(function, size);
                    *work = work.saturating_sub(cost(&function, size));
                    let [now, later] = marks.follow(function);
                    if now.is_some() {
                        then = later;
                        return now;
                    }
                    if later.is_some() {
                        return later;
                    }
                }
            }
            None
        });
        self.terminal.execute(functions);
        taken
    }

    /// Whether the program has asked for the application form of the cursor keys (DECCKM).
    pub(super) fn application_keys(&self) -> bool {
        self.terminal.cursor_key_app_mode()
    }

    /// What is to be seen, within `limit` bytes of text.
    pub(super) fn screen(&mut self, limit: usize) -> Screen {
        self.settle();
        let lines = self.terminal.screen().visible_lines();
        let mut rows: Vec<String> = lines.map(|line| self.shown(line.chars())).collect();
        let filled = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
        rows.truncate(filled);
        let mut bytes = 0;
        let fitting = rows.iter().take_while(|row| {
            bytes += row.len() + 1;
            bytes <= limit
        });
        let fitting = fitting.count();
        rows.truncate(fitting);
        let cursor = self.terminal.cursor();
        Screen {
            highlighted: self.highlighted(fitting),
            rows,
            omitted_rows: Some((filled - fitting) as u64).filter(|rows| *rows > 0),
            cursor: ScreenCursor {
                row: ordinal(cursor.row, self.size.rows),
                // Behind the last column it waits for what comes next.
                col: ordinal(cursor.col, self.size.cols),
                visible: cursor.visible,
            },
            size: ScreenSize { rows: self.size.rows, cols: self.size.cols },
            title: self.title.text.clone(),
            alternate: self.terminal.active_screen_kind() == ScreenKind::Alternate,
            drawn_from: None,
        }
    }

    /// The text in reverse video of the first rows.
    fn highlighted(&self, rows: usize) -> Vec<Highlight> {
        let lines = self.terminal.screen().visible_lines().take(rows).enumerate();
        let pieces = lines.flat_map(|(at, line)| {
            let row = ordinal(at, self.size.rows);
            self.reversed(line).map(move |text| Highlight { row, text })
        });
        pieces.take(HIGHLIGHTS_MAX).collect()
    }

    /// The pieces of a row in reverse video that show something.
    fn reversed<'l>(&'l self, line: &'l Line) -> impl Iterator<Item = String> + 'l {
        let pieces = line.chunks(|one: &Cell, next: &Cell| one.pen().is_inverse() != next.pen().is_inverse());
        pieces
            .filter(|cells| cells.first().is_some_and(|cell| cell.pen().is_inverse()))
            .map(|cells| self.shown(cells.iter().map(Cell::char)).trim_start().to_owned())
            .filter(|text| !text.is_empty())
    }

    /// Cells as safe text without blanks at the end.
    fn shown(&self, cells: impl Iterator<Item = char>) -> String {
        let mut text = String::new();
        cells.for_each(|cell| self.marks.show(cell, &mut text));
        safe_text(text.trim_end().as_bytes())
    }
}

/// A place counted from 1, inside the screen.
fn ordinal(at: usize, most: u16) -> u16 {
    u16::try_from(at + 1).unwrap_or(u16::MAX).min(most)
}

/// Whether `part`, which is no character, can become one.
fn is_torn(part: &[u8]) -> bool {
    std::str::from_utf8(part).is_err_and(|error| error.error_len().is_none())
}

/// The same, without more repetitions than there are places.
fn bounded(function: Function, size: TerminalSize) -> Function {
    match function {
        Function::Rep(count) => {
            let places = usize::from(size.rows) * usize::from(size.cols);
            Function::Rep(count.min(u16::try_from(places).unwrap_or(u16::MAX)))
        }
        other => other,
    }
}

/// How many cells a function may paint.
fn cost(function: &Function, size: TerminalSize) -> u64 {
    let (rows, cols) = (u64::from(size.rows), u64::from(size.cols));
    match function {
        Function::Print(_) => 1,
        Function::Rep(count) => u64::from(*count).max(1),
        // A row at most, and the others move.
        Function::Lf | Function::Nel | Function::Ri | Function::Ich(_) | Function::Dch(_) => rows + cols,
        Function::El(_) | Function::Ech(_) => cols,
        Function::Ed(_)
        | Function::Su(_)
        | Function::Sd(_)
        | Function::Il(_)
        | Function::Dl(_)
        | Function::Decaln
        | Function::Decset(_)
        | Function::Decrst(_)
        | Function::Decstr
        | Function::Ris => rows * cols,
        _ => 8,
    }
}

/// The title of the window, which the emulator passes over: `OSC 0 ; text` or `OSC 2 ; text` (xterm control sequences,
/// "Operating System Commands").
#[derive(Default)]
struct Title {
    text: Option<String>,
    sequence: String,
}

impl Title {
    /// The parser went from one state to another by this character.
    fn follow(&mut self, before: State, after: State, ch: char) {
        match (before == State::OscString, after == State::OscString) {
            (false, true) => self.sequence.clear(),
            (true, true) if self.sequence.len() < TITLE_BYTES_MAX => self.sequence.push(ch),
            (true, false) if !matches!(ch, '\u{18}' | '\u{1a}') => {
                let title = ["0;", "2;"].iter().find_map(|kind| self.sequence.strip_prefix(kind));
                if let Some(title) = title {
                    self.text = Some(shorten(title, TITLE_MAX)).filter(|title| !title.is_empty());
                }
                self.sequence.clear();
            }
            _ => {}
        }
    }

    fn give_up(&mut self) {
        self.sequence.clear();
    }
}

#[cfg(test)]
mod tests;
