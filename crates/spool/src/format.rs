//! The bytes of a segment: a header, then blocks of frames. `docs/spool-format.md` is the same for other languages.
//!
//! A frame never crosses a block border, so that a reader which lost its way (or never had it) finds the beginning of
//! a frame at each border and nowhere else: output that looks like a frame is never taken for one.
//!
//! Not here: which frames are written when (`layout`), what a damaged segment means (`scan`).

use crc_fast::{CrcAlgorithm, Digest};
use procyard_core::{Stream, Timestamp};

/// Frames do not cross multiples of this offset in a segment file.
pub(crate) const BLOCK: u64 = 16 << 10;
/// The same, as a length in memory.
pub(crate) const BLOCK_LEN: usize = 16 << 10;

/// The largest cursor: nobody prints so much. What claims a larger one is damaged, so that no sum of a cursor and a length
/// overflows.
pub(crate) const CURSOR_MAX: u64 = 1 << 63;

pub(crate) const SEGMENT_HEADER: usize = 32;
pub(crate) const FRAME_HEADER: usize = 24;

/// The longest payload: what a block has beside one frame header.
pub(crate) const LONGEST_PAYLOAD: usize = BLOCK_LEN - FRAME_HEADER;

/// The longest run of padding: less than the longest frame that is not split.
const LONGEST_PADDING: usize = FRAME_HEADER + HOLE_PAYLOAD;

const MAGIC: [u8; 8] = *b"PRCYSPL\n";
pub(crate) const VERSION: u16 = 1;

const KIND_OUTPUT: u8 = 1;
const KIND_HOLE: u8 = 2;
const KIND_RESIZE: u8 = 3;

pub(crate) const HOLE_PAYLOAD: usize = 8;
pub(crate) const RESIZE_PAYLOAD: usize = 4;

const SUFFIX: &str = ".seg";
/// As many digits as the largest cursor has, so that names sort as cursors do.
const DIGITS: usize = 20;

/// The file name of the segment whose first byte has this cursor.
pub(crate) fn segment_name(base: u64) -> String {
    format!("{base:0DIGITS$}{SUFFIX}")
}

/// The cursor that a segment's name says; `None` for names of other files, and for cursors that nothing has.
pub(crate) fn parse_segment_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let decimal = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if decimal { digits.parse().ok().filter(|base| *base <= CURSOR_MAX) } else { None }
}

/// The header of the segment that begins at `base`.
pub(crate) fn segment_header(base: u64) -> [u8; SEGMENT_HEADER] {
    let mut header = [0; SEGMENT_HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&base.to_le_bytes());
    let crc = checksum(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// What the first bytes of a segment file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderCheck {
    /// A header of this version for this base.
    Good,
    /// A well-formed header of a version that this code does not know.
    Newer(u16),
    /// Too short or damaged. The frames have checks of their own and the name has the base, so they stay readable.
    Damaged,
}

pub(crate) fn check_segment_header(bytes: &[u8], base: u64) -> HeaderCheck {
    let Some(header) = bytes.first_chunk::<SEGMENT_HEADER>() else { return HeaderCheck::Damaged };
    if header[..8] != MAGIC || checksum(&header[..28]).to_le_bytes() != header[28..] {
        return HeaderCheck::Damaged;
    }
    let version = u16::from_le_bytes([header[8], header[9]]);
    if version != VERSION {
        HeaderCheck::Newer(version)
    } else if *header == segment_header(base) {
        HeaderCheck::Good
    } else {
        HeaderCheck::Damaged
    }
}

/// What a frame records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Output of the process.
    Output {
        stream: Stream,
        at: Timestamp,
        /// 1 to [`LONGEST_PAYLOAD`] bytes.
        bytes: &'a [u8],
    },
    /// The bytes from the frame's cursor to `until` were printed and could not be written.
    Hole { until: u64 },
    /// The terminal has this size from here on.
    Resize { at: Timestamp, rows: u16, cols: u16 },
}

/// The header of an output frame.
pub(crate) fn output_header(
    stream: Stream,
    at: Timestamp,
    cursor: u64,
    payload: &[u8],
) -> [u8; FRAME_HEADER] {
    frame_header(KIND_OUTPUT, stream_code(stream), at, cursor, payload)
}

/// The header of a hole frame, whose payload is the end of the hole.
pub(crate) fn hole_header(at: Timestamp, cursor: u64, payload: [u8; HOLE_PAYLOAD]) -> [u8; FRAME_HEADER] {
    frame_header(KIND_HOLE, 0, at, cursor, &payload)
}

