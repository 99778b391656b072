//! A process that appends is killed with SIGKILL at random moments: what it acknowledged is there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use procyard_core::Stream;
use procyard_spool::{Read, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::FsDir;
use support::{NAME, at, pattern, place};

const CHILD: &str = "PROCYARD_TEST_APPENDS_TO";
const OPTIONS: SpoolOptions = SpoolOptions { ceiling: 300_000, window: 1000, head: 100 };

/// Not a test by itself: the child of the other one. It recovers, then appends for ever and says the end of the stream
/// after each append.
#[test]
fn child_that_appends_until_it_is_killed() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let dir = FsDir::open(Path::new(&directory)).unwrap();
    let (mut spool, recovery) = Spool::recover(dir, NAME, OPTIONS).unwrap();
    assert!(!recovery.damaged && !recovery.holes);
    let mut acknowledge = std::io::stderr();
    loop {
        let from = spool.total_bytes();
        let bytes: Vec<u8> = (from..=from + from % 9000).map(pattern).collect();
        let appended = spool.append(Stream::Stdout, at(from.cast_signed()), &bytes);
        assert!(!appended.degraded);
        acknowledge.write_all(&appended.total_bytes.to_le_bytes()).unwrap();
    }
}

/// Lets the child append until it has acknowledged so many times, kills it, and gives its last acknowledgement.
fn append_and_die(place: &Path, acknowledgements: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the test kills a process of its own and waits for it")]
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_appends_until_it_is_killed", "--nocapture"])
        .env(CHILD, place)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stderr.take().unwrap();
    let mut acknowledged = vec![0; 8 * usize::try_from(acknowledgements).unwrap()];
    pipe.read_exact(&mut acknowledged).unwrap();
    child.kill().unwrap();
    pipe.read_to_end(&mut acknowledged).unwrap();
    child.wait().unwrap();
    acknowledged.chunks_exact(8).next_back().map_or(0, |last| u64::from_le_bytes(last.try_into().unwrap()))
}

#[test]
fn what_was_acknowledged_survives_a_kill_at_any_moment() {
    deaths(200);
}

#[test]
#[ignore = "takes half a minute"]
fn a_thousand_kills_take_nothing_that_was_acknowledged() {
    deaths(1000);
}

fn deaths(rounds: u64) {
    let (place, dir) = place();
    let mut random = 7_u64;
    let mut total = 0;
    for _ in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let acknowledged = append_and_die(place.path(), random % 12);

        let reader = SpoolReader::open(Arc::clone(&dir), NAME, OPTIONS).unwrap();
        let bounds = reader.bounds();
        assert!(bounds.total_bytes >= acknowledged.max(total), "{bounds:?} after {acknowledged}");
        assert_eq!(bounds.retained_from, bounds.total_bytes.saturating_sub(OPTIONS.ceiling));
        total = bounds.total_bytes;
        let read = Read { cursor: bounds.retained_from, max_bytes: 1 << 20, streams: StreamFilter::Both };
        let page = reader.read(&read).unwrap();
        assert_eq!((page.next_cursor, page.gap), (total, false));
        assert!(page.bytes.iter().zip(page.start_cursor..).all(|(&byte, cursor)| byte == pattern(cursor)));
    }
}
