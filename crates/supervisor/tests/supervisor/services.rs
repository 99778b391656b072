//! Sessions with both services, one or none: what needs one that is not there is refused, everything else goes on.

use std::sync::Arc;

use crate::common::{Yard, code, eventually, options};
use procyard_core::{ErrorCode, Limits, State};
use procyard_store::FsDir;
use procyard_supervisor::{Services, StartOptions, Supervisor};
use procyard_testkit::{Journal, Script};

async fn with(services: Services, limits: Limits) -> Yard {
    let yard = Yard::new(Script::new().exit(0)).await;
    let place = Arc::new(tempfile::tempdir().unwrap());
    let supervisor = Supervisor::new(yard.owner.session, limits, FsDir::open(place.path()).unwrap());
    supervisor.activate(services).await.unwrap();
    Yard { supervisor, place, ..yard }
}

#[tokio::test(start_paused = true)]
async fn without_both_services_nothing_runs_in_the_background() {
    let journal = Journal::new();
    let both = journal.services();
    for services in [
        Services::default(),
        Services { notifier: None, ..both.clone() },
        Services { publisher: None, ..both.clone() },
    ] {
        let yard = with(services, Limits::default()).await;
        assert!(!yard.supervisor.notifies());
        let background = StartOptions { background: true, ..options() };
        let refused = yard.try_start(background).await;
        assert_eq!(code(refused), ErrorCode::ProcessNotificationsUnsupported);
        let handle = yard.start(options()).await;
        let handed = yard.supervisor.hand_over(yard.owner, &handle, false).await;
        assert_eq!(code(handed), ErrorCode::ProcessNotificationsUnsupported);
        assert_eq!(yard.end(handle).await.state, State::Exited, "a foreground process needs none");
    }
}

#[tokio::test(start_paused = true)]
async fn services_that_take_everything_and_keep_nothing_are_services() {
    let yard = with(Services::discard(), Limits::default()).await;
    assert!(yard.supervisor.notifies());
    let handle = yard.background().await;
    yard.end(handle).await;
    assert!(yard.supervisor.has_pending(yard.owner), "owners can still ask");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_publishes_is_not_kept_for_being_published() {
    let limits = Limits { retained_per_session: 1, ..Limits::default() };
    let yard = with(Services::default(), limits.clone()).await;
    assert_eq!(*yard.supervisor.limits(), limits);
    let first = yard.start(options()).await;
    yard.end(first).await;
    let second = yard.start(options()).await;
    yard.end(second).await;
    let name = first.reveal();
    eventually("its files go", || !yard.files().iter().any(|file| file.starts_with(&name))).await;
}
