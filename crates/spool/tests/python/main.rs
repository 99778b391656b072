//! A reader that was written in another language, from the format document alone, agrees with this crate.
//!
//! Without a `python3` it is reported as ignored, which the default test harness cannot do, and in CI it fails.

use std::process::{Command, Stdio};
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use procyard_core::{Stream, Timestamp};
use procyard_spool::{Read, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{Dir, FsDir};

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/reader.py");
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1.spool");

fn main() {
    let ignored = !has_python() && std::env::var_os("CI").is_none();
    let trials = vec![
        Trial::test("a_reader_in_another_language_agrees_on_a_fresh_spool", agrees_on_a_fresh_spool),
        Trial::test("a_reader_in_another_language_agrees_on_a_damaged_spool", agrees_on_a_damaged_spool),
        Trial::test("a_reader_in_another_language_agrees_on_the_fixture", agrees_on_the_fixture),
    ];
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(ignored)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

#[expect(clippy::disallowed_methods, reason = "the other reader is a program of its own")]
fn has_python() -> bool {
    Command::new("python3").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// A spool of several segments, of which the first ones are gone, with both streams in one order.
fn written(root: &Arc<dyn Dir>) -> Spool {
    let options = SpoolOptions { ceiling: 256 * 1024, ..SpoolOptions::default() };
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
    let mut spool = written(&root);
    spool.sync()?;
    let reader = spool.finish();
    let theirs = theirs(&place.path().join("s.spool"))?;
    let ours = ours(&reader)?;
    if ours.len() < 100_000 {
        return Err("the spool holds too little to prove anything".into());
    }
    same(&ours, &theirs)
}

fn agrees_on_a_damaged_spool() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    let root = FsDir::open(place.path())?;
    let mut spool = written(&root);
    spool.sync()?;
    drop(spool.finish());
    let mut segments: Vec<_> = std::fs::read_dir(place.path().join("s.spool"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    segments.retain(|path| path.extension().is_some_and(|kind| kind == "seg"));
    segments.sort();
    // One byte in the second block of a segment that is not the last.
    let victim = &segments[segments.len() / 2];
    let mut bytes = std::fs::read(victim)?;
    bytes[20_000] ^= 0x40;
    std::fs::write(victim, bytes)?;

    let options = SpoolOptions { ceiling: 256 * 1024, ..SpoolOptions::default() };
    let reader = SpoolReader::open(root, "s.spool", options)?;
    let theirs = theirs(&place.path().join("s.spool"))?;
    if !theirs.iter().any(Option::is_none) {
        return Err("the other reader has not noticed the damage".into());
    }
    same(&ours(&reader)?, &theirs)
}

fn agrees_on_the_fixture() -> Result<(), Failed> {
    let theirs = theirs(std::path::Path::new(FIXTURE))?;
    let root = FsDir::open(std::path::Path::new(FIXTURE).parent().unwrap_or(std::path::Path::new(".")))?;
    let reader = SpoolReader::open(root, "v1.spool", SpoolOptions::default())?;
    same(&ours(&reader)?, &theirs)
}

/// Each byte of the stream with its stream, from where it begins on disk; `None` for a byte that is missing.
type Bytes = Vec<Option<(u8, u8)>>;

fn ours(reader: &SpoolReader) -> Result<Bytes, Failed> {
    let mut bytes: Bytes = Vec::new();
    let mut cursor = 0;
    loop {
        let read = Read { cursor, max_bytes: 1 << 16, streams: StreamFilter::Both };
        let page = match reader.read(&read) {
            Ok(page) => page,
            Err(procyard_spool::ReadError::Corrupt { until, .. }) => {
                cursor = until;
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
            bytes.resize(usize::try_from(span.cursor)?, None);
            bytes.extend(
                page.bytes[span.offset..span.offset + span.len].iter().map(|byte| Some((stream, *byte))),
            );
        }
        cursor = page.next_cursor;
        if cursor >= page.total_bytes {
            return Ok(bytes);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the other reader is a program of its own")]
fn theirs(spool: &std::path::Path) -> Result<Bytes, Failed> {
    let output = Command::new("python3").arg(READER).arg(spool).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let mut bytes: Bytes = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        let number = |name: &str| value[name].as_u64().and_then(|number| usize::try_from(number).ok());
        if let Some(hex) = value["hex"].as_str() {
            let stream = u8::try_from(number("stream").unwrap_or(0))?;
            bytes.resize(number("cursor").unwrap_or(0), None);
            for at in (0..hex.len()).step_by(2) {
                bytes.push(Some((stream, u8::from_str_radix(&hex[at..at + 2], 16)?)));
            }
        } else {
            bytes.resize(number("until").unwrap_or(0), None);
        }
    }
    Ok(bytes)
}

/// The two agree on every byte that this crate still promises; older ones may be on disk yet.
fn same(ours: &Bytes, theirs: &Bytes) -> Result<(), Failed> {
    if ours.len() != theirs.len() {
        return Err(format!("{} bytes here, {} there", ours.len(), theirs.len()).into());
    }
    let promised = ours.iter().position(Option::is_some).unwrap_or(0);
    match (promised..ours.len()).find(|at| ours[*at] != theirs[*at]) {
        Some(at) => Err(format!("byte {at}: {:?} here, {:?} there", ours[at], theirs[at]).into()),
        None => Ok(()),
    }
}
