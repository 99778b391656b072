//! Collapsing repaints: what a line ended as, as a terminal would show it.
//!
//! Lines without repaints go straight into the text; the first character printed over something turns the line
//! into cells, until its newline. It handles one line: movements between lines are dropped like other sequences.

use crate::line::{Line, TAB_STOP};

/// The line that is being built at the end of a text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fold {
    /// Where the line begins in the text.
    start: usize,
    /// Where the line begins in the input.
    input: usize,
    /// The cursor is at the beginning, over a line that is still in the text.
    returned: bool,
    /// The line in cells; the text ends where it begins.
    line: Option<Line>,
}

impl Fold {
    /// Whether what is printed next is simply appended to the text.
    pub(crate) fn appends(&self) -> bool {
        self.line.is_none() && !self.returned
    }

    /// The length of the text with the line.
    pub(crate) fn len(&self, text: &str) -> usize {
        text.len() + self.line.as_ref().map_or(0, Line::bytes)
    }

    /// Where the line begins in the text and in the input, if it is in cells.
    pub(crate) fn repainted(&self) -> Option<(usize, usize)> {
        self.line.as_ref().map(|_| (self.start, self.input))
    }

    /// Prints a character unless the text with the line would become longer than `limit`; says whether it did.
    pub(crate) fn print(&mut self, text: &mut String, ch: char, limit: usize) -> bool {
        if self.appends() {
            let fits = text.len() + ch.len_utf8() <= limit;
            if fits {
                text.push(ch);
            }
            return fits;
        }
        let line = self.repaint(text);
        line.print(ch, limit.saturating_sub(text.len()))
    }

    /// Prints all of `shown` or nothing, likewise.
    pub(crate) fn print_whole(&mut self, text: &mut String, shown: &str, limit: usize) -> bool {
        let mut chars = shown.chars();
        let Some(first) = chars.next() else { return true };
        // Only the first may need blanks in front; each of the others adds itself, and what a broken tab adds.
        let growth = if self.appends() { 1 } else { TAB_STOP };
        let fits = self.print(text, first, limit.saturating_sub(chars.as_str().len() * growth));
        if fits {
            chars.for_each(|ch| {
                self.print(text, ch, usize::MAX);
            });
        }
        fits
    }

    /// Blanks that are added in front of what is printed next.
    pub(crate) fn missing(&self) -> usize {
        self.line.as_ref().map_or(0, Line::missing)
    }

    /// Executes a control that moves: newline, carriage return, tab or backspace. `next` is the input behind it.
    pub(crate) fn execute(&mut self, text: &mut String, control: u8, next: usize) {
        match control {
            b'\n' => {
                self.write(text);
                text.push('\n');
                self.begin(text.len(), next);
            }
            b'\r' => self.carriage_return(text),
            b'\t' => {
                self.print(text, '\t', usize::MAX);
            }
            _ if text.len() > self.start || self.line.is_some() => self.repaint(text).backspace(),
            _ => {}
        }
    }

    /// A new line begins.
    pub(crate) fn begin(&mut self, start: usize, input: usize) {
        *self = Self { start, input, returned: false, line: None };
    }

    /// Executes a control sequence: erasing in the line and moving in it.
    pub(crate) fn csi(&mut self, text: &mut String, parameter: Option<u16>, last: u8) {
        let count = usize::from(parameter.unwrap_or(1).max(1));
        match (last, parameter.unwrap_or(0)) {
            (b'K', 0) if self.appends() => {}
            (b'K', 0 | 2) if self.line.is_none() && self.returned => {
                text.truncate(self.start);
                self.returned = false;
            }
            (b'K', 0) => self.repaint(text).erase_to_end(),
            (b'K', 1) => self.repaint(text).erase_to_start(),
            (b'K', 2) => self.repaint(text).erase(),
            (b'G' | b'`', 0 | 1) => self.carriage_return(text),
            (b'G' | b'`', _) => self.repaint(text).go_to(count - 1),
            (b'C', _) => self.repaint(text).forward(count),
            (b'D', _) => self.repaint(text).back(count),
            _ => {}
        }
        self.settle();
    }

    /// Appends the line to the text.
    pub(crate) fn write(&mut self, text: &mut String) {
        if let Some(line) = self.line.take() {
            line.write(text);
        }
    }

    fn carriage_return(&mut self, text: &str) {
        match &mut self.line {
            Some(line) => line.go_to(0),
            None => self.returned = text.len() > self.start,
        }
        self.settle();
    }

    /// The line in cells.
    fn repaint(&mut self, text: &mut String) -> &mut Line {
        let Self { start, returned, line, .. } = self;
        line.get_or_insert_with(|| {
            let mut line = Line::printed(&text[*start..]);
            text.truncate(*start);
            if std::mem::take(returned) {
                line.go_to(0);
            }
            line
        })
    }

    /// An erased line with the cursor at its beginning is a line like at first.
    fn settle(&mut self) {
        if self.line.as_ref().is_some_and(Line::is_fresh) {
            self.line = None;
        }
    }
}
