//! That pages compose, over as many generated streams as one asks for with `PROCYARD_TEST_PAGES`: whatever was printed, on
//! which stream, in which portions, with what missing, while it runs and after, and wherever one begins.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use procyard_core::{State, Stream};
use procyard_supervisor::{Probe, StreamFilter};
use procyard_text::{Renderer, continuation_len};
use proptest::prelude::*;

use super::*;
use crate::ground::look_back;
use crate::matcher::{Found, MatchProbe};
use crate::pattern::Pattern;
use crate::testing::{Recorded, now};
use crate::watch::{ByteProbe, TextProbe};

/// The longest text of one unit.
const UNIT_MAX: usize = "<U+202E>".len();

/// Streams of an ordinary run.
const CASES: u32 = 256;

fn config() -> ProptestConfig {
    let cases = std::env::var("PROCYARD_TEST_PAGES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::with_cases(cases.unwrap_or(CASES)) }
}

/// Something that a program prints.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"plain text ",
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b" 50%\r",
        b"\x1b[2K\x1b[G working \\",
        b"\x08|\x08/",
        b"\0",
        b"\0\0\x01\x02\x03",
        b"\x07\x0c\x7f",
        "日本語 🦀".as_bytes(),
        "e\u{301}\u{200d}".as_bytes(),
        "\u{202e}".as_bytes(),
        "\u{2066}x\u{2069}".as_bytes(),
        "\u{9b}2K".as_bytes(),
        "\u{9d}0;t\u{9c}".as_bytes(),
        b"\x1b[1;31mred\x1b[0m",
        b"\x1b[38;2;1;2;3m",
        b"\x1b]0;title\x07",
        b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
        b"\x1bPq#0;2;0;0;0~-\x1b\\",
        b"\x1b_app\x1b\\",
        b"\x1b(B\x1b7\x1b8",
        b"\x1b",
        b"\x1b[",
        b"\x1b]",
        b"\x1bP",
        b"\x18",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\x80\xbf",
    ];
    prop_oneof![
        40 => proptest::sample::select(known).prop_map(<[u8]>::to_vec),
        6 => "[ -~]{1,60}".prop_map(String::into_bytes),
        6 => "\\PC{1,12}".prop_map(String::into_bytes),
        6 => proptest::collection::vec(any::<u8>(), 1..8),
        1 => (1_usize..3000, any::<char>()).prop_map(|(len, ch)| ch.to_string().repeat(len / ch.len_utf8() + 1).into_bytes()),
        1 => (0_usize..900).prop_map(|len| [b"\x1b]52;c;", "A".repeat(len).as_bytes(), b"\x07"].concat()),
    ]
}

/// Both streams interleaved in chunks that tear whatever they like.
fn chunks() -> impl Strategy<Value = Vec<(Stream, Vec<u8>)>> {
    let torn = (part(), any::<proptest::sample::Index>(), any::<bool>())
        .prop_map(|(bytes, at, tear)| if tear { bytes[..=at.index(bytes.len())].to_vec() } else { bytes });
    let chunk = (any::<bool>(), torn)
        .prop_map(|(err, bytes)| (if err { Stream::Stderr } else { Stream::Stdout }, bytes));
    proptest::collection::vec(chunk, 0..20)
}

fn filter() -> impl Strategy<Value = StreamFilter> {
    proptest::sample::select(vec![
        StreamFilter::Both,
        StreamFilter::Both,
        StreamFilter::Only(Stream::Stdout),
        StreamFilter::Only(Stream::Stderr),
    ])
}

fn limits() -> impl Strategy<Value = Vec<usize>> {
    let small = prop_oneof![1_usize..8, 1_usize..80];
    // One of them is large, so that a long stream is not read a byte at a time.
    (proptest::collection::vec(small, 0..5), 20_usize..5000).prop_map(|(mut limits, large)| {
        limits.push(large);
        limits
    })
}

/// What is missing: a beginning that is no longer retained, and holes.
fn missing() -> impl Strategy<Value = (Option<u16>, Vec<(u16, u16)>)> {
    let holes = prop_oneof![3 => Just(0_usize), 1 => 1_usize..4]
        .prop_flat_map(|count| proptest::collection::vec((any::<u16>(), 1_u16..30), count));
    (proptest::option::weighted(0.25, any::<u16>()), holes)
}

