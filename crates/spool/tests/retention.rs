//! What stays, what goes, what it takes.

mod support;

use std::sync::Arc;

use procyard_core::Stream;
use procyard_spool::{Bounds, Read, Spool, SpoolOptions, SpoolReader, StreamFilter};
use support::{NAME, at, disk_bound, disk_use, options, pattern, place};

#[test]
fn a_process_that_prints_nothing_leaves_nothing() {
    let (place, dir) = place();
    let mut spool = Spool::create(Arc::clone(&dir), NAME, SpoolOptions::default());
    spool.append(Stream::Stdout, at(1), b"");
    spool.sync().unwrap();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    for reader in
        [spool.finish(), SpoolReader::open(Arc::clone(&dir), NAME, SpoolOptions::default()).unwrap()]
    {
        let page = reader.read(&Read { cursor: 0, max_bytes: 10, streams: StreamFilter::Both }).unwrap();
        assert_eq!((page.bytes.len(), page.next_cursor, page.gap), (0, 0, false));
        assert!(reader.head().bytes.is_empty());
    }
    procyard_spool::remove(&*dir, NAME).unwrap();
    let (spool, recovery) = Spool::recover(dir, NAME, SpoolOptions::default()).unwrap();
    assert_eq!((spool.total_bytes(), recovery.cut_bytes), (0, 0));
}

#[test]
fn exactly_the_ceiling_is_retained() {
    for (ceiling, chunk) in
        [(1_u64, 10), (1000, 7), (1000, 5000), (100_000, 900), (1 << 20, 20_000), (1 << 20, 100)]
    {
        let (place, dir) = place();
        let mut spool = Spool::create(Arc::clone(&dir), NAME, options(ceiling, 5000));
        let bytes = vec![b'x'; chunk];
        while spool.total_bytes() < 3 * ceiling + 100 {
            spool.append(Stream::Stdout, at(1), &bytes);
            let Bounds { total_bytes, retained_from } = spool.reader().bounds();
            // Chunks of 100 bytes carry 24 % of headers, which still fits; smaller ones let the oldest go earlier.
            if chunk >= 100 || ceiling <= 1000 {
                assert_eq!(retained_from, total_bytes.saturating_sub(ceiling), "{ceiling} {chunk}");
            }
            assert!(disk_use(place.path()) < disk_bound(ceiling));
        }
    }
}

#[test]
fn one_byte_at_a_time_stays_below_the_disk_bound_and_lets_the_oldest_go_early() {
    let ceiling = 200_000;
    let (place, dir) = place();
    let mut spool = Spool::create(dir, NAME, options(ceiling, 4000));
    for index in 0..60_000 {
        spool.append(Stream::Stdout, at(index), &[pattern(index.cast_unsigned())]);
        if index % 97 == 0 {
            assert!(disk_use(place.path()) < disk_bound(ceiling));
        }
    }
    let Bounds { total_bytes, retained_from } = spool.reader().bounds();
    assert_eq!(total_bytes, 60_000);
    assert!(retained_from > 0 && total_bytes - retained_from > 9000, "{retained_from}");
    let page = spool.reader().read(&Read { cursor: 0, max_bytes: 100, streams: StreamFilter::Both }).unwrap();
    assert_eq!((page.start_cursor, page.gap), (retained_from, true));
    assert_eq!(page.bytes, (retained_from..retained_from + 100).map(pattern).collect::<Vec<_>>());
}

#[test]
fn the_head_stays_after_any_flood() {
    let (_place, dir) = place();
    let mut spool = Spool::create(Arc::clone(&dir), NAME, options(10_000, 100));
    spool.append_all(&[(Stream::Stdout, at(1), b"first "), (Stream::Stderr, at(2), b"second ")]);
    for _ in 0..1000 {
        spool.append(Stream::Stdout, at(3), &[b'x'; 1000]);
    }
    let head = spool.reader().head();
    assert_eq!(head.bytes.len(), 1024);
    assert!(head.bytes.starts_with(b"first second xxx"));
    assert_eq!(
        head.spans.iter().map(|span| (span.cursor, span.len)).collect::<Vec<_>>(),
        [(0, 6), (6, 7), (13, 1011)]
    );
    assert_eq!(spool.finish().head(), head);
}

#[test]
fn a_head_that_is_retained_is_found_on_disk() {
    let (_place, dir) = place();
    let mut spool = Spool::create(Arc::clone(&dir), NAME, options(10_000, 100));
    spool.append(Stream::Stdout, at(1), &[b'x'; 2000]);
    drop(spool);
    let expected = vec![b'x'; 1024];
    assert_eq!(SpoolReader::open(Arc::clone(&dir), NAME, options(10_000, 0)).unwrap().head().bytes, expected);
    let (spool, _) = Spool::recover(dir, NAME, options(10_000, 0)).unwrap();
    assert_eq!(spool.reader().head().bytes, expected);
}

#[test]
fn a_removed_spool_is_a_gap_for_its_readers() {
    let (place, dir) = place();
    let mut spool = Spool::create(dir, NAME, options(10_000, 100));
    spool.append(Stream::Stdout, at(1), &[b'x'; 2000]);
    let reader = spool.reader();
    spool.remove().unwrap();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    let page = reader.read(&Read { cursor: 5, max_bytes: 10, streams: StreamFilter::Both }).unwrap();
    assert_eq!((page.start_cursor, page.bytes.len(), page.gap), (2000, 0, true));
}

