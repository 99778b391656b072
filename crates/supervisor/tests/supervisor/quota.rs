//! Quotas: a start beyond them is refused and leaves nothing behind; what ends gives back what it took.

use std::time::Duration;

use crate::common::{Yard, code, eventually, options, owner, with_stdin};
use procyard_core::{ErrorCode, Limits, State, StopKind};
use procyard_supervisor::{StartOptions, StopRequest};
use procyard_testkit::assertions::{assert_noticed_once, assert_released, assert_terminal_once};
use procyard_testkit::strategies::{limits, scripts, stop_kinds};
use procyard_testkit::{Loan, Script};
use proptest::prelude::*;

const KIB: u64 = 1024;

/// Tries a start that is refused, and checks that nothing of it is left.
async fn refused(yard: &Yard, of: u8, options: StartOptions) -> ErrorCode {
    let seen = || {
        let processes: Vec<_> = [1, 2, 3].iter().flat_map(|of| yard.supervisor.list(owner(*of))).collect();
        format!("{processes:?} {:?} {}", yard.files(), yard.runner.played().len())
    };
    let before = seen();
    let (lease, loan) = Loan::new();
    let code = code(yard.try_start_with(owner(of), options, lease).await);
    assert_eq!(seen(), before, "a refused start leaves nothing behind");
    loan.assert_released_once();
    code
}

#[tokio::test(start_paused = true)]
async fn a_loop_and_a_session_run_as_many_as_they_may() {
    let limits = Limits { running_per_loop: 2, running_per_session: 3, ..Limits::default() };
    let yard = Yard::with_limits(Script::new(), limits).await;
    let first = yard.start(options()).await;
    yard.start(options()).await;
    assert_eq!(refused(&yard, 1, options()).await, ErrorCode::ProcessQuotaExceeded);
    yard.try_start_as(owner(2), options()).await.unwrap();
    assert_eq!(refused(&yard, 2, options()).await, ErrorCode::ProcessQuotaExceeded, "the session is full");
    yard.stop(first, StopKind::Kill, Duration::ZERO).await.unwrap();
    yard.try_start_as(owner(2), options()).await.expect("a slot came back");
}

#[tokio::test(start_paused = true)]
async fn windows_and_spools_are_bounded_together() {
    let limits = Limits { window_bytes: 64 * KIB, window_bytes_total: 100 * KIB, ..Limits::default() };
    let yard = Yard::with_limits(Script::new(), limits).await;
    yard.start(options()).await;
    assert_eq!(refused(&yard, 1, options()).await, ErrorCode::OutputQuotaExceeded);

    let limits = Limits { spool_bytes: 64 * KIB, spool_bytes_total: 100 * KIB, ..Limits::default() };
    let yard = Yard::with_limits(Script::new(), limits).await;
    yard.start(options()).await;
    assert_eq!(refused(&yard, 1, options()).await, ErrorCode::OutputQuotaExceeded);
    let modest = StartOptions { spool_ceiling: Some(36 * KIB), ..options() };
    yard.start(modest).await;
}

#[tokio::test(start_paused = true)]
async fn a_ceiling_may_be_lowered_and_never_raised() {
    let yard = Yard::new(Script::new()).await;
    for wrong in [0, Limits::default().spool_bytes + 1] {
        let options = StartOptions { spool_ceiling: Some(wrong), ..options() };
        assert_eq!(refused(&yard, 1, options).await, ErrorCode::InvalidArguments);
    }
}

#[tokio::test(start_paused = true)]
async fn an_option_that_cannot_be_is_refused_before_anything_happens() {
    let yard = Yard::new(Script::new()).await;
    let mut labelled = options();
    labelled.command.label = Some("x".repeat(2000));
    let mut nameless = options();
    nameless.command.line = None;
    for wrong in [
        StartOptions { deadline: Some(Duration::MAX), ..options() },
        StartOptions { input: Some(b"x".to_vec()), ..options() },
        labelled,
        nameless,
    ] {
        assert_eq!(refused(&yard, 1, wrong).await, ErrorCode::InvalidArguments);
    }
}

