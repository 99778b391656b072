//! A disk that refuses: starts are refused cleanly, ends are never lost, output has holes and no lies.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Yard, code, eventually, full_disk, options, read_from};
use procyard_core::{Effects, ErrorCode, Limits, State};
use procyard_manifest::ManifestStore;
use procyard_store::FsDir;
use procyard_supervisor::{Services, ShutdownReport, Supervisor};
use procyard_testkit::{Failure, Fault, Faults, FaultyDir, Operation, Script};

async fn brittle(script: Script) -> (Yard, Arc<Faults>) {
    let faults = Faults::none();
    (Yard::brittle(script, &faults).await, faults)
}

fn stored(yard: &Yard, handle: procyard_core::Handle) -> procyard_manifest::Manifest {
    ManifestStore::new(FsDir::open(yard.place.path()).unwrap()).load(&handle).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_first_record_fails_leaves_nothing() {
    for by_sync in [false, true] {
        let (yard, faults) = brittle(Script::new()).await;
        if by_sync {
            faults.fail(Fault::on(&[Operation::SyncDir]).times(1));
        } else {
            faults.fail(full_disk().times(1));
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
        faults.fail(full_disk().after(1).times(1));
        let error = yard.try_start(options()).await.unwrap_err();
        assert_eq!((error.code(), error.public().effects), (ErrorCode::StorageUnavailable, Effects::Unknown));
        assert_eq!(yard.runner.last().unwrap().survivors(), 0, "it is gone before the start says so");
        let list = yard.supervisor.list(yard.owner);
        assert_eq!(list[0].state, State::Failed);
        assert!(list[0].outcome.as_ref().unwrap().wait_status.is_some(), "how its leader ended is known");
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
    faults.fail(full_disk());
    yard.runner.last().unwrap().exit(3).await;
    let end = yard.end(handle).await;
    assert_eq!((end.state, end.storage_degraded), (State::Exited, true));
    assert_eq!(stored(&yard, handle).state, State::Running, "the disk still refuses");
    assert!(yard.journal.ends_of(handle).is_empty(), "nothing is announced that is not on disk");
    assert!(yard.journal.noticed().is_empty());
    assert_eq!(yard.supervisor.notices(yard.owner).len(), 1, "an owner that asks is told");
    faults.heal();
    eventually("it is announced", || yard.journal.ends_of(handle).len() == 1).await;
    eventually("and told", || yard.journal.noticed() == [handle]).await;
    let stored = stored(&yard, handle);
    assert_eq!((stored.state, stored.storage_degraded), (State::Exited, true));
    assert_eq!(stored.outcome.unwrap().exit_code, Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_disk_that_refuses() {
    let (yard, faults) = brittle(Script::new()).await;
    let handle = yard.background().await;
    let recorded = yard.background().await;
    yard.runner.last().unwrap().exit(0).await;
    yard.end(recorded).await;
    faults.fail(full_disk());
    for stopped in [1, 0] {
        let report = yard.supervisor.shutdown().await;
        assert_eq!(report, ShutdownReport { stopped, failed: vec![], unsaved: 1 }, "it says what is lost");
    }
    faults.heal();
    let next = yard.restarted().await;
    assert_eq!(next.state(handle), State::LostOnRestore, "what was not recorded is lost, and says so");
    assert_eq!(next.state(recorded), State::Exited);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_the_disk_takes_at_the_last_moment_is_not_lost() {
    let (yard, faults) = brittle(Script::new()).await;
    let handle = yard.background().await;
    faults.fail(full_disk());
    yard.runner.last().unwrap().exit(3).await;
    yard.end(handle).await;
    // By now it is tried every few seconds.
    tokio::time::sleep(Duration::from_secs(60)).await;
    faults.heal();
    assert_eq!(yard.supervisor.shutdown().await, ShutdownReport::default());
    assert_eq!(stored(&yard, handle).state, State::Exited);
    let next = yard.restarted().await;
    assert_eq!(next.state(handle), State::Exited);
    eventually("its end is published after all", || !next.journal.ends_of(handle).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn output_that_cannot_be_written_is_kept_in_memory_and_then_is_a_stated_gap() {
    let (yard, faults) = brittle(Script::new()).await;
    let handle = yard.background().await;
    let played = yard.runner.last().unwrap();
    played.stdout("before ").await;
    yard.output_to(handle, 7).await;
    yard.events(handle, 1).await;
    faults.fail(full_disk());
    played.stdout("lost ").await;
    yard.output_to(handle, 12).await;
    assert_eq!(yard.text(handle).await, "before lost ", "the window has it");
    assert!(yard.supervisor.snapshot(yard.owner, &handle).unwrap().storage_degraded);
    faults.heal();
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
    faults.fail(full_disk().times(1));
    let end = yard.stop(handle, procyard_core::StopKind::Kill, std::time::Duration::ZERO).await.unwrap();
    assert_eq!(end.state, State::Killed);
    assert_eq!(stored(&yard, handle).state, State::Killed);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_records_cannot_be_restored_durably_is_not_served() {
    let (yard, _) = brittle(Script::new()).await;
    yard.background().await;
    let faults = Faults::none();
    let root = FaultyDir::over(FsDir::open(yard.place.path()).unwrap(), &faults);
    faults.fail(full_disk());
    let session = yard.owner.session;
    let next = procyard_supervisor::Supervisor::new(session, procyard_core::Limits::default(), root);
    let refused = next.activate(procyard_supervisor::Services::discard()).await;
    assert_eq!(code(refused), ErrorCode::StorageUnavailable);
    assert!(next.list(yard.owner).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_end_whose_record_is_refused_once_or_twice_is_recorded_by_the_next_try() {
    for refusals in [1, 2] {
        let (yard, faults) = brittle(Script::new()).await;
        let handle = yard.background().await;
        yard.events(handle, 1).await;
        faults.fail(full_disk().times(refusals));
        yard.runner.last().unwrap().exit(3).await;
        let end = yard.end(handle).await;
        assert_eq!((end.state, end.storage_degraded), (State::Exited, false), "{refusals}");
        assert_eq!(faults.failed(), refusals);
        assert_eq!(stored(&yard, handle).state, State::Exited);
        assert_eq!(yard.journal.ends_of(handle).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn output_that_cannot_be_synced_ends_all_the_same_and_is_marked() {
    let (yard, faults) = brittle(Script::new()).await;
    let handle = yard.background().await;
    yard.runner.last().unwrap().stdout("printed").await;
    yard.output_to(handle, 7).await;
    yard.events(handle, 1).await;
    // The first sync of an end is that of the output.
    faults.fail(Fault::on(&[Operation::SyncFile]).times(1));
    yard.runner.last().unwrap().exit(0).await;
    let end = yard.end(handle).await;
    assert_eq!((end.state, end.storage_degraded), (State::Exited, true));
    assert_eq!(yard.text(handle).await, "printed");
    let stored = stored(&yard, handle);
    assert_eq!((stored.state, stored.spool.total_bytes, stored.storage_degraded), (State::Exited, 7, true));
}

/// One call of a whole life fails, each in its turn: the start is refused and leaves nothing, or the process ends with
/// its true state, on disk and announced once.
#[tokio::test(start_paused = true)]
async fn a_life_comes_to_its_end_whatever_call_is_refused() {
    let mut cases = 0;
    for call in 0.. {
        let (yard, faults) = brittle(Script::new().stdout("printed").exit(3)).await;
        let before = faults.failed();
        faults.fail(Fault::on(&Operation::ALL).after(call).times(1));
        match yard.try_start(options()).await {
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::StorageUnavailable, "call {call}");
                for process in yard.supervisor.list(yard.owner) {
                    assert_eq!(process.state, State::Failed, "call {call}");
                }
                let survivors =
                    yard.runner.played().iter().map(procyard_testkit::Played::survivors).sum::<u32>();
                assert_eq!(survivors, 0, "call {call}");
            }
            Ok(handle) => {
                let end = yard.end(handle).await;
                assert_eq!((end.state, end.total_bytes), (State::Exited, 7), "call {call}");
                eventually("it is announced", || yard.journal.ends_of(handle).len() == 1).await;
                let stored = stored(&yard, handle);
                assert_eq!((stored.state, stored.spool.total_bytes), (State::Exited, 7), "call {call}");
                yard.supervisor.shutdown().await;
                let next = yard.restarted().await;
                let (page, snapshot) = next.supervisor.read(next.owner, &handle, read_from(0)).await.unwrap();
                assert!(page.bytes == b"printed" || snapshot.storage_degraded, "call {call}: {page:?}");
            }
        }
        if faults.failed() == before {
            break;
        }
        cases += 1;
    }
    println!("{cases} refused calls");
    assert!(cases > 15, "{cases}");
}

#[tokio::test(start_paused = true)]
async fn output_that_cannot_be_reached_is_not_called_damaged() {
    let yard = Yard::new(Script::new().stdout("kept").exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    yard.supervisor.shutdown().await;
    let faults = Faults::none();
    let root = FaultyDir::over(FsDir::open(yard.place.path()).unwrap(), &faults);
    let next = Supervisor::new(yard.owner.session, Limits::default(), root);
    next.activate(Services::discard()).await.unwrap();
    faults.fail(Fault::on(&[Operation::OpenDir, Operation::OpenFile]).with(Failure::NoDescriptors));
    let error = next.read(yard.owner, &handle, read_from(0)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::StorageUnavailable);
    assert!(error.public().retryable);
    faults.heal();
    let (page, _) = next.read(yard.owner, &handle, read_from(0)).await.unwrap();
    assert_eq!(page.bytes, b"kept");
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_the_disk_refuses_stands_and_is_recorded_with_the_end() {
    let faults = Faults::none();
    let yard = Yard::brittle(Script::new(), &faults).await;
    let handle = yard.start(options()).await;
    faults.fail(full_disk());
    for _ in 0..2 {
        assert!(yard.supervisor.hand_over(yard.owner, &handle, false).await.unwrap().handed_over);
    }
    faults.heal();
    yard.runner.last().unwrap().exit(0).await;
    yard.end(handle).await;
    assert!(yard.supervisor.has_pending(yard.owner));
    yard.supervisor.shutdown().await;
    assert!(yard.restarted().await.supervisor.has_pending(yard.owner), "and it is known after a restart");
}
