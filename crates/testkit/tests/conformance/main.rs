//! The scripted runner keeps the contract, and whoever breaks a rule of it is caught by that rule.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is a failed test")]

mod faulty;
mod faulty_process;

use std::collections::BTreeSet;
use std::sync::Arc;

use faulty::{Fault, FaultyRunner};
use procyard_testkit::conformance::{Broken, Scripted, cases};

/// Each fault, and the rules that must notice it.
const FAULTS: &[(Fault, &[&str])] = &[
    (Fault::SpawnsWhenPreparing, &["preparing_spawns_nothing"]),
    (Fault::KeepsReservations, &["a_dropped_preparation_releases_everything"]),
    (Fault::TakesAnything, &["an_invalid_request_is_refused_and_its_field_named"]),
    (Fault::ChangesItsMind, &["the_capabilities_do_not_change"]),
    (Fault::NamesAnotherTier, &["what_is_prepared_is_contained_as_the_capabilities_say"]),
    (Fault::ClaimsReadOnly, &["a_command_writes_no_more_than_its_effective_access_says"]),
    (
        Fault::KnowsOneError,
        &[
            "a_missing_program_is_an_error_of_its_kind",
            "a_file_that_is_no_program_is_an_error_of_its_kind",
            "a_deleted_workdir_fails_that_start_alone",
        ],
    ),
    (Fault::KeepsDroppedStarts, &["a_dropped_start_leaves_no_process"]),
    (Fault::TellsAnothersEnd, &["starts_at_the_same_time_each_have_their_own_output_and_status"]),
    (Fault::OneAtATime, &["processes_live_side_by_side"]),
    (Fault::SwapsOutputs, &["stdout_and_stderr_are_whole_and_apart"]),
    (Fault::GivesStreamsAgain, &["each_stream_is_given_once"]),
    (Fault::EndsOutputWithTheLeader, &["output_does_not_end_while_a_descendant_holds_it"]),
    (Fault::LosesOutputAfterTheEnd, &["output_is_there_after_the_leader_has_ended"]),
    (Fault::CutsOutput, &["output_of_any_length_arrives"]),
    (
        Fault::NeverEndsOutput,
        &["output_ends_when_its_last_holder_is_gone", "a_killed_terminal_is_at_its_end"],
    ),
    (Fault::OpensStdinAlways, &["stdin_is_at_its_end_unless_asked_for"]),
    (
        Fault::NeverEndsInput,
        &[
            "open_stdin_arrives_and_shutting_it_down_is_its_end",
            "dropping_stdin_is_its_end",
            "an_end_of_file_can_be_typed",
        ],
    ),
    (
        Fault::CutsInput,
        &[
            "admitted_input_arrives_whole",
            "what_a_terminal_admits_arrives_whole_and_what_it_refuses_not_at_all",
        ],
    ),
    (
        Fault::TellsSuccess,
        &["wait_tells_the_code_of_the_leader", "wait_tells_the_signal_that_ended_the_leader"],
    ),
    (Fault::WaitsForNothing, &["wait_does_not_resolve_while_the_leader_lives"]),
    (Fault::WaitsForTheTree, &["wait_does_not_wait_for_descendants"]),
    (Fault::TellsTheEndOnce, &["wait_gives_the_same_again"]),
    (Fault::SignalsAfterWaits, &["wait_resolves_while_another_signals"]),
    (Fault::LosesDroppedWaits, &["a_dropped_wait_loses_nothing"]),
    (
        Fault::InterruptIsKill,
        &["an_interrupt_is_sigint_to_the_leader", "an_interrupt_of_a_terminal_is_its_interrupt_character"],
    ),
    (
        Fault::TerminateIsKill,
        &[
            "terminate_reaches_the_whole_tree",
            "the_leader_answers_terminate_with_its_own_code",
            "what_ignores_polite_signals_lives_until_it_is_killed",
        ],
    ),
    (Fault::TerminateIsInterrupt, &["terminate_reaches_the_whole_tree"]),
    (Fault::KillIsInterrupt, &["a_kill_ends_the_whole_tree", "a_kill_reaches_what_outlived_the_leader"]),
    (Fault::CountsNobody, &["a_delivery_tells_whom_it_met"]),
    (Fault::FailsAfterTheEnd, &["signals_after_the_end_are_harmless_and_say_so"]),
    (Fault::SignalsEverybody, &["a_signal_does_not_leave_its_tree"]),
    (Fault::FallsSilent, &["a_dropped_signal_leaves_the_process_answering"]),
    (Fault::CountsTheLeaderOnly, &["a_living_tree_is_counted"]),
    (Fault::CallsEmptyTooEarly, &["a_tree_is_not_empty_while_a_descendant_lives"]),
    (Fault::CannotTell, &["a_tree_that_ended_is_proven_empty_and_stays_so"]),
    (Fault::EmptiedWithSurvivors, &["emptied_does_not_resolve_while_anything_lives"]),
    (Fault::EmptiedOnce, &["emptied_resolves_also_after_it_was_dropped"]),
    (Fault::OutlivesItsDrop, &["a_dropped_process_takes_its_tree_along"]),
    (Fault::ClosesNothing, &["close_ends_the_tree_and_says_so"]),
    (Fault::ClosesOnce, &["close_may_be_dropped_and_asked_for_again"]),
    (Fault::PromisesTerminals, &["a_terminal_is_had_where_the_capabilities_say_so"]),
    (Fault::GivesTerminalsAStderr, &["a_terminal_has_one_output_and_always_an_input"]),
    (Fault::KeepsTheFirstSize, &["a_terminal_has_the_size_that_it_was_given_last"]),
    (Fault::ResizesAnything, &["a_resize_without_a_terminal_or_without_a_size_is_refused"]),
    (Fault::FailsLateResizes, &["a_resize_after_the_end_is_harmless"]),
];

