//! How stops and ends keep their times: graces, repetitions, hand-overs, stalls, callers that took no result.

use std::time::Duration;

use crate::common::{Yard, eventually, options};
use procyard_core::{EventKind, State, StopKind};
use procyard_runner::Signal;
use procyard_supervisor::{NoticeKind, StartOptions};
use procyard_testkit::{Leftover, Reaction, Script, SignalFault};

#[tokio::test(start_paused = true)]
async fn leftovers_have_their_grace_and_are_killed_after_it() {
    let millis = Duration::from_millis;
    for (end_after, signals, within) in [
        (Some(millis(400)), vec![Signal::Terminate], millis(400)..millis(420)),
        (None, vec![Signal::Terminate, Signal::Kill], millis(600)..millis(620)),
    ] {
        let left = Leftover { count: 1, on_terminate: Reaction::Ignore, end_after, hold_output: true };
        let yard = Yard::new(Script::new().leaves(left).exit(0)).await;
        let handle = yard.start(options()).await;
        let played = yard.runner.last().unwrap();
        played.ended().await;
        let began = tokio::time::Instant::now();
        yard.end(handle).await;
        assert_eq!(played.signals(), signals);
        assert!(within.contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_may_give_an_hour_of_grace_and_no_more() {
    let hour = Duration::from_secs(3600);
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(options()).await;
    for longer in [hour + Duration::from_millis(1), hour * 2] {
        let refused = yard.stop(handle, StopKind::Terminate, longer).await.unwrap_err().public();
        assert_eq!(refused.field.as_deref(), Some("grace_ms"));
    }
    assert_eq!(yard.stop(handle, StopKind::Terminate, hour).await.unwrap().state, State::Terminated);
}

#[tokio::test(start_paused = true)]
async fn what_is_handed_over_already_is_not_handed_over_again() {
    let yard = Yard::new(Script::new()).await;
    let (yielded, background) = (yard.start(options()).await, yard.background().await);
    for _ in 0..2 {
        for handle in [yielded, background] {
            assert!(yard.supervisor.hand_over(yard.owner, &handle, false).await.unwrap().handed_over);
        }
    }
    for played in yard.runner.played() {
        played.exit(0).await;
    }
    for handle in [yielded, background] {
        yard.end(handle).await;
        yard.supervisor.hand_over(yard.owner, &handle, false).await.unwrap();
    }
    assert_eq!(yard.supervisor.notices(yard.owner).len(), 2);
    yard.supervisor.shutdown().await;
    let kinds = |handle| yard.journal.events_of(handle).iter().map(|event| event.kind).collect::<Vec<_>>();
    assert_eq!(kinds(yielded), [EventKind::Started, EventKind::Backgrounded, EventKind::Completed]);
    assert_eq!(kinds(background), [EventKind::Backgrounded, EventKind::Completed]);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_terminate_can_shorten_the_grace_and_not_lengthen_it() {
    let seconds = Duration::from_secs;
    let yard = Yard::new(Script::new().on_terminate(Reaction::Ignore)).await;
    let handle = yard.start(options()).await;
    let began = tokio::time::Instant::now();
    let again = |after, grace| {
        let yard = &yard;
        async move {
            tokio::time::sleep(after).await;
            yard.stop(handle, StopKind::Terminate, grace).await.unwrap()
        }
    };
    tokio::join!(
        again(seconds(0), seconds(10)),
        again(seconds(1), seconds(3)),
        again(seconds(2), seconds(60))
    );
    assert!((seconds(4)..seconds(5)).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(yard.runner.last().unwrap().signals(), [Signal::Terminate, Signal::Kill]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_owns_an_exit_to_the_end_of_its_grace() {
    for (after, state) in [(9, State::Interrupted), (11, State::Exited)] {
        let yard = Yard::new(Script::new().on_interrupt(Reaction::Ignore)).await;
        let handle = yard.start(options()).await;
        let exit = async {
            tokio::time::sleep(Duration::from_secs(after)).await;
            yard.runner.last().unwrap().exit(5).await;
        };
        let interrupt = yard.stop(handle, StopKind::Interrupt, Duration::from_secs(10));
        let (stopped, ()) = tokio::join!(interrupt, exit);
        stopped.unwrap();
        assert_eq!(yard.end(handle).await.state, state, "after {after} seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_that_found_nobody_left_has_not_escalated_anything() {
    let yard = Yard::new(Script::new().unprovable()).await;
    let handle = yard.start(options()).await;
    let prove = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        yard.runner.last().unwrap().prove();
    };
    let (stopped, ()) = tokio::join!(yard.stop(handle, StopKind::Terminate, Duration::from_secs(1)), prove);
    let end = stopped.unwrap();
    assert_eq!((end.state, end.outcome.unwrap().escalated), (State::Terminated, false));
    assert!(yard.runner.last().unwrap().signals().contains(&Signal::Kill), "it was tried");
}

#[tokio::test(start_paused = true)]
async fn a_stall_that_is_seen_late_is_told_all_the_same() {
    let slow = SignalFault::Slow(Duration::from_secs(3));
    let yard = Yard::new(Script::new().on_interrupt(Reaction::Ignore).signal_fault(slow)).await;
    let stall_window = Some(Duration::from_secs(5));
    let handle = yard.start(StartOptions { stall_window, ..options() }).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    // Until the signal is delivered, nothing else is seen.
    yard.stop(handle, StopKind::Interrupt, Duration::ZERO).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let NoticeKind::Stalled { quiet, .. } = yard.supervisor.notices(yard.owner)[0].kind else { panic!() };
    assert!(quiet >= Duration::from_secs(7), "{quiet:?}");
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_result_nobody_took_ends_what_it_started() {
    let yard = Yard::new(Script::new()).await;
    let running =
        || yard.supervisor.list(yard.owner).into_iter().find(|process| process.state == State::Running);
    {
        let mut start = Box::pin(yard.try_start(options()));
        let asked = std::future::poll_fn(|context| std::task::Poll::Ready(start.as_mut().poll(context)));
        assert!(asked.await.is_pending());
        eventually("it runs", || running().is_some()).await;
        // Its caller goes without having looked.
    }
    let handle = yard.supervisor.list(yard.owner)[0].identity.handle;
    assert_eq!(yard.end(handle).await.state, State::Killed);
    assert!(yard.supervisor.has_pending(yard.owner));
}
