//! A lease is given back exactly once, and not before the terminal manifest is on disk.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::common::{Yard, code, eventually, full_disk, options};
use procyard_core::{ErrorCode, Handle, Limits, State, StopKind};
use procyard_manifest::ManifestStore;
use procyard_store::FsDir;
use procyard_supervisor::{IdempotencyRecord, Lease, StartOptions, Started};
use procyard_testkit::{Faults, Leftover, Loan, Reaction, Script, SignalFault, StartFault};

const GRACE: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_lease_is_held_to_the_terminal_manifest_and_given_back_before_anybody_is_woken() {
    let left = Leftover { count: 1, on_terminate: Reaction::Ignore, end_after: None, hold_output: true };
    for script in [Script::new(), Script::new().leaves(left)] {
        let yard = Yard::new(script).await;
        let known: Arc<OnceLock<Handle>> = Arc::default();
        let found: Arc<OnceLock<State>> = Arc::default();
        let (whose, state, place) = (Arc::clone(&known), Arc::clone(&found), Arc::clone(&yard.place));
        let lease = Lease::new(move || {
            let store = ManifestStore::new(FsDir::open(place.path()).unwrap());
            let manifest = store.load(whose.get().unwrap()).unwrap();
            state.set(manifest.state).expect("given back once");
        });
        let handle = yard.try_start_with(yard.owner, options(), lease).await.unwrap().handle();
        known.set(handle).unwrap();
        tokio::time::sleep(GRACE).await;
        assert_eq!(found.get(), None, "held while it runs");
        yard.runner.last().unwrap().exit(0).await;
        yard.end(handle).await;
        assert_eq!(found.get(), Some(&State::Exited));
        assert_eq!(yard.runner.last().unwrap().survivors(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn every_way_to_end_gives_the_lease_back_once() {
    let scripts = [
        Script::new().exit(0),
        Script::new().die_of(11),
        Script::new().lose_status(),
        Script::new().on_terminate(Reaction::Ignore),
        Script::new().start_fault(StartFault::NotFound),
        Script::new().start_fault(StartFault::Panic),
        Script::new().signal_fault(SignalFault::Panic),
    ];
    for script in scripts {
        let yard = Yard::new(script.clone()).await;
        let (lease, loan) = Loan::new();
        let options = StartOptions { deadline: Some(GRACE), ..options() };
        if let Ok(started) = yard.try_start_with(yard.owner, options, lease).await {
            yard.end(started.handle()).await;
        }
        assert_eq!(loan.released(), 1, "{script:?}");
        yard.supervisor.shutdown().await;
        drop(yard);
        assert_eq!(loan.released(), 1, "{script:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_refused_gives_the_lease_back_before_it_says_so() {
    let yard = Yard::with_limits(Script::new(), Limits { running_per_loop: 1, ..Limits::default() }).await;
    let (lease, loan) = Loan::new();
    let refused = StartOptions { spool_ceiling: Some(0), ..options() };
    assert_eq!(code(yard.try_start_with(yard.owner, refused, lease).await), ErrorCode::InvalidArguments);
    loan.assert_released_once();

    let mut command = options().command;
    command.idempotency = Some(IdempotencyRecord { key: "k".into(), digest: "d".into() });
    let keyed = StartOptions { command, ..options() };
    let first = yard.start(keyed.clone()).await;
    let (lease, loan) = Loan::new();
    assert_eq!(yard.try_start_with(yard.owner, keyed, lease).await.unwrap(), Started::Existing(first));
    loan.assert_released_once();

    let (lease, loan) = Loan::new();
    let full = yard.try_start_with(yard.owner, options(), lease).await;
    assert_eq!(code(full), ErrorCode::ProcessQuotaExceeded);
    loan.assert_released_once();

    yard.supervisor.shutdown().await;
    let (lease, loan) = Loan::new();
    let late = yard.try_start_with(yard.owner, options(), lease).await;
    assert_eq!(code(late), ErrorCode::SupervisorShuttingDown);
    loan.assert_released_once();
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_record_cannot_be_written_gives_the_lease_back() {
    let faults = Faults::none();
    let yard = Yard::brittle(Script::new(), &faults).await;
    faults.fail(full_disk());
    let (lease, loan) = Loan::new();
    let refused = yard.try_start_with(yard.owner, options(), lease).await;
    assert_eq!(code(refused), ErrorCode::StorageUnavailable);
    loan.assert_released_once();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_gets_no_lease_stuck() {
    for script in [
        Script::new().start_fault(StartFault::Hang),
        Script::new().start_fault(StartFault::Slow(Duration::from_millis(500))),
    ] {
        let yard = Yard::new(script).await;
        let (lease, loan) = Loan::new();
        let start = yard.try_start_with(yard.owner, options(), lease);
        assert!(tokio::time::timeout(Duration::from_millis(100), start).await.is_err());
        eventually("the lease comes back", || loan.released() == 1).await;
        assert!(yard.supervisor.list(yard.owner).iter().all(|process| process.state.is_terminal()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_while_the_tree_is_not_proven_empty() {
    let yard = Yard::new(Script::new().unprovable()).await;
    let (lease, loan) = Loan::new();
    let handle = yard.try_start_with(yard.owner, options(), lease).await.unwrap().handle();
    assert_eq!(code(yard.stop(handle, StopKind::Kill, GRACE).await), ErrorCode::TeardownFailed);
    loan.assert_held();
    yard.runner.last().unwrap().prove();
    yard.end(handle).await;
    loan.assert_released_once();
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_release_panics_keeps_nobody_waiting() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let lease = Lease::new(|| panic!("whoever lent it is broken"));
    let handle = yard.try_start_with(yard.owner, options(), lease).await.unwrap().handle();
    assert_eq!(yard.end(handle).await.state, State::Exited);
    assert_eq!(yard.events(handle, 2).await.len(), 2, "and it is announced");
}
