//! A reader that was written in another language, from the format document alone, agrees with this crate.
//!
//! Without a `python3` it is reported as ignored, which the default test harness cannot do, and in CI it fails.

#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use procyard_core::{Stream, Timestamp};
use procyard_spool::{Read, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{Dir, FsDir};
use procyard_testkit::{Faults, FaultyDir};

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/reader.py");
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1.spool");

fn main() {
    let ignored = !has_python() && std::env::var_os("CI").is_none();
    let trials = vec![
        Trial::test("a_reader_in_another_language_agrees_on_a_fresh_spool", agrees_on_a_fresh_spool),
        Trial::test("a_reader_in_another_language_agrees_on_a_damaged_spool", agrees_on_a_damaged_spool),
        Trial::test("a_reader_in_another_language_agrees_on_a_torn_end", agrees_on_a_torn_end),
        Trial::test("a_reader_in_another_language_agrees_on_holes_and_sizes", agrees_on_holes_and_sizes),
        Trial::test("a_reader_in_another_language_agrees_on_the_fixture", agrees_on_the_fixture),
    ];
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(ignored)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

#[expect(clippy::disallowed_methods, reason = "the other reader is a program of its own")]
fn has_python() -> bool {
    Command::new("python3").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Segments of two blocks.
const OPTIONS: SpoolOptions = SpoolOptions { ceiling: 256 * 1024, window: 0, head: 0 };

/// Segments of one block, and few.
const SMALL: SpoolOptions = SpoolOptions { ceiling: 32 * 1024, ..OPTIONS };

/// A spool of several segments, of which the first ones are gone, with both streams in one order.
fn written(root: &Arc<dyn Dir>, options: SpoolOptions) -> Spool {
    let mut spool = Spool::create(Arc::clone(root), "s.spool", options);
    for turn in 0_u32..400 {
        let stream = if turn % 3 == 0 { Stream::Stderr } else { Stream::Stdout };
        let line = format!("{turn} 日本語\n").repeat(usize::try_from(turn % 97).unwrap_or(0) + 1);
        spool.append(stream, Timestamp::from_unix_micros(i64::from(turn)), line.as_bytes());
    }
    spool
}

fn agrees_on_a_fresh_spool() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    let root = FsDir::open(place.path())?;
    let mut spool = written(&root, OPTIONS);
    spool.sync()?;
    let reader = spool.finish();
    let theirs = theirs(&place.path().join("s.spool"))?;
    let ours = ours(&reader)?;
    if ours.bytes.len() < 100_000 {
        return Err("the spool holds too little to prove anything".into());
    }
    same(&ours, &theirs)
}

fn segments(place: &Path) -> Result<Vec<PathBuf>, Failed> {
    let entries = std::fs::read_dir(place.join("s.spool"))?;
    let mut segments: Vec<_> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    segments.retain(|path| path.extension().is_some_and(|kind| kind == "seg"));
    segments.sort();
    Ok(segments)
}

fn agrees_on_a_damaged_spool() -> Result<(), Failed> {
    // One byte in the first or second block of a segment: of one in the middle, of the last, of the oldest.
    for (of, place_in_file) in [(4, 20_000), (4, 40), (0, 20_000), (usize::MAX, 40), (usize::MAX, 2)] {
        let place = tempfile::tempdir()?;
        let root = FsDir::open(place.path())?;
        let mut spool = written(&root, OPTIONS);
        // The last segment has two blocks.
        while std::fs::metadata(segments(place.path())?.pop().ok_or("there is no segment")?)?.len() < 20_000 {
            spool.append(Stream::Terminal, Timestamp::from_unix_micros(1), &[b'x'; 1000]);
        }
        spool.sync()?;
        drop(spool.finish());
        let segments = segments(place.path())?;
        let victim = &segments[of.min(segments.len() - 1)];
        let mut bytes = std::fs::read(victim)?;
        bytes[place_in_file] ^= 0x40;
        std::fs::write(victim, bytes)?;

        let reader = SpoolReader::open(root, "s.spool", OPTIONS)?;
        let theirs = theirs(&place.path().join("s.spool"))?;
        if place_in_file > 32 && !theirs.bytes.iter().any(Option::is_none) {
            return Err("the other reader has not noticed the damage".into());
        }
        same(&ours(&reader)?, &theirs).map_err(|error| format!("{of} {place_in_file}: {error:?}"))?;
    }
    Ok(())
}

/// Cuts the last segment, to nothing at all in the end: both see the stream end behind the last whole chunk.
fn agrees_on_a_torn_end() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    let root = FsDir::open(place.path())?;
    drop(written(&root, SMALL));
    let last = segments(place.path())?.pop().ok_or("there is no segment")?;
    let whole = std::fs::read(&last)?;
    let lengths = [whole.len() - 1, whole.len() / 2, 100, 57, 33, 32, 31, 9, 1, 0];
    for length in lengths.into_iter().filter(|length| *length < whole.len()) {
        std::fs::write(&last, &whole[..length])?;
        let reader = SpoolReader::open(Arc::clone(&root), "s.spool", SMALL)?;
        let theirs = theirs(&place.path().join("s.spool"))?;
        same(&ours(&reader)?, &theirs).map_err(|error| format!("cut to {length}: {error:?}"))?;
    }
    Ok(())
}

/// A full disk makes holes, a terminal changes its size, and both are where they were; what fell out is out.
fn agrees_on_holes_and_sizes() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    let root = FsDir::open(place.path())?;
    let faults = Faults::none();
    let options = SpoolOptions { ceiling: 64 * 1024, window: 0, head: 0 };
    let mut spool = Spool::create(FaultyDir::over(Arc::clone(&root), &faults), "s.spool", options);
    for turn in 0_u16..300 {
        let at = Timestamp::from_unix_micros(i64::from(turn));
        faults.heal();
        if turn % 11 == 3 {
            faults.set_room(turn.into());
        }
        spool.append(Stream::Terminal, at, &vec![b'a' + u8::try_from(turn % 26)?; usize::from(turn) * 3 + 1]);
        if turn % 7 == 0 {
            faults.heal();
            spool.mark_resize(at, turn + 1, turn + 2);
        }
    }
    faults.heal();
    spool.append(Stream::Terminal, Timestamp::from_unix_micros(300), b"end");
    let reader = spool.finish();
    let theirs = theirs(&place.path().join("s.spool"))?;
    let retained = reader.bounds().retained_from;
    let (holes, sizes) = (theirs.bytes[usize::try_from(retained)?..].contains(&None), theirs.sizes.len());
    if retained == 0 || !holes || sizes < 10 {
        return Err(format!("from {retained}, holes {holes}, {sizes} sizes: that proves nothing").into());
    }
    same(&ours(&reader)?, &theirs)
}

