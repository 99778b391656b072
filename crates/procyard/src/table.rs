//! Tables for people: columns as wide as they need to be, and no line longer than the terminal; colour only where somebody
//! sees it.
//!
//! A narrow terminal first loses whole columns, those that matter least, then the end of the last one. What is not a
//! terminal gets everything, plain, so that what reads it gets the same however wide the person's window is. Not for
//! programs: those ask for JSON.

use std::io::IsTerminal as _;

use procyard_text::shorten;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr as _};

use crate::terminal;

/// Longer than any line of a terminal; more of a text is nobody's.
const TEXT_MAX: usize = 4096;

/// The columns that the last column is to have before others give way to it.
const REST_MIN: usize = 16;

/// What is between two columns.
const BETWEEN: usize = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    room: Room,
}

/// What becomes of a column where there is not room for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// It stays.
    Kept,
    /// It goes, those with lower numbers first.
    Dropped(u8),
    /// It gets what is left.
    Rest,
}

impl Column {
    /// One that stays.
    pub(crate) const fn kept(name: &'static str) -> Self {
        Self { name, room: Room::Kept }
    }

    /// One that goes, those with lower numbers first.
    pub(crate) const fn dropped(name: &'static str, rank: u8) -> Self {
        Self { name, room: Room::Dropped(rank) }
    }

    /// The last one, which is cut.
    pub(crate) const fn rest(name: &'static str) -> Self {
        Self { name, room: Room::Rest }
    }
}

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

    /// The text becomes one line that a terminal shows as it is: what a command is called may hold anything.
    pub(crate) fn coloured(text: impl AsRef<str>, colour: Colour) -> Self {
        Self { text: shorten(text.as_ref(), TEXT_MAX), colour }
    }

    fn width(&self) -> usize {
        columns(&self.text)
    }
}

