//! A pattern finds in a stream what it finds in the whole text, however the stream comes.

use procyard_text::{PageRequest, page, safe_text};
use proptest::prelude::*;

use super::*;

/// Parts of a stream, whole and torn.
const PARTS: [&[u8]; 12] = [
    b"a",
    b"ab",
    b"b",
    b" ",
    b"\n",
    b"\r\n",
    b"port 80",
    b"80",
    "日".as_bytes(),
    b"\x1b[31m",
    b"\xe6",
    b"\x1b]0;t\x07",
];

const PATTERNS: [&str; 16] = [
    "ab",
    "a+b",
    "^ab",
    "ab$",
    r"port (\d+)",
    r"\bb\b",
    "日",
    "a.*b",
    "(?s)a.*b",
    "^$",
    r"\n",
    "b?",
    r"\z",
    "[^a]b",
    "\u{fffd}",
    r"\Bb",
];

fn probe(pattern: &str) -> MatchProbe {
    MatchProbe::new(Arc::new(Pattern::compile(pattern).unwrap()), StreamFilter::Both)
}

fn feed_all<'c>(probe: &mut MatchProbe, chunks: impl IntoIterator<Item = &'c [u8]>) -> bool {
    let mut cursor = 0;
    for chunk in chunks {
        if show(probe, cursor, Stream::Stdout, chunk) {
            return true;
        }
        cursor += chunk.len() as u64;
    }
    false
}

/// Shows it a chunk for itself.
fn show(probe: &mut MatchProbe, cursor: u64, stream: Stream, chunk: &[u8]) -> bool {
    probe.feed(cursor, stream, chunk) || probe.look()
}

fn check(pattern: &str, chunks: &[&str], expect: Option<(u64, &str)>) {
    let mut probe = probe(pattern);
    feed_all(&mut probe, chunks.iter().map(|chunk| chunk.as_bytes()));
    let found = probe.found().map(|found| (found.cursor, found.text));
    assert_eq!(found, expect.map(|(cursor, text)| (cursor, text.to_owned())), "{pattern} in {chunks:?}");
}

#[test]
fn a_match_crosses_the_borders_of_chunks() {
    check("U.20", &["ab\u{202e}c"], Some((2, "U+20")));
    check("c", &["ab\u{202e}c"], Some((5, "c")));
    check("E>", &["\u{b}\u{202e}"], Some((1, "E>")));
    check("c", &["ab\u{202e}", "c"], Some((5, "c")));
    check(r"port (\d+)", &["listening on po", "rt 8080\n"], Some((13, "port 8080")));
    check("日本", &["x日", "本"], Some((1, "日本")));
    check("ab", &["a", "\x1b[3", "1mb"], Some((0, "ab")));
    check("ab", &["a", "c"], None);
}

#[test]
fn a_match_is_where_it_begins_in_the_stream() {
    check("ready", &["\x1b[1m\x1b[32mready\x1b[0m"], Some((9, "ready")));
    check("b", &["\u{202e}b"], Some((3, "b")));
    check("x", &["日\x1b[0m日x"], Some((10, "x")));
}

#[test]
fn an_end_of_line_is_where_a_line_ends_and_not_where_a_chunk_does() {
    check("^done$", &["done"], None);
    check("^done$", &["done", "\n"], Some((0, "done")));
    check("^done$", &["done", "\r\n"], Some((0, "done")));
    check("^done$", &["done", " not\n"], None);
    check(r"\bport\b", &["port"], None);
    check(r"\bport\b", &["port", "s"], None);
    check(r"\bport\b", &["port", "."], Some((0, "port")));
    check("^b", &["a", "b"], None);
    check(r"\$ ", &["$ "], Some((0, "$ ")));
}

#[test]
fn the_end_of_the_stream_is_an_end_of_line() {
    let mut probe = probe("^done$");
    assert!(!feed_all(&mut probe, [&b"done"[..]]));
    probe.finish();
    assert_eq!(probe.found(), Some(Found { cursor: 0, text: "done".to_owned() }));
}

#[test]
fn only_the_chosen_stream_is_searched() {
    let mut probe =
        MatchProbe::new(Arc::new(Pattern::compile("ab").unwrap()), StreamFilter::Only(Stream::Stderr));
    assert!(!show(&mut probe, 0, Stream::Stdout, b"ab"));
    assert!(!show(&mut probe, 2, Stream::Stderr, b"a"));
    assert!(!show(&mut probe, 3, Stream::Stdout, b"x"));
    assert!(show(&mut probe, 4, Stream::Stderr, b"b"));
    assert_eq!(probe.found(), Some(Found { cursor: 2, text: "ab".to_owned() }));
}

