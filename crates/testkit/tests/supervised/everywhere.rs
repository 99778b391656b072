//! What holds of every life: pages compose, everything is given back, strangers see nothing.

use procyard_testkit::assertions::{assert_pages_compose, assert_released, assert_same_for_stranger};
use procyard_testkit::strategies::{chunks, sizes, strangers};
use procyard_testkit::{Loan, Script};
use proptest::prelude::*;

use crate::{Session, owner, refusal, refusal_of};

fn on_a_paused_clock(test: impl Future<Output = ()>) {
    let clock = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    clock.unwrap().block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn output_of_any_kind_is_the_same_in_pages_of_any_sizes(chunks in chunks(24), sizes in sizes(12)) {
        on_a_paused_clock(async {
            let session = Session::new(Script::new()).await;
            let process = session.start(false).await;
            let played = session.runner.last().unwrap();
            let mut printed = Vec::new();
            for (stream, bytes) in chunks {
                match stream {
                    procyard_core::Stream::Stderr => played.stderr(&bytes).await,
                    _ => played.stdout(&bytes).await,
                }
                printed.extend(bytes);
                session.prints(process, printed.len() as u64).await;
            }
            let seen = assert_pages_compose(&session.supervisor, owner(1), process, &sizes).await;
            assert_eq!(seen, printed);
            session.kill(process).await;
            assert_pages_compose(&session.supervisor, owner(1), process, &sizes).await;
        });
    }

    #[test]
    fn no_stranger_sees_a_process(stranger in strangers(owner(1)), ended in any::<bool>()) {
        on_a_paused_clock(async {
            let session = Session::new(Script::new().stdout("secret")).await;
            let process = session.start(true).await;
            session.comes_to_rest(process).await;
            if ended {
                session.kill(process).await;
            }
            assert_same_for_stranger(&session.supervisor, owner(1), stranger, process).await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_no_stranger() {
    let session = Session::new(Script::new().stdout("mine")).await;
    let process = session.start(true).await;
    session.comes_to_rest(process).await;
    let supervisor = session.supervisor.clone();
    let seen = refusal_of(async move {
        assert_same_for_stranger(&supervisor, owner(1), owner(1), process).await;
    })
    .await;
    assert!(seen.contains("Snapshot") && seen.contains("everywhere.rs"), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn what_runs_waits_or_holds_a_slot_is_not_released() {
    let session = Session::new(Script::new()).await;
    let released = |session: &Session, of| {
        let supervisor = session.supervisor.clone();
        refusal_of(async move { assert_released(&supervisor, owner(of)).await })
    };
    assert_released(&session.supervisor, owner(1)).await;
    let process = session.start(false).await;
    assert!(released(&session, 1).await.contains("is running"));
    assert!(released(&session, 2).await.contains("all 2 slots to be free; 1 were"), "the session has two");
    session.kill(process).await;
    let place = session.supervisor.reserve_wait().unwrap();
    assert!(released(&session, 1).await.contains("3 waiters' places"));
    drop(place);
    assert_released(&session.supervisor, owner(1)).await;
}

#[test]
fn a_lease_is_held_until_it_is_released_and_then_once() {
    let (lease, loan) = Loan::new();
    loan.assert_held();
    assert!(refusal(|| loan.assert_released_once()).contains("0 times"));
    drop(lease);
    loan.assert_released_once();
    assert!(refusal(|| loan.assert_held()).contains("1 times"));
}
