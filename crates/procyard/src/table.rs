//! Tables for people: columns as wide as they need to be, the last one cut where the terminal ends, colour only where
//! somebody sees it.
//!
//! Not for programs: those ask for JSON.

use std::io::IsTerminal as _;

use crate::terminal;

/// The colour of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Plain,
    Green,
    Red,
}

/// One cell: text of one line.
#[derive(Debug)]
pub(crate) struct Cell {
    text: String,
    colour: Colour,
}

impl Cell {
    pub(crate) fn plain(text: impl AsRef<str>) -> Self {
        Self::coloured(text, Colour::Plain)
    }

    /// What would not be one line of text, such as a command's line breaks, is shown as a blank.
    pub(crate) fn coloured(text: impl AsRef<str>, colour: Colour) -> Self {
        let text =
            text.as_ref().chars().map(|character| if character.is_control() { ' ' } else { character });
        Self { text: text.collect(), colour }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Rows below a head.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(Cell::plain).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// As stdout takes it: cut and coloured for a terminal, whole and plain for anything else.
    pub(crate) fn render(&self) -> String {
        let seen = std::io::stdout().is_terminal();
        let coloured = seen && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let width = terminal::size().filter(|_| seen).map(|size| usize::from(size.cols));
        self.rendered(width, coloured)
    }

    fn rendered(&self, width: Option<usize>, coloured: bool) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widths: Vec<_> = (0..columns)
            .map(|column| self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut taken = 0;
            for (column, cell) in row.iter().enumerate() {
                let last = column + 1 == columns;
                let most = width.map_or(usize::MAX, |width| width.saturating_sub(taken));
                let shown = cut(&cell.text, if last { most } else { usize::MAX });
                let (before, after) = match (coloured, cell.colour) {
                    (false, _) | (true, Colour::Plain) => ("", ""),
                    (true, Colour::Green) => ("\u{1b}[32m", "\u{1b}[0m"),
                    (true, Colour::Red) => ("\u{1b}[31m", "\u{1b}[0m"),
                };
                text.extend([before, &shown, after]);
                if !last {
                    let blank = widths[column] + 2 - cell.width();
                    text.extend(std::iter::repeat_n(' ', blank));
                }
                taken += widths[column] + 2;
            }
            text.push('\n');
        }
        text
    }
}

/// The first characters, with a sign where there are more.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut shown: String = text.chars().take(most.saturating_sub(1)).collect();
    if most > 0 {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "STATE", "COMMAND"]);
        table.row(vec![
            Cell::plain("a"),
            Cell::coloured("running", Colour::Green),
            Cell::plain("sleep\n1000"),
        ]);
        table
    }

    #[test]
    fn columns_line_up_and_nothing_breaks_a_line() {
        assert_eq!(table().rendered(None, false), "ID  STATE    COMMAND\na   running  sleep 1000\n");
    }

    #[test]
    fn the_last_column_ends_where_the_terminal_does() {
        for width in 1..40 {
            let text = table().rendered(Some(width), false);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width.max(13), "{width}: {text}");
        }
        assert_eq!(table().rendered(Some(20), false), "ID  STATE    COMMAND\na   running  sleep …\n");
    }

    #[test]
    fn colour_takes_no_room() {
        let text = table().rendered(None, true);
        assert!(text.contains("\u{1b}[32mrunning\u{1b}[0m  sleep"), "{text:?}");
    }
}
