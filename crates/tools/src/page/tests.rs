//! Pages over streams that hold everything which tears, in any order, read in any sizes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use procyard_core::{ErrorCode, State, Stream};
use procyard_supervisor::StreamFilter;
use procyard_testkit::strategies::{chunks, sizes};
use procyard_text::{Renderer, safe_text};
use proptest::prelude::*;

use super::*;
use crate::testing::{Recorded, now};

fn look(limit: usize, encoding: Encoding) -> Look {
    Look { limit, encoding, collapse: false }
}

fn text_page(source: &Recorded, cursor: u64, limit: usize) -> Shown {
    now(forward(source, cursor, &look(limit, Encoding::SafeText))).unwrap()
}

/// Reads page after page from `cursor` until nothing more comes.
fn pages(source: &Recorded, mut cursor: u64, limits: &[usize], encoding: Encoding) -> (Vec<Shown>, u64) {
    let mut shown = Vec::new();
    for limit in limits.iter().cycle() {
        let page = now(forward(source, cursor, &look(*limit, encoding))).unwrap();
        let next = page.next_cursor;
        shown.push(page);
        if next == cursor {
            break;
        }
        cursor = next;
    }
    (shown, cursor)
}

fn joined(shown: &[Shown]) -> String {
    shown.iter().map(|page| page.output.as_str()).collect()
}

fn bytes_of(shown: &[Shown]) -> Vec<u8> {
    shown.iter().flat_map(|page| STANDARD.decode(&page.output).unwrap()).collect()
}

fn filter() -> impl Strategy<Value = StreamFilter> {
    proptest::sample::select(vec![
        StreamFilter::Both,
        StreamFilter::Only(Stream::Stdout),
        StreamFilter::Only(Stream::Stderr),
    ])
}

fn recorded(chunks: &[(Stream, Vec<u8>)], streams: StreamFilter, per_read: usize) -> (Recorded, Vec<u8>) {
    let borrowed: Vec<(Stream, &[u8])> =
        chunks.iter().map(|(stream, bytes)| (*stream, bytes.as_slice())).collect();
    let kept = chunks.iter().filter(|(stream, _)| streams.accepts(*stream));
    let bytes = kept.flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    (Recorded { streams, per_read, ..Recorded::new(&borrowed) }, bytes)
}

proptest! {
    #[test]
    fn pages_of_any_sizes_join_to_the_whole_text(
        chunks in chunks(24), streams in filter(), limits in sizes(39), per_read in 4_usize..64,
    ) {
        let (source, bytes) = recorded(&chunks, streams, per_read);
        let (shown, end) = pages(&source, 0, &limits, Encoding::SafeText);
        prop_assert_eq!(joined(&shown), safe_text(&bytes));
        prop_assert_eq!(end, shown[0].total_bytes);
        prop_assert!(shown.iter().all(|page| !page.gap));
    }

    #[test]
    fn pages_of_a_running_process_go_on_when_it_has_ended(
        chunks in chunks(24), streams in filter(), limits in sizes(39),
    ) {
        let (mut source, bytes) = recorded(&chunks, streams, 64);
        source.state = State::Running;
        let (running, held) = pages(&source, 0, &limits, Encoding::SafeText);
        source.state = State::Exited;
        let (ended, _) = pages(&source, held, &limits, Encoding::SafeText);
        prop_assert_eq!(joined(&running) + &joined(&ended), safe_text(&bytes));
    }

    #[test]
    fn base64_pages_are_the_exact_bytes(
        chunks in chunks(24), streams in filter(), limits in sizes(39), per_read in 1_usize..64,
    ) {
        let (source, bytes) = recorded(&chunks, streams, per_read);
        let (shown, end) = pages(&source, 0, &limits, Encoding::Base64);
        prop_assert_eq!(bytes_of(&shown), bytes);
        prop_assert_eq!(end, shown[0].total_bytes);
    }

    #[test]
    fn around_a_hole_each_side_is_rendered_by_itself(
        chunks in chunks(24), limits in sizes(39), at in 0_usize..200, len in 1_usize..20,
    ) {
        let (mut source, bytes) = recorded(&chunks, StreamFilter::Both, 64);
        let from = at.min(bytes.len());
        let until = (from + len).min(bytes.len());
        prop_assume!(from < until);
        source.holes = vec![(from as u64, until as u64)];
        let mut expect = safe_text(&bytes[..from]);
        let mut behind = Renderer::resynchronising();
        behind.push(&bytes[until..], &mut expect);
        behind.finish(&mut expect);
        let (shown, _) = pages(&source, 0, &limits, Encoding::SafeText);
        prop_assert_eq!(joined(&shown), expect);
        prop_assert_eq!(shown.iter().filter(|page| page.gap).count(), 1);
        let (exact, _) = pages(&source, 0, &limits, Encoding::Base64);
        prop_assert_eq!(bytes_of(&exact), [&bytes[..from], &bytes[until..]].concat());
    }

    #[test]
    fn a_tail_is_an_end_of_the_text_within_the_limit(
        chunks in chunks(24), bytes in 1_u64..200, limit in 1_usize..60,
    ) {
        let (source, all) = recorded(&chunks, StreamFilter::Both, usize::MAX);
        let shown = now(tail(&source, Tail::Bytes(bytes), &look(limit, Encoding::SafeText))).unwrap();
        let widest = "<U+202E>".len();
        prop_assert!(shown.output.len() <= limit.max(widest), "{:?}", shown.output);
        prop_assert_eq!(shown.next_cursor, all.len() as u64);
        // Reading at its start gives the same again.
        let again = text_page(&source, shown.start_cursor, usize::MAX >> 1);
        if shown.start_cursor > all.len() as u64 - bytes.min(all.len() as u64) {
            prop_assert_eq!(again.output, shown.output);
        }
    }
}

