//! Every call of everything that a spool does fails once, and then for good: output becomes a stated hole, never a
//! wrong byte, and what works again goes on.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Page, Read, ReadError, Spool, SpoolError, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::Dir;
use procyard_testkit::{Failure, Fault, Faults, FaultyDir, LosingStore, Operation};

const NAME: &str = "p.spool";
const OPTIONS: SpoolOptions = SpoolOptions { ceiling: 40_000, window: 0, head: 100 };
const FAILURES: [Failure; 5] =
    [Failure::Io, Failure::NoSpace, Failure::ReadOnly, Failure::NoDescriptors, Failure::Short];

fn pattern(from: u64, until: u64) -> Vec<u8> {
    (from..until).map(|cursor| cursor.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[2]).collect()
}

fn append(spool: &mut Spool, len: u64) -> bool {
    let from = spool.total_bytes();
    let at = Timestamp::from_unix_micros(from.cast_signed());
    let appended = spool.append(Stream::Stdout, at, &pattern(from, from + len));
    assert_eq!(appended.total_bytes, from + len, "the process is not held up");
    appended.degraded
}

/// Checks that a page says nothing but the truth.
fn check(page: &Page) {
    assert_eq!(page.gap, !page.gaps.is_empty());
    for span in &page.spans {
        let bytes = &page.bytes[span.offset..][..span.len];
        assert!(bytes == pattern(span.cursor, span.cursor + span.len as u64), "wrong bytes in {span:?}");
    }
    // A page that begins in a gap begins behind it.
    let start = page.start_cursor;
    let missing: u64 = page.gaps.iter().map(|gap| gap.until.saturating_sub(gap.from.max(start))).sum();
    assert_eq!(
        page.bytes.len() as u64 + missing,
        page.next_cursor - page.start_cursor,
        "all is accounted for"
    );
}

/// Reads from the beginning to the end and says how many bytes there were; damage and refusals are passed over.
fn readable(reader: &SpoolReader) -> u64 {
    let bounds = reader.bounds();
    let (mut cursor, mut bytes, mut refused) = (bounds.retained_from, 0, 0);
    while cursor < bounds.total_bytes {
        match reader.read(&Read { cursor, max_bytes: 10_000, streams: StreamFilter::Both }) {
            Ok(page) => {
                check(&page);
                assert!(page.next_cursor > cursor);
                bytes += page.bytes.len() as u64;
                cursor = page.next_cursor;
            }
            Err(ReadError::Corrupt { from, until }) => {
                assert!(from == cursor && until > cursor);
                cursor = until;
            }
            Err(ReadError::Io(_)) if refused < 100 => refused += 1,
            Err(ReadError::Io(_)) => break,
            Err(error) => panic!("{error}"),
        }
    }
    match reader.tail(500, StreamFilter::Both) {
        Ok(page) => check(&page),
        Err(error) => assert!(matches!(error, ReadError::Io(_)), "{error}"),
    }
    bytes
}

/// Lets each call of a scene fail in each way, once or from then on, and says how many cases that was.
fn at_every_call(
    prepare: impl Fn(&LosingStore),
    scene: impl Fn(Arc<dyn Dir>, &LosingStore, &Faults, u64),
) -> u64 {
    let mut cases = 0;
    for failure in FAILURES {
        for times in [1, u64::MAX] {
            for call in 0.. {
                let (disk, faults) = (LosingStore::new(), Faults::none());
                prepare(&disk);
                let dir = FaultyDir::over(disk.root(), &faults);
                faults.fail(Fault::on(&Operation::ALL).with(failure).after(call).times(times));
                scene(dir, &disk, &faults, times);
                if faults.failed() == 0 {
                    break;
                }
                cases += 1;
            }
        }
    }
    cases
}

