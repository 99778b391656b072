//! A disk that is full or broken for a while: the stream goes on, and says what is missing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::Arc;

use procyard_core::Stream;
use procyard_spool::{Gap, Page, Read, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::Dir;
use procyard_testkit::{Fault, Faults, FaultyDir, Operation};
use support::{NAME, at, place};

const NO_WINDOW: SpoolOptions = SpoolOptions { ceiling: 1 << 20, window: 0, head: 0 };

struct Broken {
    _place: tempfile::TempDir,
    dir: Arc<dyn Dir>,
    faults: Arc<Faults>,
}

fn broken() -> Broken {
    let (place, real) = place();
    let faults = Faults::none();
    Broken { _place: place, dir: FaultyDir::over(real, &faults), faults }
}

fn everything(reader: &SpoolReader) -> Page {
    reader.read(&Read { cursor: 0, max_bytes: 1 << 20, streams: StreamFilter::Both }).unwrap()
}

fn hole(page: &Page) -> Vec<(usize, u64, u64)> {
    page.gaps.iter().map(|&Gap { offset, from, until }| (offset, from, until)).collect()
}

#[test]
fn a_full_disk_makes_a_hole_and_the_stream_goes_on() {
    let store = broken();
    let mut spool = Spool::create(Arc::clone(&store.dir), NAME, NO_WINDOW);
    assert!(!spool.append(Stream::Stdout, at(1), b"before").degraded);
    store.faults.set_room(0);
    let appended = spool.append(Stream::Stdout, at(2), b"lost");
    assert!(appended.degraded && spool.degraded());
    assert_eq!(appended.total_bytes, 10);
    spool.append(Stream::Stdout, at(3), b"lost too");
    let page = everything(&spool.reader());
    assert_eq!(page.bytes, b"before");
    assert_eq!((page.gap, hole(&page), page.next_cursor), (true, vec![(6, 6, 18)], 18));

    store.faults.heal();
    assert!(spool.append(Stream::Stderr, at(4), b"after").degraded, "it stays known");
    for reader in [spool.reader(), SpoolReader::open(Arc::clone(&store.dir), NAME, NO_WINDOW).unwrap()] {
        assert!(reader.degraded());
        let page = everything(&reader);
        assert_eq!(page.bytes, b"beforeafter");
        assert_eq!((hole(&page), page.next_cursor), (vec![(6, 6, 18)], 23));
        assert_eq!(page.spans[1].cursor, 18);
        // A page that begins in the hole begins behind it.
        let read = Read { cursor: 8, max_bytes: 100, streams: StreamFilter::Both };
        let page = reader.read(&read).unwrap();
        assert_eq!((page.start_cursor, hole(&page), page.bytes), (18, vec![(0, 8, 18)], b"after".to_vec()));
        let tail = reader.tail(7, StreamFilter::Both).unwrap();
        assert!(tail.gap);
    }
    let (spool, recovery) = Spool::recover(store.dir, NAME, NO_WINDOW).unwrap();
    assert!(recovery.holes && spool.degraded());
}

#[test]
fn the_window_has_what_the_disk_has_not() {
    let store = broken();
    let options = SpoolOptions { window: 1000, ..NO_WINDOW };
    let mut spool = Spool::create(Arc::clone(&store.dir), NAME, options);
    spool.append(Stream::Stdout, at(1), b"one ");
    store.faults.set_room(0);
    spool.append(Stream::Stdout, at(2), b"two");
    let page = everything(&spool.reader());
    assert_eq!((page.bytes.as_slice(), page.gap), (b"one two".as_slice(), false));
    // And keeps it when the process ends before the disk works again.
    let page = everything(&spool.finish());
    assert_eq!((page.bytes.as_slice(), page.gap), (b"one two".as_slice(), false));
}

#[test]
fn a_disk_that_becomes_full_at_any_byte_keeps_whole_chunks() {
    let chunks: Vec<Vec<u8>> =
        (0..6u8).map(|index| vec![b'a' + index; 300 * usize::from(index) + 1]).collect();
    for room in (0..5000_u64).step_by(37) {
        for cutting_fails in [false, true] {
            let store = broken();
            store.faults.set_room(room);
            if cutting_fails {
                store.faults.fail(Fault::on(&[Operation::SetLen]));
            }
            let mut spool = Spool::create(Arc::clone(&store.dir), NAME, NO_WINDOW);
            let write: Vec<_> =
                chunks.iter().map(|chunk| (Stream::Stdout, at(1), chunk.as_slice())).collect();
            spool.append_all(&write);
            store.faults.heal();
            spool.append(Stream::Stdout, at(2), b"after");
            for reader in [spool.reader(), SpoolReader::open(store.dir, NAME, NO_WINDOW).unwrap()] {
                let page = everything(&reader);
                assert_eq!(page.total_bytes, 4511);
                assert!(page.bytes.ends_with(b"after"));
                for span in &page.spans {
                    let all: Vec<u8> = chunks.concat().into_iter().chain(*b"after").collect();
                    let printed = &all[usize::try_from(span.cursor).unwrap()..][..span.len];
                    assert_eq!(&page.bytes[span.offset..span.offset + span.len], printed);
                }
                let missing: u64 = page.gaps.iter().map(|gap| gap.until - gap.from).sum();
                assert_eq!(page.bytes.len() as u64 + missing, page.total_bytes, "{room}");
                assert!(page.bytes.len() as u64 + 32 + 6 * 24 + 1501 > room, "{room}");
            }
        }
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_made_later() {
    let store = broken();
    store.faults.fail(Fault::on(&[Operation::CreateDir, Operation::CreateFile]));
    let mut spool = Spool::create(Arc::clone(&store.dir), NAME, NO_WINDOW);
    spool.append(Stream::Stdout, at(1), b"lost");
    assert_eq!(spool.reader().bounds().retained_from, 4);
    store.faults.heal();
    spool.append(Stream::Stdout, at(1), b"kept");
    let page = everything(&spool.reader());
    assert_eq!((page.bytes.as_slice(), page.start_cursor, page.gap), (b"kept".as_slice(), 4, true));
    let reopened = everything(&SpoolReader::open(store.dir, NAME, NO_WINDOW).unwrap());
    assert_eq!(reopened, page);
}

#[test]
fn syncing_records_the_hole_at_the_end() {
    let store = broken();
    let mut spool = Spool::create(Arc::clone(&store.dir), NAME, NO_WINDOW);
    spool.append(Stream::Stdout, at(1), b"kept");
    store.faults.set_room(0);
    spool.append(Stream::Stdout, at(1), b"lost");
    assert!(spool.sync().is_err());
    store.faults.heal();
    spool.sync().unwrap();
    let page = everything(&SpoolReader::open(store.dir, NAME, NO_WINDOW).unwrap());
    assert_eq!((page.total_bytes, hole(&page)), (8, vec![(4, 4, 8)]));
}

#[test]
fn names_that_could_not_be_synced_are_synced_by_the_next_try() {
    let store = broken();
    let mut spool = Spool::create(store.dir, NAME, NO_WINDOW);
    spool.sync().unwrap();
    spool.append(Stream::Stdout, at(1), b"kept");
    store.faults.fail(Fault::on(&[Operation::SyncDir]));
    assert!(spool.sync().is_err());
    assert!(spool.sync().is_err(), "it is not forgotten");
    store.faults.heal();
    spool.sync().unwrap();
    assert!(!spool.degraded());
}

#[test]
fn output_whose_sync_failed_stays_in_doubt_until_it_is_dropped() {
    let store = broken();
    let mut spool = Spool::create(store.dir, NAME, SpoolOptions { ceiling: 1000, ..NO_WINDOW });
    spool.append(Stream::Stdout, at(1), b"in doubt");
    store.faults.fail(Fault::on(&[Operation::SyncFile]).times(1));
    assert!(spool.sync().is_err());
    assert!(spool.degraded() && spool.reader().degraded());
    assert!(spool.sync().is_err(), "the kernel forgets the error, the spool does not");
    assert_eq!(everything(&spool.reader()).bytes, b"in doubt", "it is read all the same");
    for _ in 0..40 {
        spool.append(Stream::Stdout, at(2), &[b'x'; 1000]);
    }
    spool.sync().unwrap();
    assert!(spool.degraded(), "it stays known");
}

#[test]
fn holes_stay_within_the_ceiling_when_the_disk_flaps() {
    let store = broken();
    let options = SpoolOptions { ceiling: 20_000, window: 0, head: 0 };
    let mut spool = Spool::create(Arc::clone(&store.dir), NAME, options);
    let mut retained_from = 0;
    for round in 0..3000u32 {
        store.faults.heal();
        if round % 7 < 3 {
            store.faults.set_room(u64::from(round % 50));
        }
        spool.append(Stream::Stdout, at(1), &[b'x'; 333]);
        let bounds = spool.reader().bounds();
        assert!(bounds.retained_from >= retained_from, "never backward");
        assert!(bounds.retained_from >= bounds.total_bytes.saturating_sub(20_000));
        retained_from = bounds.retained_from;
    }
    store.faults.heal();
    spool.append(Stream::Stdout, at(1), b"end");
    let live = spool.reader();
    let found = SpoolReader::open(store.dir, NAME, options).unwrap();
    assert_eq!(live.bounds(), found.bounds());
    let cursor = live.bounds().retained_from;
    let read = Read { cursor, max_bytes: 100_000, streams: StreamFilter::Both };
    assert_eq!(live.read(&read).unwrap(), found.read(&read).unwrap());
}