#[test]
fn no_match_spans_missing_bytes() {
    let mut probe = probe("ab");
    assert!(!show(&mut probe, 0, Stream::Stdout, b"xa"));
    probe.gap(10);
    assert!(!show(&mut probe, 10, Stream::Stdout, b"b"));
    assert!(show(&mut probe, 11, Stream::Stdout, b"ab"));
    assert_eq!(probe.found(), Some(Found { cursor: 11, text: "ab".to_owned() }));
}

#[test]
fn what_is_kept_for_a_match_is_bounded() {
    for pattern in ["needle", "(?s)needle.*x", "needle$"] {
        let mut probe = probe(pattern);
        let mut cursor = 0;
        for _ in 0..200 {
            let chunk = b"hay \x1b[1mhay\x1b[0m\n".repeat(300);
            assert!(!show(&mut probe, cursor, Stream::Stdout, &chunk));
            cursor += chunk.len() as u64;
            assert!(probe.text.capacity() < 8 * MATCH_MAX, "{}", probe.text.capacity());
            assert!(probe.points.len() < 4 * MATCH_MAX);
        }
        assert!(show(&mut probe, cursor, Stream::Stdout, b"needle x\nneedle\n") || pattern == "needle$");
        assert_eq!(probe.found().map(|found| found.cursor >= cursor), Some(true), "{pattern}");
    }
}

#[test]
fn a_match_of_64_kib_is_found_in_any_chunks() {
    let mut stream = b"x".repeat(100_000);
    stream.extend(b"a".iter().chain(&b"-".repeat(MATCH_MAX - 2)).chain(b"b").copied().collect::<Vec<u8>>());
    for size in [1000, 8192, 70_001] {
        let mut probe = probe("a-*b");
        assert!(feed_all(&mut probe, stream.chunks(size)), "{size}");
        let found = probe.found().unwrap();
        assert_eq!((found.cursor, found.text.len()), (100_000, MATCH_MAX), "{size}");
    }
}

#[test]
fn a_match_spans_at_most_64_kib_whether_its_process_runs_or_has_ended() {
    let around = |length: usize| [&b"xa"[..], &b"-".repeat(length - 2), b"b!"].concat();
    let long = "-".repeat(MATCH_MAX);
    for (pattern, stream, expect) in [
        ("a-*b", around(MATCH_MAX), Some((1, MATCH_MAX))),
        ("a-*b", around(MATCH_MAX + 1), None),
        ("a-*b", around(70_000), None),
        ("a-*b", around(100_000), None),
        // A shorter one behind the beginning of one that is too long.
        ("a[^b]*b", format!("a{long}ab").into_bytes(), Some((MATCH_MAX as u64 + 1, 2))),
        // A shorter one from the same beginning.
        ("ab|a-*b", [&b"a"[..], &b"-".repeat(70_000), b"b ab"].concat(), Some((70_003, 2))),
        // Characters of several bytes.
        ("日+b", format!("{}b", "日".repeat(30_000)).into_bytes(), Some((90_000 - 21_845 * 3, 65_536))),
    ] {
        for (size, finished) in
            [(1000, false), (8192, false), (70_001, false), (1 << 20, false), (1000, true), (1 << 20, true)]
        {
            let mut probe = probe(pattern);
            feed_all(&mut probe, stream.chunks(size));
            if finished {
                probe.finish();
            }
            let found = probe.found().map(|found| (found.cursor, found.text.len()));
            assert_eq!(found, expect, "{pattern} in chunks of {size}, finished: {finished}");
        }
    }
}

/// What the supervisor feeds between two looks.
const PAGE: u64 = 64 << 10;

#[test]
fn what_is_searched_is_linear_in_the_output_however_small_its_chunks_are() {
    let lines = b"a line of a log, as programs write them while they work\n".repeat(10_000);
    let progress = b"\r 50% of a build that goes on for a while ".repeat(13_000);
    for pattern in
        [r"needle\s+found", "(?s)needle.*found", "[^n]*needle", "needle.*", "needle$", "(?:x|ee+)dle"]
    {
        // Page by page, as of what was printed before, and chunk by chunk, as while it is printed.
        for (stream, between_looks) in [(&lines, PAGE), (&lines, 1), (&progress, PAGE), (&progress, 1)] {
            let mut probe = probe(pattern);
            let (mut cursor, mut looked) = (0, 0);
            for (at, chunk) in stream.chunks(41).enumerate() {
                let of = if at % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
                assert!(!probe.feed(cursor, of, chunk));
                cursor += chunk.len() as u64;
                if cursor - looked >= between_looks {
                    assert!(!probe.look());
                    looked = cursor;
                }
            }
            let times = probe.work.get() / stream.len();
            assert!(times <= 5, "{pattern}: {times} times the output, {between_looks} bytes between looks");
        }
    }
}

