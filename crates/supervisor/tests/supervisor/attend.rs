//! Callers that stay with a process for its result, and what becomes of it when they go.

use std::pin::Pin;
use std::time::Duration;

use crate::common::{Yard, options};
use procyard_core::{Handle, State, StopKind};
use procyard_supervisor::{Lease, StartOptions, Started};
use procyard_testkit::assertions::assert_noticed_once;
use procyard_testkit::{Script, StartFault};

/// Longer than any stop takes.
const LATER: Duration = Duration::from_secs(30);

/// How long a start takes that others can join.
const SLOW: Duration = Duration::from_secs(9);

#[tokio::test(start_paused = true)]
async fn the_last_caller_that_goes_without_its_result_ends_the_process_and_the_owner_is_told() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(options()).await;
    let [first, second] = [(); 2].map(|()| yard.supervisor.attend(yard.owner, handle));
    drop(first);
    tokio::time::sleep(LATER).await;
    assert_eq!(yard.state(handle), State::Running, "another caller stays");
    drop(second);
    assert_eq!(yard.end(handle).await.state, State::Terminated);
    assert_noticed_once(&yard.supervisor.notices(yard.owner), handle);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_has_its_result_or_has_handed_the_process_over_stops_nothing() {
    let yard = Yard::new(Script::new()).await;
    let (released, yielded, background) =
        (yard.start(options()).await, yard.start(options()).await, yard.background().await);
    let [first, second, third] =
        [released, yielded, background].map(|handle| yard.supervisor.attend(yard.owner, handle));
    first.release();
    yard.supervisor.hand_over(yard.owner, &yielded, false).await.unwrap();
    drop((first, second, third));
    tokio::time::sleep(LATER).await;
    for handle in [released, yielded, background] {
        assert_eq!(yard.state(handle), State::Running);
    }
    assert!(yard.runner.played().iter().all(|played| played.signals().is_empty()));
}

/// A start that takes a while, and the process that it is going to be.
async fn starting(yard: &Yard, background: bool) -> (Pin<Box<dyn Future<Output = Started> + '_>>, Handle) {
    let options = StartOptions { background, ..options() };
    let start = yard.try_start_with(yard.owner, options, Lease::none());
    let mut start: Pin<Box<dyn Future<Output = Started> + '_>> = Box::pin(async { start.await.unwrap() });
    assert!(tokio::time::timeout(SLOW / 9, start.as_mut()).await.is_err());
    let handle = yard.supervisor.list(yard.owner)[0].identity.handle;
    assert_eq!(yard.state(handle), State::Starting);
    (start, handle)
}

fn slow() -> Script {
    Script::new().start_fault(StartFault::Slow(SLOW))
}

#[tokio::test(start_paused = true)]
async fn a_start_goes_on_as_long_as_a_caller_stays_with_it() {
    for background in [false, true] {
        let yard = Yard::new(slow()).await;
        let (start, handle) = starting(&yard, background).await;
        drop(yard.supervisor.attend(yard.owner, handle));
        tokio::time::sleep(SLOW / 9).await;
        assert_eq!(yard.state(handle), State::Starting, "the one that began it stays");
        let joined = yard.supervisor.attend(yard.owner, handle);
        drop(start);
        tokio::time::sleep(LATER).await;
        assert_eq!(yard.state(handle), State::Running);
        drop(joined);
        tokio::time::sleep(LATER).await;
        let expect = if background { State::Running } else { State::Terminated };
        assert_eq!(yard.state(handle), expect);
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_is_given_up_with_the_last_caller_that_stays_with_it() {
    for background in [false, true] {
        let yard = Yard::new(slow()).await;
        let (start, handle) = starting(&yard, background).await;
        let joined = [(); 2].map(|()| yard.supervisor.attend(yard.owner, handle));
        drop(start);
        tokio::time::sleep(SLOW / 9).await;
        assert_eq!(yard.state(handle), State::Starting);
        drop(joined);
        assert_eq!(yard.end(handle).await.state, State::Terminated);
        assert!(yard.runner.played().is_empty(), "it never came to be");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_of_a_start_stands_whoever_goes_and_tells_what_came_of_it() {
    for background in [false, true] {
        let yard = Yard::new(slow()).await;
        let (start, handle) = starting(&yard, background).await;
        let joined = yard.supervisor.attend(yard.owner, handle);
        yard.supervisor.hand_over(yard.owner, &handle, false).await.unwrap();
        drop(start);
        assert_eq!(joined.begun().await.unwrap().state, State::Running);
        drop(joined);
        tokio::time::sleep(LATER).await;
        assert_eq!(yard.state(handle), State::Running);
    }
    let yard = Yard::new(Script::new().start_fault(StartFault::Hang)).await;
    let (start, handle) = starting(&yard, true).await;
    let stop = async {
        tokio::time::sleep(SLOW).await;
        yard.stop(handle, StopKind::Kill, Duration::ZERO).await.unwrap()
    };
    let joined = yard.supervisor.attend(yard.owner, handle);
    let (begun, stopped) = tokio::join!(joined.begun(), stop);
    assert_eq!((begun.unwrap().state, stopped.state), (State::Killed, State::Killed));
    drop(start);
}

#[tokio::test(start_paused = true)]
async fn nobody_stays_with_a_process_that_is_not_there() {
    let yard = Yard::new(Script::new()).await;
    drop(yard.supervisor.attend(yard.owner, Handle::from_bytes([7; 16])));
    assert!(!yard.supervisor.has_pending(yard.owner));
}
