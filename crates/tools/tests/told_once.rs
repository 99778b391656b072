//! Every end is told once, however many calls are under way: by a result or by a notice, and again only where the first
//! reply that told it was lost.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use common::{Yard, call, id, with};
use procyard_core::Limits;
use procyard_supervisor::Services;
use procyard_testkit::{Script, ScriptedRunner};
use procyard_tools::Reply;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn an_end_during_a_wait_is_that_waits_to_tell() {
    let yard = Yard::new(Script::new()).await;
    let process = yard.background().await;
    let arguments = json!({"process_id": process, "wait": "any", "until": "exit", "timeout_ms": 60_000});
    let mut waiting = Box::pin(call(&yard.tools, "ProcessOutput", arguments));
    let pending = std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()));
    assert!(pending.await);
    yard.runner.last().unwrap().exit(0).await;
    yard.ended(&process).await;
    let other = call(&yard.tools, "ProcessList", json!({})).await;
    assert!(other.structured.get("notifications").is_none(), "{}", other.structured);
    let told = waiting.await;
    assert_eq!(told.structured["status"], "exited");
    assert!(yard.call("ProcessList", json!({})).await.get("notifications").is_none(), "it is on its way");
    drop(told);
    let again = yard.call("ProcessList", json!({})).await;
    assert_eq!(again["notifications"][0]["process_id"], process.as_str(), "it was lost");
}

#[tokio::test(start_paused = true)]
async fn two_results_do_not_carry_the_same_notice() {
    let yard = Yard::new(Script::new().pause(Duration::from_secs(1)).exit(0)).await;
    let process = yard.background().await;
    yard.ended(&process).await;
    let first = call(&yard.tools, "ProcessList", json!({})).await;
    let second = call(&yard.tools, "ProcessList", json!({})).await;
    assert!(second.structured.get("notifications").is_none() && !second.text.contains("<task-"));
    let notice = &first.structured["notifications"][0];
    assert_eq!(notice["process_id"], process.as_str());
    let lost = notice["id"].clone();
    drop(first);
    assert_eq!(yard.call("ProcessList", json!({})).await["notifications"][0]["id"], lost);
}

/// A reply, by the moments of one clock that all callers share.
struct Seen {
    began: u64,
    returned: u64,
    handed: Option<u64>,
    ended: Vec<String>,
    notices: Vec<(String, String)>,
}

#[derive(Default)]
struct Log {
    clock: AtomicU64,
    seen: Mutex<Vec<Seen>>,
}

impl Log {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A call; every `loses`th reply gets lost.
    async fn call(&self, yard: &Yard, loses: u64, tool: &str, arguments: Value) -> Value {
        let began = self.now();
        let reply = call(&yard.tools, tool, arguments).await;
        let returned = self.now();
        tokio::task::yield_now().await;
        let structured = reply.structured.clone();
        let (ended, notices) = (ended(&structured), notices(&structured));
        let handed = (loses == 0 || !began.is_multiple_of(loses)).then(|| self.hand_over(&reply));
        drop(reply);
        self.seen.lock().unwrap().push(Seen { began, returned, handed, ended, notices });
        structured
    }

    /// The moment is taken before, so that whoever is held against it began after it was handed over.
    fn hand_over(&self, reply: &Reply) -> u64 {
        reply.handed_to_transport();
        self.now()
    }
}

fn ended(result: &Value) -> Vec<String> {
    let results = result["results"].as_array().cloned().unwrap_or_else(|| vec![result.clone()]);
    let ended = results.iter().filter(|one| one["status"].is_string() && one["status"] != "running");
    ended.map(id).collect()
}

fn notices(result: &Value) -> Vec<(String, String)> {
    let notices = result["notifications"].as_array().cloned().unwrap_or_default();
    notices.iter().map(|notice| (id(notice), notice["id"].as_str().unwrap().to_owned())).collect()
}

const CALLERS: u64 = 12;
const ROUNDS: u64 = 32;