/// The header of a resize frame.
pub(crate) fn resize_header(at: Timestamp, cursor: u64, payload: [u8; RESIZE_PAYLOAD]) -> [u8; FRAME_HEADER] {
    frame_header(KIND_RESIZE, stream_code(Stream::Terminal), at, cursor, &payload)
}

fn frame_header(kind: u8, stream: u8, at: Timestamp, cursor: u64, payload: &[u8]) -> [u8; FRAME_HEADER] {
    debug_assert!(payload.len() <= LONGEST_PAYLOAD);
    #[expect(clippy::cast_possible_truncation, reason = "a payload is shorter than a block")]
    let len = payload.len() as u16;
    let mut header = [0; FRAME_HEADER];
    header[4] = kind;
    header[5] = stream;
    header[6..8].copy_from_slice(&len.to_le_bytes());
    header[8..16].copy_from_slice(&cursor.to_le_bytes());
    header[16..].copy_from_slice(&at.as_unix_micros().to_le_bytes());
    let crc = checksum_of_parts(&header[4..], payload);
    header[..4].copy_from_slice(&crc.to_le_bytes());
    header
}

/// What is at a place in a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// A whole, checked frame that takes this many bytes of the block.
    Frame(Frame<'a>, usize),
    /// Nothing more in this block: its bytes are used up, or the rest is padding.
    End,
    /// Not a frame that may be here: torn or damaged. Nothing after it in this block can be trusted.
    Bad,
}

/// Looks at the frame at `place` of `block`, which must begin at a block border and end at the next one, or where the
/// file ends. `cursor` is what the frame must carry.
pub(crate) fn step(block: &[u8], place: usize, cursor: u64) -> Step<'_> {
    let rest = &block[place..];
    let room = BLOCK_LEN - place;
    if rest.is_empty() {
        return Step::End;
    }
    if room <= LONGEST_PADDING && rest.iter().all(|&byte| byte == 0) {
        return Step::End;
    }
    let Some(header) = rest.first_chunk::<FRAME_HEADER>() else { return Step::Bad };
    let len = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let Some(frame) = rest.get(..FRAME_HEADER + len) else { return Step::Bad };
    if checksum(&frame[4..]).to_le_bytes() != frame[..4]
        || u64_at(header, 8) != cursor
        || cursor.saturating_add(len as u64) > CURSOR_MAX
    {
        return Step::Bad;
    }
    let at = Timestamp::from_unix_micros(u64_at(header, 16).cast_signed());
    let payload = &frame[FRAME_HEADER..];
    let frame = match (header[4], payload) {
        (KIND_OUTPUT, [_, ..]) => {
            let Some(stream) = stream_of(header[5]) else { return Step::Bad };
            Frame::Output { stream, at, bytes: payload }
        }
        (KIND_HOLE, payload) => match payload.try_into().map(u64::from_le_bytes) {
            Ok(until) if until > cursor && until <= CURSOR_MAX => Frame::Hole { until },
            _ => return Step::Bad,
        },
        (KIND_RESIZE, &[r0, r1, c0, c1]) => {
            Frame::Resize { at, rows: u16::from_le_bytes([r0, r1]), cols: u16::from_le_bytes([c0, c1]) }
        }
        _ => return Step::Bad,
    };
    Step::Frame(frame, FRAME_HEADER + len)
}

impl Frame<'_> {
    /// The cursor after the frame, when it begins at `cursor`.
    pub(crate) fn end(&self, cursor: u64) -> u64 {
        match self {
            Frame::Output { bytes, .. } => cursor + bytes.len() as u64,
            Frame::Hole { until } => *until,
            Frame::Resize { .. } => cursor,
        }
    }
}

fn u64_at(header: &[u8; FRAME_HEADER], place: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[place..place + 8]);
    u64::from_le_bytes(bytes)
}

fn stream_code(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
        Stream::Terminal => 3,
    }
}

fn stream_of(code: u8) -> Option<Stream> {
    match code {
        1 => Some(Stream::Stdout),
        2 => Some(Stream::Stderr),
        3 => Some(Stream::Terminal),
        _ => None,
    }
}

