//! Many at once cost as many times what one costs: counted in polls, calls to the store and events, not in seconds. Who
//! waits for nothing costs nothing.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Yard, eventually, options, target};
use procyard_core::{Handle, Limits};
use procyard_store::Dir;
use procyard_supervisor::{StartOptions, Until, WaitMode};
use procyard_testkit::{DEADLINE, Faults, FaultyDir, LosingStore, Played, Script};

/// Far beyond everything that happens here.
const FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);

/// What was counted of one life of a session.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    /// Calls to the store from the first start to the last `running`.
    starts: u64,
    /// And from the first exit to the last terminal state.
    ends: u64,
    /// Polls of all waits together, from the first to the last.
    polls: u64,
    /// Events and notices.
    said: u64,
}

struct Crowd {
    yard: Yard,
    faults: Arc<Faults>,
    handles: Vec<Handle>,
    played: Vec<Played>,
    polls: Arc<AtomicU64>,
    waiters: tokio::task::JoinSet<()>,
}

impl Crowd {
    /// So many processes that do nothing.
    async fn gather(processes: u32, waiters: u32) -> (Self, u64) {
        let limits = Limits {
            running_per_loop: processes,
            running_per_session: processes,
            retained_per_session: processes,
            waiters,
            window_bytes: 1024,
            window_bytes_total: 1024 * u64::from(processes),
            spool_bytes: 4096,
            ..Limits::default()
        };
        let faults = Faults::none();
        let root: Arc<dyn Dir> = FaultyDir::over(LosingStore::new().root(), &faults);
        let place = Arc::new(tempfile::tempdir().unwrap());
        let yard = Yard::try_over(place, root, Script::new(), limits).await.unwrap();
        let before = faults.calls();
        let mut handles = Vec::new();
        for _ in 0..processes {
            handles.push(yard.start(StartOptions { background: true, ..options() }).await);
        }
        let starts = faults.calls() - before;
        let (played, polls) = (yard.runner.played(), Arc::default());
        (Self { yard, faults, handles, played, polls, waiters: tokio::task::JoinSet::new() }, starts)
    }

    /// So many callers wait, each for the end of one process, in turn.
    async fn wait(&mut self, waiters: u32) {
        for number in 0..waiters as usize {
            let (supervisor, owner) = (self.yard.supervisor.clone(), self.yard.owner);
            let (handle, polls) = (self.handles[number % self.handles.len()], Arc::clone(&self.polls));
            self.waiters.spawn(async move {
                let targets = vec![target(handle, 0)];
                let mut wait = pin!(supervisor.wait(owner, WaitMode::All, Until::Exit, targets, FOR_EVER));
                let counted = poll_fn(|context| {
                    polls.fetch_add(1, Ordering::Relaxed);
                    wait.as_mut().poll(context)
                });
                assert!(counted.await.unwrap()[0].satisfied);
            });
        }
        eventually("all wait", || self.polls.load(Ordering::Relaxed) >= u64::from(waiters)).await;
    }

    /// What everybody does while an hour passes in which nothing happens.
    async fn rest(&self) {
        let before = (self.polls.load(Ordering::Relaxed), self.faults.calls());
        tokio::time::sleep(Duration::from_secs(60 * 60)).await;
        let after = (self.polls.load(Ordering::Relaxed), self.faults.calls());
        assert_eq!(after, before, "polls and calls to the store in an idle hour");
    }

    /// All end.
    async fn end(mut self) -> (u64, u64, u64) {
        let before = self.faults.calls();
        for played in &self.played {
            played.exit(0).await;
        }
        while let Some(waiter) = self.waiters.join_next().await {
            waiter.unwrap();
        }
        let journal = Arc::clone(&self.yard.journal);
        let count = self.handles.len();
        eventually("all is said", || journal.noticed().len() == count).await;
        let said = || journal.events().len();
        eventually("all events are out", || said() == 2 * count).await;
        // The marks of what was said are written.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ends = self.faults.calls() - before;
        (ends, self.polls.load(Ordering::Relaxed), (said() + count) as u64)
    }
}

async fn cost(processes: u32, waiters: u32) -> Cost {
    let (mut crowd, starts) = Crowd::gather(processes, waiters).await;
    crowd.wait(waiters).await;
    crowd.rest().await;
    let (ends, polls, said) = crowd.end().await;
    Cost { starts, ends, polls, said }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_processes_cost_as_much_as_ten_times_a_hundred_and_nothing_while_idle() {
    let few = cost(100, 1_000).await;
    let many = cost(1_000, 10_000).await;
    assert_eq!(many.said, 10 * few.said);
    assert_eq!(few.polls, 2 * 1_000, "each waiter is polled when it begins and when it is woken");
    assert_eq!(many.polls, 2 * 10_000);
    assert_eq!(many.starts, 10 * few.starts, "calls to the store for starts");
    // When an end is marked as published another save of it may be under way, which takes that along.
    assert!(many.ends <= 10 * few.ends + few.ends, "{} and {} calls to the store", few.ends, many.ends);
}

#[tokio::test(start_paused = true)]
async fn output_wakes_those_who_wait_for_it_and_nobody_else() {
    let (mut crowd, _) = Crowd::gather(50, 2_000).await;
    crowd.wait(1_000).await;
    let before = crowd.polls.load(Ordering::Relaxed);
    for played in &crowd.played {
        played.stdout("x").await;
    }
    for handle in &crowd.handles {
        crowd.yard.output_to(*handle, 1).await;
    }
    tokio::time::sleep(DEADLINE).await;
    assert_eq!(crowd.polls.load(Ordering::Relaxed), before, "nobody waits for output");
    crowd.rest().await;
    let (_, polls, _) = crowd.end().await;
    assert_eq!(polls, 2 * 1_000);
}
