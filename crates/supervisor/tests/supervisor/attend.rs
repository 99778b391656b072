//! Callers that stay with a process for its result, and what becomes of it when they go.

use std::time::Duration;

use crate::common::{Yard, options};
use procyard_core::{Handle, State};
use procyard_testkit::Script;
use procyard_testkit::assertions::assert_noticed_once;

/// Longer than any stop takes.
const LATER: Duration = Duration::from_secs(30);

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

#[tokio::test(start_paused = true)]
async fn nobody_stays_with_a_process_that_is_not_there() {
    let yard = Yard::new(Script::new()).await;
    drop(yard.supervisor.attend(yard.owner, Handle::from_bytes([7; 16])));
    assert!(!yard.supervisor.has_pending(yard.owner));
}