fn agrees_on_the_fixture() -> Result<(), Failed> {
    let theirs = theirs(Path::new(FIXTURE))?;
    let root = FsDir::open(Path::new(FIXTURE).parent().unwrap_or(Path::new(".")))?;
    let reader = SpoolReader::open(root, "v1.spool", SpoolOptions::default())?;
    same(&ours(&reader)?, &theirs)
}

/// What a reader finds.
struct Found {
    /// Each byte of the stream with its stream, from where it begins on disk; `None` for a byte that is missing.
    bytes: Vec<Option<(u8, u8)>>,
    /// The sizes of the terminal, with the cursor from which they hold: rows and columns.
    sizes: Vec<(u64, u64, u64)>,
    /// The oldest byte that is promised.
    promised: usize,
}

fn ours(reader: &SpoolReader) -> Result<Found, Failed> {
    let promised = usize::try_from(reader.bounds().retained_from)?;
    let mut found = Found { bytes: Vec::new(), sizes: Vec::new(), promised };
    let mut cursor = 0;
    loop {
        let read = Read { cursor, max_bytes: 1 << 16, streams: StreamFilter::Both };
        let page = match reader.read(&read) {
            Ok(page) => page,
            Err(procyard_spool::ReadError::Corrupt { until, .. }) => {
                cursor = until;
                found.bytes.resize(usize::try_from(until)?, None);
                if until >= reader.bounds().total_bytes {
                    return Ok(found);
                }
                continue;
            }
            Err(error) => return Err(error.to_string().into()),
        };
        for span in &page.spans {
            let stream = match span.stream {
                Stream::Stdout => 1,
                Stream::Stderr => 2,
                Stream::Terminal => 3,
            };
            let bytes = &page.bytes[span.offset..span.offset + span.len];
            found.bytes.resize(usize::try_from(span.cursor)?, None);
            found.bytes.extend(bytes.iter().map(|byte| Some((stream, *byte))));
        }
        let size = |size: &procyard_spool::Resize| (size.cursor, u64::from(size.rows), u64::from(size.cols));
        found.sizes.extend(page.resizes.iter().map(size));
        cursor = page.next_cursor;
        if cursor >= page.total_bytes {
            found.bytes.resize(usize::try_from(cursor)?, None);
            return Ok(found);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the other reader is a program of its own")]
fn theirs(spool: &Path) -> Result<Found, Failed> {
    let output = Command::new("python3").arg(READER).arg(spool).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let mut found = Found { bytes: Vec::new(), sizes: Vec::new(), promised: 0 };
    for line in String::from_utf8(output.stdout)?.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        let number = |name: &str| value[name].as_u64();
        let index = |name: &str| number(name).and_then(|number| usize::try_from(number).ok());
        if let (Some(cursor), Some(rows), Some(cols)) = (number("cursor"), number("rows"), number("cols")) {
            found.sizes.push((cursor, rows, cols));
        } else if let Some(hex) = value["hex"].as_str() {
            let stream = u8::try_from(number("stream").unwrap_or(0))?;
            found.bytes.resize(index("cursor").unwrap_or(0), None);
            for at in (0..hex.len()).step_by(2) {
                found.bytes.push(Some((stream, u8::from_str_radix(&hex[at..at + 2], 16)?)));
            }
        } else {
            found.bytes.resize(index("until").unwrap_or(0), None);
        }
    }
    Ok(found)
}

/// The two agree on everything that this crate still promises; older bytes may be on disk yet. A size at the very end
/// comes with the byte that follows it.
fn same(ours: &Found, theirs: &Found) -> Result<(), Failed> {
    if ours.bytes.len() != theirs.bytes.len() {
        return Err(format!("{} bytes here, {} there", ours.bytes.len(), theirs.bytes.len()).into());
    }
    let range = ours.promised..ours.bytes.len();
    if let Some(at) = range.clone().find(|at| ours.bytes[*at] != theirs.bytes[*at]) {
        return Err(format!("byte {at}: {:?} here, {:?} there", ours.bytes[at], theirs.bytes[at]).into());
    }
    let inside =
        |size: &&(u64, u64, u64)| usize::try_from(size.0).is_ok_and(|cursor| range.contains(&cursor));
    let theirs: Vec<_> = theirs.sizes.iter().filter(inside).collect();
    let ours: Vec<_> = ours.sizes.iter().filter(inside).collect();
    if ours == theirs { Ok(()) } else { Err(format!("sizes {ours:?} here, {theirs:?} there").into()) }
}
