//! Notices: who gets one, when it is suppressed, in which order, and that none is lost.

use std::time::Duration;

use crate::common::{Yard, eventually, options, read_from, target};
use procyard_core::{EventKind, Limits, NotificationId, State, StopKind};
use procyard_supervisor::{StartOptions, Until, WaitMode};
use procyard_testkit::{DEADLINE, Script, StartFault};

fn pending(yard: &Yard) -> Vec<NotificationId> {
    yard.supervisor.notices(yard.owner).iter().map(|notice| notice.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_background_process_is_told_once_pushed_and_pulled_under_one_id() {
    let yard = Yard::new(Script::new().exit(4)).await;
    let handle = yard.background().await;
    yard.end(handle).await;
    eventually("it is pushed", || yard.journal.noticed() == [handle]).await;
    let pulled = yard.supervisor.notices(yard.owner);
    let pushed = yard.journal.notices()[0].1.clone();
    assert_eq!(pulled, std::slice::from_ref(&pushed));
    assert_eq!((pushed.state, pushed.exit_code), (State::Exited, Some(4)));
    assert!(yard.supervisor.has_pending(yard.owner));
    yard.supervisor.delivered(yard.owner, &[pushed.id]);
    assert!(!yard.supervisor.has_pending(yard.owner));
}

#[tokio::test(start_paused = true)]
async fn a_foreground_process_is_not_told() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    yard.events(handle, 2).await;
    assert!(pending(&yard).is_empty() && yard.journal.noticed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_a_result_that_was_handed_over_suppresses_a_notice() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    yard.supervisor.learnt(yard.owner, &[handle]);
    yard.supervisor.read(yard.owner, &handle, read_from(0)).await.unwrap();
    let within = Duration::from_secs(1);
    yard.supervisor
        .wait(yard.owner, WaitMode::All, Until::Exit, vec![target(handle, 0)], within)
        .await
        .unwrap();
    yard.runner.last().unwrap().exit(0).await;
    yard.end(handle).await;
    yard.supervisor.list(yard.owner);
    yard.supervisor.snapshot(yard.owner, &handle).unwrap();
    assert_eq!(pending(&yard).len(), 1, "nothing of that told the owner");
    yard.supervisor.learnt(yard.owner, &[handle]);
    assert!(pending(&yard).is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_not_delivered_comes_again_after_a_restart_under_the_same_id() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = yard.background().await;
    yard.end(handle).await;
    eventually("it is pushed", || yard.journal.noticed() == [handle]).await;
    yard.supervisor.shutdown().await;
    let before = pending(&yard);

    let next = yard.restarted().await;
    assert_eq!(pending(&next), before);
    eventually("it is pushed again", || next.journal.noticed() == [handle]).await;
    assert!(next.journal.ends_of(handle).is_empty(), "the end itself was published before");
    next.supervisor.delivered(next.owner, &before);
    next.supervisor.shutdown().await;

    let last = next.restarted().await;
    assert!(pending(&last).is_empty());
    last.supervisor.shutdown().await;
    assert!(last.journal.noticed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_background_process_is_told() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    let next = yard.restarted().await;
    assert_eq!(next.state(handle), State::LostOnRestore);
    let notices = next.supervisor.notices(next.owner);
    assert_eq!((notices.len(), notices[0].state), (1, State::LostOnRestore));
    eventually("it is pushed", || next.journal.noticed() == [handle]).await;
}

#[tokio::test(start_paused = true)]
async fn notices_come_in_the_order_of_the_ends() {
    let yard = Yard::new(Script::new()).await;
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(yard.background().await);
    }
    let order = [2, 0, 3, 1];
    for index in order {
        yard.runner.played()[index].exit(0).await;
        yard.end(handles[index]).await;
    }
    let expected = order.map(|index| handles[index]);
    let pulled: Vec<_> = yard.supervisor.notices(yard.owner).iter().map(|notice| notice.handle).collect();
    assert_eq!(pulled, expected);
    eventually("all are pushed", || yard.journal.noticed() == expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_notifier_is_asked_until_it_takes_them_in_order() {
    let yard = Yard::new(Script::new().exit(0)).await;
    yard.journal.fail_notices(4);
    let mut handles = Vec::new();
    for _ in 0..3 {
        let handle = yard.background().await;
        yard.end(handle).await;
        handles.push(handle);
    }
    eventually("all are taken", || yard.journal.noticed() == handles).await;
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_hangs_delays_no_waiter_and_no_notice() {
    let yard = Yard::new(Script::new().exit(0)).await;
    yard.journal.hang();
    let handle = yard.background().await;
    let began = tokio::time::Instant::now();
    yard.end(handle).await;
    assert!(began.elapsed() < Duration::from_millis(100));
    eventually("the notice goes its own way", || yard.journal.noticed() == [handle]).await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_in_the_moment_of_the_end_gives_a_result_or_a_notice_that_survives() {
    let mut ended_first = 0;
    for turns in 0..60 {
        let yard = Yard::new(Script::new()).await;
        let deadline = Some(Duration::from_secs(1000));
        let handle = yard.start(StartOptions { deadline, ..options() }).await;
        let played = yard.runner.last().unwrap();
        let hand_over = async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
                // Blocking work of the end goes on meanwhile, by a different amount each time.
                if turns % 3 == 0 {
                    tokio::task::spawn_blocking(|| {}).await.unwrap();
                }
            }
            yard.supervisor.hand_over(yard.owner, &handle, true).await.unwrap()
        };
        let (snapshot, ()) = tokio::join!(hand_over, played.exit(0));
        yard.end(handle).await;
        yard.supervisor.shutdown().await;
        let events = yard.events(handle, 2).await;
        assert!(events.last().unwrap().1.is_terminal(), "nothing follows the end: {events:?}");
        let expected = usize::from(snapshot.handed_over);
        assert!(snapshot.handed_over || snapshot.state.is_terminal());
        ended_first += usize::from(!snapshot.handed_over);
        assert_eq!(pending(&yard).len(), expected, "after {turns} turns");
        assert_eq!(yard.journal.noticed().len(), expected);
        assert_eq!(pending(&yard.restarted().await).len(), expected, "after {turns} turns and a restart");
    }
    assert!(ended_first < 60, "some hand-overs come before the end");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_ends_its_process_and_is_told_later() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(options()).await;
    yard.supervisor.abandon(yard.owner, &handle);
    assert_eq!(yard.end(handle).await.state, State::Terminated);
    eventually("it is pushed", || yard.journal.noticed() == [handle]).await;
    assert_eq!(pending(&yard).len(), 1);
    yard.supervisor.shutdown().await;
    assert_eq!(pending(&yard.restarted().await).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_after_the_end_is_told_too() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    yard.events(handle, 2).await;
    yard.supervisor.abandon(yard.owner, &handle);
    yard.supervisor.abandon(yard.owner, &handle);
    eventually("it is pushed", || yard.journal.noticed() == [handle]).await;
    assert_eq!(pending(&yard).len(), 1);
    yard.supervisor.shutdown().await;
    assert_eq!(yard.journal.noticed(), [handle], "once");
    assert_eq!(pending(&yard.restarted().await).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_after_a_restart_is_told_too() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    yard.supervisor.shutdown().await;
    let next = yard.restarted().await;
    next.supervisor.abandon(next.owner, &handle);
    eventually("it is pushed", || next.journal.noticed() == [handle]).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_had_its_result_is_not_told_again() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    yard.supervisor.learnt(yard.owner, &[handle]);
    yard.supervisor.abandon(yard.owner, &handle);
    yard.supervisor.shutdown().await;
    assert!(pending(&yard).is_empty() && yard.journal.noticed().is_empty());
    assert!(pending(&yard.restarted().await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_notice_outlives_its_evicted_process() {
    let limits = Limits { retained_per_session: 1, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().exit(0), limits).await;
    let first = yard.background().await;
    yard.end(first).await;
    let before = pending(&yard);
    let second = yard.start(options()).await;
    yard.end(second).await;
    eventually("the first is evicted", || yard.supervisor.snapshot(yard.owner, &first).is_err()).await;
    assert_eq!(pending(&yard), before);
    assert!(yard.supervisor.has_pending(yard.owner));
    yard.supervisor.delivered(crate::common::owner(2), &before);
    assert_eq!(pending(&yard), before, "of its owner alone");
    yard.supervisor.delivered(yard.owner, &before);
    assert!(!yard.supervisor.has_pending(yard.owner));
}

#[tokio::test(start_paused = true)]
async fn a_stall_that_was_not_told_goes_with_the_end() {
    let yard = Yard::new(Script::new()).await;
    let stall_window = Some(Duration::from_secs(5));
    let handle = yard.start(StartOptions { stall_window, ..options() }).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(pending(&yard).len(), 1);
    yard.stop(handle, StopKind::Kill, DEADLINE).await.unwrap();
    assert!(pending(&yard).is_empty());
}

#[tokio::test(start_paused = true)]
async fn stalls_at_one_moment_are_told_in_the_order_of_admission() {
    let limits = Limits { running_per_loop: 32, running_per_session: 32, ..Limits::default() };
    let yard = Yard::with_limits(Script::new(), limits).await;
    let stall_window = Some(Duration::from_secs(5));
    let mut started = Vec::new();
    for _ in 0..24 {
        started.push(yard.start(StartOptions { stall_window, ..options() }).await);
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    let told: Vec<_> = yard.supervisor.notices(yard.owner).iter().map(|notice| notice.handle).collect();
    assert_eq!(told, started);
}

#[tokio::test(start_paused = true)]
async fn a_process_is_known_as_long_as_its_notice_is_to_be_told() {
    let limits = Limits { retained_per_session: 1, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().exit(3), limits).await;
    let evicted = yard.background().await;
    yard.end(evicted).await;
    let kept = yard.background().await;
    yard.end(kept).await;
    eventually("it is evicted", || yard.supervisor.snapshot(yard.owner, &evicted).is_err()).await;
    let mut telling = yard.supervisor.telling(yard.owner);
    let notices = telling.take_notices(9);
    assert_eq!(notices.iter().map(|notice| notice.handle).collect::<Vec<_>>(), [evicted, kept]);
    for notice in &notices {
        let process = telling.process_of(notice).expect("it is known");
        assert_eq!((process.identity.handle, process.state), (notice.handle, State::Exited));
        assert_eq!(process.command.line, options().command.line);
    }
    let other = yard.supervisor.telling(crate::common::owner(9));
    assert!(other.process_of(&notices[0]).is_none() && other.process_of(&notices[1]).is_none());
    telling.handed_over();
    assert!(telling.process_of(&notices[0]).is_none(), "nothing is to be told of it any more");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_takes_long_is_no_stall() {
    let yard = Yard::new(Script::new().start_fault(StartFault::Slow(Duration::from_secs(10)))).await;
    let stall_window = Some(Duration::from_secs(3));
    yard.start(StartOptions { stall_window, ..options() }).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(pending(&yard).is_empty(), "it runs for two seconds");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(pending(&yard).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_of_what_is_starting_is_said_once_it_runs() {
    let yard = Yard::new(Script::new().start_fault(StartFault::Slow(Duration::from_secs(3)))).await;
    let hand_over = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let handle = yard.supervisor.list(yard.owner)[0].identity.handle;
        yard.supervisor.hand_over(yard.owner, &handle, false).await.unwrap()
    };
    let (handle, snapshot) = tokio::join!(yard.start(options()), hand_over);
    assert_eq!((snapshot.state, snapshot.handed_over), (State::Starting, true));
    let events = yard.events(handle, 2).await;
    assert_eq!(events, [(EventKind::Started, State::Running), (EventKind::Backgrounded, State::Running)]);
}
