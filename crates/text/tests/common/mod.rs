//! Streams full of what is difficult, and the plainest possible rendering of them to compare with.
#![allow(dead_code, reason = "each test file uses a part")]

use proptest::prelude::*;

/// Bytes biased to escape sequences, broken characters, carriage returns and what cancels and ends sequences.
pub(crate) fn soup() -> impl Strategy<Value = Vec<u8>> {
    let pieces: &[&[u8]] = &[
        b"\x1b",
        b"\x1b[",
        b"\x1b]",
        b"\x1bP",
        b"\x1b_",
        b"\x1bX",
        b"\x1b^",
        b"\x1b\\",
        b"\x07",
        b"\x18",
        b"\x1a",
        b"\x1b[31m",
        b"\x1b[0m",
        b"\x1b[2K",
        b"\x1b[K",
        b"\x1b[1K",
        b"\x1b[G",
        b"\x1b[7G",
        b"\x1b[3D",
        b"\x1b(B",
        b"\x1b]0;title\x07",
        b"\x1b]8;;x\x1b\\",
        b"31;",
        b"m",
        b"0",
        b"\\",
        b"[",
        b"]",
        b"\r",
        b"\n",
        b"\t",
        b"\r\n",
        b"\x08",
        b"\x00",
        b"\x7f",
        b"\x0c",
        b" ",
        b"text",
        b"a line of text\n",
        b" 50%\r",
        b"\xff",
        b"\xc0",
        b"\xe2",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\x80",
        b"\x9b",
        b"\xbf\xbf",
        b"\xc2",
    ];
    let words = [
        "é",
        "日本",
        "🚀",
        "e\u{301}",
        "\u{200D}",
        "\u{9B}",
        "\u{9C}",
        "\u{9D}",
        "\u{90}",
        "\u{98}",
        "\u{85}",
        "\u{9B}2K",
        "\u{202E}",
        "\u{2066}",
        "\u{FFFD}",
        "\u{A0}",
        "\u{2019}",
        "\u{D7FF}",
        "\u{10FFFF}",
    ];
    let all: Vec<Vec<u8>> = pieces
        .iter()
        .map(|piece| piece.to_vec())
        .chain(words.iter().map(|word| word.as_bytes().to_vec()))
        .collect();
    let piece = prop_oneof![
        12 => proptest::sample::select(all),
        1 => proptest::collection::vec(any::<u8>(), 1..6),
        1 => "[ -~]{1,80}".prop_map(String::into_bytes),
        1 => "\\PC{1,12}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Divides `bytes` at places chosen by `sizes`, again and again.
pub(crate) fn divide<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    for &size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (part, rest) = bytes.split_at(size.clamp(1, bytes.len()));
        parts.push(part);
        bytes = rest;
    }
    parts
}

/// Safe text of a whole stream of less than 1 MiB, character by character.
pub(crate) fn reference(bytes: &[u8]) -> String {
    #[derive(Clone, Copy, PartialEq)]
    enum In {
        Text,
        Escape,
        Intermediate,
        Control,
        Osc,
        String,
        StringEscape,
    }
    let introduced = |ch| match ch {
        '[' => Some(In::Control),
        ']' => Some(In::Osc),
        'P' | 'X' | '^' | '_' => Some(In::String),
        _ => None,
    };
    let mut out = String::new();
    let mut within = In::Text;
    for ch in decoded(bytes) {
        if within == In::StringEscape {
            within = if ch == Some('\\') { In::Text } else { In::Escape };
            if within == In::Text {
                continue;
            }
        }
        let Some(ch) = ch else {
            if within == In::Text {
                out.push('\u{FFFD}');
            }
            continue;
        };
        let c1 = u8::try_from(u32::from(ch)).ok().filter(|code| (0x80..=0x9F).contains(code));
        within = match (within, ch) {
            (_, '\u{18}' | '\u{1A}' | '\u{9C}') | (In::Osc, '\u{7}') => In::Text,
            (In::Osc | In::String, '\u{1B}') => In::StringEscape,
            (In::Osc | In::String, _) => within,
            (_, '\u{1B}') => In::Escape,
            (_, '\t' | '\n' | '\r') => {
                out.push(ch);
                within
            }
            (_, '\0'..='\u{1F}' | '\u{7F}') => within,
            _ if c1.is_some() => c1.and_then(|code| introduced(char::from(code - 0x40))).unwrap_or(In::Text),
            (In::Text, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}') => {
                out.extend(format!("<U+{:04X}>", u32::from(ch)).chars());
                In::Text
            }
            (In::Text, _) => {
                out.push(ch);
                In::Text
            }
            (_, '\u{80}'..) => within,
            (In::Control, '@'..='~') => In::Text,
            (In::Control, _) => In::Control,
            (_, ' '..='/') => In::Intermediate,
            (In::Escape, _) => introduced(ch).unwrap_or(In::Text),
            _ => In::Text,
        };
    }
    out
}