#[tokio::test(start_paused = true)]
async fn retained_output_gives_way_to_a_start_the_least_recently_used_first() {
    let limits = Limits { spool_bytes: 64 * KIB, spool_bytes_total: 140 * KIB, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().stdout("x".repeat(40 << 10)).exit(0), limits).await;
    let mut ended = Vec::new();
    for _ in 0..2 {
        let handle = yard.start(options()).await;
        yard.end(handle).await;
        ended.push(handle);
    }
    // The first is used again, so the second goes.
    yard.supervisor.read(yard.owner, &ended[0], crate::common::read_from(0)).await.unwrap();
    yard.runner.play(Script::new());
    let running = yard.start(options()).await;
    assert!(yard.supervisor.snapshot(yard.owner, &running).is_ok());
    assert_eq!(yard.supervisor.snapshot(yard.owner, &ended[1]).unwrap_err().code(), ErrorCode::NotFound);
    let name = format!("{}.spool", ended[1].reveal());
    eventually("its output is removed", || !yard.files().contains(&name)).await;
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_not_evicted_and_a_start_that_cannot_fit_evicts_nothing() {
    let limits = Limits { spool_bytes: 64 * KIB, spool_bytes_total: 100 * KIB, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().stdout("x".repeat(20 << 10)).exit(0), limits).await;
    let ended = yard.start(options()).await;
    yard.end(ended).await;
    yard.runner.play(Script::new());
    let running = yard.start(StartOptions { spool_ceiling: Some(50 * KIB), ..options() }).await;
    assert_eq!(refused(&yard, 1, options()).await, ErrorCode::OutputQuotaExceeded);
    assert_eq!(yard.state(running), State::Running);
    assert_eq!(yard.state(ended), State::Exited, "its output would not have been enough");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happened before, whatever may run can be started again, and whoever may wait can.
    #[test]
    fn what_ends_gives_its_slot_and_its_lease_back_and_is_told_once(
        limits in limits(),
        lives in prop::collection::vec((scripts(), stop_kinds(), 0_u64..600, 1_u8..3), 1..10),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let yard = Yard::with_limits(Script::new(), limits).await;
            let mut loans = Vec::new();
            let mut started = Vec::new();
            for (script, kind, patience_ms, of) in lives {
                yard.runner.play(script);
                let (lease, loan) = Loan::new();
                loans.push(loan);
                let options = StartOptions { background: true, spool_ceiling: Some(8 * KIB), ..options() };
                let start = yard.try_start_with(owner(of), options, lease);
                // Some callers go away before their start is through.
                let patience = Duration::from_millis(patience_ms);
                if let Ok(Ok(process)) = tokio::time::timeout(patience, start).await {
                    started.push((owner(of), process.handle()));
                    let request = StopRequest { kind, grace: Some(patience) };
                    yard.supervisor.stop(owner(of), &process.handle(), request).await.unwrap();
                }
            }
            for of in [1, 2] {
                for process in yard.supervisor.list(owner(of)) {
                    let request = StopRequest { kind: StopKind::Kill, grace: None };
                    let stopped = yard.supervisor.stop(owner(of), &process.identity.handle, request);
                    // What ended meanwhile can have been evicted.
                    assert!(stopped.await.is_ok_and(|end| end.state.is_terminal()) || process.state.is_terminal());
                }
            }
            for (of, process) in started {
                yard.journal.until("it is noticed", |journal| journal.noticed().contains(&process)).await;
                yard.journal.until("it is published", |journal| !journal.ends_of(process).is_empty()).await;
                assert_terminal_once(&yard.journal.events(), process);
                assert_noticed_once(&yard.journal.notices_for(of), process);
            }
            for loan in loans {
                eventually("the lease is given back", || loan.released() > 0).await;
                loan.assert_released_once();
            }
            assert_released(&yard.supervisor, owner(1)).await;
            assert_released(&yard.supervisor, owner(2)).await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_exactly_at_its_bound_is_admitted_and_more_is_not() {
    let yard = Yard::with_limits(Script::new(), Limits { pending_input_bytes: 8, ..Limits::default() }).await;
    let ten_years = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    let with_deadline = |deadline| StartOptions { deadline: Some(deadline), ..options() };
    let with_input = |bytes: usize| StartOptions { input: Some(vec![b'x'; bytes]), ..with_stdin() };
    let with_ceiling = |bytes| StartOptions { spool_ceiling: Some(bytes), ..options() };
    let most = Limits::default().spool_bytes;
    for fits in [with_deadline(ten_years), with_input(8), with_ceiling(most)] {
        yard.start(fits).await;
    }
    for more in [with_deadline(ten_years + Duration::from_nanos(1)), with_input(9), with_input(10)] {
        assert_eq!(refused(&yard, 1, more).await, ErrorCode::InvalidArguments);
    }
}