/// Rows below a head.
#[derive(Debug)]
pub(crate) struct Table {
    columns: &'static [Column],
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: &'static [Column]) -> Self {
        Self { columns, rows: vec![columns.iter().map(|column| Cell::plain(column.name)).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// As stdout takes it: cut and coloured for a terminal, whole and plain for anything else.
    pub(crate) fn render(&self) -> String {
        let stdout = std::io::stdout();
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let coloured = stdout.is_terminal()
            // https://no-color.org
            && variable("NO_COLOR").is_none()
            && variable("TERM").is_some_and(|terminal| terminal != "dumb");
        self.rendered(shown_width(), coloured)
    }

    fn rendered(&self, width: Option<usize>, coloured: bool) -> String {
        let widths: Vec<_> = (0..self.columns.len())
            .map(|column| self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0))
            .collect();
        let shown = match width {
            Some(width) => self.fitting(&widths, width),
            None => (0..widths.len()).collect(),
        };
        let mut text = String::new();
        for row in &self.rows {
            let mut taken = 0;
            for (place, column) in shown.iter().enumerate() {
                let (cell, last) = (&row[*column], place + 1 == shown.len());
                let room = width.map_or(usize::MAX, |width| width.saturating_sub(taken));
                let cut = cut(&cell.text, room);
                let blank = if last { 0 } else { (widths[*column] + BETWEEN).saturating_sub(cell.width()) };
                let blank = blank.min(room.saturating_sub(columns(&cut)));
                let (before, after) = match (coloured, cell.colour) {
                    (false, _) | (true, Colour::Plain) => ("", ""),
                    (true, Colour::Green) => ("\u{1b}[32m", "\u{1b}[0m"),
                    (true, Colour::Red) => ("\u{1b}[31m", "\u{1b}[0m"),
                };
                text.extend([before, &cut, after]);
                text.extend(std::iter::repeat_n(' ', blank));
                taken += widths[*column] + BETWEEN;
            }
            // A cell may be empty.
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }

    /// The columns that there is room for.
    fn fitting(&self, widths: &[usize], width: usize) -> Vec<usize> {
        let mut shown: Vec<_> = (0..self.columns.len()).collect();
        loop {
            let wanted: usize = shown
                .iter()
                .map(|column| match self.columns[*column].room {
                    Room::Rest => widths[*column].min(REST_MIN),
                    _ => widths[*column] + BETWEEN,
                })
                .sum();
            let least =
                shown.iter().enumerate().filter_map(|(place, column)| match self.columns[*column].room {
                    Room::Dropped(rank) => Some((rank, place)),
                    _ => None,
                });
            match least.min() {
                Some((_, place)) if wanted > width => shown.remove(place),
                _ => return shown,
            };
        }
    }
}

/// How many columns a text takes, at most: terminals differ in what they make of joined and of varied characters.
pub(crate) fn columns(text: &str) -> usize {
    text.width().max(text.chars().filter_map(UnicodeWidthChar::width).sum())
}

/// The first characters, with a sign where there are more; never more columns than these.
fn cut(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let Some(room) = most.checked_sub(1) else { return String::new() };
    let mut shown = String::new();
    for character in text.chars() {
        shown.push(character);
        if columns(&shown) > room {
            shown.pop();
            break;
        }
    }
    shown.push('…');
    shown
}

/// How wide lines on stdout may be; nothing where it is no terminal, or one that does not say.
pub(crate) fn shown_width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = terminal::size_of(&stdout).map(|size| usize::from(size.cols));
    width(std::env::var("COLUMNS").ok().as_deref(), size)
}

/// How wide a terminal is: as `COLUMNS` says, which the person has set, else as the terminal says.
fn width(columns: Option<&str>, terminal: Option<usize>) -> Option<usize> {
    let set = columns.and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    set.or(terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[Column] = &[
        Column::kept("ID"),
        Column::kept("STATE"),
        Column::dropped("STARTED", 2),
        Column::dropped("OUTPUT", 1),
        Column::rest("COMMAND"),
    ];

    fn table(command: &str) -> Table {
        let mut table = Table::new(HEAD);
        table.row(vec![
            Cell::plain("AAECAwQFBgcICQoLDA0ODw"),
            Cell::coloured("lost on restore", Colour::Green),
            Cell::plain("12 min 3 s ago"),
            Cell::plain("1.5 MiB"),
            Cell::plain(command),
        ]);
        table
    }

    /// As a terminal counts them.
    fn longest(text: &str) -> usize {
        text.lines().map(columns).max().unwrap()
    }

    #[test]
    fn columns_line_up_and_nothing_breaks_a_line_or_reaches_the_terminal() {
        let text = table("sleep\n1000 \u{1b}[31mred\u{202e}").rendered(None, false);
        assert_eq!(
            text,
            "ID                      STATE            STARTED         OUTPUT   COMMAND\n\
             AAECAwQFBgcICQoLDA0ODw  lost on restore  12 min 3 s ago  1.5 MiB  sleep 1000 red<U+202E>\n"
        );
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_and_wide_characters_count_twice() {
        for command in ["make test", &"echo 日本語; ".repeat(20), "e\u{301}".repeat(50).as_str(), "👩‍👩‍👧 family"]
        {
            for width in 1..130 {
                let text = table(command).rendered(Some(width), false);
                assert!(longest(&text) <= width, "{width}:\n{text}");
            }
        }
    }

    #[test]
    fn a_narrow_terminal_loses_the_least_columns_first_and_the_handle_never() {
        let rendered = |width| table("cargo test --workspace --no-fail-fast").rendered(Some(width), false);
        let heads = |width: usize| {
            rendered(width).lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(heads(120), "ID STATE STARTED OUTPUT COMMAND");
        assert_eq!(heads(80), "ID STATE STARTED COMMAND");
        assert_eq!(heads(60), "ID STATE COMMAND");
        assert!(rendered(60).ends_with("  cargo test --works…\n"), "{}", rendered(60));
        assert_eq!(heads(40), "ID STATE");
        assert!(rendered(40).contains("AAECAwQFBgcICQoLDA0ODw  lost on restore\n"), "{}", rendered(40));
    }

    #[test]
    fn what_is_not_a_terminal_gets_everything() {
        let long = "x".repeat(500);
        assert!(table(&long).rendered(None, false).contains(&long));
    }

    #[test]
    fn columns_that_are_set_are_those_of_the_terminal() {
        for (columns, terminal, expect) in [
            (None, Some(80), Some(80)),
            (Some("40"), Some(80), Some(40)),
            (Some("40"), None, Some(40)),
            (Some("0"), Some(80), Some(80)),
            (Some("wide"), Some(80), Some(80)),
            (None, None, None),
        ] {
            assert_eq!(super::width(columns, terminal), expect, "{columns:?} {terminal:?}");
        }
    }

    #[test]
    fn colour_takes_no_room() {
        let text = table("make").rendered(None, true);
        assert!(text.contains("\u{1b}[32mlost on restore\u{1b}[0m  12 min"), "{text:?}");
    }
}
