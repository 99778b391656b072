//! A log that is followed while much is written: exact bytes, and memory that does not grow with them.
//!
//! Not for slow disks.

use procyard_api::http::ProcessQuery;
use procyard_api::{BashArguments, StopArguments};
use procyard_core::Handle;

use crate::measure::{mib, resident, watched};
use crate::request::{get, more};
use crate::service::{Loop, PATIENCE, Place, Service};

/// The first line of what is written, so that all have one length.
const FIRST: u64 = 100_000_000;
const LINE: u64 = 10;

/// How much memory the service may take for all of it.
const MEMORY: u64 = 24 << 20;

/// A command that writes so many lines, each its own number, so that a byte is known by its place.
fn writes(lines: u64) -> BashArguments {
    let argv = ["seq".to_owned(), FIRST.to_string(), (FIRST + lines - 1).to_string()];
    BashArguments { argv: Some(argv.to_vec()), background: true, ..BashArguments::default() }
}

/// Checks bytes of the stream without making all of it.
struct Checked {
    at: u64,
}

impl Checked {
    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let line = format!("{}\n", FIRST + self.at / LINE);
            let from = usize::try_from(self.at % LINE).unwrap();
            let now = rest.len().min(line.len() - from);
            assert!(rest[..now] == line.as_bytes()[from..from + now], "at {}", self.at);
            rest = &rest[now..];
            self.at += now as u64;
        }
    }
}

fn path(handle: &Handle, rest: &str) -> String {
    format!("/v1/processes/{}/logs{rest}", handle.reveal().as_str())
}

async fn started(service: &Service, lines: u64) -> (Loop, Handle) {
    let of = service.session(1).await.remove(0);
    let started = of.client.start(&writes(lines), None).await.unwrap();
    (of, started.process.entry.process_id)
}

/// Where a response says that it begins.
fn begins(answer: &hyper::Response<hyper::body::Incoming>) -> u64 {
    answer.headers()["procyard-start-cursor"].to_str().unwrap().parse().unwrap()
}

async fn all_of_it_is_followed(lines: u64) {
    let place = Place::new(&format!(
        "[processes]\nmax_output_bytes = {}\n[retention]\ndata_max_bytes = \"8G\"\n",
        2_u64 << 30
    ));
    let service = place.serve().await;
    let (of, handle) = started(&service, lines).await;
    let before = resident(service.pid());
    let (total, began) = (lines * LINE, std::time::Instant::now());
    let following = async {
        let mut answer = get(&service.socket, &of.token, &path(&handle, "?follow=true"), &[]).await.unwrap();
        assert_eq!((answer.status().as_u16(), begins(&answer)), (200, 0));
        let mut checked = Checked { at: 0 };
        while let Some(bytes) = more(answer.body_mut()).await.unwrap() {
            checked.take(&bytes);
        }
        checked.at
    };
    let (followed, most) = watched(service.pid(), following).await;
    let took = began.elapsed();
    assert_eq!(followed, total, "to the end of the process");
    eprintln!(
        "{:.0} MiB followed in {took:.1?}; {:.1} MiB of memory before, {:.1} at most",
        mib(total),
        mib(before),
        mib(most.memory)
    );
    assert!(most.memory < before + MEMORY, "{:.1} MiB after {:.1} MiB", mib(most.memory), mib(before));
    // Parts, from everywhere, on borders and beside them.
    for part in 0..64 {
        let from = total / 64 * part + part % 11;
        let until = (from + 1 + part * 40_009).min(total - 1);
        let range = format!("bytes={from}-{until}");
        let mut answer =
            get(&service.socket, &of.token, &path(&handle, ""), &[("range", &range)]).await.unwrap();
        assert_eq!(
            answer.headers()["content-range"].to_str().unwrap(),
            format!("bytes {from}-{until}/{total}")
        );
        let mut checked = Checked { at: from };
        while let Some(bytes) = more(answer.body_mut()).await.unwrap() {
            checked.take(&bytes);
        }
        assert_eq!(checked.at, until + 1, "{range}");
    }
    of.client.remove_process(&handle).await.unwrap();
    service.finish().await;
}

