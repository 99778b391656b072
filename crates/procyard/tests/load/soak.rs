//! A service under load for a long time: nothing that it takes grows.
//!
//! The load comes in rounds, and the service is measured at rest between them, so that what is measured is what is kept and
//! not what happens to run. After a tenth of the time, and after two minutes at most, everything has been used once. From then
//! on memory may differ by `MEMORY` and grow by as much if its slope went on for the rest of the run; descriptors and processes may not
//! grow at all, threads are bounded; the disk, but for the journals, stays within what retention admits, and journals
//! grow by what their events weigh, since they are kept for weeks. Not for latencies: see `many`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::announced::notices_once;
use crate::commands::Kind;
use crate::jobs::Worker;
use crate::measure::{Footprint, at_rest, busy, mib, on_disk};
use crate::service::{Place, Service};
use crate::tally::Tally;

/// Commands that are kept in each session.
const KEPT: usize = 40;

/// How much more memory a service may have at any time than when it had been warm.
const MEMORY: u64 = 16 << 20;

/// The most threads: those that block come with the load, more of them on a busy machine, and go when they had nothing to do for a
/// while.
const THREADS: usize = 256;

/// More than an event and its notice weigh in a journal.
const RECORD: u64 = 2048;

/// Sessions that stay, and the clients of each; each round has one session more, which ends with it.
const SESSIONS: usize = 3;
const CLIENTS: usize = 4;

/// Commands of each client in a round.
const COMMANDS: usize = 6;

/// What was measured at rest.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: f64,
    footprint: Footprint,
    /// Bytes of records and output.
    disk: u64,
    /// Bytes of journals.
    journals: u64,
    /// Commands that are on record.
    records: usize,
    /// Commands that were started so far.
    started: usize,
}

async fn round(service: &Service, staying: &[Worker], tally: &Arc<Tally>, first: usize) -> usize {
    let passing = service.session(1).await;
    let session = passing[0].session;
    let passing: Vec<_> = passing.into_iter().map(|one| Worker::new(one, tally)).collect();
    let workers: Vec<_> = staying.iter().chain(&passing).collect();
    join_all(workers.iter().enumerate().map(async |(place, worker)| {
        let numbers = (0..COMMANDS).map(|command| first + place * COMMANDS + command);
        let started = join_all(numbers.map(|number| worker.carry_out(Kind::of(number), number))).await;
        notices_once(worker, &started).await;
    }))
    .await;
    service.admin().close_session(session).await.unwrap();
    workers.len() * COMMANDS
}

async fn soaked(length: Duration) {
    let place = Place::new(&format!("[retention]\ncompleted_per_session = {KEPT}\n"));
    let load = busy().await;
    let service = place.serve().await;
    let (pid, tally) = (service.pid(), Arc::new(Tally::default()));
    let mut workers = Vec::new();
    for _ in 0..SESSIONS {
        workers.extend(service.session(CLIENTS).await.into_iter().map(|one| Worker::new(one, &tally)));
    }
    let (began, mut samples, mut started) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < length || samples.len() < 3 {
        started += round(&service, &workers, &tally, started).await;
        // Its own sessions are removed every six hours; a person does not wait for that.
        place.collect().await;
        let footprint = at_rest(pid, SESSIONS).await;
        let sessions = place.data_dir().join("sessions");
        samples.push(Sample {
            at: began.elapsed().as_secs_f64(),
            footprint,
            disk: on_disk(&sessions, &|name| !name.starts_with("journal.")),
            journals: on_disk(&sessions, &|name| name.starts_with("journal.")),
            records: records(&sessions),
            started,
        });
    }
    eprintln!("{started} processes in {:.0?}; the machine was {load:.0} % busy before", began.elapsed());
    for sample in samples.iter().step_by(samples.len().div_ceil(20)).chain(samples.last()) {
        let Sample { at, footprint, disk, journals, records, started } = sample;
        eprintln!(
            "{at:>6.0} s, {started:>6} started: {footprint}; {records} on record in {:.1} MiB, journals {:.1} MiB",
            mib(*disk),
            mib(*journals)
        );
    }
    eprint!("{tally}");
    flat(&samples, began.elapsed());
    service.finish().await;
}

/// How many manifests there are.
fn records(sessions: &std::path::Path) -> usize {
    let files =
        std::fs::read_dir(sessions).unwrap().flatten().flat_map(|session| std::fs::read_dir(session.path()));
    files
        .flatten()
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().ends_with(".manifest.json"))
        .count()
}

fn flat(samples: &[Sample], length: Duration) {
    let warm_at = (length.as_secs_f64() / 10.0).min(120.0);
    let first = samples.iter().position(|sample| sample.at >= warm_at).unwrap().min(samples.len() - 2);
    let (warm, later) = (samples[first], &samples[first..]);
    let grows = slope(later, |sample| sample.footprint.memory as f64) * (length.as_secs_f64() - warm_at);
    eprintln!("after {:.0} s memory grew by {:.1} MiB (by its slope)", warm.at, grows / f64::from(1 << 20));
    assert!(grows < MEMORY as f64, "memory is flat");
    for sample in later {
        let (now, then) = (sample.footprint, warm.footprint);
        assert!(now.memory < then.memory + MEMORY, "memory: {sample:?} after {warm:?}");
        assert!(now.descriptors <= then.descriptors, "descriptors: {sample:?} after {warm:?}");
        assert!(now.threads < THREADS, "threads: {sample:?} after {warm:?}");
        assert!(sample.records <= SESSIONS * KEPT, "retention: {sample:?}");
        // None of them has printed more than the largest.
        let most = Kind::Flood.command(sample.started).stdout.len() as u64 + 64 * 1024;
        assert!(sample.disk < (SESSIONS * KEPT) as u64 * most, "disk: {sample:?}");
        let journalled = sample.journals.saturating_sub(warm.journals);
        // Two or three events of each, and a notice.
        assert!(
            journalled < 4 * RECORD * (sample.started - warm.started) as u64 + (4 << 20),
            "journals: {sample:?}"
        );
    }
    if samples[first].records == SESSIONS * KEPT {
        let grows = slope(later, |sample| sample.disk as f64) * (length.as_secs_f64() - warm_at);
        eprintln!("the disk without journals grew by {:.1} MiB (by its slope)", grows / f64::from(1 << 20));
    }
}

/// How much a value grows in a second (least squares).
fn slope(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (at, of) = (mean(&|sample| sample.at), mean(&value));
    let spread: f64 = samples.iter().map(|sample| (sample.at - at).powi(2)).sum();
    samples.iter().map(|sample| (sample.at - at) * (value(sample) - of)).sum::<f64>()
        / spread.max(f64::EPSILON)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes ten minutes, or PROCYARD_TEST_SOAK_SECONDS: `cargo xtask nightly soak`"]
async fn what_a_service_takes_does_not_grow() {
    let seconds = std::env::var("PROCYARD_TEST_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    soaked(Duration::from_secs(seconds)).await;
}