#[test]
fn resizes_are_found_where_they_were() {
    let (_place, dir) = place();
    for window in [0, 10_000] {
        let mut spool = Spool::create(Arc::clone(&dir), NAME, options(100_000, window));
        spool.mark_resize(at(1), 24, 80);
        spool.append(Stream::Terminal, at(2), b"0123456789");
        spool.mark_resize(at(3), 50, 132);
        spool.append(Stream::Terminal, at(4), b"abc");
        spool.mark_resize(at(5), 1, 2);
        let reader = spool.reader();
        let resizes = |cursor, max_bytes| {
            let page = reader.read(&Read { cursor, max_bytes, streams: StreamFilter::Both }).unwrap();
            page.resizes.iter().map(|resize| (resize.offset, resize.cursor, resize.rows)).collect::<Vec<_>>()
        };
        assert_eq!(resizes(0, 100), [(0, 0, 24), (10, 10, 50)]);
        assert_eq!(resizes(0, 10), [(0, 0, 24)], "each is on one page");
        assert_eq!(resizes(10, 3), [(0, 10, 50)]);
        assert_eq!(resizes(4, 3), []);
        assert_eq!(resizes(13, 3), [], "the last comes with what follows it");
        spool.append(Stream::Terminal, at(6), b"d");
        assert_eq!(resizes(13, 3), [(0, 13, 1)]);
        spool.remove().unwrap();
    }
}

#[test]
fn a_window_read_never_touches_the_disk() {
    let (place, dir) = place();
    let mut spool = Spool::create(dir, NAME, options(100_000, 1000));
    for index in 0..10u8 {
        spool.append(Stream::Stdout, at(1), &[index; 300]);
    }
    std::fs::remove_dir_all(place.path().join(NAME)).unwrap();
    let reader = spool.reader();
    let read = |cursor| Read { cursor, max_bytes: 100, streams: StreamFilter::Both };
    assert_eq!(reader.read_window(&read(2950)).unwrap().unwrap().bytes, [9; 50]);
    assert!(reader.read_window(&read(3000)).unwrap().unwrap().bytes.is_empty());
    assert!(reader.read_window(&read(3001)).unwrap().is_err());
    assert!(reader.read_window(&read(100)).is_none());
}

#[test]
fn looking_for_one_stream_ends_after_bounded_work() {
    let (_place, dir) = place();
    let mut spool = Spool::create(dir, NAME, options(16 << 20, 0));
    spool.append(Stream::Stderr, at(1), b"far away");
    for _ in 0..200 {
        spool.append(Stream::Stdout, at(1), &vec![b'x'; 50_000]);
    }
    let reader = spool.reader();
    let streams = StreamFilter::Only(Stream::Stderr);
    let page = reader.read(&Read { cursor: 8, max_bytes: 100, streams }).unwrap();
    assert!(page.bytes.is_empty() && page.next_cursor > 8 && page.next_cursor < 2 << 20);
    assert!(reader.tail(100, streams).unwrap().bytes.is_empty());
    assert!(reader.tail_lines(1, 100, streams).unwrap().bytes.is_empty());
    let lines = reader.tail_lines(1, 100_000, StreamFilter::Both).unwrap();
    assert_eq!((lines.bytes.len(), lines.start_cursor), (100_000, 10_000_008 - 100_000));
}

#[test]
fn the_last_lines_of_one_stream_are_found_behind_much_of_the_other() {
    let (_place, dir) = place();
    let mut spool = Spool::create(dir, NAME, options(16 << 20, 0));
    spool.append(Stream::Stderr, at(1), b"one\ntwo\nthree\n");
    for _ in 0..60 {
        spool.append(Stream::Stdout, at(1), &vec![b'x'; 50_000]);
    }
    let lines = spool.reader().tail_lines(2, 100, StreamFilter::Only(Stream::Stderr)).unwrap();
    assert_eq!((lines.bytes.as_slice(), lines.start_cursor), (b"two\nthree\n".as_slice(), 4));
    let cut = spool.reader().tail_lines(2, 8, StreamFilter::Only(Stream::Stderr)).unwrap();
    assert_eq!(cut.bytes, b"o\nthree\n");
}

#[test]
fn a_finished_spool_takes_no_more_than_it_holds() {
    let (place, dir) = place();
    let options = options(100_000, 0);
    for synced in [false, true] {
        let mut spool = Spool::create(Arc::clone(&dir), NAME, options);
        for _ in 0..400 {
            spool.append(Stream::Stdout, at(1), &[b'x'; 1000]);
        }
        if synced {
            spool.sync().unwrap();
        }
        let reader = spool.finish();
        let used = disk_use(place.path());
        assert_eq!(used, reader.disk_bytes());
        let kept = reader.bounds().total_bytes - reader.bounds().retained_from;
        assert!(used < kept + kept / 20 + (16 << 10), "{used} for {kept}");
        procyard_spool::remove(&*dir, NAME).unwrap();
    }
}

#[test]
fn what_the_files_may_take_follows_the_ceiling() {
    let bound = |ceiling| options(ceiling, 0).disk_bound();
    for ceiling in [0, 1, 1000, 1 << 20, (64 << 20) + 1, 8 << 30] {
        assert_eq!(bound(ceiling), disk_bound(ceiling.max(1)));
    }
    assert_eq!(bound(64 << 20), 88 << 20);
    assert_eq!(bound(u64::MAX), u64::MAX);
}
