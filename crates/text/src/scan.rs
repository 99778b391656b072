//! Finding the ends of runs: where text that stays as it is stops, where a string of a sequence stops, and how
//! one character is decoded.
//!
//! The scanners look at whole blocks without a branch per byte, which compilers turn into vector code, and look
//! closer only at the block with the hit. Nothing here knows about sequences or pages.
#![expect(
    clippy::needless_bitwise_bool,
    reason = "lazy operators are branches, which keep a scan from being vector code"
)]

/// Bytes looked at together.
const BLOCK: usize = 32;

/// Longer control sequences are taken byte by byte.
const MAX_WHOLE_CSI: usize = 64;

/// What stands at the start of some bytes, of which the first is not ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A whole character; its length follows from it.
    Char(char),
    /// All the bytes are the beginning of a character.
    Incomplete,
    /// A maximal invalid part of this many bytes, in the sense of the WHATWG Encoding Standard's UTF-8 decoder
    /// (and of Unicode, "substitution of maximal subparts"): one U+FFFD stands for it.
    Invalid(usize),
}

/// Decodes the character at the start of `bytes`, which are not empty.
///
/// Table 3-7 of the Unicode Standard: only the second byte's range depends on the first.
pub(crate) fn decode(bytes: &[u8]) -> Decoded {
    let Some((&lead, rest)) = bytes.split_first() else { return Decoded::Incomplete };
    let (bits, second, width) = match lead {
        0x00..=0x7F => return Decoded::Char(char::from(lead)),
        0xC2..=0xDF => (lead & 0x1F, 0x80..=0xBF, 2),
        0xE0 => (lead & 0x0F, 0xA0..=0xBF, 3),
        0xED => (lead & 0x0F, 0x80..=0x9F, 3),
        0xE1..=0xEF => (lead & 0x0F, 0x80..=0xBF, 3),
        0xF0 => (lead & 0x07, 0x90..=0xBF, 4),
        0xF1..=0xF3 => (lead & 0x07, 0x80..=0xBF, 4),
        0xF4 => (lead & 0x07, 0x80..=0x8F, 4),
        _ => return Decoded::Invalid(1),
    };
    let mut code = u32::from(bits);
    for part in 1..width {
        let Some(&byte) = rest.get(part - 1) else { return Decoded::Incomplete };
        if !(if part == 1 { second.contains(&byte) } else { is_continuation(byte) }) {
            return Decoded::Invalid(part);
        }
        code = code << 6 | u32::from(byte & 0x3F);
    }
    char::from_u32(code).map_or(Decoded::Invalid(width), Decoded::Char)
}

/// The text at the start of `bytes` that is shown as it is: valid UTF-8 without controls other than tab, newline
/// and carriage return, without C1 code points and without bidirectional controls.
pub(crate) fn plain_text(bytes: &[u8]) -> &str {
    let ascii = plain_ascii(bytes);
    if !matches!(bytes.get(ascii), Some(0x80..)) || !matches!(decode(&bytes[ascii..]), Decoded::Char(_)) {
        return std::str::from_utf8(&bytes[..ascii]).unwrap_or_default();
    }
    let run = &bytes[..ascii + first(&bytes[ascii..], is_control)];
    let valid = match std::str::from_utf8(run) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&run[..error.valid_up_to()]).unwrap_or_default(),
    };
    &valid[..ascii + first_special(&valid.as_bytes()[ascii..])]
}

/// The length of the ASCII text at the start of `bytes`.
fn plain_ascii(bytes: &[u8]) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    // Runs between sequences are short: a word at a time finds their end sooner than blocks do.
    while at < BLOCK
        && let Some(word) = bytes[at..].first_chunk()
    {
        let word = u64::from_le_bytes(*word);
        let not_del = word ^ (EACH * 0x7F);
        let low = word.wrapping_sub(EACH * 0x20) & !word;
        let del = not_del.wrapping_sub(EACH) & !not_del;
        // The top bit of each byte that stops; a borrow can only mark bytes behind one that does.
        let stops = (low | del | word) & (EACH * 0x80);
        if stops == 0 {
            at += 8;
            continue;
        }
        at += (stops.trailing_zeros() / 8) as usize;
        if bytes[at] >= 0x80 || is_control(bytes[at]) {
            return at;
        }
        at += 1;
    }
    at + first(&bytes[at..], |byte| is_control(byte) | (byte >= 0x80))
}

