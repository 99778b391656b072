//! Waiting: what satisfies a target, what wakes a waiter, and what a waiter holds.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Find, Yard, code, found, options, target};
use procyard_core::{ErrorCode, Handle, Limits, State, StopKind};
use procyard_supervisor::{StartOptions, TARGETS_MAX, Until, WaitMode, Waited};
use procyard_testkit::{DEADLINE, Script};
use tokio::time::Instant;

const AT_ONCE: Duration = Duration::ZERO;

async fn wait(
    yard: &Yard,
    mode: WaitMode,
    until: Until,
    handles: &[Handle],
    within: Duration,
) -> Vec<Waited> {
    let targets = handles.iter().map(|handle| target(*handle, 0)).collect();
    yard.supervisor.wait(yard.owner, mode, until, targets, within).await.unwrap()
}

fn satisfied(waited: &[Waited]) -> Vec<bool> {
    waited.iter().map(|waited| waited.satisfied).collect()
}

#[tokio::test(start_paused = true)]
async fn a_poll_returns_at_once_and_says_what_is_satisfied() {
    let yard = Yard::new(Script::new()).await;
    let running = yard.background().await;
    let printed = yard.background().await;
    yard.runner.last().unwrap().stdout("x").await;
    yard.output_to(printed, 1).await;
    let ended = yard.background().await;
    yard.stop(ended, StopKind::Kill, DEADLINE).await.unwrap();
    let missing = Handle::from_bytes([7; 16]);
    let began = Instant::now();
    let all = [running, printed, ended, missing];
    let output = wait(&yard, WaitMode::All, Until::Probe, &all, AT_ONCE).await;
    assert_eq!(satisfied(&output), [false, true, true, true]);
    let exit = wait(&yard, WaitMode::All, Until::Exit, &all, AT_ONCE).await;
    assert_eq!(satisfied(&exit), [false, false, true, true]);
    assert_eq!(began.elapsed(), AT_ONCE);
    assert!(exit[3].snapshot.is_none(), "there is nothing to say of it");
}