/// A stream as it is kept in the end.
#[derive(Debug, Clone)]
struct Kept {
    whole: Recorded,
}

impl Kept {
    fn new(
        chunks: &[(Stream, Vec<u8>)],
        streams: StreamFilter,
        (retained, holes): &(Option<u16>, Vec<(u16, u16)>),
        per_read: usize,
    ) -> Self {
        let borrowed: Vec<(Stream, &[u8])> =
            chunks.iter().map(|(stream, bytes)| (*stream, bytes.as_slice())).collect();
        let mut whole = Recorded { streams, per_read, ..Recorded::new(&borrowed) };
        let total = whole.bytes.len() as u64;
        let within = |at: u16| u64::from(at) % (total + 1);
        whole.retained_from = retained.map_or(0, within);
        let mut from = whole.retained_from + 1;
        let mut wanted: Vec<(u64, u64)> =
            holes.iter().map(|&(at, len)| (within(at), u64::from(len))).collect();
        wanted.sort_unstable();
        for (at, len) in wanted {
            let at = at.max(from);
            if at + len < total {
                whole.holes.push((at, at + len));
                from = at + len + 1;
            }
        }
        Self { whole }
    }

    /// The ranges of cursors that can be read.
    fn segments(&self) -> Vec<(u64, u64)> {
        let mut segments = Vec::new();
        let mut from = self.whole.retained_from;
        for &(hole, until) in &self.whole.holes {
            segments.push((from, hole));
            from = until;
        }
        segments.push((from, self.whole.bytes.len() as u64));
        segments
    }

    fn bytes(&self, from: u64, until: u64) -> Vec<u8> {
        let range = usize::try_from(from).unwrap()..usize::try_from(until).unwrap();
        let accepted =
            self.whole.bytes[range].iter().filter(|(stream, _)| self.whole.streams.accepts(*stream));
        accepted.map(|(_, byte)| *byte).collect()
    }

    /// The text from `cursor` on, which stands in the first of the segments it reaches.
    fn text_from(&self, cursor: u64) -> String {
        let mut text = String::new();
        for (from, until) in self.segments() {
            if until < cursor || (until == cursor && cursor > from) {
                continue;
            }
            let inside = cursor.max(from);
            let mut bytes = self.bytes(inside, until);
            let begins = if inside > from {
                let before = self.bytes(inside.saturating_sub(3).max(from), inside);
                let cut = from > 0 && before.len() < 3 && before.iter().all(|byte| byte & 0xC0 == 0x80);
                bytes.drain(..if cut { 0 } else { continuation_len(&before, &bytes) });
                !cut
            } else {
                from == 0
            };
            let mut renderer = if begins { Renderer::new() } else { Renderer::resynchronising() };
            renderer.push(&bytes, &mut text);
            renderer.finish(&mut text);
        }
        text
    }

    /// The stream when only so much of it was printed.
    fn until(&self, cursor: u64) -> Recorded {
        let mut running = Recorded { state: State::Running, ..self.whole.clone() };
        running.bytes.truncate(usize::try_from(cursor).unwrap());
        running.holes.retain(|&(from, _)| from < cursor);
        if let Some(last) = running.holes.last_mut() {
            last.1 = last.1.min(cursor);
        }
        running.retained_from = running.retained_from.min(cursor);
        running
    }

    /// Whether what is left of a character stands behind a gap. It is passed over by a page that sees the gap, and a page
    /// that begins later, while the stream grows, knows nothing of it.
    fn goes_on_inside_a_character(&self) -> bool {
        let first = |&(from, until): &(u64, u64)| self.bytes(from, until).first().copied();
        self.segments().iter().filter(|(from, _)| *from > 0).filter_map(first).any(|byte| byte & 0xC0 == 0x80)
    }

    /// Whether nothing is missing between two cursors.
    fn is_whole(&self, from: u64, until: u64) -> bool {
        self.segments().iter().any(|&(start, end)| start <= from && until <= end)
    }