/// The length of the control sequence at the start of `bytes`, which begin with `ESC`, if it is all there, short
/// and has nothing unusual inside.
pub(crate) fn whole_csi(bytes: &[u8]) -> Option<usize> {
    let [0x1B, b'[', rest @ ..] = bytes else { return None };
    let inside = rest.iter().take(MAX_WHOLE_CSI).position(|byte| !(0x20..=0x3F).contains(byte))?;
    (0x40..=0x7E).contains(&rest[inside]).then_some(inside + 3)
}

/// Where the content of a control string stops, or the length: at ESC, CAN, SUB, at the lead byte of the C1 code
/// points and, if `bel` can end the string, at BEL.
pub(crate) fn string_content(bytes: &[u8], bel: bool) -> usize {
    if bel {
        first(bytes, |byte| {
            (byte == 0x1B) | (byte == 0x18) | (byte == 0x1A) | (byte == 0xC2) | (byte == 0x07)
        })
    } else {
        first(bytes, |byte| (byte == 0x1B) | (byte == 0x18) | (byte == 0x1A) | (byte == 0xC2))
    }
}

/// Whether a byte is a C0 control other than tab, newline and carriage return, or DEL.
pub(crate) fn is_control(byte: u8) -> bool {
    ((byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r')) | (byte == 0x7F)
}

/// Whether a character is one of the bidirectional embeddings, overrides and isolates.
pub(crate) fn is_bidi(ch: char) -> bool {
    matches!(ch, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether a byte continues a UTF-8 character.
pub(crate) fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The index of the first byte that `stops`, or the length.
fn first(bytes: &[u8], stops: impl Fn(u8) -> bool) -> usize {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let clear =
        blocks.iter().take_while(|block| block.iter().fold(0, |hit, &byte| hit | u8::from(stops(byte))) == 0);
    let start = clear.count() * BLOCK;
    bytes[start..].iter().position(|&byte| stops(byte)).map_or(bytes.len(), |index| start + index)
}

/// The index of the first C1 code point or bidirectional control in valid UTF-8, or the length.
fn first_special(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        // Both kinds begin with one of two lead bytes.
        at += first(&bytes[at..], |byte| (byte == 0xC2) | (byte == 0xE2));
        match bytes[at..] {
            [] => return at,
            [0xC2, 0x80..=0x9F, ..] | [0xE2, 0x80, 0xAA..=0xAE, ..] | [0xE2, 0x81, 0xA6..=0xA9, ..] => {
                return at;
            }
            _ => at += 1,
        }
    }
}

/// How many bytes at the start of `bytes` may belong to a character that was cut off before them: the leading
/// continuation bytes, at most three.
///
/// For a start of which nothing is known, such as the last bytes of a longer stream. Where the bytes before the
/// start are at hand, [`continuation_len`] is exact.
///
/// ```
/// assert_eq!(procyard_text::tail_start("日本".as_bytes()), 0);
/// assert_eq!(procyard_text::tail_start(&"日本".as_bytes()[1..]), 2);
/// ```
pub fn tail_start(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|&&byte| is_continuation(byte)).count()
}

/// How many bytes at the start of `after` complete a character that begins in `before`, the bytes directly
/// before them (three are enough, more are ignored).
///
/// This tells an arbitrary cursor, which may lie inside a character, from one where a page ended: at the latter
/// it is always 0, whatever bytes follow, so that skipping by it never disturbs how pages compose.
///
/// ```
/// let text = "日本".as_bytes();
/// assert_eq!(procyard_text::continuation_len(&text[..4], &text[4..]), 2);
/// assert_eq!(procyard_text::continuation_len(&text[..3], &text[3..]), 0);
/// // Stray continuation bytes complete nothing: they are shown as invalid.
/// assert_eq!(procyard_text::continuation_len(b"a", b"\x80\x80"), 0);
/// ```
pub fn continuation_len(before: &[u8], after: &[u8]) -> usize {
    let before = &before[before.len().saturating_sub(3)..];
    let Some(lead) = before.iter().rposition(|&byte| !is_continuation(byte)) else { return 0 };
    let mut joined = [0; 6];
    let held = before.len() - lead;
    let taken = after.len().min(3);
    joined[..held].copy_from_slice(&before[lead..]);
    joined[held..held + taken].copy_from_slice(&after[..taken]);
    let whole = match decode(&joined[..held + taken]) {
        Decoded::Char(ch) => ch.len_utf8(),
        Decoded::Incomplete => held + taken,
        Decoded::Invalid(part) => part,
    };
    whole.saturating_sub(held)
}
