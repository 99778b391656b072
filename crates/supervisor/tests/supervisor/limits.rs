//! Caps on what a process may take: what is recorded of them, and how an end at one is told.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Yard, options};
use procyard_core::{EffectiveLimits, Enforcement, Limits, Reason, SIGKILL, State, StopKind};
use procyard_runner::ResourceLimits;
use procyard_supervisor::StartOptions;
use procyard_testkit::{Reaction, Script};

fn asked() -> StartOptions {
    let limits =
        ResourceLimits { memory_max: Some(65 << 20), pids_max: Some(9), ..ResourceLimits::default() };
    StartOptions { limits, ..options() }
}

fn enforced() -> EffectiveLimits {
    EffectiveLimits {
        memory_max: Some(Enforcement::InForce(64 << 20)),
        core_max: Some(Enforcement::InForce(0)),
        ..EffectiveLimits::default()
    }
}

async fn yard(script: Script) -> Yard {
    let mut yard = Yard::new(script).await;
    yard.runner = yard.runner.limiting(enforced());
    yard
}

#[tokio::test(start_paused = true)]
async fn what_is_in_force_is_recorded_and_what_the_runner_is_silent_of_is_not_enforced() {
    let yard = yard(Script::new().exit(0)).await;
    let handle = yard.start(asked()).await;
    let limits = yard.end(handle).await.limits.unwrap();
    assert_eq!(limits.memory_max, Some(Enforcement::InForce(64 << 20)), "not what was asked for");
    assert_eq!(limits.core_max, Some(Enforcement::InForce(0)));
    assert!(matches!(limits.pids_max, Some(Enforcement::NotEnforced(_))));
    let restarted = Yard::on(Arc::clone(&yard.place), Script::new(), Limits::default()).await.supervisor;
    assert_eq!(restarted.snapshot(yard.owner, &handle).unwrap().limits, Some(limits), "also later");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_limits_where_none_was_asked_for() {
    let yard = yard(Script::new().exit(0)).await;
    let handle = yard.start(options()).await;
    assert_eq!(yard.end(handle).await.limits, None);
}

#[tokio::test(start_paused = true)]
async fn a_death_at_the_memory_limit_is_a_failure_that_says_so() {
    let yard = yard(Script::new().memory_kills(1).die_of(9)).await;
    let handle = yard.start(asked()).await;
    let end = yard.end(handle).await;
    assert_eq!((end.state, end.memory_kills), (State::Failed, 1));
    let outcome = end.outcome.unwrap();
    assert_eq!((outcome.reason, outcome.signal), (Reason::Failed, Some(SIGKILL)));
    assert_eq!(
        outcome.diagnostic.as_deref(),
        Some("the memory limit of 64 MiB was reached, and the kernel killed 1 process of the command")
    );
    let restarted = yard.restarted().await;
    let later = restarted.supervisor.snapshot(yard.owner, &handle).unwrap();
    assert_eq!((later.memory_kills, later.outcome.unwrap().diagnostic), (1, outcome.diagnostic));
}

#[tokio::test(start_paused = true)]
async fn a_death_of_another_signal_or_without_the_limit_is_not_put_down_to_it() {
    for (script, kills) in [(Script::new().memory_kills(1).die_of(11), 1), (Script::new().die_of(9), 0)] {
        let yard = yard(script).await;
        let handle = yard.start(asked()).await;
        let end = yard.end(handle).await;
        assert_eq!((end.state, end.memory_kills), (State::Failed, kills));
        assert_eq!(end.outcome.unwrap().diagnostic, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_outlived_the_death_of_its_child_has_its_own_end_and_the_count() {
    let yard = yard(Script::new().memory_kills(3).exit(137)).await;
    let handle = yard.start(asked()).await;
    let end = yard.end(handle).await;
    assert_eq!((end.state, end.memory_kills), (State::Exited, 3));
    assert_eq!(end.outcome.unwrap().exit_code, Some(137));
}

#[tokio::test(start_paused = true)]
async fn a_kill_that_was_asked_for_is_a_kill() {
    let yard = yard(Script::new().memory_kills(1).on_terminate(Reaction::Ignore)).await;
    let handle = yard.start(asked()).await;
    assert_eq!(yard.supervisor.snapshot(yard.owner, &handle).unwrap().memory_kills, 0, "not known yet");
    let end = yard.stop(handle, StopKind::Kill, Duration::ZERO).await.unwrap();
    assert_eq!((end.state, end.outcome.unwrap().diagnostic, end.memory_kills), (State::Killed, None, 1));
}
