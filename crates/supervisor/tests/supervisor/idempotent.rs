//! A start that is asked for twice under one key happens once.

use std::time::Duration;

use crate::common::{Yard, code, options};
use procyard_core::{ErrorCode, Limits, State, StopKind};
use procyard_supervisor::{IdempotencyRecord, Lease, StartOptions, Started};
use procyard_testkit::{Script, StartFault};

fn keyed(digest: &str) -> StartOptions {
    let mut command = options().command;
    command.idempotency = Some(record(digest));
    StartOptions { command, ..options() }
}

fn record(digest: &str) -> IdempotencyRecord {
    IdempotencyRecord { key: "key".into(), digest: digest.into() }
}

async fn start(yard: &Yard, digest: &str) -> Result<Started, procyard_supervisor::SupervisorError> {
    yard.try_start_with(yard.owner, keyed(digest), Lease::none()).await
}

#[tokio::test(start_paused = true)]
async fn the_same_start_is_the_same_process_running_or_ended() {
    let yard = Yard::new(Script::new()).await;
    let handle = start(&yard, "a").await.unwrap().handle();
    assert_eq!(start(&yard, "a").await.unwrap(), Started::Existing(handle));
    yard.stop(handle, StopKind::Kill, Duration::ZERO).await.unwrap();
    assert_eq!(start(&yard, "a").await.unwrap(), Started::Existing(handle));
    assert_eq!(yard.supervisor.find_idempotent(yard.owner, &record("a")).unwrap(), Some(handle));
    assert_eq!(yard.runner.played().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_start_under_the_same_key_is_a_conflict() {
    let yard = Yard::new(Script::new()).await;
    start(&yard, "a").await.unwrap();
    assert_eq!(code(start(&yard, "b").await), ErrorCode::Conflict);
    assert_eq!(code(yard.supervisor.find_idempotent(yard.owner, &record("b"))), ErrorCode::Conflict);
    assert_eq!(yard.supervisor.list(yard.owner).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_at_once_start_one_process() {
    let slow = Script::new().start_fault(StartFault::Slow(Duration::from_millis(50)));
    let yard = Yard::new(slow).await;
    let (one, other) = tokio::join!(start(&yard, "a"), start(&yard, "a"));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.handle(), other.handle());
    assert!(matches!((one, other), (Started::New(_), Started::Existing(_))));
    assert_eq!(yard.runner.played().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_was_given_up_leaves_its_key_free() {
    let yard = Yard::new(Script::new().start_fault(StartFault::Hang)).await;
    assert!(tokio::time::timeout(Duration::from_secs(1), start(&yard, "a")).await.is_err());
    crate::common::eventually("it is undone", || {
        yard.supervisor.list(yard.owner).iter().all(|process| process.state.is_terminal())
    })
    .await;
    let next = yard.restarted().await;
    for yard in [&yard, &next] {
        yard.runner.play(Script::new());
        assert!(matches!(start(yard, "a").await.unwrap(), Started::New(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_failed_is_the_same_failed_process_and_is_told_by_its_answer_alone() {
    for fault in [StartFault::NotFound, StartFault::Panic] {
        let yard = Yard::new(Script::new().start_fault(fault)).await;
        let background = StartOptions { background: true, ..keyed("a") };
        yard.try_start_with(yard.owner, background, Lease::none()).await.unwrap_err();
        let failed = yard.supervisor.list(yard.owner)[0].identity.handle;
        assert!(yard.supervisor.notices(yard.owner).is_empty(), "{fault:?}");
        let next = yard.restarted().await;
        for yard in [&yard, &next] {
            yard.runner.play(Script::new());
            assert_eq!(start(yard, "a").await.unwrap(), Started::Existing(failed), "{fault:?}");
            assert_eq!(code(start(yard, "b").await), ErrorCode::Conflict);
            assert_eq!((yard.state(failed), yard.supervisor.list(yard.owner).len()), (State::Failed, 1));
        }
        next.supervisor.shutdown().await;
        assert!(yard.journal.notices().is_empty() && next.journal.notices().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_survives_a_restart_also_of_a_process_that_was_lost() {
    let yard = Yard::new(Script::new()).await;
    let handle = start(&yard, "a").await.unwrap().handle();
    let next = yard.restarted().await;
    assert_eq!(next.state(handle), State::LostOnRestore);
    assert_eq!(start(&next, "a").await.unwrap(), Started::Existing(handle));
    assert_eq!(code(start(&next, "b").await), ErrorCode::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_key_goes_with_its_evicted_process() {
    let limits = Limits { retained_per_session: 1, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().exit(0), limits).await;
    let first = start(&yard, "a").await.unwrap().handle();
    yard.end(first).await;
    let second = yard.start(options()).await;
    yard.end(second).await;
    crate::common::eventually("it is evicted", || yard.supervisor.snapshot(yard.owner, &first).is_err())
        .await;
    assert!(matches!(start(&yard, "b").await.unwrap(), Started::New(_)));
}