#[test]
fn output_goes_on_whatever_call_is_refused() {
    let cases = at_every_call(
        |_| {},
        |dir, disk, faults, times| {
            let mut spool = Spool::create(dir, NAME, OPTIONS);
            let live = spool.reader();
            let mut degraded = false;
            for round in 0..14 {
                degraded |= append(&mut spool, 6000);
                if round % 5 == 2 {
                    spool.mark_resize(Timestamp::from_unix_micros(1), 24, 80);
                    let synced = spool.sync();
                    assert!(synced.is_ok() || faults.failed() > 0);
                    degraded |= synced.is_err();
                }
            }
            readable(&live);
            faults.heal();
            assert_eq!(spool.degraded(), live.degraded());
            // It works again: what comes now is there, on disk too.
            for _ in 0..2 {
                append(&mut spool, 500);
            }
            let total = spool.total_bytes();
            assert_eq!(live.tail(1000, StreamFilter::Both).unwrap().bytes, pattern(total - 1000, total));
            let kept = readable(&live);
            let _ = spool.sync();
            let reader = spool.finish();
            assert_eq!(readable(&reader), kept);
            let found = SpoolReader::open(disk.root(), NAME, OPTIONS).unwrap();
            assert_eq!(found.bounds().total_bytes, total);
            assert!(readable(&found) >= kept, "what was read is on disk");
            // Nothing is missing that nobody was told of.
            let retained = live.bounds().total_bytes - live.bounds().retained_from;
            assert!(kept == retained || degraded, "{kept} of {retained}");
            assert!(times == 1 || faults.failed() == 0 || kept >= 1000);
            let (spool, _) = Spool::recover(disk.root(), NAME, OPTIONS).unwrap();
            assert_eq!(spool.total_bytes(), total);
        },
    );
    println!("writing: {cases} failed calls");
    assert!(cases > 300, "{cases}");
}

#[test]
fn opening_and_reading_say_which_call_was_refused_and_work_afterwards() {
    let prepare = |disk: &LosingStore| {
        let mut spool = Spool::create(disk.root(), NAME, OPTIONS);
        for _ in 0..14 {
            append(&mut spool, 6000);
        }
        // A torn tail, for recovery to cut.
        let dir = disk.root().open_dir(NAME).unwrap();
        let newest = dir.list().unwrap().into_iter().map(|entry| entry.name).max().unwrap();
        let file = dir.open_file(&newest, procyard_store::Access::ReadWrite).unwrap();
        file.set_len(file.len().unwrap() - 1).unwrap();
    };
    let mut expected = LosingStore::new();
    prepare(&expected);
    expected = expected.after_cut(procyard_testkit::Loss::Nothing);
    let whole = readable(&SpoolReader::open(expected.root(), NAME, OPTIONS).unwrap());
    for writes in [false, true] {
        let cases = at_every_call(prepare, |dir, _, faults, _| {
            let open = || {
                if writes {
                    Spool::recover(Arc::clone(&dir), NAME, OPTIONS).map(|(spool, _)| spool.reader())
                } else {
                    SpoolReader::open(Arc::clone(&dir), NAME, OPTIONS)
                }
            };
            match open() {
                Ok(reader) => {
                    assert!(readable(&reader) <= whole);
                    faults.heal();
                    assert_eq!(readable(&reader), whole, "a reader goes on where it was refused");
                }
                Err(error) => assert!(matches!(error, SpoolError::Io(_)), "{error:?}"),
            }
            faults.heal();
            assert_eq!(readable(&open().unwrap()), whole);
        });
        println!("opening and reading: {cases} failed calls");
        assert!(cases > 100, "{cases}");
    }
}

#[test]
fn a_removal_whose_call_is_refused_can_be_done_again() {
    let prepare = |disk: &LosingStore| {
        let mut spool = Spool::create(disk.root(), NAME, OPTIONS);
        append(&mut spool, 35_000);
    };
    let cases = at_every_call(prepare, |dir, disk, faults, _| {
        let removed = procyard_spool::remove(&*dir, NAME);
        assert!(removed.is_ok() || faults.failed() > 0);
        faults.heal();
        procyard_spool::remove(&*dir, NAME).unwrap();
        assert!(disk.root().list().unwrap().is_empty());
    });
    assert!(cases > 40, "{cases}");
}
