//! What is kept of ended processes: as many as may be, the least recently used go first, nothing that runs ever goes.

use crate::common::{Yard, eventually, options, read_from};
use procyard_core::{ErrorCode, Handle, Limits, State};
use procyard_testkit::Script;
use procyard_testkit::assertions::assert_noticed_once;

async fn keeping(count: u32) -> Yard {
    let limits = Limits { retained_per_session: count, ..Limits::default() };
    Yard::with_limits(Script::new().stdout("out").exit(0), limits).await
}

async fn ended(yard: &Yard) -> Handle {
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    handle
}

/// Which of these are kept, without using any of them.
fn kept(yard: &Yard, handles: &[Handle]) -> Vec<bool> {
    let list = yard.supervisor.list(yard.owner);
    handles.iter().map(|handle| list.iter().any(|process| process.identity.handle == *handle)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_goes_first_and_a_read_is_a_use() {
    let yard = keeping(3).await;
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(ended(&yard).await);
    }
    yard.supervisor.read(yard.owner, &handles[0], read_from(0)).await.unwrap();
    handles.push(ended(&yard).await);
    eventually("one goes", || kept(&yard, &handles) == [true, false, true, true]).await;
    handles.push(ended(&yard).await);
    eventually("and the next", || kept(&yard, &handles) == [true, false, false, true, true]).await;
    let gone = yard.supervisor.read(yard.owner, &handles[1], read_from(0)).await.unwrap_err();
    assert_eq!(gone.code(), ErrorCode::NotFound);
}

#[tokio::test(start_paused = true)]
async fn what_has_just_ended_is_kept_though_nobody_has_asked_for_it_yet() {
    let yard = keeping(2).await;
    let old = [ended(&yard).await, ended(&yard).await];
    let fresh = yard.background().await;
    yard.events(fresh, 2).await;
    eventually("it has ended", || !kept(&yard, &old)[0]).await;
    assert_eq!(kept(&yard, &[fresh]), [true]);
    assert_eq!(yard.text(fresh).await, "out");
}

#[tokio::test(start_paused = true)]
async fn what_is_evicted_goes_from_the_disk_and_does_not_come_back() {
    let yard = keeping(1).await;
    let first = ended(&yard).await;
    let second = ended(&yard).await;
    let name = first.reveal();
    eventually("its files go", || !yard.files().iter().any(|file| file.starts_with(&name))).await;
    // What is noted of it late must not write it again.
    yard.supervisor.learnt(yard.owner, &[first, second]);
    yard.supervisor.shutdown().await;
    assert!(!yard.files().iter().any(|file| file.starts_with(&name)), "{:?}", yard.files());
    let next = yard.restarted().await;
    assert_eq!(kept(&next, &[first, second]), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_never_evicted() {
    let yard = keeping(1).await;
    yard.runner.play(Script::new());
    let running = [yard.background().await, yard.background().await];
    yard.runner.play(Script::new().exit(0));
    for _ in 0..4 {
        ended(&yard).await;
    }
    assert_eq!(kept(&yard, &running), [true, true]);
    assert!(running.iter().all(|handle| yard.state(*handle) == State::Running));
}

#[tokio::test(start_paused = true)]
async fn a_restored_process_is_older_than_a_new_one() {
    let yard = keeping(100).await;
    let old = ended(&yard).await;
    yard.supervisor.shutdown().await;
    let limits = Limits { retained_per_session: 2, ..Limits::default() };
    let next = Yard::on(yard.place.clone(), Script::new().exit(0), limits).await;
    let new = [ended(&next).await, ended(&next).await];
    eventually("the old one goes", || !kept(&next, &[old])[0]).await;
    assert_eq!(kept(&next, &new), [true, true]);
}

#[tokio::test(start_paused = true)]
async fn what_is_evicted_before_it_was_told_is_told_after_a_restart() {
    let yard = keeping(1).await;
    yard.journal.hang();
    // Of one the end is to be published, of the other it is and the owner is to be told.
    let unpublished = ended(&yard).await;
    let next = ended(&yard).await;
    eventually("the first goes", || kept(&yard, &[unpublished, next]) == [false, true]).await;
    yard.journal.resume();
    yard.journal.until("all is published", |journal| !journal.ends_of(next).is_empty()).await;
    let untold = yard.background().await;
    yard.end(untold).await;
    yard.journal.until("it is published", |journal| !journal.ends_of(untold).is_empty()).await;
    yard.journal.hang();
    let silent = ended(&yard).await;
    let last = ended(&yard).await;
    eventually("both go", || kept(&yard, &[untold, silent, last]) == [false, false, true]).await;
    yard.supervisor.shutdown().await;

    let after = yard.restarted().await;
    after.journal.until("it is published", |journal| journal.ends_of(silent).len() == 1).await;
    assert_noticed_once(&after.supervisor.notices(after.owner), untold);
    assert!(after.journal.ends_of(untold).is_empty(), "it was published before");
    assert_eq!(kept(&after, &[untold, silent]), [false, false]);
}
