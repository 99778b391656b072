//! Where pages end, what is held back, what a gap does, where text comes from.

use procyard_text::{
    PageBuilder, PageRequest, Progress, SEQUENCE_LIMIT, continuation_len, page, tail_page, tail_start,
};

#[test]
fn a_page_ends_before_the_first_unit_that_does_not_fit() {
    let check = |input: &[u8], limit: usize, expect: &str, consumed: usize, full: bool| {
        let page = page(input, &PageRequest { ended: true, ..PageRequest::new(limit) });
        assert_eq!(
            (page.text.as_str(), page.consumed, page.full),
            (expect, consumed, full),
            "{input:?} in {limit}"
        );
        assert_eq!(page.held_back, 0);
    };
    check(b"abcdef", 3, "abc", 3, true);
    check(b"abc", 3, "abc", 3, false);
    check(b"abc", 0, "a", 1, true);
    // What shows nothing goes with the page before.
    check(b"abc\x1b[0m\x00", 3, "abc", 8, false);
    check(b"abc\x1b[0md", 3, "abc", 7, true);
    check("a日".as_bytes(), 3, "a", 1, true);
    check(b"a\xffb", 3, "a", 1, true);
    check(b"a\xffb", 4, "a\u{FFFD}", 2, true);
    check("a\u{202E}".as_bytes(), 8, "a", 1, true);
    check(b"ab\x1b[\nm", 2, "ab", 2, true);
    // One whole unit, whatever the limit.
    check("日本".as_bytes(), 1, "日", 3, true);
    check("\u{202E}x".as_bytes(), 2, "<U+202E>", 3, true);
    check(b"\x1b[\n\n\nmx", 2, "\n\n\n", 6, true);
    check(b"\x1b[m\x1b[m\xffx", 1, "\u{FFFD}", 7, true);
    // Nothing to show, and yet it advances.
    check(b"\x1b[m\x1b]0;title\x07", 1, "", 13, false);
    check(b"", 1, "", 0, false);
}

#[test]
fn what_is_incomplete_is_held_back_until_the_end() {
    let check = |input: &[u8], consumed: usize, running: &str, ended: &str| {
        let page = |ended| page(input, &PageRequest { ended, ..PageRequest::new(1000) });
        let now = page(false);
        assert_eq!((now.text.as_str(), now.consumed), (running, consumed), "{input:?}");
        assert_eq!(now.held_back, input.len() - consumed, "{input:?}");
        assert!(!now.normalized, "{input:?}");
        let then = page(true);
        assert_eq!((then.text.as_str(), then.consumed, then.held_back), (ended, input.len(), 0), "{input:?}");
        assert!(then.normalized, "{input:?}");
    };
    check(b"a\xe6\x97", 1, "a", "a\u{FFFD}");
    check(b"a\x1b", 1, "a", "a");
    check(b"a\x1b[31", 1, "a", "a");
    check(b"a\x1b]0;title\x1b", 1, "a", "a");
    check(b"a\x1b[3\n", 1, "a", "a\n");
    check(b"a\xc2", 1, "a", "a\u{FFFD}");
}

#[test]
fn the_longest_sequence_fits_what_a_reader_offers() {
    for unterminated in ["\x1b]", "\x1b_", "\x1b[", "\u{9B}", "\x1b(", "\u{90}"] {
        let filler = if unterminated.ends_with('(') { " " } else { "1" };
        let input = format!("{unterminated}{}", filler.repeat(SEQUENCE_LIMIT + 10));
        let page = page(&input.as_bytes()[..SEQUENCE_LIMIT + 4], &PageRequest::new(1));
        assert!(page.consumed >= SEQUENCE_LIMIT, "{unterminated:?}");
        assert_eq!(page.text, filler, "{unterminated:?}");
    }
}

#[test]
fn a_full_page_ignores_what_is_fed() {
    let mut builder = PageBuilder::new(&PageRequest::new(2));
    assert_eq!(builder.feed(b"a"), Progress::NeedMore);
    assert_eq!(builder.feed(b"bc"), Progress::Full);
    assert!(builder.is_full());
    assert_eq!(builder.consumed(), 2);
    assert_eq!(builder.gap(), Progress::Full);
    assert_eq!(builder.feed(b"\x1b"), Progress::Full);
    let page = builder.finish(true);
    assert_eq!((page.text.as_str(), page.consumed, page.held_back, page.full), ("ab", 2, 0, true));
}

#[test]
fn a_gap_separates_what_is_before_and_behind() {
    let check = |before: &[u8], behind: &[u8], expect: &str| {
        let mut builder = PageBuilder::new(&PageRequest::new(100));
        builder.feed(before);
        builder.gap();
        builder.feed(behind);
        let page = builder.finish(true);
        assert_eq!(page.text, expect, "{before:?}, gap, {behind:?}");
        assert_eq!(page.consumed, before.len() + behind.len());
    };
    check(b"ab", b"cd", "abcd");
    check(b"a\xe6\x97", b"\xa5b", "a\u{FFFD}b");
    check(b"a", b"\x97\xa5b\xa5", "ab\u{FFFD}");
    check(b"a\x1b]0;ti", b"tle\x07b", "atle\x07b".replace('\x07', "").as_str());
    check(b"a\x1b[3\n", b"1mb", "a\n1mb");
    check(b"a\x1b", b"[mb", "a[mb");
    check(b"", b"\x80\x80\x80\x80", "\u{FFFD}");

    // A character that does not fit before a gap waits for the next page.
    let mut builder = PageBuilder::new(&PageRequest::new(2));
    builder.feed(b"a\xe6\x97");
    assert_eq!(builder.gap(), Progress::Full);
    assert_eq!(builder.finish(true).consumed, 1);

    // What might belong to a cut character waits for the byte that tells.
    let mut builder = PageBuilder::new(&PageRequest::new(100));
    builder.feed(b"a");
    builder.gap();
    builder.feed(b"\x80\x80");
    let page = builder.finish(false);
    assert_eq!((page.text.as_str(), page.consumed, page.held_back), ("a", 1, 2));
}

