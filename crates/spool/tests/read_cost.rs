//! What reads touch on disk: about what they return, whatever is retained.

mod support;

use std::sync::Arc;

use procyard_core::Stream;
use procyard_spool::{Read, Spool, SpoolReader, StreamFilter};
use procyard_store::Dir;
use procyard_testkit::{Faults, FaultyDir};
use support::{NAME, at, options, place};

/// Lines of 100 bytes, 32 MiB of them.
fn written(dir: &Arc<dyn Dir>, window: usize) -> Spool {
    let line = [[b'x'; 99].as_slice(), b"\n"].concat();
    let lines = line.repeat(1000);
    let mut spool = Spool::create(Arc::clone(dir), NAME, options(64 << 20, window));
    while spool.total_bytes() < 32 << 20 {
        spool.append(Stream::Stdout, at(1), &lines);
    }
    spool
}

#[test]
fn a_tail_and_a_page_read_about_what_they_return() {
    let (_place, store) = place();
    let faults = Faults::none();
    let spool = written(&FaultyDir::over(store, &faults), 0);
    let reader = spool.reader();
    let total = spool.total_bytes();
    let touched = |what: &dyn Fn() -> usize| {
        let before = faults.bytes_read();
        let returned = what() as u64;
        (faults.bytes_read() - before, returned)
    };
    let both = StreamFilter::Both;
    for (name, (touched, returned), expected) in [
        ("bytes", touched(&|| reader.tail(10_000, both).unwrap().bytes.len()), 10_000),
        ("lines", touched(&|| reader.tail_lines(100, 1 << 20, both).unwrap().bytes.len()), 10_000),
        ("many lines", touched(&|| reader.tail_lines(2000, 1 << 20, both).unwrap().bytes.len()), 200_000),
        (
            "a page",
            touched(&|| {
                let read = Read { cursor: total / 3, max_bytes: 10_000, streams: both };
                reader.read(&read).unwrap().bytes.len()
            }),
            10_000,
        ),
    ] {
        assert_eq!(returned, expected, "{name}");
        // Lines are looked for in steps of 64 KiB, each in whole blocks of 16 KiB.
        assert!(touched <= 2 * returned + (64 << 10) + 3 * (16 << 10), "{name}: {touched} for {returned}");
    }
}

#[test]
fn what_the_window_has_is_not_read_from_disk() {
    let (_place, store) = place();
    let faults = Faults::none();
    let spool = written(&FaultyDir::over(store, &faults), 1 << 20);
    spool.reader().tail_lines(100, 1 << 20, StreamFilter::Both).unwrap();
    spool.reader().tail(100_000, StreamFilter::Both).unwrap();
    assert_eq!(faults.bytes_read(), 0);
}

#[test]
fn opening_reads_the_newest_segment_and_no_other() {
    let (_place, store) = place();
    let faults = Faults::none();
    let dir = FaultyDir::over(store, &faults);
    drop(written(&dir, 0).finish());
    let segment = 64 << 20 >> 3;
    let reader = SpoolReader::open(dir, NAME, options(64 << 20, 0)).unwrap();
    assert_eq!(reader.bounds().total_bytes, 335 * 100_000 + 100_000);
    assert!(faults.bytes_read() <= segment);
}
