//! Removing what has ended, on request.

use crate::common::{Yard, eventually, options, owner};
use procyard_core::ErrorCode;
use procyard_testkit::Script;

#[tokio::test(start_paused = true)]
async fn a_completed_process_is_gone_from_memory_and_disk() {
    let yard = Yard::new(Script::new().stdout("out").exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    let name = handle.reveal();
    eventually("it is published", || yard.journal.events().len() == 2).await;
    yard.supervisor.learnt(yard.owner, &[handle]);
    yard.supervisor.remove(yard.owner, &handle).await.unwrap();
    let again = yard.supervisor.remove(yard.owner, &handle).await.unwrap_err();
    let snapshot = yard.supervisor.snapshot(yard.owner, &handle).unwrap_err();
    assert_eq!((again.code(), snapshot.code()), (ErrorCode::NotFound, ErrorCode::NotFound));
    eventually("its files go", || !yard.files().iter().any(|file| file.starts_with(&name))).await;
}

#[tokio::test(start_paused = true)]
async fn what_runs_and_what_is_anothers_is_not_removed() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    let running = yard.supervisor.remove(yard.owner, &handle).await.unwrap_err();
    assert_eq!(running.code(), ErrorCode::Conflict);
    let foreign = yard.supervisor.remove(owner(2), &handle).await.unwrap_err();
    assert_eq!(foreign.code(), ErrorCode::NotFound);
    yard.runner.last().unwrap().exit(0).await;
    yard.end(handle).await;
    yard.supervisor.remove(yard.owner, &handle).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_was_not_told_outlives_its_process() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = yard.background().await;
    eventually("it has ended", || yard.supervisor.has_pending(yard.owner)).await;
    yard.supervisor.remove(yard.owner, &handle).await.unwrap();
    let told: Vec<_> = yard.supervisor.notices(yard.owner).iter().map(|notice| notice.handle).collect();
    assert_eq!(told, [handle]);
}
