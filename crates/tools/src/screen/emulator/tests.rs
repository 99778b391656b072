//! What programs send, and what is then to be seen.

use proptest::prelude::*;

use super::*;

fn size(rows: u16, cols: u16) -> TerminalSize {
    TerminalSize { rows, cols }
}

fn after(bytes: &[u8], size: TerminalSize) -> Emulator {
    let mut emulator = Emulator::new(size);
    assert_eq!(emulator.feed(bytes, &mut u64::MAX.clone()), bytes.len());
    emulator
}

fn seen(bytes: impl AsRef<[u8]>) -> Screen {
    after(bytes.as_ref(), size(6, 20)).screen(1 << 20)
}

#[track_caller]
fn check(bytes: impl AsRef<[u8]>, rows: &[&str], cursor: (u16, u16)) -> Screen {
    let screen = seen(bytes);
    assert_eq!(screen.rows, rows);
    assert_eq!((screen.cursor.row, screen.cursor.col), cursor);
    screen
}

#[test]
fn lines_scroll_and_wrap() {
    check("one\r\ntwo\r\n", &["one", "two"], (3, 1));
    check("1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8", &["3", "4", "5", "6", "7", "8"], (6, 2));
    check("a".repeat(25), &["aaaaaaaaaaaaaaaaaaaa", "aaaaa"], (2, 6));
    check("a".repeat(20), &["aaaaaaaaaaaaaaaaaaaa"], (1, 20));
}

#[test]
fn marks_take_no_column_of_their_own() {
    check("e\u{301}x", &["e\u{301}x"], (1, 3));
    check("e\u{301}\u{323}x\x1b[1;2Hy", &["e\u{301}\u{323}y"], (1, 3));
    check("日\u{3099}x", &["日\u{3099}x"], (1, 4));
    check("\u{2764}\u{fe0f}x", &["\u{2764}\u{fe0f}x"], (1, 3));
    check("👩\u{200d}💻x", &["👩\u{200d}💻x"], (1, 6));
    check("a\u{200b}b", &["a\u{200b}b"], (1, 3));
    check("\u{1112}\u{1161}\u{11ab}x", &["\u{1112}\u{1161}\u{11ab}x"], (1, 4));
    check("e\u{301}\x1b[2b", &["e\u{301}e\u{301}e\u{301}"], (1, 4));
    // In the last column, over the edge, and painted over.
    let wide = "a".repeat(19);
    check(format!("{wide}e\u{301}"), &[&format!("{wide}e\u{301}")], (1, 20));
    check(format!("{wide}e\u{301}x"), &[&format!("{wide}e\u{301}"), "x"], (2, 2));
    check(format!("{wide}日\u{3099}x"), &[&wide, "日\u{3099}x"], (2, 4));
    check("日\u{3099}x\x1b[1;1Hab", &["abx"], (1, 3));
    // With nothing in front that they could join.
    check("\u{301}x", &["x"], (1, 2));
    check("ab\x1b[1;2H\u{301}x", &["ax"], (1, 3));
}

#[test]
fn what_is_highlighted_has_its_marks_and_no_blanks_behind_wide_characters() {
    let screen = seen("\x1b[7m日本 e\u{301}\x1b[m x");
    assert_eq!(screen.highlighted, [Highlight { row: 1, text: "日本 e\u{301}".to_owned() }]);
}

#[test]
fn marks_that_come_in_another_portion_join_what_they_follow() {
    let mut emulator = Emulator::new(size(2, 9));
    for part in ["e", "\u{301}", "\u{323}", "日", "\u{3099}x"] {
        emulator.feed(part.as_bytes(), &mut u64::MAX.clone());
    }
    let screen = emulator.screen(100);
    assert_eq!((&*screen.rows.concat(), screen.cursor.col), ("e\u{301}\u{323}日\u{3099}x", 5));
}