/// Characters; `None` for each maximal invalid part.
fn decoded(bytes: &[u8]) -> Vec<Option<char>> {
    let mut all = Vec::new();
    for chunk in bytes.utf8_chunks() {
        all.extend(chunk.valid().chars().map(Some));
        if !chunk.invalid().is_empty() {
            all.push(None);
        }
    }
    all
}

/// What collapsed ASCII with CR, BS, `CSI K`, `CSI G`, `CSI C`, `CSI D` ends as, on a grid of rows.
pub(crate) fn screen(ops: &[Op]) -> String {
    let mut rows: Vec<String> = Vec::new();
    let mut row: Vec<char> = Vec::new();
    let mut column: usize = 0;
    for op in ops {
        match *op {
            Op::Print(ch) => {
                if row.len() <= column {
                    row.resize(column + 1, ' ');
                }
                row[column] = ch;
                column += 1;
            }
            Op::Newline => {
                rows.push(row.drain(..).collect());
                column = 0;
            }
            Op::Return => column = 0,
            Op::Back(count) => column = column.saturating_sub(count),
            Op::Forward(count) => column += count,
            Op::GoTo(to) => column = to,
            Op::EraseEnd => row.truncate(column),
            Op::EraseStart if column + 1 >= row.len() => row.clear(),
            Op::EraseStart => row[..=column].fill(' '),
            Op::EraseAll => row.clear(),
        }
    }
    rows.push(row.into_iter().collect());
    rows.join("\n")
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Print(char),
    Newline,
    Return,
    Back(usize),
    Forward(usize),
    GoTo(usize),
    EraseEnd,
    EraseStart,
    EraseAll,
}

impl Op {
    pub(crate) fn bytes(self) -> String {
        match self {
            Op::Print(ch) => ch.to_string(),
            Op::Newline => "\n".into(),
            Op::Return => "\r".into(),
            Op::Back(1) => "\x08".into(),
            Op::Back(count) => format!("\x1b[{count}D"),
            Op::Forward(1) => "\x1b[C".into(),
            Op::Forward(count) => format!("\x1b[{count}C"),
            Op::GoTo(0) => "\x1b[G".into(),
            Op::GoTo(column) => format!("\u{9B}{}G", column + 1),
            Op::EraseEnd => "\x1b[K".into(),
            Op::EraseStart => "\x1b[1K".into(),
            Op::EraseAll => "\x1b[2K".into(),
        }
    }
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => proptest::char::range('!', '~').prop_map(Op::Print),
        2 => Just(Op::Return),
        1 => Just(Op::Newline),
        1 => (1usize..5).prop_map(Op::Back),
        1 => (1usize..5).prop_map(Op::Forward),
        1 => (0usize..20).prop_map(Op::GoTo),
        1 => Just(Op::EraseEnd),
        1 => Just(Op::EraseStart),
        1 => Just(Op::EraseAll),
    ];
    proptest::collection::vec(op, 0..80)
}