#[test]
fn a_cut_character_is_told_from_stray_bytes() {
    let check = |before: &[u8], after: &[u8], expect: usize| {
        assert_eq!(continuation_len(before, after), expect, "{before:?} {after:?}");
    };
    check(b"", b"\x80", 0);
    check(b"a", b"\x80", 0);
    check(b"\xe6", b"\x97\xa5x", 2);
    check(b"\xe6\x97", b"\xa5x", 1);
    check("日".as_bytes(), b"\x80", 0);
    check(b"xyz\xf0\x9f\x98", b"\x80\x80", 1);
    check(b"\xf0\x9f", b"\x98", 1);
    check(b"\xf0", b"", 0);
    check(b"\xe6", b"\x97x", 1);
    check(b"\xe0", b"\x80\x80", 0);
    check(b"\xff", b"\x80", 0);
    check(b"\x80\x80\x80", b"\x80", 0);
    let starts = |bytes: &[u8], expect: usize| assert_eq!(tail_start(bytes), expect, "{bytes:?}");
    starts(b"", 0);
    starts(b"a\x80", 0);
    starts(b"\x80\x80a", 2);
    starts(b"\x80\x80\x80\x80", 3);
}

#[test]
fn text_offsets_lead_to_where_the_text_begins() {
    let check = |input: &str, collapse: bool, found: &str, expect: usize| {
        let request = PageRequest { collapse, positions: true, ..PageRequest::new(1000) };
        let page = page(input.as_bytes(), &request);
        let at = page.text.find(found).unwrap();
        assert_eq!(page.input_offset(at), Some(expect), "{found:?} in {input:?}");
    };
    for collapse in [false, true] {
        check("ready", collapse, "ready", 0);
        check("\x1b[1m\x1b[2mready", collapse, "ready", 8);
        check("a\x1b[1mb", collapse, "b", 5);
        check("\u{202E}x", collapse, "202E", 0);
        check("\u{202E}x", collapse, "x", 3);
        check("\x00日\x00x", collapse, "x", 5);
        check("\x1b[\nmx", collapse, "\n", 0);
        check("\x1b[\nmx", collapse, "x", 4);
    }
    check("one\r\ntwo\r\nthree", true, "three", 10);
    check("one\n 10%\r100%\nthree", true, "100%", 4);
    check("one\n 10%\r100%\nthree", true, "three", 14);
    check("one\n 10%\r\x1b[K100%\nthree", true, "100%", 12);
    let page = page(b"x", &PageRequest::new(1));
    assert_eq!(page.input_offset(0), None);
}

#[test]
fn a_tail_keeps_the_end_of_its_input() {
    let check = |input: &str, collapse: bool, limit: usize, expect: &str, start: usize| {
        let request = PageRequest { collapse, ended: true, ..PageRequest::new(limit) };
        let page = tail_page(input.as_bytes(), &request);
        assert_eq!((page.text.as_str(), page.start), (expect, start), "{input:?} in {limit}");
        assert_eq!(page.consumed, input.len());
    };
    check("", false, 5, "", 0);
    check("hello", false, 5, "hello", 0);
    check("\x1b[1mhello", false, 5, "hello", 0);
    check("hello", false, 3, "llo", 2);
    check("\x1b[1mhe\x1b[0mllo", false, 3, "llo", 10);
    check("日本", false, 4, "本", 3);
    check("日本", false, 1, "本", 3);
    check("a\u{202E}b", false, 5, "b", 4);
    check("a\u{202E}", false, 5, "<U+202E>", 1);
    check("a\x1b[\n\nm", false, 1, "\n\n", 1);
    check("one\r\ntwo\r\n", true, 4, "two\n", 5);
    check("one\n 10%\r100%\n", true, 5, "100%\n", 4);
    check("one\n 10%\r100%\n", true, 3, "0%\n", 4);

    let flags = tail_page(b"\x00\x1b[mclean", &PageRequest::new(4));
    assert!(!flags.normalized && !flags.binary);
    let behind_gap = PageRequest { resync: true, ..PageRequest::new(100) };
    assert_eq!(tail_page(&"日本".as_bytes()[1..], &behind_gap).text, "本");
    let running = tail_page(b"abc\x1b[", &PageRequest::new(2));
    assert_eq!((running.text.as_str(), running.consumed, running.held_back), ("bc", 3, 2));
}

#[test]
fn the_flags_speak_of_the_page_alone() {
    let stream = b"clean\x1b[m\x00\xff\xff\xff\xff text";
    let first = page(stream, &PageRequest::new(4));
    assert!(!first.normalized && !first.binary);
    let second = page(&stream[4..], &PageRequest::new(2));
    assert!(second.normalized && second.binary);
    let lines = PageRequest { collapse: true, ..PageRequest::new(8) };
    let line = page(b"clean\n\x00\xff1234567890\n", &lines);
    assert_eq!(line.text, "clean\n");
    assert!(!line.normalized && !line.binary);
}
