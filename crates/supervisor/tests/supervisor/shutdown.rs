//! The end of a session: concurrent, bounded, idempotent, and honest about what it could not end.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Yard, code, eventually, options};
use procyard_core::{ErrorCode, Limits, Reason, State, StopKind};
use procyard_supervisor::{ShutdownReport, StartOptions};
use procyard_testkit::{Reaction, Script, SignalFault, StartFault};
use tokio::time::Instant;

fn states(yard: &Yard) -> Vec<(State, Reason)> {
    let list = yard.supervisor.list(yard.owner);
    list.iter().map(|process| (process.state, process.outcome.as_ref().unwrap().reason)).collect()
}

#[tokio::test(start_paused = true)]
async fn all_trees_are_ended_at_the_same_time() {
    let yard = Yard::new(Script::new().on_terminate(Reaction::Ignore)).await;
    for _ in 0..8 {
        yard.background().await;
    }
    let began = Instant::now();
    let report = yard.supervisor.shutdown().await;
    assert_eq!(report, ShutdownReport { stopped: 8, failed: vec![], unsaved: 0 });
    let grace = Limits::default().graceful_shutdown;
    assert!(began.elapsed() < grace + Duration::from_millis(500), "{:?}", began.elapsed());
    assert!(states(&yard).iter().all(|end| *end == (State::Killed, Reason::RunnerShutdown)));
    assert!(yard.runner.played().iter().all(|played| played.survivors() == 0 && played.is_closed()));
}