    /// Shows a probe what is between two cursors, as the supervisor does: chunk by chunk, and told of what is missing.
    fn show(&self, probe: &mut dyn Probe, from: u64, until: u64) -> bool {
        let mut at = from;
        let mut satisfied = false;
        for (start, end) in self.segments() {
            if end <= at || start >= until {
                continue;
            }
            if start > at {
                probe.gap(start);
                at = start;
            }
            let end = end.min(until);
            while at < end {
                let stream = self.whole.bytes[usize::try_from(at).unwrap()].0;
                let run = self.whole.bytes[usize::try_from(at).unwrap()..usize::try_from(end).unwrap()]
                    .iter()
                    .take_while(|(other, _)| *other == stream)
                    .map(|(_, byte)| *byte);
                let run: Vec<u8> = run.collect();
                satisfied |= probe.feed(at, stream, &run);
                at += run.len() as u64;
            }
        }
        if at < until {
            probe.gap(until);
        }
        satisfied | probe.look()
    }
}

/// What comes out of one sequence that goes on through them: terminals obey these controls also there.
fn is_within_a_sequence(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r'))
}

fn look(limit: usize, encoding: Encoding) -> Look {
    Look { limit, encoding, collapse: false }
}

/// Reads page after page until nothing more comes; adds what they show, and returns where the last one ended.
fn read_on(
    source: &Recorded,
    mut cursor: u64,
    limits: &mut impl Iterator<Item = usize>,
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<u64, TestCaseError> {
    loop {
        let limit = limits.next().unwrap_or(1);
        let page = now(forward(source, cursor, &look(limit, encoding))).unwrap();
        prop_assert!(page.next_cursor >= cursor, "a page goes back");
        match encoding {
            Encoding::SafeText => {
                let fits = page.output.len() <= limit.max(UNIT_MAX) || is_within_a_sequence(&page.output);
                prop_assert!(fits, "{:?} exceeds {limit}", page.output);
                out.extend_from_slice(page.output.as_bytes());
            }
            Encoding::Base64 => {
                let bytes = STANDARD.decode(&page.output).unwrap();
                prop_assert!(bytes.len() <= limit);
                out.extend_from_slice(&bytes);
            }
        }
        if page.next_cursor == cursor {
            return Ok(cursor);
        }
        cursor = page.next_cursor;
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pages_of_any_stream_join_to_the_whole(
        chunks in chunks(), streams in filter(), missing in missing(), limits in limits(), per_read in 4_usize..5000,
    ) {
        let kept = Kept::new(&chunks, streams, &missing, per_read);
        let total = kept.whole.bytes.len() as u64;
        let mut limits = limits.into_iter().cycle();
        let mut text = Vec::new();
        let end = read_on(&kept.whole, 0, &mut limits, Encoding::SafeText, &mut text)?;
        prop_assert_eq!(String::from_utf8(text).unwrap(), kept.text_from(0));
        prop_assert_eq!(end, total);
        let mut bytes = Vec::new();
        let end = read_on(&kept.whole, 0, &mut limits, Encoding::Base64, &mut bytes)?;
        let exact: Vec<u8> = kept.segments().iter().flat_map(|&(from, until)| kept.bytes(from, until)).collect();
        prop_assert_eq!(bytes, exact);
        prop_assert_eq!(end, total);
    }

    #[test]
    fn pages_of_a_growing_stream_join_and_a_wait_wakes_for_what_they_show(
        chunks in chunks(), streams in filter(), missing in missing(), limits in limits(), per_read in 4_usize..5000,
        growth in proptest::collection::vec(1_u16..600, 1..8),
    ) {
        let mut kept = Kept::new(&chunks, streams, &missing, per_read);
        if kept.goes_on_inside_a_character() {
            kept = Kept::new(&chunks, streams, &(None, Vec::new()), per_read);
        }
        let total = kept.whole.bytes.len() as u64;
        let mut limits = limits.into_iter().cycle();
        let (mut text, mut cursor) = (Vec::new(), 0);
        let (mut bytes, mut at) = (Vec::new(), 0);
        let mut printed = 0;
        for grown in growth.iter().cycle() {
            printed = (printed + u64::from(*grown)).min(total);
            let running = kept.until(printed);
            let mut probe = TextProbe::new(streams, false);
            let wakes = kept.show(&mut probe, cursor, printed);
            let (before, whole) = (text.len(), kept.is_whole(cursor, printed));
            cursor = read_on(&running, cursor, &mut limits, Encoding::SafeText, &mut text)?;
            let shows = text.len() > before;
            // Half a character before a gap is shown, and wakes when something comes behind the gap.
            prop_assert!(if whole { wakes == shows } else { shows || !wakes }, "a wait and a read disagree before {}", printed);
            let mut probe = ByteProbe(streams);
            let wakes = kept.show(&mut probe, at, printed);
            let before = bytes.len();
            at = read_on(&running, at, &mut limits, Encoding::Base64, &mut bytes)?;
            prop_assert_eq!(wakes, bytes.len() > before);
            if printed == total {
                break;
            }
        }
        cursor = read_on(&kept.whole, cursor, &mut limits, Encoding::SafeText, &mut text)?;
        at = read_on(&kept.whole, at, &mut limits, Encoding::Base64, &mut bytes)?;
        prop_assert_eq!(String::from_utf8(text).unwrap(), kept.text_from(0));
        let exact: Vec<u8> = kept.segments().iter().flat_map(|&(from, until)| kept.bytes(from, until)).collect();
        prop_assert_eq!(bytes, exact);
        prop_assert_eq!((cursor, at), (total, total));
    }

    #[test]
    fn where_the_last_page_ends_is_found_from_the_end_alone(
        chunks in chunks(), missing in missing(), per_read in 1_usize..5000, at: u16, step in 1_u64..80,
    ) {
        let mut kept = Kept::new(&chunks, StreamFilter::Both, &missing, per_read);
        if kept.goes_on_inside_a_character() {
            kept = Kept::new(&chunks, StreamFilter::Both, &(None, Vec::new()), per_read);
        }
        let end = u64::from(at) % (kept.whole.bytes.len() as u64 + 1);
        let running = kept.until(end);
        let (mut cursor, mut before) = (0, None);
        while before != Some(cursor) {
            prop_assert!(before.is_none_or(|before| before < cursor), "a page leads on");
            before = Some(cursor);
            cursor = now(forward(&running, cursor, &Look { collapse: true, ..look(1 << 20, Encoding::SafeText) })).unwrap().next_cursor;
        }
        prop_assert_eq!(now(look_back(&running, end, step)), cursor);
    }

    #[test]
    fn pages_from_any_cursor_join_to_the_rest(
        chunks in chunks(), missing in missing(), limits in limits(), per_read in 4_usize..5000, at: u16,
    ) {
        let kept = Kept::new(&chunks, StreamFilter::Both, &missing, per_read);
        let cursor = u64::from(at) % (kept.whole.bytes.len() as u64 + 1);
        let mut limits = limits.into_iter().cycle();
        let mut text = Vec::new();
        read_on(&kept.whole, cursor, &mut limits, Encoding::SafeText, &mut text)?;
        prop_assert_eq!(String::from_utf8(text).unwrap(), kept.text_from(cursor));
    }

    #[test]
    fn a_page_at_a_match_begins_with_it(
        chunks in chunks(), streams in filter(), missing in missing(), per_read in 4_usize..5000,
        at: u16, len in 1_usize..12,
    ) {
        let kept = Kept::new(&chunks, streams, &missing, per_read);
        let all: Vec<char> = kept.text_from(0).chars().collect();
        if all.is_empty() {
            return Ok(());
        }
        let from = usize::from(at) % all.len();
        let wanted: String = all[from..].iter().take(len).collect();
        let pattern = Arc::new(Pattern::compile(&regex_syntax::escape(&wanted)).unwrap());
        let mut probe = MatchProbe::new(pattern, streams);
        let satisfied = kept.show(&mut probe, 0, kept.whole.bytes.len() as u64);
        probe.finish();
        let Some(Found { cursor, text }) = probe.found() else {
            // Only what spans a place where bytes are missing is no match.
            prop_assert!(!satisfied && kept.segments().len() > 1 && wanted.chars().count() > 1, "{:?}", wanted);
            return Ok(());
        };
        prop_assert_eq!(&text, &wanted);
        let page = now(forward(&kept.whole, cursor, &look(1 << 16, Encoding::SafeText))).unwrap();
        // A match that begins inside what stands for one character is found where that begins.
        let begins = page.output.find(&text).is_some_and(|at| at < UNIT_MAX);
        prop_assert!(begins, "{:?} is not at the beginning of {:?}", text, page.output);
    }
}