#[tokio::test(start_paused = true)]
async fn the_scripted_runner_keeps_every_rule() {
    let mut broken = Vec::new();
    for case in cases(Scripted::bare()) {
        broken.extend(case.check().await.err());
    }
    assert_eq!(broken, []);
}

#[tokio::test(start_paused = true)]
async fn a_runner_without_terminals_keeps_every_rule() {
    let broken = broken_by(Fault::HasNoTerminals, |_| true).await;
    assert_eq!(broken, []);
}

#[tokio::test(start_paused = true)]
async fn each_fault_is_caught_by_the_rule_that_it_breaks() {
    let mut passed = Vec::new();
    for (fault, rules) in FAULTS {
        let broken = broken_by(*fault, |rule| rules.contains(&rule)).await;
        for rule in *rules {
            match broken.iter().find(|broken| broken.rule == *rule) {
                Some(caught) => assert!(!caught.seen.is_empty() && caught.to_string().starts_with(rule)),
                None => passed.push((fault, rule)),
            }
        }
    }
    assert_eq!(passed, []);
}

#[test]
fn every_rule_of_the_suite_is_broken_by_some_fault() {
    let rules: BTreeSet<_> =
        cases(Scripted::bare()).iter().map(procyard_testkit::conformance::Case::rule).collect();
    let caught: BTreeSet<_> = FAULTS.iter().flat_map(|(_, rules)| *rules).copied().collect();
    assert_eq!(rules, caught);
}

/// Those of these rules that a runner with this fault breaks.
async fn broken_by(fault: Fault, is_asked: impl Fn(&str) -> bool) -> Vec<Broken> {
    let mut broken = Vec::new();
    let subject = Scripted::below(move |inner| Arc::new(FaultyRunner::new(inner, fault)));
    for case in cases(subject).into_iter().filter(|case| is_asked(case.rule())) {
        broken.extend(case.check().await.err());
    }
    broken
}
