//! What an append asks of the store: as much for the ten-thousandth mebibyte as for the first, counted, not timed.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use procyard_core::Stream;
use procyard_spool::Spool;
use procyard_testkit::{Faults, FaultyDir, Operation};
use support::{NAME, at, options, place};

const CEILING: u64 = 1 << 20;
const SEGMENT: u64 = CEILING / 8;

/// The most calls of one append that fits into a segment: a write at the end of one segment and one at the beginning
/// of the next, whose file is made out of the oldest (rename, open), and two files that go.
const CALLS_AT_MOST: u64 = 6;

/// Calls and bytes of `appends` appends, and the most calls of one.
fn ask(spool: &mut Spool, faults: &Faults, appends: u64, bytes: &[u8]) -> (u64, u64, u64) {
    let (calls, written) = (faults.calls(), faults.bytes_written());
    let mut most = 0;
    for _ in 0..appends {
        let before = faults.calls();
        let time = i64::try_from(spool.total_bytes()).unwrap();
        spool.append(Stream::Stdout, at(time), bytes);
        most = most.max(faults.calls() - before);
    }
    (faults.calls() - calls, faults.bytes_written() - written, most)
}

fn check_flat(size: usize) {
    let (_place, dir) = place();
    let faults = Faults::none();
    let mut spool = Spool::create(FaultyDir::over(dir, &faults), NAME, options(CEILING, 64 << 10));
    let bytes = vec![b'x'; size];
    // So many that eight segments are filled, give or take a part of one.
    let appends = CEILING / size as u64;
    let until = |spool: &mut Spool, total: u64| {
        while spool.total_bytes() < total {
            ask(spool, &faults, 1, &bytes);
        }
    };
    // The directory and the first segments are made once.
    until(&mut spool, 2 * CEILING);
    let early = ask(&mut spool, &faults, appends, &bytes);
    until(&mut spool, 40 * CEILING);
    let late = ask(&mut spool, &faults, appends, &bytes);
    for (when, (calls, written, most)) in [("early", early), ("late", late)] {
        assert!(most <= CALLS_AT_MOST, "{size}, {when}: one append made {most} calls");
        let segments = written / SEGMENT + 2;
        assert!(calls <= appends + segments * CALLS_AT_MOST, "{size}, {when}: {calls} calls");
    }
    // A stretch may begin anywhere within a segment, so that it has one border more or less.
    assert!(late.0.abs_diff(early.0) <= CALLS_AT_MOST, "{size}: {} calls, then {}", early.0, late.0);
    assert!(late.1.abs_diff(early.1) <= SEGMENT / 8, "{size}: {} bytes, then {}", early.1, late.1);
}

#[test]
fn an_append_asks_the_same_of_the_store_whatever_was_written_before() {
    for size in [64 << 10, 4 << 10, 80] {
        check_flat(size);
    }
}

#[test]
fn an_append_never_reads() {
    // Reading would be the sign of a window that is rewritten, or of a lookup that grows.
    let (_place, dir) = place();
    let faults = Faults::none();
    let mut spool = Spool::create(FaultyDir::over(dir, &faults), NAME, options(CEILING, 64 << 10));
    ask(&mut spool, &faults, 3 * CEILING / (4 << 10), &[b'x'; 4 << 10]);
    assert_eq!(faults.calls_of(Operation::Read), 0);
}