#[test]
fn an_editor_paints_a_file_and_its_status_line() {
    let vim = "\x1b[?1049h\x1b[22;0;0t\x1b[?1h\x1b=\x1b]2;notes.txt - VIM\x07\x1b[1;6r\x1b[H\x1b[2J\
               \x1b[1;1Hfirst line\x1b[2;1Hsecond line\x1b[94m\x1b[3;1H~                   \x1b[4;1H~\x1b[5;1H~\x1b[m\
               \x1b[6;1H\"notes.txt\" 2L, 23B\x1b[2;8H\x1b[?25h";
    let rows = ["first line", "second line", "~", "~", "~", "\"notes.txt\" 2L, 23B"];
    let screen = check(vim, &rows, (2, 8));
    assert!(screen.alternate && screen.cursor.visible);
    assert_eq!(screen.title.as_deref(), Some("notes.txt - VIM"));
    // A line is opened below, which scrolls the rest down within the region.
    let typed = format!("{vim}\x1b[3;5r\x1b[3;1H\x1b[L\x1b[1;6rnew");
    assert_eq!(seen(typed).rows[2..5], ["", "~", "~"]);
}

#[test]
fn a_table_is_repainted_in_place() {
    let top = "\x1b[H\x1b[Jtop - 10:00:01\r\n\x1b[7m  PID COMMAND       \x1b[m\r\n    1 init\x1b[K\r\n    7 build\x1b[K";
    let again = "\x1b[H\x1b[mtop - 10:00:04\x1b[K\r\n\r\n    9 test\x1b[K\r\n    1 init\x1b[K\r\n\x1b[J";
    let rows = ["top - 10:00:04", "  PID COMMAND", "    9 test", "    1 init"];
    let screen = check([top, again].concat(), &rows, (5, 1));
    assert_eq!(screen.highlighted, [Highlight { row: 2, text: "PID COMMAND".to_owned() }]);
}

#[test]
fn the_alternate_screen_leaves_no_trace() {
    let shell = "$ less file\r\n";
    let inside = check(format!("{shell}\x1b[?1049h\x1b[Hpage 1\r\n:"), &["page 1", ":"], (2, 2));
    assert!(inside.alternate);
    let left =
        check(format!("{shell}\x1b[?1049h\x1b[Hpage 1\r\n:\x1b[?1049l$ "), &["$ less file", "$"], (2, 3));
    assert!(!left.alternate);
}

#[test]
fn wide_characters_take_two_columns() {
    check("日本\x1b[1;7Hx", &["日本  x"], (1, 8));
    check("日本\x1b[1;2Hx", &[" x本"], (1, 3));
}

#[test]
fn lines_are_drawn_and_tabs_stop_where_they_are_set() {
    check("\x1b(0lqk\x1b(B", &["┌─┐"], (1, 4));
    check("\x0e\x1b)0x\x0fx", &["│x"], (1, 3));
    check("a\tb\x1b[Z\x1b[Zc", &["c       b"], (1, 2));
    check("\x1b[3g\x1b[5G\x1bH\r\tx", &["    x"], (1, 6));
    check("abc\x1b[1G\x1b[4hx\x1b[4l", &["xabc"], (1, 2));
    check("abc\x1b[2G\x1b[2@\x1b[1;1H\x1b[P", &["  bc"], (1, 1));
    check("a\x1bDb\x1bEc\x1bMd", &["a", " d", "c"], (2, 3));
}

#[test]
fn the_cursor_can_be_hidden_and_a_title_can_change() {
    assert!(!seen("\x1b[?25l").cursor.visible);
    assert_eq!(seen("\x1b]0;one\x07\x1b]2;two\x1b\\").title.as_deref(), Some("two"));
    assert_eq!(seen("\x1b]0;one\x07\x1b]1;icon\x07").title.as_deref(), Some("one"));
    assert_eq!(seen("\x1b]0;one\x07\x1b]2;cancelled\x18").title.as_deref(), Some("one"));
    assert_eq!(seen("\x1b]0;one\x07\x1b]0;\x07").title, None);
    let long = format!("\x1b]2;{}\x07", "é".repeat(100_000));
    assert_eq!(seen(long).title.unwrap().chars().count(), TITLE_MAX);
}

#[test]
fn only_safe_text_comes_out() {
    let screen = seen("a\u{202e}b\x7fc\x1b]2;t\u{202e}\n\x07\u{85}\u{ad}");
    let text = format!("{}{:?}", screen.rows.concat(), screen.title);
    assert!(!text.contains(['\u{202e}', '\x7f', '\u{85}']), "{text:?}");
    assert!(screen.rows[0].starts_with("a<U+202E>b"), "{:?}", screen.rows);
}