#[tokio::test(start_paused = true)]
async fn what_goes_by_itself_is_terminated_by_the_shutdown() {
    let yard = Yard::new(Script::new()).await;
    yard.background().await;
    yard.supervisor.shutdown().await;
    assert_eq!(states(&yard), [(State::Terminated, Reason::RunnerShutdown)]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_can_be_repeated_and_be_asked_for_twice_at_once() {
    let yard = Yard::new(Script::new()).await;
    yard.background().await;
    let (one, other) = tokio::join!(yard.supervisor.shutdown(), yard.supervisor.shutdown());
    assert!(one.failed.is_empty() && other.failed.is_empty());
    assert_eq!(yard.supervisor.shutdown().await, ShutdownReport::default());
    assert_eq!(yard.runner.last().unwrap().signals().len(), 1, "a repeated stop sends no signal");
}

#[tokio::test(start_paused = true)]
async fn every_call_is_refused_from_then_on() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    yard.supervisor.shutdown().await;
    assert_eq!(code(yard.try_start(options()).await), ErrorCode::SupervisorShuttingDown);
    assert_eq!(code(yard.supervisor.snapshot(yard.owner, &handle)), ErrorCode::SupervisorShuttingDown);
    let stop = yard.stop(handle, StopKind::Kill, Duration::ZERO).await;
    assert_eq!(code(stop), ErrorCode::SupervisorShuttingDown);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_ended_is_reported_in_bounded_time() {
    let limits = Limits::default();
    let bound = limits.graceful_shutdown + limits.proof_bound + limits.drain_cap + limits.leftover_grace;
    for script in [
        Script::new().unprovable(),
        Script::new().signal_fault(SignalFault::Fail),
        Script::new().signal_fault(SignalFault::Hang),
    ] {
        let yard = Yard::new(script.clone()).await;
        let stuck = yard.background().await;
        yard.runner.play(Script::new());
        yard.background().await;
        let began = Instant::now();
        let report = yard.supervisor.shutdown().await;
        assert_eq!(report, ShutdownReport { stopped: 1, failed: vec![stuck], unsaved: 0 }, "{script:?}");
        assert!(began.elapsed() <= bound + Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_be_killed_is_said_to_live_until_it_is_gone() {
    let yard = Yard::new(Script::new().signal_fault(SignalFault::Fail)).await;
    let handle = yard.background().await;
    let began = Instant::now();
    let stop = yard.stop(handle, StopKind::Kill, Duration::ZERO).await;
    assert_eq!(code(stop), ErrorCode::TeardownFailed);
    assert!(began.elapsed() <= Limits::default().proof_bound + Duration::from_secs(1));
    let snapshot = yard.supervisor.snapshot(yard.owner, &handle).unwrap();
    assert_eq!((snapshot.state, snapshot.teardown_failed), (State::Running, true));
    yard.runner.last().unwrap().heal_signals();
    let end = yard.end(handle).await;
    assert_eq!((end.state, end.teardown_failed), (State::Killed, false), "the kill was tried again");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_still_starting_is_ended_with_its_reason() {
    let yard = Yard::new(Script::new().start_fault(StartFault::Hang)).await;
    let (started, report) = tokio::join!(yard.try_start(options()), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        yard.supervisor.shutdown().await
    });
    assert_eq!(code(started), ErrorCode::Terminated);
    assert_eq!(report, ShutdownReport { stopped: 1, failed: vec![], unsaved: 0 });
    assert_eq!(states(&yard), [(State::Terminated, Reason::RunnerShutdown)]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_starting_is_recorded_as_what_it_was() {
    for (kind, state) in [(StopKind::Terminate, State::Terminated), (StopKind::Kill, State::Killed)] {
        let yard = Yard::new(Script::new().start_fault(StartFault::Hang)).await;
        let (started, handle) = tokio::join!(yard.try_start(options()), async {
            eventually("it is listed", || !yard.supervisor.list(yard.owner).is_empty()).await;
            let handle = yard.supervisor.list(yard.owner)[0].identity.handle;
            assert_eq!(yard.stop(handle, kind, Duration::ZERO).await.unwrap().state, state);
            handle
        });
        assert!(started.is_err());
        let events = yard.events(handle, 2).await;
        assert_eq!(events[0].1, State::Starting, "the intent was recorded before");
        assert_eq!(events[1].1, state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_hangs_keeps_no_shutdown() {
    let yard = Yard::new(Script::new()).await;
    yard.journal.hang();
    yard.background().await;
    let began = Instant::now();
    yard.supervisor.shutdown().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    yard.journal.resume();
    let next = yard.restarted().await;
    let handle = next.supervisor.list(next.owner)[0].identity.handle;
    eventually("its end is published later", || next.journal.ends_of(handle).len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_for_the_services_is_given_to_them_first() {
    let yard = Yard::new(Script::new()).await;
    yard.journal.fail_events(2);
    let handle = yard.background().await;
    yard.supervisor.shutdown().await;
    assert_eq!(yard.journal.ends_of(handle).len(), 1);
    assert_eq!(yard.journal.noticed(), [handle]);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_is_dropped_leaves_no_tree_and_no_task() {
    let stubborn = Script::new().on_terminate(Reaction::Ignore);
    let yard = Yard::new(stubborn).await;
    for _ in 0..3 {
        yard.background().await;
    }
    let Yard { supervisor, runner, journal, .. } = yard;
    let clone = supervisor.clone();
    drop(supervisor);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(runner.played().iter().all(|played| played.survivors() == 1), "a clone still holds it");
    drop(clone);
    let began = Instant::now();
    eventually("all trees end", || runner.played().iter().all(|played| played.survivors() == 0)).await;
    assert!(began.elapsed() < Duration::from_secs(1), "at once, without grace");
    eventually("nobody holds the services", || Arc::strong_count(&journal) == 1).await;
    assert_eq!(journal.noticed().len(), 3, "and the owners are told");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_and_a_stop_and_the_exit_give_one_end() {
    for delay in 0..6_u64 {
        let yard = Yard::new(Script::new().pause(Duration::from_millis(3)).exit(0)).await;
        let deadline = Some(Duration::from_millis(delay));
        let handle = yard.start(StartOptions { deadline, background: true, ..options() }).await;
        let (stopped, report) =
            tokio::join!(yard.stop(handle, StopKind::Kill, Duration::ZERO), yard.supervisor.shutdown());
        assert!(report.failed.is_empty());
        drop(stopped);
        assert_eq!(yard.journal.ends_of(handle).len(), 1);
        assert_eq!(yard.journal.noticed(), [handle]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_takes_all_the_time_it_may_has_not_failed() {
    let stubborn = Script::new().on_terminate(Reaction::Ignore).unprovable();
    let yard = Yard::new(stubborn.outsider(Duration::from_secs(3600))).await;
    yard.background().await;
    let played = yard.runner.last().unwrap();
    // Grace, then nearly the whole of the proof bound, then the whole of the drain cap.
    let taking_its_time = async {
        let began = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            played.stdout("late ").await;
            if began.elapsed() > Duration::from_millis(14_800) {
                played.prove();
            }
        }
    };
    let began = Instant::now();
    let report = tokio::select! {
        report = yard.supervisor.shutdown() => report,
        () = taking_its_time => unreachable!("it prints for ever"),
    };
    assert!((report.stopped, report.failed.is_empty()) == (1, true), "{report:?}");
    assert!(began.elapsed() > Duration::from_millis(16_500), "{:?}", began.elapsed());
    let listed = yard.supervisor.list(yard.owner);
    assert_eq!(listed.iter().map(|process| process.state).collect::<Vec<_>>(), [State::Killed]);
}