#[test]
fn an_arbitrary_cursor_skips_the_rest_of_a_cut_character() {
    let source = Recorded::stdout("a日b".as_bytes());
    for (cursor, text, start) in
        [(0, "a日b", 0), (1, "日b", 1), (2, "b", 4), (3, "b", 4), (4, "b", 4), (5, "", 5)]
    {
        let page = text_page(&source, cursor, 100);
        assert_eq!((page.output.as_str(), page.start_cursor), (text, start), "at {cursor}");
        assert!(!page.gap, "at {cursor}");
    }
}

#[test]
fn a_cut_character_is_skipped_also_where_a_read_ends_in_it() {
    let source = Recorded { per_read: 4, ..Recorded::stdout("0123🦀b".as_bytes()) };
    for cursor in 5..8 {
        assert_eq!(text_page(&source, cursor, 100).output, "b", "at {cursor}");
    }
}

#[test]
fn what_is_no_longer_retained_is_a_gap() {
    let source = Recorded { retained_from: 4, ..Recorded::stdout(b"0123456789") };
    let page = text_page(&source, 1, 100);
    assert_eq!((page.output.as_str(), page.start_cursor, page.gap), ("456789", 4, true));
    assert_eq!(page.retained_from, 4);
    assert!(!text_page(&source, 4, 100).gap);
    assert!(!text_page(&source, 6, 100).gap, "what is looked back at is not asked for");
}

#[test]
fn the_rest_of_a_character_whose_beginning_fell_out_is_passed_over() {
    for (retained_from, cursor) in [(4, 4), (5, 5), (4, 5)] {
        let source = Recorded { retained_from, ..Recorded::stdout("日本語".as_bytes()) };
        let page = text_page(&source, cursor, 100);
        assert_eq!((page.output.as_str(), page.gap), ("語", false), "{retained_from} {cursor}");
    }
    // At the beginning of the stream it is what was printed.
    assert_eq!(text_page(&Recorded::stdout(b"\xa5!"), 0, 100).output, "\u{fffd}!");
}

#[test]
fn what_is_intact_before_and_behind_damage_is_shown() {
    let mut source = Recorded { damaged: Some((10, 20)), ..Recorded::stdout(b"0123456789abcdefghijKLMN") };
    for per_read in [usize::MAX, 4] {
        source.per_read = per_read;
        for (encoding, before, behind) in [
            (Encoding::SafeText, "456789".to_owned(), "KLMN".to_owned()),
            (Encoding::Base64, STANDARD.encode("456789"), STANDARD.encode("KLMN")),
        ] {
            let page = now(forward(&source, 4, &look(100, encoding))).unwrap();
            assert_eq!((page.output, page.next_cursor), (before, 10));
            let error = now(forward(&source, 10, &look(100, encoding))).unwrap_err();
            assert_eq!(error.code, ErrorCode::SpoolCorrupt);
            let page = now(forward(&source, 20, &look(100, encoding))).unwrap();
            assert_eq!((page.output, page.start_cursor, page.next_cursor), (behind, 20, 24));
        }
    }
}

#[test]
fn a_cursor_beyond_the_end_is_refused_and_the_end_is_not() {
    let source = Recorded::stdout(b"0123456789");
    assert_eq!(text_page(&source, 10, 5).output, "");
    for cursor in [11, 12, 13, 14, 1000] {
        for encoding in [Encoding::SafeText, Encoding::Base64] {
            let error = now(forward(&source, cursor, &look(5, encoding))).unwrap_err();
            assert_eq!(error.code, ErrorCode::CursorAhead, "{cursor}");
        }
    }
}

#[test]
fn an_incomplete_end_is_held_back_while_the_process_runs() {
    let mut source = Recorded::stdout(b"ab\xe6\x97");
    source.state = State::Running;
    let page = text_page(&source, 0, 100);
    assert_eq!((page.output.as_str(), page.next_cursor, page.total_bytes), ("ab", 2, 4));
    source.state = State::Exited;
    let page = text_page(&source, 2, 100);
    assert_eq!((page.output.as_str(), page.next_cursor), ("\u{fffd}", 4));
}

