//! What a probe is fed while somebody waits: everything once, in order, and not for longer than the wait may last.

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{Find, Yard, options};
use procyard_core::{Handle, Limits, Owner, Stream};
use procyard_store::FsDir;
use procyard_supervisor::{Probe, Services, StartOptions, Supervisor, Target, Until, WaitMode};
use procyard_testkit::{DEADLINE, Failure, Fault, Faults, FaultyDir, Operation, Script};
use tokio::time::Instant;

/// Writes down what it is fed, in order.
#[derive(Default)]
struct Told(Vec<String>);

impl Probe for Told {
    fn feed(&mut self, cursor: u64, _: Stream, bytes: &[u8]) -> bool {
        self.0.push(format!("{} bytes at {cursor}", bytes.len()));
        false
    }

    fn gap(&mut self, to: u64) {
        self.0.push(format!("gap to {to}"));
    }

    fn finish(&mut self) {
        self.0.push("end".to_owned());
    }
}

/// Waits for one process with this probe; whether it was satisfied, and the probe.
async fn wait<P: Probe>(
    supervisor: &Supervisor,
    owner: Owner,
    handle: Handle,
    probe: P,
    within: Duration,
) -> (bool, P) {
    let targets = vec![Target { handle, cursor: 0, probe: Some(Box::new(probe)) }];
    let waited = supervisor.wait(owner, WaitMode::All, Until::Probe, targets, within).await;
    let waited = waited.unwrap().remove(0);
    let probe: Box<dyn std::any::Any> = waited.probe.unwrap();
    (waited.satisfied, *probe.downcast::<P>().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_told_before_what_follows_it() {
    let yard = Yard::new(Script::new().stdout("x".repeat(200 << 10)).exit(0)).await;
    let handle = yard.start(StartOptions { spool_ceiling: Some(40 << 10), ..options() }).await;
    yard.end(handle).await;
    let yard = yard.restarted().await;
    let (_, Told(told)) = wait(&yard.supervisor, yard.owner, handle, Told::default(), DEADLINE).await;
    let from = yard.supervisor.snapshot(yard.owner, &handle).unwrap().retained_from;
    assert!(from > 0 && told[0] == format!("gap to {from}"), "{told:?}");
    assert!(told[1].ends_with(&format!("at {from}")) && told.last().unwrap() == "end", "{told:?}");
    assert_eq!(told.iter().filter(|told| told.starts_with("gap")).count(), 1);
}

/// Takes so long over each look that more is printed meanwhile.
struct Slow {
    supervisor: Supervisor,
    owner: Owner,
    handle: Handle,
}

impl Probe for Slow {
    fn feed(&mut self, _: u64, _: Stream, _: &[u8]) -> bool {
        false
    }

    fn look(&mut self) -> bool {
        let cursor = self.supervisor.snapshot(self.owner, &self.handle).unwrap().total_bytes;
        let targets = vec![Target { handle: self.handle, cursor, probe: None }];
        let more = self.supervisor.wait(self.owner, WaitMode::All, Until::Probe, targets, DEADLINE);
        let waited = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(more));
        assert!(waited.unwrap()[0].satisfied);
        false
    }

    fn gap(&mut self, _: u64) {}

    fn finish(&mut self) {}
}

/// On the true clock, and on several threads, since the process prints while its output is looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_in_time_while_its_process_prints_without_pause() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    let played = yard.runner.last().unwrap();
    let printing = tokio::spawn(async move {
        loop {
            played.stdout("no pause\n").await;
            // Without it nothing would end this once nobody reads any more.
            tokio::task::yield_now().await;
        }
    });
    let slow = Slow { supervisor: yard.supervisor.clone(), owner: yard.owner, handle };
    let waiting = wait(&yard.supervisor, yard.owner, handle, slow, Duration::from_millis(100));
    let waited = tokio::time::timeout(DEADLINE / 6, waiting).await;
    printing.abort();
    let (satisfied, _) = waited.expect("the wait ends though more is printed");
    assert!(!satisfied);
}

