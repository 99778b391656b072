//! A disk that refuses: starts are refused cleanly, ends are never lost, output has holes and no lies.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::sync::Arc;

use common::brittle::Faults;
use common::{Yard, code, eventually, options, read_from};
use procyard_core::{Effects, ErrorCode, State};
use procyard_manifest::ManifestStore;
use procyard_store::FsDir;
use procyard_testkit::Script;

async fn brittle(script: Script) -> (Yard, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    (Yard::brittle(script, Arc::clone(&faults)).await, faults)
}

fn stored(yard: &Yard, handle: procyard_core::Handle) -> procyard_manifest::Manifest {
    ManifestStore::new(FsDir::open(yard.place.path()).unwrap()).load(&handle).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_first_record_fails_leaves_nothing() {
    for by_sync in [false, true] {
        let (yard, faults) = brittle(Script::new()).await;
        if by_sync {
            faults.fail_syncs(1);
        } else {
            faults.fail_writes(1);
        }
        let error = yard.try_start(options()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::StorageUnavailable);
        assert_eq!(error.public().effects, Effects::None);
        assert!(yard.files().is_empty(), "{:?}", yard.files());
        assert!(yard.supervisor.list(yard.owner).is_empty() && yard.runner.played().is_empty());
        yard.start(options()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_cannot_be_recorded_as_running_is_undone() {
    for exits_itself in [false, true] {
        let script = if exits_itself { Script::new().exit(0) } else { Script::new() };
        let (yard, faults) = brittle(script).await;
        // The first record is one write, that it runs is the next.
        faults.fail_second_write();
        let error = yard.try_start(options()).await.unwrap_err();
        assert_eq!((error.code(), error.public().effects), (ErrorCode::StorageUnavailable, Effects::Unknown));
        assert_eq!(yard.runner.last().unwrap().survivors(), 0, "it is gone before the start says so");
        let list = yard.supervisor.list(yard.owner);
        assert_eq!(list[0].state, State::Failed);
        assert_eq!(stored(&yard, list[0].identity.handle).state, State::Failed);
        let handle = yard.start(options()).await;
        assert!(yard.supervisor.snapshot(yard.owner, &handle).is_ok(), "the slot came back");
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_recorded_wakes_its_waiters_and_is_recorded_and_announced_later() {
    let (yard, faults) = brittle(Script::new()).await;
    let handle = yard.background().await;
    yard.events(handle, 1).await;
    faults.fail_writes(u32::MAX);
    yard.runner.last().unwrap().exit(3).await;
    let end = yard.end(handle).await;
    assert_eq!((end.state, end.storage_degraded), (State::Exited, true));
    assert_eq!(stored(&yard, handle).state, State::Running, "the disk still refuses");
    assert!(yard.journal.completions(handle).is_empty(), "nothing is announced that is not on disk");
    assert!(yard.journal.noticed().is_empty());
    assert_eq!(yard.supervisor.notices(yard.owner).len(), 1, "an owner that asks is told");
    faults.fail_writes(0);
    eventually("it is announced", || yard.journal.completions(handle).len() == 1).await;
    eventually("and told", || yard.journal.noticed() == [handle]).await;
    let stored = stored(&yard, handle);
    assert_eq!((stored.state, stored.storage_degraded), (State::Exited, true));
    assert_eq!(stored.outcome.unwrap().exit_code, Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_disk_that_refuses() {
    let (yard, faults) = brittle(Script::new()).await;
    let handle = yard.background().await;
    faults.fail_writes(u32::MAX);
    let report = yard.supervisor.shutdown().await;
    assert!(report.failed.is_empty());
    faults.fail_writes(0);
    let next = yard.restarted().await;
    assert_eq!(next.state(handle), State::LostOnRestore, "what was not recorded is lost, and says so");
}

#[tokio::test(start_paused = true)]
async fn output_that_cannot_be_written_is_kept_in_memory_and_then_is_a_stated_gap() {
    let (yard, faults) = brittle(Script::new()).await;
    let handle = yard.background().await;
    let played = yard.runner.last().unwrap();
    played.stdout("before ").await;
    yard.output_to(handle, 7).await;
    yard.events(handle, 1).await;
    faults.fail_writes(u32::MAX);
    played.stdout("lost ").await;
    yard.output_to(handle, 12).await;
    assert_eq!(yard.text(handle).await, "before lost ", "the window has it");
    assert!(yard.supervisor.snapshot(yard.owner, &handle).unwrap().storage_degraded);
    faults.fail_writes(0);
    played.stdout("after").await;
    played.exit(0).await;
    let end = yard.end(handle).await;
    assert_eq!((end.state, end.total_bytes, end.storage_degraded), (State::Exited, 17, true));
    yard.supervisor.shutdown().await;
    let next = yard.restarted().await;
    let (page, snapshot) = next.supervisor.read(next.owner, &handle, read_from(0)).await.unwrap();
    assert_eq!(page.bytes, b"before after");
    assert!(page.gap);
    assert_eq!((page.gaps[0].from, page.gaps[0].until), (7, 12));
    assert!(snapshot.storage_degraded);
}

#[tokio::test(start_paused = true)]
async fn a_stop_goes_ahead_though_its_intent_cannot_be_recorded() {
    let (yard, faults) = brittle(Script::new()).await;
    let handle = yard.background().await;
    yard.events(handle, 1).await;
    faults.fail_writes(1);
    let end = yard.stop(handle, procyard_core::StopKind::Kill, std::time::Duration::ZERO).await.unwrap();
    assert_eq!(end.state, State::Killed);
    assert_eq!(stored(&yard, handle).state, State::Killed);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_records_cannot_be_restored_durably_is_not_served() {
    let (yard, _) = brittle(Script::new()).await;
    yard.background().await;
    let faults = Arc::new(Faults::default());
    let root = common::brittle::BrittleDir::open(yard.place.path(), Arc::clone(&faults));
    faults.fail_writes(u32::MAX);
    let session = yard.owner.session;
    let next = procyard_supervisor::Supervisor::new(session, procyard_core::Limits::default(), root);
    let refused = next.activate(procyard_supervisor::Services::discard()).await;
    assert_eq!(code(refused), ErrorCode::StorageUnavailable);
    assert!(next.list(yard.owner).is_empty());
}
