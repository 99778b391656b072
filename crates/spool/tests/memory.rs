//! What a spool takes of memory, counted to the byte in the allocator: nearly nothing while the process prints nothing,
//! the window and a little when it is full, whatever the chunks are.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use allocation_counter::{AllocationInfo, measure};
use procyard_core::Stream;
use procyard_spool::{Read, Spool, SpoolOptions, StreamFilter};
use support::{NAME, at, place};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What an idle spool may take.
const IDLE: u64 = 8 * KIB;
/// What a full one may take beside its window.
const BESIDE_WINDOW: u64 = 256 * KIB;

/// What is allocated and not given back.
fn kept(info: &AllocationInfo) -> u64 {
    u64::try_from(info.bytes_current).unwrap()
}

#[test]
fn a_spool_whose_process_prints_nothing_takes_next_to_nothing() {
    let (_place, dir) = place();
    let mut kept_alive = None;
    let silent = measure(|| {
        let spool = Spool::create(dir, NAME, SpoolOptions::default());
        let reader = spool.reader();
        kept_alive = Some((spool, reader));
    });
    assert!(kept(&silent) > 0 && kept(&silent) <= IDLE, "{} bytes", kept(&silent));
}

#[test]
fn a_spool_whose_process_printed_a_line_and_rests_takes_little() {
    let (_place, dir) = place();
    let mut kept_alive = None;
    let resting = measure(|| {
        let mut spool = Spool::create(dir, NAME, SpoolOptions::default());
        spool.append(Stream::Stdout, at(1), b"listening on 127.0.0.1:8080\n");
        kept_alive = Some(spool);
    });
    assert!(kept(&resting) > 0 && kept(&resting) <= IDLE, "{} bytes", kept(&resting));
}

/// Floods a spool of `ceiling` bytes until twice that was printed, reading in it meanwhile and when it is full.
fn check_full(ceiling: u64, chunks: &[usize]) {
    let (_place, dir) = place();
    let options = SpoolOptions { ceiling, ..SpoolOptions::default() };
    let bound = options.window as u64 + BESIDE_WINDOW;
    let bytes = vec![b'x'; *chunks.iter().max().unwrap()];
    let mut spool = Spool::create(dir, NAME, options);
    let reader = spool.reader();
    let flood = measure(|| {
        let mut time = 0;
        while spool.total_bytes() < 2 * ceiling {
            for &size in chunks {
                time += 1;
                let stream = if time % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
                spool.append(stream, at(time), &bytes[..size]);
            }
        }
    });
    assert!(kept(&flood) <= bound, "{chunks:?}: full, it takes {} of {bound} bytes", kept(&flood));
    // What an append takes for itself comes on top, for a moment, as does growing the window.
    assert!(flood.bytes_max <= 2 * bound, "{chunks:?}: {} bytes at most", flood.bytes_max);

    let reads = measure(|| {
        let bounds = reader.bounds();
        for step in 0..100 {
            let cursor = bounds.retained_from + (bounds.total_bytes - bounds.retained_from) / 100 * step;
            let read = Read { cursor, max_bytes: 32 << 10, streams: StreamFilter::Both };
            assert!(!reader.read(&read).unwrap().bytes.is_empty());
        }
        reader.tail_lines(10, MIB, StreamFilter::Both).unwrap();
    });
    let all = kept(&flood) + kept(&reads);
    assert!(all <= bound, "{chunks:?}: with what reading keeps, {all} of {bound} bytes");
    drop(spool);
}

#[test]
fn a_full_spool_takes_its_window_and_a_little_whatever_the_chunks_are() {
    check_full(64 * MIB, &[256 << 10]);
    check_full(64 * MIB, &[4 << 10]);
    check_full(16 * MIB, &[80]);
    check_full(4 * MIB, &[33]);
    check_full(MIB, &[1]);
}

#[test]
fn a_full_spool_takes_no_more_when_the_chunks_change() {
    check_full(16 * MIB, &[256 << 10, 80, 80, 80]);
    let floods = [vec![256 << 10; 8], vec![80; 20_000], vec![1; 40_000], vec![256 << 10; 8]].concat();
    check_full(8 * MIB, &floods);
}
