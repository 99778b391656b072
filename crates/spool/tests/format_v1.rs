//! Version 1 of the format, kept as files: it is read for ever, and what is written is what its version has.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use procyard_core::Stream;
use procyard_spool::{Page, Read, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{Dir, FsDir};
use procyard_testkit::{Faults, FaultyDir};
use support::{at, place};

const OPTIONS: SpoolOptions = SpoolOptions { ceiling: 30_000, window: 0, head: 100 };
const BEGAN: i64 = 1_700_000_000_000_000;
const FILES: [&str; 2] = ["00000000000000000000.seg", "00000000000000016280.seg"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn long_output() -> Vec<u8> {
    (0..1500).flat_map(|line| format!("line {line:6}\n").into_bytes()).collect()
}

/// What the fixture holds: both kinds of pipe, a change of size, a hole, a terminal, two segments.
fn write(parent: &Arc<dyn Dir>, name: &str) {
    let faults = Faults::none();
    let mut spool = Spool::create(FaultyDir::over(Arc::clone(parent), &faults), name, OPTIONS);
    spool.append_all(&[
        (Stream::Stdout, at(BEGAN), b"hello\n"),
        (Stream::Stderr, at(BEGAN + 1), b"warning\n"),
    ]);
    spool.append(Stream::Stdout, at(BEGAN + 2), &long_output());
    spool.mark_resize(at(BEGAN + 3), 50, 132);
    faults.set_room(0);
    spool.append(Stream::Stdout, at(BEGAN + 4), &[b'?'; 100]);
    faults.heal();
    spool.append(Stream::Terminal, at(BEGAN + 5), b"after the hole");
    spool.sync().unwrap();
}

fn check(page: &Page) {
    let expected = [b"hello\nwarning\n".to_vec(), long_output(), b"after the hole".to_vec()].concat();
    assert_eq!(page.bytes, expected);
    assert_eq!((page.start_cursor, page.next_cursor, page.total_bytes), (0, 18_128, 18_128));
    let spans: Vec<_> = page
        .spans
        .iter()
        .map(|span| (span.cursor, span.len, span.stream, span.at.as_unix_micros() - BEGAN))
        .collect();
    assert_eq!(
        spans,
        [
            (0, 6, Stream::Stdout, 0),
            (6, 8, Stream::Stderr, 1),
            (14, 18_000, Stream::Stdout, 2),
            (18_114, 14, Stream::Terminal, 5),
        ]
    );
    let gaps: Vec<_> = page.gaps.iter().map(|gap| (gap.offset, gap.from, gap.until)).collect();
    assert_eq!(gaps, [(18_014, 18_014, 18_114)]);
    let resizes: Vec<_> =
        page.resizes.iter().map(|resize| (resize.cursor, resize.rows, resize.cols)).collect();
    assert_eq!(resizes, [(18_014, 50, 132)]);
}

#[test]
fn version_1_is_read_for_ever() {
    let reader = SpoolReader::open(FsDir::open(&fixtures()).unwrap(), "v1.spool", OPTIONS).unwrap();
    check(&reader.read(&Read { cursor: 0, max_bytes: 100_000, streams: StreamFilter::Both }).unwrap());
    assert_eq!(reader.tail(8, StreamFilter::Both).unwrap().bytes, b"the hole");
    assert_eq!(reader.head().bytes.len(), 100);
}

/// The version that a segment says, at its place in the header.
fn version_of(segment: &Path) -> u16 {
    let bytes = std::fs::read(segment).unwrap();
    u16::from_le_bytes([bytes[8], bytes[9]])
}

#[test]
fn what_is_written_is_what_the_files_of_its_version_hold() {
    let (place, dir) = place();
    write(&dir, "s.spool");
    let written = place.path().join("s.spool");
    let kept = fixtures().join(format!("v{}.spool", version_of(&written.join(FILES[0]))));
    assert!(kept.is_dir(), "a new version keeps files, too: {}", kept.display());
    for name in FILES {
        let same = std::fs::read(written.join(name)).unwrap() == std::fs::read(kept.join(name)).unwrap();
        assert!(same, "{name} differs: a changed format needs a new version");
    }
    assert_eq!(std::fs::read_dir(written).unwrap().count(), FILES.len());
}

/// Once for each version, when it is released.
#[test]
#[ignore = "writes the files of the version of today"]
fn writes_the_fixture() {
    let (place, dir) = place();
    write(&dir, "s.spool");
    let version = version_of(&place.path().join("s.spool").join(FILES[0]));
    let name = format!("v{version}.spool");
    assert!(!fixtures().join(&name).exists(), "they are written once");
    write(&FsDir::open(&fixtures()).unwrap(), &name);
}
