//! What several test files share: places, patterns, and checks of pages against a model.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(unreachable_pub, reason = "a test crate has no public surface")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::Path;
use std::sync::Arc;

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Page, Read, ReadError, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{Dir, FsDir};
use tempfile::TempDir;

pub const NAME: &str = "p.spool";

/// What was printed: each byte with its stream.
pub type Model = Vec<(u8, Stream)>;

pub fn place() -> (TempDir, Arc<dyn Dir>) {
    let place = tempfile::tempdir().unwrap();
    let dir = FsDir::open(place.path()).unwrap();
    (place, dir)
}

pub fn at(micros: i64) -> Timestamp {
    Timestamp::from_unix_micros(micros)
}

pub fn options(ceiling: u64, window: usize) -> SpoolOptions {
    SpoolOptions { ceiling, window, head: 1024 }
}

/// The bytes of all files of the spool.
pub fn disk_use(place: &Path) -> u64 {
    match std::fs::read_dir(place.join(NAME)) {
        Ok(entries) => entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum(),
        Err(_) => 0,
    }
}

/// What disk use must stay below.
pub fn disk_bound(ceiling: u64) -> u64 {
    let segment = (ceiling / 8).next_multiple_of(16 << 10).clamp(16 << 10, 128 << 20);
    ceiling + ceiling / 4 + segment
}

/// A byte that depends on where it is; newlines are frequent.
pub fn pattern(index: u64) -> u8 {
    let mixed = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    if mixed.is_multiple_of(23) { b'\n' } else { (mixed & 0xFF) as u8 }
}

pub fn bytes_of(model: &[(u8, Stream)], filter: StreamFilter) -> Vec<u8> {
    model.iter().filter(|(_, stream)| filter.accepts(*stream)).map(|(byte, _)| *byte).collect()
}

fn part(model: &Model, from: u64, until: u64) -> &[(u8, Stream)] {
    &model[usize::try_from(from).unwrap()..usize::try_from(until).unwrap()]
}

/// Checks that a page says nothing but the truth.
pub fn check_page(page: &Page, model: &Model, filter: StreamFilter) {
    assert_eq!(page.total_bytes, model.len() as u64);
    assert!(page.start_cursor <= page.next_cursor && page.next_cursor <= page.total_bytes);
    assert_eq!(page.gap, !page.gaps.is_empty());
    let mut offset = 0;
    let mut last = page.start_cursor;
    for span in &page.spans {
        assert_eq!(span.offset, offset);
        assert!(span.len > 0 && span.cursor >= last);
        last = span.cursor + span.len as u64;
        let bytes = &page.bytes[offset..offset + span.len];
        for (byte, (expected, stream)) in bytes.iter().zip(part(model, span.cursor, last)) {
            assert_eq!((byte, span.stream), (expected, *stream));
        }
        assert!(filter.accepts(span.stream));
        offset += span.len;
    }
    assert_eq!(offset, page.bytes.len());
    assert!(last <= page.next_cursor);
    if page.gaps.iter().all(|gap| gap.until <= page.start_cursor) {
        assert_eq!(page.bytes, bytes_of(part(model, page.start_cursor, page.next_cursor), filter));
    }
}

/// Reads from `cursor` to the end in pages of `max` bytes and checks every one. No byte may be missing but those before
/// what is retained.
pub fn read_all(reader: &SpoolReader, model: &Model, cursor: u64, max: usize, streams: StreamFilter) {
    let mut next = cursor;
    let retained_from = reader.bounds().retained_from;
    let mut got = Vec::new();
    loop {
        let read = Read { cursor: next, max_bytes: max, streams };
        let page = reader.read(&read).unwrap();
        if let Some(window) = reader.read_window(&read) {
            assert_eq!(window.unwrap(), page, "memory and disk agree");
        }
        check_page(&page, model, streams);
        assert_eq!(page.start_cursor, next.max(retained_from));
        assert_eq!(page.gap, next < retained_from);
        assert!(page.bytes.len() <= max);
        got.extend_from_slice(&page.bytes);
        if page.next_cursor == page.total_bytes {
            break;
        }
        assert!(page.next_cursor > next, "each page goes on");
        next = page.next_cursor;
    }
    assert_eq!(got, bytes_of(part(model, cursor.max(retained_from), model.len() as u64), streams));
    let ahead = Read { cursor: model.len() as u64 + 1, max_bytes: max, streams };
    assert!(
        matches!(reader.read(&ahead), Err(ReadError::CursorAhead { total_bytes }) if total_bytes == model.len() as u64)
    );
}

/// Checks both tails.
pub fn check_tails(reader: &SpoolReader, model: &Model, size: u64, streams: StreamFilter) {
    let from = reader.bounds().retained_from;
    let retained = bytes_of(part(model, from, model.len() as u64), streams);
    let wanted = usize::try_from(size).unwrap().min(retained.len());
    let page = reader.tail(size, streams).unwrap();
    check_page(&page, model, streams);
    assert_eq!(page.bytes, retained[retained.len() - wanted..]);
    assert_eq!(page.next_cursor, page.total_bytes);

    let lines = reader.tail_lines(size, u64::MAX, streams).unwrap();
    check_page(&lines, model, streams);
    assert_eq!(lines.next_cursor, lines.total_bytes);
    let text = retained.strip_suffix(b"\n").unwrap_or(&retained);
    let begin = if size == 0 {
        retained.len()
    } else {
        let newlines = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        newlines.map(|(index, _)| index + 1).nth(wanted_lines(size) - 1).unwrap_or(0)
    };
    assert_eq!(lines.bytes, retained[begin..], "{size} lines");
}

fn wanted_lines(size: u64) -> usize {
    usize::try_from(size).unwrap()
}
