//! One line of a terminal that is being repainted: cells, a cursor, and what erases or overwrites them.
//!
//! Each operation costs at most what was printed since plus [`MAX_COLUMN`], so that no input makes it quadratic.
//! It has one row, no width at which it wraps, and no attributes.

use crate::width::columns;

/// The cursor can be sent to this column at most, and at most so many blanks are made in front of what is
/// printed behind the end: wider than real terminals, and a bound for what a short sequence can cost.
const MAX_COLUMN: usize = 512;

pub(crate) const TAB_STOP: usize = 8;

/// In a column that the glyph before it covers.
const COVERED: char = '\0';
const BLANK: Cell = Cell { base: ' ', marks: None };

#[derive(Debug, Clone)]
struct Cell {
    base: char,
    /// Characters that combine with the base. Few cells have any, so they take one word.
    #[expect(clippy::box_collection, reason = "one word per cell instead of three")]
    marks: Option<Box<String>>,
}

impl Cell {
    fn bytes(&self) -> usize {
        match self.base {
            COVERED => 0,
            base => base.len_utf8() + self.marks.as_ref().map_or(0, |marks| marks.len()),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    cells: Vec<Cell>,
    /// Column of the cursor, perhaps beyond the cells.
    column: usize,
    /// Length of the line as text.
    bytes: usize,
    /// The cells before this column are known to be blank.
    blank: usize,
}

/// What printing one character replaces.
struct Span {
    /// Cells that are replaced: those under the character and the rest of wide glyphs that it breaks.
    from: usize,
    to: usize,
    /// Where the character goes, perhaps some blanks behind the end, and how many columns it takes.
    at: usize,
    columns: usize,
}

impl Line {
    /// The line as it stands after `text` was printed.
    pub(crate) fn printed(text: &str) -> Self {
        let mut line = Self::default();
        line.cells.reserve(text.len());
        for ch in text.chars() {
            line.print(ch, usize::MAX);
        }
        line
    }

    /// Its length in bytes as text.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing is there and the cursor is at the beginning.
    pub(crate) fn is_fresh(&self) -> bool {
        self.cells.is_empty() && self.column == 0
    }

    /// Blanks that are added in front of what is printed next.
    pub(crate) fn missing(&self) -> usize {
        self.column.saturating_sub(self.cells.len()).min(MAX_COLUMN)
    }

    pub(crate) fn write(&self, out: &mut String) {
        for cell in self.cells.iter().filter(|cell| cell.base != COVERED) {
            out.push(cell.base);
            if let Some(marks) = &cell.marks {
                out.push_str(marks);
            }
        }
    }

    /// Prints a character that is neither a newline nor a carriage return, unless the line would become longer
    /// than `limit` bytes; says whether it did.
    pub(crate) fn print(&mut self, ch: char, limit: usize) -> bool {
        if self.joins(ch) {
            return self.join(ch, limit);
        }
        let Some(span) = self.span(ch) else {
            self.column += tab_columns(self.column);
            return true;
        };
        let removed: usize = self.cells[span.from..span.to].iter().map(Cell::bytes).sum();
        let bytes = self.bytes - removed + span.blanks() + ch.len_utf8();
        if bytes > limit {
            return false;
        }
        self.bytes = bytes;
        let end = span.at + span.columns;
        if end > self.cells.len() {
            self.cells.resize(end, BLANK);
        }
        self.cells[span.from..span.to].fill(BLANK);
        self.cells[span.at].base = ch;
        for cell in &mut self.cells[span.at + 1..end] {
            cell.base = COVERED;
        }
        self.blank = self.blank.min(span.from);
        self.column = end;
        true
    }

    pub(crate) fn backspace(&mut self) {
        self.column = self.column.saturating_sub(1);
    }

    /// Moves the cursor to a column, counted from 0.
    pub(crate) fn go_to(&mut self, column: usize) {
        self.column = column.min(MAX_COLUMN.max(self.column));
    }

    pub(crate) fn forward(&mut self, columns: usize) {
        self.go_to(self.column + columns);
    }

    pub(crate) fn back(&mut self, columns: usize) {
        self.column = self.column.saturating_sub(columns);
    }

    /// Erases from the cursor to the end.
    pub(crate) fn erase_to_end(&mut self) {
        if self.column >= self.cells.len() {
            return;
        }
        let from = self.glyph_start(self.column);
        let removed: usize = self.cells[from..].iter().map(Cell::bytes).sum();
        self.cells.truncate(from);
        self.cells.resize(self.column, BLANK);
        self.bytes = self.bytes - removed + (self.column - from);
        self.blank = self.blank.min(self.cells.len());
    }

    /// Erases from the beginning up to and with the cursor's column.
    pub(crate) fn erase_to_start(&mut self) {
        if self.column + 1 >= self.cells.len() {
            return self.erase();
        }
        let to = self.glyph_end(self.column + 1);
        let from = self.blank.min(to);
        let removed: usize = self.cells[from..to].iter().map(Cell::bytes).sum();
        self.cells[from..to].fill(BLANK);
        self.bytes = self.bytes - removed + (to - from);
        self.blank = to.max(self.blank);
    }

    /// Erases all; the cursor stays where it is.
    pub(crate) fn erase(&mut self) {
        self.cells.clear();
        self.bytes = 0;
        self.blank = 0;
    }

    /// Whether `ch` combines with the glyph before the cursor.
    fn joins(&self, ch: char) -> bool {
        ch != '\t' && columns(ch) == 0 && (1..=self.cells.len()).contains(&self.column)
    }

    fn join(&mut self, mark: char, limit: usize) -> bool {
        if self.bytes + mark.len_utf8() > limit {
            return false;
        }
        let at = self.glyph_start(self.column - 1);
        self.cells[at].marks.get_or_insert_default().push(mark);
        self.bytes += mark.len_utf8();
        self.blank = self.blank.min(at);
        true
    }

    /// `None`: a tab that only moves the cursor over what is there.
    fn span(&self, ch: char) -> Option<Span> {
        let end = self.cells.len();
        let (at, columns) = if ch == '\t' {
            let stop = self.column + tab_columns(self.column);
            if stop <= end {
                return None;
            }
            // What is there stays; the rest of the way is the tab.
            let at = self.column.max(end.min(stop - 1));
            (at, stop - at)
        } else {
            (self.column, columns(ch).max(1))
        };
        let pad = at.saturating_sub(end);
        // A column far behind the end comes from a line that was erased: a terminal would have wrapped there.
        let at = at - pad.saturating_sub(MAX_COLUMN);
        Some(Span { from: self.glyph_start(at), to: self.glyph_end(at + columns), at, columns })
    }

    /// The first column of the glyph that covers `column`.
    fn glyph_start(&self, column: usize) -> usize {
        let mut start = column.min(self.cells.len());
        while self.cells.get(start).is_some_and(|cell| cell.base == COVERED) {
            start -= 1;
        }
        start
    }

    /// The column, from `column` on, behind the glyph that covers the one before.
    fn glyph_end(&self, column: usize) -> usize {
        let mut end = column.min(self.cells.len());
        while self.cells.get(end).is_some_and(|cell| cell.base == COVERED) {
            end += 1;
        }
        end
    }
}

impl Span {
    /// Blanks that appear beside the character.
    fn blanks(&self) -> usize {
        self.at - self.from + self.to.saturating_sub(self.at + self.columns)
    }
}

fn tab_columns(column: usize) -> usize {
    TAB_STOP - column % TAB_STOP
}
