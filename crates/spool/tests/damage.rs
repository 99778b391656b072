//! Torn, flipped and missing bytes: what is intact is read, what is not is said, nothing is made up.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use procyard_core::Stream;
use procyard_spool::{Read, ReadError, Spool, SpoolError, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{Dir, FsDir};
use support::{Model, NAME, at, check_page, options, pattern, place, read_all};

const OPTIONS: SpoolOptions = SpoolOptions { ceiling: 1 << 20, window: 0, head: 0 };

/// Prints chunks of these sizes, alternating between the streams.
fn print(spool: &mut Spool, model: &mut Model, sizes: &[usize]) {
    for (index, &size) in sizes.iter().enumerate() {
        let stream = if index % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
        let from = model.len() as u64;
        let bytes: Vec<u8> = (from..from + size as u64).map(pattern).collect();
        model.extend(bytes.iter().map(|&byte| (byte, stream)));
        spool.append(stream, at(1_000 + i64::try_from(index).unwrap()), &bytes);
    }
}

/// A spool on disk of chunks of these sizes, its model, and its files, the oldest first.
fn printed(
    place: &Path,
    dir: &Arc<dyn Dir>,
    options: SpoolOptions,
    sizes: &[usize],
) -> (Model, Vec<PathBuf>) {
    let mut spool = Spool::create(Arc::clone(dir), NAME, options);
    let mut model = Model::new();
    print(&mut spool, &mut model, sizes);
    spool.mark_resize(at(5), 24, 80);
    spool.sync().unwrap();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(place.join(NAME)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    (model, files)
}

/// Reads everything that can be read and says how many bytes that was. Whatever comes must be what was printed.
fn readable(reader: &SpoolReader, model: &Model, max_bytes: usize) -> usize {
    let total = usize::try_from(reader.bounds().total_bytes).unwrap();
    assert!(total <= model.len());
    let model = model[..total].to_vec();
    let mut cursor = reader.bounds().retained_from;
    let mut bytes = 0;
    while cursor < total as u64 {
        match reader.read(&Read { cursor, max_bytes, streams: StreamFilter::Both }) {
            Ok(page) => {
                check_page(&page, &model, StreamFilter::Both);
                assert!(page.next_cursor > cursor);
                bytes += page.bytes.len();
                cursor = page.next_cursor;
            }
            Err(ReadError::Corrupt { from, until }) => {
                assert!(
                    from == cursor && until > from && until <= total as u64,
                    "{from} {until} at {cursor}"
                );
                cursor = until;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let tail = reader.tail(max_bytes as u64, StreamFilter::Both).unwrap();
    check_page(&tail, &model, StreamFilter::Both);
    bytes
}

#[test]
fn a_tail_torn_at_any_length_is_cut_to_its_whole_chunks() {
    let (place, dir) = place();
    let sizes = [1, 30, 2, 7, 100, 3];
    let (model, files) = printed(place.path(), &dir, OPTIONS, &sizes);
    let whole = std::fs::read(&files[0]).unwrap();
    let frame_ends: Vec<(usize, usize)> = sizes
        .iter()
        .scan((32, 0), |(file, stream), size| {
            *file += 24 + size;
            *stream += size;
            Some((*file, *stream))
        })
        .collect();
    for len in 0..=whole.len() {
        std::fs::write(&files[0], &whole[..len]).unwrap();
        let expected = frame_ends.iter().rev().find(|(end, _)| *end <= len).map_or(0, |(_, total)| *total);

        let reader = SpoolReader::open(Arc::clone(&dir), NAME, OPTIONS).unwrap();
        assert_eq!(reader.bounds().total_bytes, expected as u64, "{len}");
        read_all(&reader, &model[..expected].to_vec(), 0, 64, StreamFilter::Both);
        assert_eq!(std::fs::metadata(&files[0]).unwrap().len(), len as u64, "reading changes nothing");

        let (mut spool, recovery) = Spool::recover(Arc::clone(&dir), NAME, OPTIONS).unwrap();
        assert_eq!(recovery.total_bytes, expected as u64);
        assert!(!recovery.damaged && !recovery.holes);
        let mut model = model[..expected].to_vec();
        print(&mut spool, &mut model, &[50, 1]);
        read_all(&spool.reader(), &model, 0, 64, StreamFilter::Both);
        read_all(
            &SpoolReader::open(Arc::clone(&dir), NAME, OPTIONS).unwrap(),
            &model,
            0,
            64,
            StreamFilter::Both,
        );
    }
}

#[test]
fn a_flip_anywhere_in_a_small_spool_never_gives_wrong_bytes() {
    let (place, dir) = place();
    let (model, files) = printed(place.path(), &dir, OPTIONS, &[1, 30, 2, 7, 100, 3]);
    let whole = std::fs::read(&files[0]).unwrap();
    for offset in 0..whole.len() {
        for flip in [0x01, 0x80, 0xFF] {
            let mut flipped = whole.clone();
            flipped[offset] ^= flip;
            std::fs::write(&files[0], &flipped).unwrap();
            let reader = SpoolReader::open(Arc::clone(&dir), NAME, OPTIONS).unwrap();
            let intact = readable(&reader, &model, 1000);
            if offset < 32 {
                assert_eq!(intact, model.len(), "the frames do without the header");
            }
            let (spool, _) = Spool::recover(Arc::clone(&dir), NAME, OPTIONS).unwrap();
            readable(&spool.reader(), &model, 1000);
        }
    }
}

#[test]
fn damage_to_the_kept_segments_never_gives_wrong_bytes() {
    // The middle of the long chunk is the same everywhere; the ends, where the headers are, are not.
    let (flips, cuts) = damage_the_kept_segments(61);
    assert!(flips >= 5000 && cuts >= 1400, "{flips} {cuts}");
}

#[test]
#[ignore = "takes half a minute"]
fn damage_to_any_byte_of_the_kept_segments_never_gives_wrong_bytes() {
    let (flips, cuts) = damage_the_kept_segments(1);
    assert_eq!((flips, cuts), (4 * (16_384 + 1888), 16_384 + 1888));
}

/// Flips bytes of the kept segments in four ways and cuts the files, at every offset near their ends and at each
/// `step`th between. They have both pipes, a terminal, a change of size and a hole, in two segments.
fn damage_the_kept_segments(step: usize) -> (usize, usize) {
    const FIXTURE: [&str; 2] = ["00000000000000000000.seg", "00000000000000016280.seg"];
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let options = SpoolOptions { ceiling: 30_000, window: 0, head: 0 };
    let whole = SpoolReader::open(FsDir::open(&kept).unwrap(), "v1.spool", options).unwrap();
    let whole = whole.read(&Read { cursor: 0, max_bytes: 100_000, streams: StreamFilter::Both }).unwrap();
    let is_part_of_the_whole = |page: &procyard_spool::Page| {
        for span in &page.spans {
            let bytes = &page.bytes[span.offset..][..span.len];
            let of = whole.spans.iter().find(|of| {
                of.cursor <= span.cursor && span.cursor + span.len as u64 <= of.cursor + of.len as u64
            });
            let of = of.unwrap_or_else(|| panic!("{span:?} was never printed"));
            let place = of.offset + usize::try_from(span.cursor - of.cursor).unwrap();
            assert_eq!((bytes, span.stream, span.at), (&whole.bytes[place..][..span.len], of.stream, of.at));
        }
    };
    let store = procyard_testkit::LosingStore::new();
    let dir = store.root().create_dir(NAME).unwrap();
    let files = FIXTURE.map(|name| {
        let bytes = std::fs::read(kept.join("v1.spool").join(name)).unwrap();
        let file = dir.create_file(name).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        file.sync().unwrap();
        (file, bytes)
    });
    let look = || {
        let reader = SpoolReader::open(store.root(), NAME, options).unwrap();
        let total = reader.bounds().total_bytes;
        let mut cursor = reader.bounds().retained_from;
        while cursor < total {
            cursor = match reader.read(&Read { cursor, max_bytes: 40_000, streams: StreamFilter::Both }) {
                Ok(page) => {
                    is_part_of_the_whole(&page);
                    assert!(page.next_cursor > cursor);
                    page.next_cursor
                }
                Err(ReadError::Corrupt { from, until }) => {
                    assert!(from == cursor && until > cursor && until <= total);
                    until
                }
                Err(error) => panic!("{error}"),
            };
        }
        is_part_of_the_whole(&reader.tail(500, StreamFilter::Both).unwrap());
        total
    };
    assert_eq!(look(), whole.total_bytes);
    let (mut flips, mut cuts) = (0, 0);
    for (file, bytes) in &files {
        let offsets =
            (0..300).chain((300..bytes.len() - 300).step_by(step)).chain(bytes.len() - 300..bytes.len());
        for offset in offsets.clone() {
            for flip in [0x01, 0x10, 0x80, 0xFF] {
                file.write_all_at(&[bytes[offset] ^ flip], offset as u64).unwrap();
                look();
                flips += 1;
            }
            file.write_all_at(&bytes[offset..=offset], offset as u64).unwrap();
            file.sync().unwrap();
        }
        for len in offsets {
            file.set_len(len as u64).unwrap();
            assert!(look() <= whole.total_bytes);
            cuts += 1;
            file.write_all_at(&bytes[len..], len as u64).unwrap();
            file.sync().unwrap();
        }
    }
    println!("{flips} flips, {cuts} truncations");
    (flips, cuts)
}

#[test]
fn a_flip_in_several_segments_costs_a_block_at_most() {
    let (place, dir) = place();
    let options = options(100_000, 0);
    let (model, files) = printed(place.path(), &dir, options, &[9000, 20_000, 1, 40_000, 500, 20_000]);
    assert!(files.len() > 4, "several segments");
    for (index, file) in files.iter().enumerate() {
        let whole = std::fs::read(file).unwrap();
        // Every byte of the first headers and of the end, and some of the middle.
        let offsets =
            (0..100).chain((100..whole.len() - 100).step_by(397)).chain(whole.len() - 100..whole.len());
        for offset in offsets {
            let mut flipped = whole.clone();
            flipped[offset] ^= 0x40;
            std::fs::write(file, &flipped).unwrap();
            let reader = SpoolReader::open(Arc::clone(&dir), NAME, options).unwrap();
            let retained = reader.bounds().total_bytes - reader.bounds().retained_from;
            let intact = readable(&reader, &model, 20_000) as u64;
            assert!(intact + (16 << 10) >= retained, "file {index}, byte {offset}");
        }
        std::fs::write(file, &whole).unwrap();
    }
}

#[test]
fn the_intact_blocks_behind_a_damaged_one_are_readable() {
    let (place, dir) = place();
    let (model, files) = printed(place.path(), &dir, OPTIONS, &[60_000]);
    let mut bytes = std::fs::read(&files[0]).unwrap();
    bytes[16_384 + 100] ^= 1;
    std::fs::write(&files[0], &bytes).unwrap();
    // Block 0 has 16384 - 32 - 24 bytes of output, block 1 has 16384 - 24.
    let (first, second) = (16_328, 16_328 + 16_360);

    let reader = SpoolReader::open(Arc::clone(&dir), NAME, OPTIONS).unwrap();
    assert!(reader.degraded());
    let read = |cursor, max_bytes| reader.read(&Read { cursor, max_bytes, streams: StreamFilter::Both });
    let page = read(0, 100_000).unwrap();
    assert_eq!((page.start_cursor, page.next_cursor, page.gap), (0, first, false));
    for cursor in [first, first + 1, second - 1] {
        let error = read(cursor, 100_000).unwrap_err();
        assert!(matches!(error, ReadError::Corrupt { from, until } if from == cursor && until == second));
    }
    let page = read(second, 100_000).unwrap();
    assert_eq!((page.bytes.len() as u64, page.next_cursor), (60_000 - second, 60_000));
    check_page(&page, &model, StreamFilter::Both);

    let tail = reader.tail(40_000, StreamFilter::Both).unwrap();
    check_page(&tail, &model, StreamFilter::Both);
    assert!(tail.gap);
    assert_eq!(tail.gaps.iter().map(|gap| (gap.from, gap.until)).collect::<Vec<_>>(), [(first, second)]);
    assert_eq!(tail.bytes.len() as u64, 40_000);
}

#[test]
fn a_missing_segment_in_the_middle_is_damage_and_a_missing_oldest_one_is_not() {
    let (place, dir) = place();
    let options = options(100_000, 0);
    let (model, files) = printed(place.path(), &dir, options, &[80_000]);
    std::fs::remove_file(&files[2]).unwrap();
    let reader = SpoolReader::open(Arc::clone(&dir), NAME, options).unwrap();
    let cursor = |file: &PathBuf| -> u64 { file.file_stem().unwrap().to_str().unwrap().parse().unwrap() };
    let (from, until) = (cursor(&files[2]), cursor(&files[3]));
    let error = reader.read(&Read { cursor: from, max_bytes: 10, streams: StreamFilter::Both }).unwrap_err();
    assert!(matches!(error, ReadError::Corrupt { from: f, until: u } if f == from && u == until));
    assert_eq!(readable(&reader, &model, 9000) as u64, 80_000 - (until - from));

    std::fs::remove_file(&files[0]).unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    let reader = SpoolReader::open(dir, NAME, options).unwrap();
    assert_eq!(reader.bounds().retained_from, until);
    assert_eq!(readable(&reader, &model, 9000) as u64, 80_000 - until);
}

#[test]
fn a_segment_that_reaches_into_the_next_one_is_damage_from_there_on() {
    let (place, dir) = place();
    let options = options(100_000, 0);
    let (model, files) = printed(place.path(), &dir, options, &[80_000]);
    let cursor = |file: &PathBuf| -> u64 { file.file_stem().unwrap().to_str().unwrap().parse().unwrap() };
    // The third segment goes, and the fourth says that it begins in the middle of the second.
    let claimed = cursor(&files[2]) - 1000;
    std::fs::remove_file(&files[2]).unwrap();
    std::fs::rename(&files[3], files[3].with_file_name(format!("{claimed:020}.seg"))).unwrap();
    let reader = SpoolReader::open(Arc::clone(&dir), NAME, options).unwrap();
    let intact = readable(&reader, &model, 9000);
    assert!(intact < 80_000 - 1000 && intact > 40_000, "{intact} bytes");
    let error =
        reader.read(&Read { cursor: claimed, max_bytes: 10, streams: StreamFilter::Both }).unwrap_err();
    assert!(matches!(error, ReadError::Corrupt { from, .. } if from == claimed), "{error}");
}

#[test]
fn output_that_looks_like_frames_is_never_taken_for_frames() {
    let (place, dir) = place();
    let (_, files) = printed(place.path(), &dir, OPTIONS, &[100, 200, 40_000]);
    let segment = std::fs::read(&files[0]).unwrap();
    procyard_spool::remove(&*dir, NAME).unwrap();

    // A process prints a spool; then the frame before it is damaged.
    let mut spool = Spool::create(Arc::clone(&dir), NAME, OPTIONS);
    spool.append(Stream::Stdout, at(1), &segment[..10_000]);
    spool.append(Stream::Stdout, at(1), b"the end");
    drop(spool);
    let mut bytes = std::fs::read(&files[0]).unwrap();
    bytes[32 + 30] ^= 1;
    std::fs::write(&files[0], bytes).unwrap();
    let reader = SpoolReader::open(dir, NAME, OPTIONS).unwrap();
    assert_eq!(reader.bounds().total_bytes, 0, "nothing in this block can be trusted");
}

#[test]
fn a_newer_version_is_told_from_damage() {
    let (place, dir) = place();
    let options = options(100_000, 0);
    let (_, files) = printed(place.path(), &dir, options, &[80_000]);
    let make_newer = |file: &PathBuf| {
        let mut bytes = std::fs::read(file).unwrap();
        bytes[8] = 2;
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[..28]);
        bytes[28..32].copy_from_slice(&u32::try_from(crc).unwrap().to_le_bytes());
        std::fs::write(file, bytes).unwrap();
    };
    make_newer(&files[0]);
    let reader = SpoolReader::open(Arc::clone(&dir), NAME, options).unwrap();
    let error = reader.read(&Read { cursor: 0, max_bytes: 10, streams: StreamFilter::Both }).unwrap_err();
    assert!(matches!(error, ReadError::NewerVersion { version: 2 }));
    make_newer(files.last().unwrap());
    let error = SpoolReader::open(Arc::clone(&dir), NAME, options).unwrap_err();
    assert!(matches!(error, SpoolError::NewerVersion { version: 2 }));
    let before = std::fs::read(files.last().unwrap()).unwrap();
    assert!(Spool::recover(dir, NAME, options).is_err());
    assert_eq!(std::fs::read(files.last().unwrap()).unwrap(), before, "it is left alone");
}

#[test]
fn what_is_no_spool_is_refused() {
    let (place, dir) = place();
    std::fs::write(place.path().join(NAME), b"a file").unwrap();
    assert!(matches!(SpoolReader::open(Arc::clone(&dir), NAME, OPTIONS), Err(SpoolError::Io(_))));

    let crowd = FsDir::create_all(&place.path().join("crowd")).unwrap();
    for base in 0..=(1 << 16) {
        crowd.create_file(&format!("{base:020}.seg")).unwrap();
    }
    let error = SpoolReader::open(dir, "crowd", OPTIONS).unwrap_err();
    assert!(matches!(error, SpoolError::TooManySegments { segments: 65_537 }));
}

#[test]
fn foreign_files_in_the_directory_are_passed_over() {
    let (place, dir) = place();
    let (model, files) = printed(place.path(), &dir, OPTIONS, &[100]);
    let parent = files[0].parent().unwrap();
    std::fs::write(parent.join("99999999999999999999.seg"), b"beyond any cursor").unwrap();
    std::fs::write(parent.join(".tmp-1"), b"?").unwrap();
    std::fs::create_dir(parent.join("00000000000000000500.seg")).unwrap();
    read_all(&SpoolReader::open(dir, NAME, OPTIONS).unwrap(), &model, 0, 64, StreamFilter::Both);
}
