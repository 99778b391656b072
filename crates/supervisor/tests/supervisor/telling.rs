//! What one reply tells, no other does: claims on notices and outcomes, and what becomes of them.

use std::time::Duration;

use crate::common::{Yard, eventually, options, owner};
use procyard_core::{Handle, Limits};
use procyard_supervisor::{NoticeKind, StartOptions, Telling};
use procyard_testkit::Script;

fn handles(notices: &[procyard_supervisor::Notice]) -> Vec<Handle> {
    notices.iter().map(|notice| notice.handle).collect()
}

fn take(telling: &mut Telling) -> Vec<Handle> {
    handles(&telling.take_notices(32))
}

async fn ended(yard: &Yard) -> Handle {
    let handle = yard.background().await;
    yard.end(handle).await;
    handle
}

#[tokio::test(start_paused = true)]
async fn a_notice_is_in_one_reply_at_a_time() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let (first, second) = (ended(&yard).await, ended(&yard).await);
    let mut one = yard.supervisor.telling(yard.owner);
    assert_eq!(handles(&one.take_notices(1)), [first]);
    let mut other = yard.supervisor.telling(yard.owner);
    assert_eq!(take(&mut other), [second]);
    assert!(!yard.supervisor.has_pending(yard.owner) && yard.supervisor.notices(yard.owner).is_empty());
    drop(one);
    assert!(yard.supervisor.has_pending(yard.owner), "what was not handed over is offered anew");
    other.handed_over();
    other.handed_over();
    drop(other);
    assert_eq!(take(&mut yard.supervisor.telling(yard.owner)), [first]);
    yard.supervisor.shutdown().await;
    assert_eq!(handles(&yard.restarted().await.supervisor.notices(yard.owner)), [first], "marked durably");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_a_reply_is_going_to_tell_is_announced_by_no_other() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    let mut result = yard.supervisor.telling(yard.owner);
    result.outcome(handle);
    result.outcome(handle);
    yard.runner.last().unwrap().exit(0).await;
    yard.end(handle).await;
    let mut other = yard.supervisor.telling(yard.owner);
    assert!(take(&mut other).is_empty() && !yard.supervisor.has_pending(yard.owner));
    // A second reply that tells it does not let it out either.
    other.outcome(handle);
    drop(other);
    result.tells(&[handle]);
    assert!(take(&mut result).is_empty());
    result.handed_over();
    drop(result);
    assert!(take(&mut yard.supervisor.telling(yard.owner)).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_was_claimed_and_not_told_is_announced() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = ended(&yard).await;
    for told in [false, true] {
        let mut result = yard.supervisor.telling(yard.owner);
        result.outcome(handle);
        result.tells(&[handle][usize::from(told)..]);
        if told {
            // It says `running`, and carries the news itself.
            assert_eq!(take(&mut result), [handle]);
        } else {
            assert!(take(&mut result).is_empty());
        }
        drop(result);
        assert!(yard.supervisor.has_pending(yard.owner));
    }
}

#[tokio::test(start_paused = true)]
async fn a_notice_on_its_way_stands_whatever_is_claimed_meanwhile() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = ended(&yard).await;
    let mut notice = yard.supervisor.telling(yard.owner);
    assert_eq!(take(&mut notice), [handle]);
    let mut result = yard.supervisor.telling(yard.owner);
    result.outcome(handle);
    drop(notice);
    assert!(!yard.supervisor.has_pending(yard.owner), "the result tells it");
    result.handed_over();
    drop(result);
    assert!(!yard.supervisor.has_pending(yard.owner));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_process_that_a_reply_starts_is_told_by_that_reply() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let before = ended(&yard).await;
    let mut result = yard.supervisor.telling(yard.owner);
    result.starts();
    let started = ended(&yard).await;
    assert_eq!(take(&mut yard.supervisor.telling(yard.owner)), [before]);
    result.outcome(started);
    let elsewhere = ended(&yard).await;
    assert_eq!(take(&mut yard.supervisor.telling(yard.owner)), [before, elsewhere]);
    // A start that failed holds nothing back.
    let mut failed = yard.supervisor.telling(yard.owner);
    failed.starts();
    failed.starts();
    let last = ended(&yard).await;
    failed.tells(&[]);
    assert_eq!(take(&mut yard.supervisor.telling(yard.owner)), [before, elsewhere, last]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_on_an_outcome_holds_no_stall_back() {
    let yard = Yard::new(Script::new()).await;
    let stall_window = Some(Duration::from_secs(5));
    let handle = yard.start(StartOptions { stall_window, ..options() }).await;
    let mut waiting = yard.supervisor.telling(yard.owner);
    waiting.outcome(handle);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let mut reply = yard.supervisor.telling(yard.owner);
    let notices = reply.take_notices(32);
    assert!(matches!(notices[0].kind, NoticeKind::Stalled { .. }));
    reply.handed_over();
    drop(reply);
    assert!(!yard.supervisor.has_pending(yard.owner));
}

#[tokio::test(start_paused = true)]
async fn a_claim_holds_for_its_owner_alone() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = ended(&yard).await;
    let mut foreign = yard.supervisor.telling(owner(2));
    foreign.starts();
    foreign.outcome(handle);
    foreign.tells(&[handle]);
    assert!(take(&mut foreign).is_empty());
    foreign.handed_over();
    assert_eq!(handles(&yard.supervisor.notices(yard.owner)), [handle]);
}

#[tokio::test(start_paused = true)]
async fn a_notice_of_an_evicted_process_is_claimed_and_told_like_any_other() {
    let limits = Limits { retained_per_session: 1, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().exit(0), limits).await;
    let first = ended(&yard).await;
    let mut reply = yard.supervisor.telling(yard.owner);
    assert_eq!(take(&mut reply), [first]);
    let second = yard.start(options()).await;
    yard.end(second).await;
    eventually("the first is evicted", || yard.supervisor.snapshot(yard.owner, &first).is_err()).await;
    assert!(!yard.supervisor.has_pending(yard.owner), "a reply is telling it");
    drop(reply);
    assert!(yard.supervisor.has_pending(yard.owner));
    let mut reply = yard.supervisor.telling(yard.owner);
    assert_eq!(take(&mut reply), [first]);
    reply.handed_over();
    drop(reply);
    assert!(!yard.supervisor.has_pending(yard.owner));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_dropped_takes_no_other_replys_claim_on_a_start_along() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let (mut one, mut other) = (yard.supervisor.telling(yard.owner), yard.supervisor.telling(yard.owner));
    one.starts();
    other.starts();
    drop(one);
    let started = ended(&yard).await;
    assert!(take(&mut yard.supervisor.telling(yard.owner)).is_empty(), "the other reply is going to tell it");
    drop(other);
    assert_eq!(take(&mut yard.supervisor.telling(yard.owner)), [started]);
}
