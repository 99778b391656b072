//! What the process's terminal shows already, as bytes that show it in the person's.
//!
//! Text and cursor: colours come back with what the program paints when it is given a size. Not for what it prints from now
//! on: that is passed on as it is.

use std::fmt::Write as _;

use procyard_api::Screen;
use procyard_runner::TerminalSize;
use unicode_width::UnicodeWidthChar as _;

use super::screen::ENTER;

/// A full-screen program's screen is painted in place, on the alternate screen. What anything else shows follows what the
/// person sees, as if it had just been printed.
pub(super) fn painted(screen: &Screen, size: TerminalSize) -> Vec<u8> {
    let text = if screen.alternate { in_place(screen, size) } else { printed(screen, size) };
    text.into_bytes()
}

// Writing to a text does not fail.
fn in_place(screen: &Screen, size: TerminalSize) -> String {
    let mut text = format!("{ENTER}\x1b[2J");
    for (index, row) in screen.rows.iter().take(size.rows.into()).enumerate() {
        let _ = write!(text, "\x1b[{};1H{}", index + 1, clipped(row, size.cols));
    }
    let (row, col) = (screen.cursor.row.min(size.rows), screen.cursor.col.min(size.cols));
    let _ = write!(text, "\x1b[{row};{col}H{}", if screen.cursor.visible { "" } else { "\x1b[?25l" });
    text
}

fn printed(screen: &Screen, size: TerminalSize) -> String {
    // Down to the cursor's row: what is printed next goes on there.
    let until = usize::from(screen.cursor.row);
    let rows: Vec<_> = (0..until).map(|row| screen.rows.get(row).map_or("", String::as_str)).collect();
    if rows.iter().all(|row| row.is_empty()) {
        return String::new();
    }
    let from = rows.len().saturating_sub(size.rows.into());
    let rows: Vec<_> = rows[from..].iter().map(|row| clipped(row, size.cols)).collect();
    format!("{}\x1b[{}G", rows.join("\r\n"), screen.cursor.col.min(size.cols))
}

/// As many characters as fit into a row.
fn clipped(row: &str, cols: u16) -> String {
    let mut left = usize::from(cols);
    row.chars()
        .filter(|character| !character.is_control())
        .take_while(|character| {
            let width = character.width().unwrap_or(0);
            let fits = width <= left;
            left = left.saturating_sub(width);
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use procyard_api::{ScreenCursor, ScreenSize};

    use super::*;

    fn screen(rows: &[&str], alternate: bool, row: u16, col: u16) -> Screen {
        Screen {
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            omitted_rows: None,
            highlighted: Vec::new(),
            cursor: ScreenCursor { row, col, visible: !alternate },
            size: ScreenSize { rows: 24, cols: 80 },
            title: None,
            alternate,
            drawn_from: None,
        }
    }

    #[test]
    fn a_full_screen_is_painted_in_place_and_the_rest_follows_what_is_there() {
        let check = |shown: &Screen, (rows, cols), expect: &str| {
            let size = TerminalSize { rows, cols };
            assert_eq!(String::from_utf8(painted(shown, size)).unwrap(), expect);
        };
        let editor = screen(&["one", "two", "日本語"], true, 3, 2);
        check(
            &editor,
            (24, 80),
            "\x1b[?1049h\x1b[2J\x1b[1;1Hone\x1b[2;1Htwo\x1b[3;1H日本語\x1b[3;2H\x1b[?25l",
        );
        check(&editor, (2, 2), "\x1b[?1049h\x1b[2J\x1b[1;1Hon\x1b[2;1Htw\x1b[2;2H\x1b[?25l");
        check(&screen(&["日本語"], true, 1, 1), (2, 5), "\x1b[?1049h\x1b[2J\x1b[1;1H日本\x1b[1;1H\x1b[?25l");
        let shell = screen(&["$ make", "done", "$ "], false, 3, 3);
        check(&shell, (24, 80), "$ make\r\ndone\r\n$ \x1b[3G");
        check(&shell, (2, 80), "done\r\n$ \x1b[3G");
        check(&screen(&[], false, 1, 1), (24, 80), "");
    }
}
