//! Waiting for a workspace that somebody else holds.

use std::time::Duration;

use procyard_core::{ErrorCode, LeaseHolder, WorkspaceAccess};
use procyard_supervisor::Leases;
use tokio::time::Instant;

const BOUND: Duration = Duration::from_secs(10);

fn build() -> LeaseHolder {
    LeaseHolder::Process(WorkspaceAccess::BroadWrite)
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_waits_for_the_processes_that_may_write() {
    let leases = Leases::new();
    let (first, second) =
        (leases.acquire(&build(), BOUND).await.unwrap(), leases.acquire(&build(), BOUND).await.unwrap());
    let waiting = tokio::spawn({
        let leases = leases.clone();
        async move { leases.acquire(&LeaseHolder::Checkpoint, BOUND).await }
    });
    tokio::time::sleep(BOUND / 4).await;
    drop(first);
    tokio::time::sleep(BOUND / 4).await;
    assert!(!waiting.is_finished(), "one of the two still writes");
    let began = Instant::now();
    drop(second);
    let held = waiting.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO, "it is woken by the release, not by a tick");
    assert!(leases.acquire(&build(), Duration::ZERO).await.is_err());
    drop(held);
    assert!(leases.is_free());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_in_vain_ends_at_its_bound_as_workspace_busy() {
    let leases = Leases::new();
    let _held = leases.acquire(&LeaseHolder::Checkpoint, BOUND).await.unwrap();
    assert!(!leases.is_free());
    let began = Instant::now();
    let refused = leases.acquire(&build(), BOUND).await.unwrap_err();
    assert_eq!(began.elapsed(), BOUND);
    assert_eq!((refused.code(), refused.public().retryable), (ErrorCode::WorkspaceBusy, true));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_holds_nothing() {
    let leases = Leases::new();
    let held = leases.acquire(&LeaseHolder::Checkpoint, BOUND).await.unwrap();
    let build = build();
    let wait = leases.acquire(&build, BOUND);
    assert!(tokio::time::timeout(BOUND / 2, wait).await.is_err());
    drop(held);
    assert!(leases.is_free());
}