/// One who reads slowly what is kept only in part: what comes is exact, where something is missing the response breaks off, and
/// the next one says where it begins.
async fn a_slow_reader_is_told_of_each_gap(lines: u64) {
    let place = Place::new(&format!("[processes]\nmax_output_bytes = {}\n", 1 << 20));
    let service = place.serve().await;
    let (of, handle) = started(&service, lines).await;
    let before = resident(service.pid());
    let (total, mut checked, mut gaps, mut missed) = (lines * LINE, Checked { at: 0 }, 0, 0);
    let following = async {
        while checked.at < total {
            let follows = path(&handle, &format!("?follow=true&cursor={}", checked.at));
            let mut answer = get(&service.socket, &of.token, &follows, &[]).await.unwrap();
            let begins = begins(&answer);
            assert!(begins >= checked.at, "never backward");
            gaps += usize::from(begins > checked.at);
            missed += begins - checked.at;
            checked.at = begins;
            // Broken off: there is a gap, and the next one says how wide.
            while let Ok(Some(bytes)) = more(answer.body_mut()).await {
                checked.take(&bytes);
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        }
    };
    let (done, most) = watched(service.pid(), tokio::time::timeout(PATIENCE, following)).await;
    done.expect("the end is reached");
    assert_eq!(checked.at, total);
    assert!(gaps > 0 && missed < total, "a slow reader of a small spool meets a gap");
    eprintln!("{:.0} MiB, of which a slow reader missed {:.0} MiB in {gaps} gaps", mib(total), mib(missed));
    assert!(most.memory < before + MEMORY, "{:.1} MiB after {:.1} MiB", mib(most.memory), mib(before));
    let found = of.client.process(&handle).await.unwrap();
    assert_eq!(found.entry.total_bytes, total, "a slow reader slows nobody");
    service.finish().await;
}

/// One who follows and reads nothing at all: the command goes on, and the service keeps no more of it.
async fn a_reader_that_reads_nothing_costs_nothing(lines: u64) {
    let place = Place::new(&format!("[processes]\nmax_output_bytes = {}\n", 1 << 20));
    let service = place.serve().await;
    let (of, handle) = started(&service, lines).await;
    let before = resident(service.pid());
    let held = get(&service.socket, &of.token, &path(&handle, "?follow=true"), &[]).await.unwrap();
    let ended = async {
        let query = ProcessQuery { state: Some(procyard_core::State::Running), ..ProcessQuery::default() };
        while !of.client.processes(&query).await.unwrap().processes.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let (done, most) = watched(service.pid(), tokio::time::timeout(PATIENCE, ended)).await;
    done.expect("it ends, whoever reads");
    assert!(most.memory < before + MEMORY, "{:.1} MiB after {:.1} MiB", mib(most.memory), mib(before));
    drop(held);
    // Nothing is left of it that could be stopped: that is its end, too.
    let stop = StopArguments { process_id: handle, mode: None, grace_ms: None };
    assert_eq!(of.client.stop(&stop).await.unwrap().exit_code, Some(0));
    service.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn following_much_output_gives_exact_bytes_in_little_memory() {
    all_of_it_is_followed((64 << 20) / LINE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_follower_is_told_of_each_gap_and_slows_nobody() {
    a_slow_reader_is_told_of_each_gap((32 << 20) / LINE).await;
    a_reader_that_reads_nothing_costs_nothing((32 << 20) / LINE).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes gibibytes: `cargo xtask nightly follow`"]
async fn following_a_gibibyte_gives_exact_bytes_in_little_memory() {
    all_of_it_is_followed((1 << 30) / LINE).await;
    a_slow_reader_is_told_of_each_gap((1 << 30) / LINE).await;
    a_reader_that_reads_nothing_costs_nothing((1 << 30) / LINE).await;
}
