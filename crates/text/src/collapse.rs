//! Collapsing repaints: what a line ended as, as a terminal would show it.
//!
//! Lines without repaints go straight into the text; the first character printed over something turns the line
//! into cells, until its newline. It handles one line: movements between lines are dropped like other sequences.

use crate::line::Line;

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

    /// The length of the text with the line after `ch` is printed.
    pub(crate) fn len_with(&mut self, text: &mut String, ch: char) -> usize {
        if ch == '\n' {
            self.len(text) + 1
        } else if self.appends() {
            text.len() + ch.len_utf8()
        } else {
            let line = self.repaint(text);
            let bytes = line.bytes_with(ch);
            text.len() + bytes
        }
    }

    /// Where the line begins in the text and in the input, if it is in cells.
    pub(crate) fn repainted(&self) -> Option<(usize, usize)> {
        self.line.as_ref().map(|_| (self.start, self.input))
    }

    /// Prints a character or executes a control that text may hold; `next` is the input behind it.
    pub(crate) fn put(&mut self, text: &mut String, ch: char, next: usize) {
        match ch {
            '\n' => {
                self.write(text);
                text.push('\n');
                self.begin(text.len(), next);
            }
            '\r' => self.carriage_return(text),
            '\u{8}' => {
                if text.len() > self.start || self.line.is_some() {
                    self.repaint(text).backspace();
                }
            }
            _ if self.appends() => text.push(ch),
            _ => self.repaint(text).print(ch),
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

    fn repaint(&mut self, text: &mut String) -> &mut Line {
        let line = self.line.take().unwrap_or_else(|| {
            let mut line = Line::printed(&text[self.start..]);
            text.truncate(self.start);
            if std::mem::take(&mut self.returned) {
                line.go_to(0);
            }
            line
        });
        self.line.insert(line)
    }

    /// An erased line with the cursor at its beginning is a line like at first.
    fn settle(&mut self) {
        self.line = self.line.take().filter(|line| !line.is_fresh());
    }
}
