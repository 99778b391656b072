//! Readers read while the writer writes and drops.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use procyard_core::Stream;
use procyard_spool::{Page, Read, Spool, SpoolReader, StreamFilter};
use support::{NAME, at, options, pattern, place};

const TOTAL: u64 = 24 << 20;

fn check(page: &Page) {
    for span in &page.spans {
        let bytes = &page.bytes[span.offset..span.offset + span.len];
        assert!(bytes.iter().zip(span.cursor..).all(|(&byte, cursor)| byte == pattern(cursor)));
    }
    let missing: u64 =
        page.gaps.iter().filter(|gap| gap.from >= page.start_cursor).map(|gap| gap.until - gap.from).sum();
    assert_eq!(page.bytes.len() as u64 + missing, page.next_cursor - page.start_cursor);
}

/// Follows the stream from a place behind it, in pages of one size.
fn follow(reader: &SpoolReader, max_bytes: usize, behind: u64) {
    let mut cursor = 0;
    while cursor < TOTAL {
        let oldest = reader.bounds().total_bytes.saturating_sub(behind);
        let read = Read { cursor: cursor.max(oldest), max_bytes, streams: StreamFilter::Both };
        let page = reader.read(&read).unwrap();
        check(&page);
        assert!(page.start_cursor >= read.cursor && page.next_cursor >= page.start_cursor);
        cursor = page.next_cursor;
    }
}

#[test]
fn a_reader_gets_the_truth_while_the_writer_writes_and_drops() {
    let (_place, dir) = place();
    let mut spool = Spool::create(dir, NAME, options(400_000, 50_000));
    let done = AtomicBool::new(false);
    let readers: Vec<_> = (0..4).map(|_| spool.reader()).collect();
    thread::scope(|scope| {
        scope.spawn(|| follow(&readers[0], 9000, u64::MAX));
        scope.spawn(|| follow(&readers[1], 70_000, 410_000));
        scope.spawn(|| follow(&readers[2], 500, 30_000));
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                check(&readers[3].tail(100_000, StreamFilter::Both).unwrap());
                readers[3].tail_lines(100, 200_000, StreamFilter::Only(Stream::Stdout)).unwrap();
            }
        });
        while spool.total_bytes() < TOTAL {
            let from = spool.total_bytes();
            let len = (from % 50_000 + 1).min(TOTAL - from);
            let bytes: Vec<u8> = (from..from + len).map(pattern).collect();
            spool.append(Stream::Stdout, at(from.cast_signed()), &bytes);
        }
        done.store(true, Ordering::SeqCst);
    });
}