#[tokio::test(start_paused = true)]
async fn a_poll_sees_output_that_is_only_on_disk() {
    let yard = Yard::new(Script::new().stdout("one needle more").exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    let yard = yard.restarted().await;
    let targets = vec![Find::in_output_of(handle, b"needle")];
    let mut waited =
        yard.supervisor.wait(yard.owner, WaitMode::All, Until::Probe, targets, AT_ONCE).await.unwrap();
    assert!(waited[0].satisfied);
    assert!(found(waited.remove(0)).found);
}

#[tokio::test(start_paused = true)]
async fn any_is_satisfied_by_one_and_all_by_each() {
    let yard = Yard::new(Script::new()).await;
    let handles = [yard.background().await, yard.background().await];
    let [first, second] = [&yard.runner.played()[0], &yard.runner.played()[1]].map(Clone::clone);
    let (any, ()) = tokio::join!(wait(&yard, WaitMode::Any, Until::Exit, &handles, DEADLINE), first.exit(0));
    assert_eq!(satisfied(&any), [true, false]);
    let (all, ()) = tokio::join!(wait(&yard, WaitMode::All, Until::Exit, &handles, DEADLINE), second.exit(0));
    assert_eq!(satisfied(&all), [true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_match_is_found_across_the_borders_of_chunks_and_each_byte_is_fed_once() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    let played = yard.runner.last().unwrap();
    let print = async {
        for (bytes, total) in [("serving: lis", 12), ("ten", 15), ("ing\n", 19)] {
            played.stdout(bytes).await;
            yard.output_to(handle, total).await;
        }
    };
    let targets = vec![Find::in_output_of(handle, b"listening")];
    let (waited, ()) =
        tokio::join!(yard.supervisor.wait(yard.owner, WaitMode::All, Until::Probe, targets, DEADLINE), print);
    let waited = waited.unwrap().remove(0);
    assert!(waited.satisfied);
    let probe = found(waited);
    assert_eq!((probe.found, probe.finished, probe.fed), (true, false, 19));
}

#[tokio::test(start_paused = true)]
async fn the_end_satisfies_a_probe_after_it_was_fed_everything() {
    let yard = Yard::new(Script::new().stdout("no such thing").exit(0)).await;
    let handle = yard.background().await;
    let targets = vec![Find::in_output_of(handle, b"needle")];
    let waited =
        yard.supervisor.wait(yard.owner, WaitMode::All, Until::Probe, targets, DEADLINE).await.unwrap();
    assert!(waited[0].satisfied);
    let probe = found(waited.into_iter().next().unwrap());
    assert_eq!((probe.found, probe.finished, probe.fed), (false, true, 13));
}

#[tokio::test(start_paused = true)]
async fn output_before_the_cursor_satisfies_nobody() {
    let yard = Yard::new(Script::new().stdout("old")).await;
    let handle = yard.background().await;
    yard.output_to(handle, 3).await;
    let targets = vec![target(handle, 3)];
    let waited = yard
        .supervisor
        .wait(yard.owner, WaitMode::All, Until::Probe, targets, Duration::from_secs(1))
        .await
        .unwrap();
    assert!(!waited[0].satisfied);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_the_append_and_not_by_a_timer() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    let played = yard.runner.last().unwrap();
    let (began, alone) = (Instant::now(), [handle]);
    let (waited, ()) =
        tokio::join!(wait(&yard, WaitMode::All, Until::Probe, &alone, DEADLINE), played.stdout("x"));
    assert!(waited[0].satisfied);
    assert_eq!(began.elapsed(), Duration::ZERO, "no timer had to pass");
}

#[tokio::test(start_paused = true)]
async fn an_endless_wait_ends_with_the_process() {
    let yard = Yard::new(Script::new().pause(Duration::from_secs(3600)).exit(0)).await;
    let handle = yard.background().await;
    let waited = wait(&yard, WaitMode::All, Until::Exit, &[handle], Duration::MAX).await;
    assert!(waited[0].satisfied);
    yard.supervisor.quiet(yard.owner, &handle, Duration::MAX, Duration::MAX).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn quiet_is_counted_from_the_last_output() {
    let second = Duration::from_secs(1);
    let yard = Yard::new(Script::new().pause(second / 2).stdout("a").pause(second / 2).stdout("b")).await;
    let handle = yard.background().await;
    let began = Instant::now();
    yard.supervisor.quiet(yard.owner, &handle, second, DEADLINE).await.unwrap();
    let after = began.elapsed();
    assert!(after >= second * 2 && after < second * 2 + second / 10, "{after:?}");
    let began = Instant::now();
    yard.supervisor.quiet(yard.owner, &handle, DEADLINE * 9, second).await.unwrap();
    assert!(began.elapsed() <= second + second / 10, "the bound holds");
}

#[tokio::test(start_paused = true)]
async fn a_waiters_place_is_given_back_on_every_path() {
    let yard = Yard::with_limits(Script::new(), Limits { waiters: 1, ..Limits::default() }).await;
    let handle = yard.background().await;
    let try_wait = |within| {
        yard.supervisor.wait(yard.owner, WaitMode::All, Until::Exit, vec![target(handle, 0)], within)
    };
    for targets in [vec![], (0..=TARGETS_MAX).map(|_| target(handle, 0)).collect()] {
        let refused =
            yard.supervisor.wait(yard.owner, WaitMode::All, Until::Exit, targets, DEADLINE).await.map(|_| ());
        assert_eq!(code(refused), ErrorCode::InvalidArguments);
    }
    // Cancelled half way.
    let cancelled = tokio::time::timeout(Duration::from_secs(1), try_wait(DEADLINE)).await;
    assert!(cancelled.is_err());
    // Timed out.
    assert!(!try_wait(Duration::from_secs(1)).await.unwrap()[0].satisfied);
    {
        let mut holder = pin!(try_wait(DEADLINE));
        assert!(poll_fn(|context| std::task::Poll::Ready(holder.as_mut().poll(context).is_pending())).await);
        assert_eq!(code(try_wait(AT_ONCE).await.map(|_| ())), ErrorCode::OutputQuotaExceeded);
        let quiet = yard.supervisor.quiet(yard.owner, &handle, AT_ONCE, AT_ONCE).await;
        assert_eq!(code(quiet), ErrorCode::OutputQuotaExceeded);
        yard.runner.last().unwrap().exit(0).await;
        assert!(holder.await.unwrap()[0].satisfied);
    }
    assert!(try_wait(AT_ONCE).await.unwrap()[0].satisfied);
    yard.supervisor.quiet(yard.owner, &handle, AT_ONCE, AT_ONCE).await.unwrap();
    assert!(try_wait(AT_ONCE).await.unwrap()[0].satisfied);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiters_are_woken_once_each_by_one_append() {
    const WAITERS: u32 = 10_000;
    let yard = Yard::with_limits(Script::new(), Limits { waiters: WAITERS, ..Limits::default() }).await;
    let handle = yard.background().await;
    let polls = Arc::new(AtomicUsize::new(0));
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..WAITERS {
        let (supervisor, owner, polls) = (yard.supervisor.clone(), yard.owner, Arc::clone(&polls));
        waiters.spawn(async move {
            let wait = supervisor.wait(owner, WaitMode::All, Until::Probe, vec![target(handle, 0)], DEADLINE);
            let mut wait = pin!(wait);
            let counted = poll_fn(|context| {
                polls.fetch_add(1, Ordering::SeqCst);
                wait.as_mut().poll(context)
            });
            counted.await.unwrap()[0].satisfied
        });
    }
    crate::common::eventually("all wait", || polls.load(Ordering::SeqCst) >= WAITERS as usize).await;
    // While nothing happens, nobody is woken.
    tokio::time::sleep(DEADLINE / 2).await;
    assert_eq!(polls.load(Ordering::SeqCst), WAITERS as usize);
    yard.runner.last().unwrap().stdout("x").await;
    while let Some(satisfied) = waiters.join_next().await {
        assert!(satisfied.unwrap());
    }
    assert_eq!(polls.load(Ordering::SeqCst), 2 * WAITERS as usize);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_session_though_a_tree_stays() {
    let yard = Yard::new(Script::new().unprovable()).await;
    let alone = [yard.background().await];
    let (waited, report) = tokio::join!(
        wait(&yard, WaitMode::All, Until::Exit, &alone, DEADLINE * 60),
        yard.supervisor.shutdown()
    );
    assert_eq!(report.failed, alone);
    assert_eq!(satisfied(&waited), [false]);
    assert_eq!(waited[0].snapshot.as_ref().unwrap().state, State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_wakes_those_who_wait_for_the_end() {
    let yard = Yard::new(Script::new()).await;
    let limit = Duration::from_secs(3);
    let handle = yard.start(StartOptions { deadline: Some(limit), ..options() }).await;
    let began = Instant::now();
    let waited = wait(&yard, WaitMode::All, Until::Exit, &[handle], DEADLINE).await;
    assert_eq!(waited[0].snapshot.as_ref().unwrap().state, State::TimedOut);
    assert!(began.elapsed() < limit + Duration::from_millis(100), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn as_many_as_may_be_waited_for_are_and_one_more_is_refused() {
    let yard = Yard::new(Script::new()).await;
    let missing: Vec<_> =
        (0..=TARGETS_MAX).map(|of| Handle::from_bytes([u8::try_from(of).unwrap(); 16])).collect();
    let most = wait(&yard, WaitMode::All, Until::Exit, &missing[..TARGETS_MAX], AT_ONCE).await;
    assert!(most.len() == TARGETS_MAX && most.iter().all(|waited| waited.satisfied));
    let targets = missing.iter().map(|handle| target(*handle, 0)).collect();
    let more = yard.supervisor.wait(yard.owner, WaitMode::All, Until::Exit, targets, AT_ONCE).await;
    assert_eq!(code(more.map(|waited| waited.len())), ErrorCode::InvalidArguments);
}

#[tokio::test(start_paused = true)]
async fn any_returns_with_the_first_that_is_satisfied() {
    let yard = Yard::new(Script::new()).await;
    let (first, second) = (yard.background().await, yard.background().await);
    let played = yard.runner.played();
    let began = Instant::now();
    let exits = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        played[1].exit(0).await;
    };
    let both = [first, second];
    let any = wait(&yard, WaitMode::Any, Until::Exit, &both, DEADLINE);
    let (waited, ()) = tokio::join!(any, exits);
    assert_eq!(satisfied(&waited), [false, true]);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}