/// One process from its start to its end, in one of the ways in which a caller can learn of it.
async fn round(yard: &Yard, log: &Log, way: u64, loses: u64) {
    let bash = |arguments| with(json!({"command": "play"}), arguments);
    match way % 8 {
        0 => {
            let first = log.call(yard, 0, "Bash", bash(json!({"background": true}))).await;
            let second = log.call(yard, 0, "Bash", bash(json!({"background": true}))).await;
            let both = json!({"process_ids": [id(&first), id(&second)], "wait": "all", "until": "exit"});
            log.call(yard, loses, "ProcessOutput", both).await;
        }
        1 | 2 => {
            let started = log.call(yard, 0, "Bash", bash(json!({"background": true}))).await;
            let wait = json!({"process_id": id(&started), "wait": "any", "until": "exit"});
            log.call(yard, loses, "ProcessOutput", wait).await;
        }
        3 => {
            let started = log.call(yard, 0, "Bash", bash(json!({"background": true}))).await;
            let stop = json!({"process_id": id(&started), "mode": "kill"});
            log.call(yard, loses, "ProcessStop", stop).await;
        }
        4 => {
            log.call(yard, loses, "Bash", bash(json!({}))).await;
        }
        5 => {
            let wait = json!({"background": true, "yield_time_ms": way % 4});
            log.call(yard, loses, "Bash", bash(wait)).await;
        }
        6 => {
            log.call(yard, loses, "Bash", bash(json!({"yield_time_ms": way % 4}))).await;
        }
        _ => {
            log.call(yard, loses, "ProcessList", json!({})).await;
        }
    }
}

async fn told(loses: u64) {
    let limits = Limits {
        running_per_loop: 64,
        running_per_session: 64,
        window_bytes: 64 << 10,
        spool_bytes: 1 << 20,
        retained_per_session: 4000,
        waiters: 256,
        ..Limits::default()
    };
    let runner = ScriptedRunner::new(Script::new().pause(Duration::from_millis(1)).exit(0));
    let yard = Arc::new(Yard::within(limits, runner, Services::discard(), None).await);
    let log = Arc::new(Log::default());
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (yard, log) = (Arc::clone(&yard), Arc::clone(&log));
        callers.spawn(async move {
            for turn in 0..ROUNDS {
                round(&yard, &log, caller * 5 + turn * 7, loses).await;
            }
        });
    }
    while let Some(done) = callers.join_next().await {
        done.unwrap();
    }
    let processes: Vec<_> =
        yard.supervisor.list(common::owner(1)).iter().map(|one| one.identity.handle.reveal()).collect();
    assert!(processes.len() > 300, "{}", processes.len());
    for process in &processes {
        yard.ended(process).await;
    }
    while yard.supervisor.has_pending(common::owner(1)) {
        log.call(&yard, 0, "ProcessList", json!({})).await;
    }
    check(&processes, &log.seen.lock().unwrap());
}

/// Holds the replies that reached their callers against each other.
fn check(processes: &[String], seen: &[Seen]) {
    let mut results: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    let mut announced: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for reply in seen.iter().filter(|reply| reply.handed.is_some()) {
        for process in &reply.ended {
            results.entry(process).or_default().push(reply);
        }
        for (process, _) in &reply.notices {
            announced.entry(process).or_default().push(reply);
        }
    }
    for process in processes {
        let results = results.get(process.as_str()).map_or(&[][..], Vec::as_slice);
        let announced = announced.get(process.as_str()).map_or(&[][..], Vec::as_slice);
        assert!(!results.is_empty() || !announced.is_empty(), "{process} was never told");
        assert!(announced.len() <= 1 && results.len() <= 1, "{process} was told twice in the same way");
        let (Some(result), Some(notice)) = (results.first(), announced.first()) else { continue };
        // The notice was out, or on its way, before the result could claim the outcome.
        assert!(
            notice.began < result.returned,
            "{process} was announced by a call of {} to {} after a result of {} to {}, handed over at {:?}",
            notice.began,
            notice.returned,
            result.began,
            result.returned,
            result.handed
        );
    }
    // One id for one process, whichever reply tells it.
    let ids: BTreeMap<&str, &str> =
        seen.iter().flat_map(|reply| &reply.notices).map(|(process, id)| (&**process, &**id)).collect();
    for (process, id) in seen.iter().flat_map(|reply| &reply.notices) {
        assert_eq!(ids[&**process], id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_tell_every_end_once() {
    told(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_lost_replies_told_is_told_again_once() {
    told(5).await;
}