#[tokio::test(start_paused = true)]
async fn a_wait_whose_time_is_over_looks_at_a_bounded_part_of_what_is_there() {
    /// More than is looked at late.
    const PRINTED: u64 = 17 << 20;
    let yard = Yard::new(Script::new().stdout(vec![b'x'; 17 << 20])).await;
    let handle = yard.background().await;
    yard.output_to(handle, PRINTED).await;
    let look = async |within| {
        let probe = Find::bytes(b"x\n");
        let (satisfied, probe) = wait(&yard.supervisor, yard.owner, handle, probe, within).await;
        assert!(!satisfied);
        probe.fed
    };
    let late = look(Duration::ZERO).await;
    assert!((1 << 20..=16 << 20).contains(&late), "{late}");
    assert_eq!(look(Duration::from_secs(1)).await, PRINTED, "in time, everything is looked at");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_does_not_finish_a_probe() {
    let yard = Yard::new(Script::new().stdout("printed").exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    yard.supervisor.shutdown().await;
    let faults = Faults::none();
    let root = FaultyDir::over(FsDir::open(yard.place.path()).unwrap(), &faults);
    let next = Supervisor::new(yard.owner.session, Limits::default(), root);
    next.activate(Services::discard()).await.unwrap();
    faults.fail(Fault::on(&[Operation::OpenDir, Operation::OpenFile]).with(Failure::NoDescriptors));
    let (satisfied, probe) = wait(&next, yard.owner, handle, Find::bytes(b"printed"), DEADLINE).await;
    assert!(satisfied, "it has ended");
    assert_eq!((probe.found, probe.finished, probe.fed), (false, false, 0));
    faults.heal();
    let (_, probe) = wait(&next, yard.owner, handle, Find::bytes(b"needle"), DEADLINE).await;
    assert_eq!((probe.finished, probe.fed), (true, 7));
}

/// A process that runs, whose output of 60,000 bytes is on disk alone, damaged from the first cursor to the second one.
async fn damaged() -> (Yard, Handle, u64, u64) {
    const PRINTED: usize = 60_000;
    let limits = Limits { window_bytes: 1000, ..Limits::default() };
    let printed = [&vec![b'x'; PRINTED - 6][..], b"needle"].concat();
    let yard = Yard::with_limits(Script::new().stdout(printed), limits).await;
    let handle = yard.background().await;
    yard.output_to(handle, PRINTED as u64).await;
    let segment = segment(yard.place.path().to_owned());
    // Blocks are 16 KiB, the first with a header of 32 bytes; this is in the second one.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(segment).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 16_384 + 100).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 16_384 + 100).unwrap();
    let (mut from, mut until) = (0, 0);
    while from < PRINTED as u64 {
        match yard.supervisor.read(yard.owner, &handle, crate::common::read_from(from)).await {
            Ok((page, _)) => from = page.next_cursor,
            Err(procyard_supervisor::SupervisorError::Damaged { until: intact, .. }) => {
                until = intact;
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(from > 0 && until > from && until < PRINTED as u64 - 6, "{from} to {until}");
    (yard, handle, from, until)
}

/// The one file below a directory that is as large as a spool's segment.
fn segment(place: PathBuf) -> PathBuf {
    let mut places = vec![place];
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(place).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                places.push(entry.path());
            } else if entry.metadata().unwrap().len() > 32_768 {
                return entry.path();
            }
        }
    }
    panic!("there is no segment");
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_fed_what_is_behind_damage() {
    let (yard, handle, from, until) = damaged().await;
    let began = Instant::now();
    let (satisfied, probe) =
        wait(&yard.supervisor, yard.owner, handle, Find::bytes(b"needle"), DEADLINE).await;
    assert!(satisfied && probe.found);
    assert_eq!(began.elapsed(), Duration::ZERO, "it was there all the time");
    let (_, Told(told)) =
        wait(&yard.supervisor, yard.owner, handle, Told::default(), Duration::from_secs(1)).await;
    let gap = told.iter().position(|told| *told == format!("gap to {until}")).unwrap();
    assert!(gap > 0 && told[gap + 1].ends_with(&format!("at {until}")), "from {from}: {told:?}");
}

/// Is satisfied by damage alone.
#[derive(Default)]
struct Damaged(Option<u64>);

impl Probe for Damaged {
    fn feed(&mut self, _: u64, _: Stream, _: &[u8]) -> bool {
        false
    }

    fn gap(&mut self, _: u64) {}

    fn damaged(&mut self, to: u64) -> bool {
        self.0 = Some(to);
        true
    }

    fn finish(&mut self) {}
}

#[tokio::test(start_paused = true)]
async fn damage_satisfies_a_probe_that_says_so() {
    let (yard, handle, _, until) = damaged().await;
    let (satisfied, probe) =
        wait(&yard.supervisor, yard.owner, handle, Damaged::default(), Duration::ZERO).await;
    assert_eq!((satisfied, probe.0), (true, Some(until)));
}

/// Counts, and finds what it looks for only where it looks.
#[derive(Default)]
struct Counted {
    fed: u64,
    chunks: usize,
    looks: usize,
}

impl Probe for Counted {
    fn feed(&mut self, _: u64, _: Stream, bytes: &[u8]) -> bool {
        self.fed += bytes.len() as u64;
        self.chunks += 1;
        false
    }

    fn look(&mut self) -> bool {
        self.looks += 1;
        self.fed >= LINES * LINE.len() as u64
    }

    fn gap(&mut self, _: u64) {}

    fn finish(&mut self) {}
}

const LINES: u64 = 2000;
const LINE: &str = "one line of a log, written for itself, as most of them are\n";

#[tokio::test(start_paused = true)]
async fn a_probe_is_asked_to_look_once_a_page_however_small_the_chunks_are() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    let played = yard.runner.last().unwrap();
    for line in 0..LINES {
        // Each stream anew, so that no two lines come as one chunk.
        if line % 2 == 0 {
            played.stdout(LINE).await;
        } else {
            played.stderr(LINE).await;
        }
        yard.output_to(handle, (line + 1) * LINE.len() as u64).await;
    }
    let (satisfied, probe) =
        wait(&yard.supervisor, yard.owner, handle, Counted::default(), Duration::ZERO).await;
    assert!(satisfied);
    assert!(probe.chunks as u64 >= LINES);
    assert_eq!(probe.looks, 2, "two pages of 64 KiB at most");
}
