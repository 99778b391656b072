//! What repainted lines end as.

use procyard_text::{PageBuilder, PageRequest, page};

fn request(ended: bool) -> PageRequest {
    PageRequest { collapse: true, ended, ..PageRequest::new(1 << 20) }
}

fn check(input: impl AsRef<[u8]>, expect: &str) {
    let input = input.as_ref();
    let page = page(input, &request(true));
    let shown = String::from_utf8_lossy(input);
    assert_eq!(page.text, expect, "{shown:?}");
    assert_eq!(page.consumed, input.len(), "{shown:?}");
    assert_eq!(page.normalized, input != expect.as_bytes(), "{shown:?}");
    let mut builder = PageBuilder::new(&request(true));
    for byte in input {
        builder.feed(&[*byte]);
    }
    assert_eq!(builder.finish(true).text, expect, "bytewise: {shown:?}");
}

#[test]
fn lines_without_repaints_stay() {
    check("", "");
    check("one\ntwo\tx\n\nthree", "one\ntwo\tx\n\nthree");
    check("日本\u{301}\n", "日本\u{301}\n");
    check("\x1b[31mred\x1b[0m\n", "red\n");
    check(b"\xff\n", "\u{FFFD}\n");
}

#[test]
fn crlf_becomes_lf() {
    check("one\r\ntwo\r\n", "one\ntwo\n");
    check("\r\n\r\n", "\n\n");
    check("one\r\r\ntwo\r", "one\ntwo");
    check("one\r\x1b[0m\ntwo", "one\ntwo");
}

#[test]
fn a_progress_line_ends_as_its_last_state() {
    check("\r1%\r2%\rdone \n", "done \n");
    check("  0%\r 50%\r100%\nnext\n", "100%\nnext\n");
    check("abcdef\rxy", "xycdef");
    check("abcdef\rxy\nabc\rd\n", "xycdef\ndbc\n");
    check("one\ntwo\rTHREE\n", "one\nTHREE\n");
    check("abc\r\r\rd", "dbc");
}

#[test]
fn erasing_in_the_line_is_applied() {
    check("working\r\x1b[Kdone\n", "done\n");
    check("working\r\x1b[2Kdone\n", "done\n");
    check("working\x1b[2K\rdone\n", "done\n");
    check("working\x1b[2K\x1b[Gdone\n", "done\n");
    check("working\x1b[2K\x1b[1Gdone\n", "done\n");
    check("working\x1b[2K\x1b[0G", "");
    check("abc\x1b[2Kd", "   d");
    check("abcdef\x1b[3G\x1b[K\n", "ab\n");
    check("abcdef\x1b[3G\x1b[0Kx\n", "abx\n");
    check("abcdef\x1b[3G\x1b[1K\n", "   def\n");
    check("abcdef\x1b[1K\n", "\n");
    check("abc\x1b[K\n", "abc\n");
    check("\u{9B}2Kabc\u{9B}2K\u{9B}Gxyz", "xyz");
    check("⠋ build\x1b[2K\x1b[1G⠙ build\x1b[2K\x1b[1G✔ build\n", "✔ build\n");
}

#[test]
fn the_cursor_moves_in_the_line() {
    check("abc\x1b[5Gx", "abc x");
    check("abcdef\x1b[4D12\x1b[1C9", "ab12e9");
    check("abcdef\x1b[99DX", "Xbcdef");
    check("x\x1b[4`y", "x  y");
    check("a\x1b[9999999999Gb\x1b[1D\x1b[1K", "");
    check("NNAAMMEE", "NNAAMMEE");
    check("N\x08NA\x08A_\x08x", "NAx");
    check("abc\x08\x08X\n\x08\x08y", "aXc\ny");
    check("\x08a", "a");
}

#[test]
fn characters_take_their_columns() {
    check("日本語 10%\r日本語 20%\n", "日本語 20%\n");
    check("日本 10%\rdone\n", "done 10%\n");
    check("日本\rx\n", "x 本\n");
    check("日本\x1b[2Gx\n", " x本\n");
    check("日本\x1b[4G\x1b[K", "日 ");
    check("abcd\r日", "日cd");
    check("e\u{301}a\rx", "xa");
    check("ea\re\u{301}", "e\u{301}a");
    check("a\tb\rx", "x\tb");
    check("a\tb\r12345", "12345   b");
    check("0123456789\r\tX", "01234567X9");
    check("abc\r\t\tX", "abc\t\tX");
    check(b"abc\r\xff\n", "\u{FFFD}bc\n");
    check("abc\r\u{202E}\n", "<U+202E>\n");
}

#[test]
fn a_trailing_return_is_held_back_while_more_may_come() {
    let check = |input: &str, expect: &str, consumed: usize| {
        let page = page(input.as_bytes(), &request(false));
        assert_eq!((page.text.as_str(), page.consumed), (expect, consumed), "{input:?}");
        assert_eq!(page.held_back, input.len() - consumed, "{input:?}");
    };
    check("50%\r", "50%", 3);
    check("\r", "", 0);
    check("abc\r\r", "abc", 4);
    check("10%\r20%\r", "20%", 7);
    check("50%\r\x1b[K", "", 7);
    check("50%\r\x1b[", "50%", 3);
    check("abc\x1b[\r1m", "abc", 8);
    check("abc\ndef", "abc\ndef", 7);
}

#[test]
fn a_full_page_ends_at_the_end_of_a_line_where_it_can() {
    let check = |input: &str, limit: usize, expect: &str, consumed: usize| {
        let request = PageRequest { limit, ..request(true) };
        let page = page(input.as_bytes(), &request);
        assert_eq!((page.text.as_str(), page.consumed), (expect, consumed), "{input:?} in {limit}");
    };
    check("one\ntwo\nthree\n", 10, "one\ntwo\n", 8);
    check("one\r\ntwo\r\nthree\n", 10, "one\ntwo\n", 10);
    check("one\n10%\r20%\r30%\nthree\n", 8, "one\n30%\n", 16);
    check("one\n1234567890", 8, "one\n", 4);
    check("1234567890", 8, "12345678", 8);
    check("abc\r1234567890", 8, "12345678", 12);
    check("12345678\rabc\rdef\rghijklmnop", 8, "ghijklmn", 25);
    check("日本", 1, "日", 3);
    check("12345678\r\n9", 9, "12345678\n", 10);
    check("12345678\r\n9", 8, "12345678", 9);
    check("one\n\x1b[31m1234567890", 8, "one\n", 4);
}