#[test]
fn a_match_before_missing_bytes_is_found() {
    let mut probe = probe("needle");
    assert!(!probe.feed(0, Stream::Stdout, b"a needle"));
    probe.gap(100);
    assert!(probe.look());
    assert_eq!(probe.found(), Some(Found { cursor: 2, text: "needle".to_owned() }));
}

#[test]
fn what_is_damaged_is_missing() {
    let mut probe = probe("ab");
    assert!(!show(&mut probe, 0, Stream::Stdout, b"a"));
    assert!(!probe.damaged(10));
    assert!(!show(&mut probe, 10, Stream::Stdout, b"b"));
    assert!(show(&mut probe, 11, Stream::Stdout, b"ab"));
}

proptest! {
    #[test]
    fn a_search_that_is_left_out_would_find_nothing(
        parts in proptest::collection::vec(proptest::sample::select(&PARTS[..]), 0..60),
        cuts in proptest::collection::vec(1_usize..6, 1..8),
        gap in proptest::option::of(0_usize..30),
        pattern in proptest::sample::select(&PATTERNS[..]),
    ) {
        let bytes = parts.concat();
        let (mut probe, mut always) = (probe(pattern), probe(pattern));
        always.scout = None;
        let mut rest = &bytes[..];
        let mut cursor = 0;
        for (at, cut) in cuts.iter().cycle().enumerate() {
            let (chunk, behind) = rest.split_at((*cut).min(rest.len()));
            if chunk.is_empty() {
                break;
            }
            if gap == Some(at) {
                cursor += 100;
                probe.gap(cursor);
                always.gap(cursor);
            }
            let found = show(&mut probe, cursor, Stream::Stdout, chunk);
            prop_assert_eq!(found, show(&mut always, cursor, Stream::Stdout, chunk), "before {}", cursor);
            cursor += chunk.len() as u64;
            rest = behind;
        }
        probe.finish();
        always.finish();
        prop_assert_eq!(probe.found(), always.found());
    }

    #[test]
    fn what_is_found_does_not_depend_on_borders(
        parts in proptest::collection::vec(proptest::sample::select(&PARTS[..]), 0..20),
        cuts in proptest::collection::vec(1_usize..6, 1..8),
        pattern in proptest::sample::select(&PATTERNS[..]),
    ) {
        let bytes = parts.concat();
        let text = safe_text(&bytes);
        let compiled = Pattern::compile(pattern).unwrap();
        let whole = compiled.regex.find(text.as_str()).map(|found| found.range());

        let mut probe = probe(pattern);
        let mut rest = &bytes[..];
        let mut cursor = 0;
        for cut in cuts.iter().cycle() {
            let (chunk, behind) = rest.split_at((*cut).min(rest.len()));
            if chunk.is_empty() || show(&mut probe, cursor, Stream::Stdout, chunk) {
                break;
            }
            cursor += chunk.len() as u64;
            rest = behind;
        }
        probe.finish();
        let found = probe.found();
        prop_assert_eq!(found.is_some(), whole.is_some(), "{:?}", text);

        let Some(found) = found else { return Ok(()) };
        // Somewhere in the whole text it is a match, there where it says.
        let request = PageRequest { ended: true, positions: true, ..PageRequest::new(usize::MAX) };
        let positions = page(&bytes, &request);
        let places: Vec<usize> = (0..=text.len())
            .filter(|&at| text.is_char_boundary(at) && text[at..].starts_with(&found.text))
            .filter(|&at| at == text.len() || positions.input_offset(at) == Some(usize::try_from(found.cursor).unwrap()))
            .collect();
        prop_assert!(!places.is_empty(), "{:?} in {:?}", found, text);
        // A pattern of fixed text finds the very same.
        if let ("ab" | "^ab" | "ab$" | "日", Some(whole)) = (pattern, whole) {
            prop_assert_eq!(places.contains(&whole.start), true, "{:?} in {:?}", found, text);
        }
    }
}