#[test]
fn the_bytes_looked_at_for_one_page_are_bounded() {
    let endless = b"\x1b[31m".repeat(600_000);
    let source = Recorded::stdout(&endless);
    let page = text_page(&source, 0, 100);
    assert_eq!(page.output, "");
    assert!(page.next_cursor > 0 && page.next_cursor < 2 * SCAN_MAX, "{}", page.next_cursor);
}

#[test]
fn a_tail_of_lines_begins_at_a_line_and_keeps_its_end_within_the_limit() {
    let source = Recorded::stdout(b"one\ntwo\nthree\n");
    let lines = |lines, limit| {
        let shown = now(tail(&source, Tail::Lines(lines), &look(limit, Encoding::SafeText))).unwrap();
        (shown.output, shown.start_cursor, shown.next_cursor)
    };
    assert_eq!(lines(1, 100), ("three\n".to_owned(), 8, 14));
    assert_eq!(lines(2, 100), ("two\nthree\n".to_owned(), 4, 14));
    assert_eq!(lines(9, 100), ("one\ntwo\nthree\n".to_owned(), 0, 14));
    assert_eq!(lines(2, 8), ("o\nthree\n".to_owned(), 6, 14));
}

#[test]
fn the_last_lines_of_one_stream_are_found_behind_much_of_the_other() {
    let noise = vec![b'x'; 70 << 10];
    let errors = b"one\ntwo\nthree\n".as_slice();
    let recorded = Recorded::new(&[(Stream::Stderr, errors), (Stream::Stdout, &noise)]);
    let source = Recorded { streams: StreamFilter::Only(Stream::Stderr), ..recorded };
    let shown = now(tail(&source, Tail::Lines(2), &look(200, Encoding::SafeText))).unwrap();
    assert_eq!((shown.output.as_str(), shown.start_cursor), ("two\nthree\n", 4));
}

#[test]
fn a_tail_that_begins_inside_of_a_sequence_shows_nothing_of_it() {
    for (before, sequence, after, expect) in [
        ("text ", "\x1b[31m", "red", "red"),
        ("", "\x1b#8", "x", "x"),
        ("é", "\x1b]0;title\x07", "日本", "日本"),
        ("a", "\u{9d}0;t\u{9c}", "", ""),
        ("a", "\x1bX sos \x1b\\", "b\n", "b\n"),
        ("a", "\x1bP unterminated", "", ""),
    ] {
        let stream = [before, sequence, after].concat();
        for state in [State::Exited, State::Running] {
            let source = Recorded { state, ..Recorded::stdout(stream.as_bytes()) };
            for inside in 1..sequence.len() {
                let bytes = (sequence.len() - inside + after.len()) as u64;
                let look = look(100, Encoding::SafeText);
                let shown = now(tail(&source, Tail::Bytes(bytes), &look)).unwrap();
                assert_eq!(shown.output, expect, "{stream:?} {bytes}");
                // What comes is read on from where nothing is torn.
                let open = state == State::Running && sequence.ends_with("unterminated");
                let next = if open { before.len() } else { stream.len() };
                assert_eq!(shown.next_cursor, next as u64, "{stream:?} {bytes}");
            }
        }
    }
}

#[test]
fn a_last_line_that_begins_inside_of_a_sequence_shows_nothing_of_it() {
    let source = Recorded::stdout(b"plain \x1b[\n3mtext");
    let shown = now(tail(&source, Tail::Lines(1), &look(100, Encoding::SafeText))).unwrap();
    assert_eq!(shown.output, "text");
}

#[test]
fn a_long_repaint_does_not_hide_what_came_before_it_from_a_tail() {
    let mut bytes = b"before\n".to_vec();
    bytes.extend(b"50% of it\r".repeat(20_000));
    bytes.extend(b"done\n");
    let look = Look { limit: 100, encoding: Encoding::SafeText, collapse: true };
    let shown = now(tail(&Recorded::stdout(&bytes), Tail::Bytes(u64::MAX), &look)).unwrap();
    assert!(shown.output.starts_with("before\n") && shown.output.contains("done"), "{:?}", shown.output);
}

#[test]
fn an_exhausted_page_of_one_stream_ends_at_the_end_of_both() {
    let source = Recorded {
        streams: StreamFilter::Only(Stream::Stdout),
        ..Recorded::new(&[(Stream::Stdout, b"out"), (Stream::Stderr, b"err")])
    };
    for encoding in [Encoding::SafeText, Encoding::Base64] {
        let page = now(forward(&source, 0, &look(100, encoding))).unwrap();
        assert_eq!((page.next_cursor, page.total_bytes), (6, 6));
    }
}