/// CRC32C (RFC 3720, appendix B.4).
#[expect(clippy::cast_possible_truncation, reason = "the algorithm has 32 bits")]
fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The checksum of two parts, one after the other.
#[expect(clippy::cast_possible_truncation, reason = "the algorithm has 32 bits")]
fn checksum_of_parts(first: &[u8], second: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(second);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        Timestamp::from_unix_micros(-5)
    }

    #[test]
    fn the_checksum_is_the_published_crc32c() {
        assert_eq!(checksum(b"123456789"), 0xE306_9283);
        assert_eq!(checksum_of_parts(b"1234", b"56789"), 0xE306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8A91_36AA);
    }

    #[test]
    fn names_are_cursors_and_nothing_else_is() {
        for base in [0, 7, CURSOR_MAX] {
            assert_eq!(parse_segment_name(&segment_name(base)), Some(base));
        }
        for other in [
            "",
            ".seg",
            "1.seg",
            "+0000000000000000001.seg",
            "99999999999999999999.seg",
            "09223372036854775809.seg",
            "00000000000000000001",
        ] {
            assert_eq!(parse_segment_name(other), None, "{other}");
        }
        assert_eq!(segment_name(42), "00000000000000000042.seg");
    }

    #[test]
    fn a_frame_comes_back_as_it_was_written() {
        let mut block = output_header(Stream::Stderr, at(), 9, b"abc").to_vec();
        block.extend_from_slice(b"abc");
        let frame = Frame::Output { stream: Stream::Stderr, at: at(), bytes: b"abc" };
        assert_eq!(step(&block, 0, 9), Step::Frame(frame, 27));
        assert_eq!(frame.end(9), 12);
        assert_eq!(step(&block, 0, 10), Step::Bad, "another cursor");
        assert_eq!(step(&block, 27, 12), Step::End);
        for len in 1..block.len() {
            assert_eq!(step(&block[..len], 0, 9), Step::Bad, "torn at {len}");
        }
    }

    #[test]
    fn frames_that_nobody_writes_are_bad_even_with_a_good_checksum() {
        let cases: [(u8, u8, &[u8]); 6] = [
            (KIND_OUTPUT, 1, b""),
            (KIND_OUTPUT, 0, b"a"),
            (KIND_OUTPUT, 4, b"a"),
            (KIND_HOLE, 0, &3u64.to_le_bytes()),
            (KIND_RESIZE, 3, b"123"),
            (9, 1, b"a"),
        ];
        for (kind, stream, payload) in cases {
            let mut block = frame_header(kind, stream, at(), 3, payload).to_vec();
            block.extend_from_slice(payload);
            assert_eq!(step(&block, 0, 3), Step::Bad, "{kind} {stream} {payload:?}");
        }
    }

    #[test]
    fn frames_beyond_the_largest_cursor_are_bad() {
        let check = |kind: u8, cursor: u64, payload: &[u8], good: bool| {
            let mut block = frame_header(kind, 1, at(), cursor, payload).to_vec();
            block.extend_from_slice(payload);
            assert_eq!(
                matches!(step(&block, 0, cursor), Step::Frame(..)),
                good,
                "{kind} {cursor} {payload:?}"
            );
        };
        check(KIND_OUTPUT, CURSOR_MAX - 1, b"a", true);
        check(KIND_OUTPUT, CURSOR_MAX, b"a", false);
        check(KIND_OUTPUT, u64::MAX, b"a", false);
        check(KIND_HOLE, 0, &CURSOR_MAX.to_le_bytes(), true);
        check(KIND_HOLE, 0, &(CURSOR_MAX + 1).to_le_bytes(), false);
    }

    #[test]
    fn zeros_are_padding_only_where_padding_can_be() {
        let block = [0; BLOCK_LEN];
        assert_eq!(step(&block, BLOCK_LEN - LONGEST_PADDING, 0), Step::End);
        assert_eq!(step(&block, BLOCK_LEN - LONGEST_PADDING - 1, 0), Step::Bad);
        assert_eq!(step(&block[..100], 50, 0), Step::Bad);
    }

    #[test]
    fn a_segment_header_is_for_one_base_and_version() {
        let mut header = segment_header(5);
        assert_eq!(check_segment_header(&header, 5), HeaderCheck::Good);
        assert_eq!(check_segment_header(&header, 6), HeaderCheck::Damaged);
        assert_eq!(check_segment_header(&header[..31], 5), HeaderCheck::Damaged);
        header[8] = 2;
        assert_eq!(check_segment_header(&header, 5), HeaderCheck::Damaged);
        let crc = checksum(&header[..28]).to_le_bytes();
        header[28..].copy_from_slice(&crc);
        assert_eq!(check_segment_header(&header, 5), HeaderCheck::Newer(2));
    }
}