#[test]
fn what_is_no_text_is_shown_as_such_and_a_torn_character_waits() {
    check(b"a\xffb", &["a\u{fffd}b"], (1, 4));
    let mut emulator = Emulator::new(size(2, 10));
    for part in [&b"\xe6\x97"[..], b"\xa5", b"\xe6", b"x"] {
        emulator.feed(part, &mut u64::MAX.clone());
    }
    assert_eq!(emulator.screen(100).rows, ["日\u{fffd}x"]);
    emulator.feed(b"\x1b[3", &mut u64::MAX.clone());
    emulator.lose_track();
    emulator.feed(b"\xa5\x97!", &mut u64::MAX.clone());
    assert_eq!(emulator.screen(100).rows, ["日\u{fffd}x!"]);
}

#[test]
fn another_size_keeps_what_fits() {
    let mut emulator = after(b"0123456789\r\nab", size(4, 10));
    emulator.resize(size(4, 20));
    assert_eq!(emulator.screen(100).rows, ["0123456789", "ab"]);
    emulator.resize(size(1, 20));
    assert_eq!(emulator.screen(100).size, ScreenSize { rows: 1, cols: 20 });
    assert_eq!(emulator.screen(100).rows, ["ab"]);
}

#[test]
fn rows_that_exceed_the_limit_are_counted() {
    let screen = after(b"one\r\ntwo\r\nthree", size(6, 20)).screen(9);
    assert_eq!((screen.rows, screen.omitted_rows), (vec!["one".to_owned(), "two".to_owned()], Some(1)));
}

#[test]
fn a_short_sequence_costs_no_more_than_a_screen() {
    let flood = b"x\x1b[65535b".repeat(50_000);
    let mut work = 1_000_000;
    let mut emulator = Emulator::new(size(24, 80));
    let taken = emulator.feed(&flood, &mut work);
    assert_eq!(work, 0);
    assert!((1_000..10_000).contains(&taken), "{taken}");
    // Clearing costs the whole screen, so that much less of it is taken.
    let mut work = 1_000_000;
    let taken = Emulator::new(size(500, 500)).feed(&b"\x1b[2J".repeat(1_000), &mut work);
    assert!(work == 0 && taken <= 40, "{taken}");
}

/// Sequences with anything in them, between anything else.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![0_u32..30, Just(65_535), Just(u32::MAX)];
    let csi = (
        proptest::collection::vec(number, 0..4),
        prop_oneof!["[?>! ]{0,1}", Just(String::new())],
        b'@'..=b'~',
    )
        .prop_map(|(numbers, mark, last)| {
            let numbers = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(";");
            format!("\x1b[{mark}{numbers}{}", char::from(last)).into_bytes()
        });
    let part = prop_oneof![
        4 => csi,
        2 => proptest::collection::vec(any::<u8>(), 1..12),
        2 => "[ -~日é\u{301}🦀]{1,30}".prop_map(String::into_bytes),
        1 => "\x1b[ -~]".prop_map(String::into_bytes),
        1 => "\x1b[]P^_X][0-9;a-z]{0,20}(\x07|\x1b\\\\)".prop_map(String::into_bytes),
        1 => "[\r\n\t\x08\x0b\x0c\x0e\x0f]{1,5}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_input_breaks_it_and_portions_do_not_matter(
        bytes in hostile(), rows in 1_u16..12, cols in 1_u16..30, at in 0_usize..400,
        (new_rows, new_cols) in (1_u16..12, 1_u16..30),
    ) {
        let mut whole = after(&bytes, size(rows, cols));
        let (one, rest) = bytes.split_at(at.min(bytes.len()));
        let mut parts = after(one, size(rows, cols));
        for byte in rest {
            parts.feed(&[*byte], &mut u64::MAX.clone());
        }
        let screen = whole.screen(1 << 20);
        prop_assert_eq!(&screen, &parts.screen(1 << 20));
        prop_assert!(screen.rows.len() <= usize::from(rows));
        prop_assert!((1..=rows).contains(&screen.cursor.row) && (1..=cols).contains(&screen.cursor.col));
        for row in &screen.rows {
            prop_assert_eq!(&safe_text(row.as_bytes()), row);
        }
        whole.resize(size(new_rows, new_cols));
        whole.feed(&bytes, &mut u64::MAX.clone());
        whole.lose_track();
        whole.feed(&bytes, &mut u64::MAX.clone());
        prop_assert!(whole.screen(1 << 20).rows.len() <= usize::from(new_rows));
    }
}
