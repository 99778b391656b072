//! Output of any kind, and the pieces in which it is read.
//!
//! Not for how much a process can print: these are short, and hold what tears.

use procyard_core::Stream;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Parts of a stream, whole and torn: text, line ends, characters of several bytes and halves of them, escape sequences
/// and beginnings of them, what no terminal shows, bytes that are no text.
pub const PARTS: [&[u8]; 14] = [
    b"plain text ",
    b"\n",
    "日本語 🦀".as_bytes(),
    b"\x1b[1;31mred\x1b[0m",
    b"\x1b]0;title\x07",
    b"\x1b[3",
    b"\xe6\x97",
    b"\xa5",
    b"\xff",
    b"\r\n",
    b"50%\r",
    "\u{202e}".as_bytes(),
    b"\0",
    "\u{9b}2K".as_bytes(),
];

/// Output as it is printed: fewer than `most` chunks of [`PARTS`], or of any bytes, to either stream.
pub fn chunks(most: usize) -> impl Strategy<Value = Vec<(Stream, Vec<u8>)>> {
    let stream = select(vec![Stream::Stdout, Stream::Stderr]);
    let bytes = prop_oneof![
        7 => select(&PARTS[..]).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 1..8),
    ];
    vec((stream, bytes), 0..most)
}

/// Sizes in which something is read or printed in turn: at least one, each from 1 to `most`.
pub fn sizes(most: usize) -> impl Strategy<Value = Vec<usize>> {
    vec(1..=most.max(1), 1..6)
}
