//! Which cause owns an exit, under any order of stops, deadlines, graces and ends.

use procyard_core::{
    Causes, EventKind, LeaderEnd, Outcome, Reason, Requester, SIGINT, SIGKILL, SIGTERM, SignalNumber, State,
    StopKind, TerminalState, Verdict, WaitStatus, matrix_admits,
};
use proptest::prelude::*;
use proptest::sample::select;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Stop(StopKind, Requester),
    Escalate,
    Lapse,
    LeaderEnds,
}

fn step() -> impl Strategy<Value = Step> {
    let kinds = select(vec![StopKind::Interrupt, StopKind::Terminate, StopKind::Kill]);
    let requesters = select(vec![Requester::Owner, Requester::Deadline, Requester::Shutdown]);
    prop_oneof![
        4 => (kinds, requesters).prop_map(|(kind, by)| Step::Stop(kind, by)),
        1 => Just(Step::Escalate),
        1 => Just(Step::Lapse),
        1 => Just(Step::LeaderEnds),
    ]
}

/// Everything but a terminate or a kill.
fn calm() -> impl Strategy<Value = Step> {
    let requesters = select(vec![Requester::Owner, Requester::Deadline, Requester::Shutdown]);
    prop_oneof![
        2 => requesters.prop_map(|by| Step::Stop(StopKind::Interrupt, by)),
        1 => select(vec![Step::Escalate, Step::Lapse, Step::LeaderEnds]),
    ]
}

fn end() -> impl Strategy<Value = LeaderEnd> {
    prop_oneof![
        any::<u8>().prop_map(LeaderEnd::Code),
        select(vec![SIGINT, SIGTERM, SIGKILL]).prop_map(LeaderEnd::Signal),
        (1..=64_u8).prop_filter_map("1 to 64 are signals", SignalNumber::new).prop_map(LeaderEnd::Signal),
        Just(LeaderEnd::Unknown),
    ]
}

fn decide(steps: &[Step], end: LeaderEnd) -> Verdict {
    let mut causes = Causes::default();
    for step in steps {
        match *step {
            Step::Stop(kind, by) => causes.delivered(kind, by),
            Step::Escalate => causes.escalated(),
            Step::Lapse => causes.interrupt_lapsed(),
            Step::LeaderEnds => causes.leader_ended(),
        }
    }
    causes.decide(end)
}

fn is_stop(step: Step) -> bool {
    matches!(step, Step::Stop(StopKind::Terminate | StopKind::Kill, _))
}

fn before_the_end(steps: &[Step]) -> &[Step] {
    let end = steps.iter().position(|step| *step == Step::LeaderEnds).unwrap_or(steps.len());
    &steps[..end]
}

proptest! {
    #[test]
    fn a_verdict_is_a_completion_that_the_matrix_knows(
        steps in prop::collection::vec(step(), 0..12), end in end(),
    ) {
        let verdict = decide(&steps, end);
        let state = State::from(verdict.state);
        prop_assert!(State::Running.advance(state).is_ok());
        prop_assert!(matrix_admits(EventKind::Completed, state, Some(verdict.reason)));
        prop_assert_ne!(verdict.reason, Reason::OutputLimit, "reserved, never emitted");
        prop_assert_eq!(verdict.exit_code.is_some(), verdict.state == TerminalState::Exited);
        let signal = if let LeaderEnd::Signal(signal) = end { Some(signal) } else { None };
        prop_assert_eq!(verdict.signal, signal);
        prop_assert_eq!(verdict.escalated, steps.contains(&Step::Escalate));
        let outcome = Outcome::of(&verdict, None);
        prop_assert_eq!((outcome.reason, outcome.exit_code), (verdict.reason, verdict.exit_code));
    }

    #[test]
    fn nothing_is_said_to_be_asked_for_that_was_not(
        steps in prop::collection::vec(step(), 0..12), end in end(),
    ) {
        let verdict = decide(&steps, end);
        let asked = |wanted: &dyn Fn(StopKind, Requester) -> bool| {
            steps.iter().any(|step| matches!(step, Step::Stop(kind, by) if wanted(*kind, *by)))
        };
        if verdict.reason == Reason::RunnerShutdown {
            prop_assert!(asked(&|kind, by| kind != StopKind::Interrupt && by == Requester::Shutdown));
        }
        match verdict.state {
            TerminalState::TimedOut => {
                prop_assert!(asked(&|kind, by| kind != StopKind::Interrupt && by == Requester::Deadline));
            }
            TerminalState::Interrupted => prop_assert!(asked(&|kind, _| kind == StopKind::Interrupt)),
            TerminalState::Terminated => prop_assert!(asked(&|kind, _| kind == StopKind::Terminate)),
            TerminalState::Killed => {
                let killed = asked(&|kind, _| kind == StopKind::Kill);
                prop_assert!(killed || steps.contains(&Step::Escalate));
            }
            TerminalState::Exited | TerminalState::Failed | TerminalState::LostOnRestore => {}
        }
    }

    #[test]
    fn a_deadline_that_comes_first_is_timed_out_unless_a_kill_is_asked_for(
        before in prop::collection::vec(calm(), 0..4),
        mut after in prop::collection::vec(step(), 0..8),
        end in end(),
    ) {
        after.retain(|step| {
            !matches!(step, Step::Stop(StopKind::Kill, Requester::Owner | Requester::Shutdown))
        });
        let deadline = Step::Stop(StopKind::Terminate, Requester::Deadline);
        let steps: Vec<Step> = before.into_iter().chain([deadline]).chain(after).collect();
        prop_assert_eq!(decide(&steps, end).state, TerminalState::TimedOut);
    }

    #[test]
    fn without_a_stop_an_exit_is_the_leaders_own(steps in prop::collection::vec(calm(), 0..12), end in end()) {
        let verdict = decide(&steps, end);
        let interrupted = before_the_end(&steps)
            .iter()
            .rfind(|step| **step != Step::Escalate)
            .is_some_and(|step| matches!(step, Step::Stop(StopKind::Interrupt, _)));
        let expected = match end {
            LeaderEnd::Code(_) | LeaderEnd::Signal(SIGINT) if interrupted => TerminalState::Interrupted,
            LeaderEnd::Code(_) => TerminalState::Exited,
            LeaderEnd::Signal(_) | LeaderEnd::Unknown => TerminalState::Failed,
        };
        prop_assert_eq!(verdict.state, expected);
    }

    #[test]
    fn a_leader_that_was_told_to_terminate_went_or_was_killed(
        mut before in prop::collection::vec(calm(), 0..6),
        after in prop::collection::vec(step(), 0..6),
        end in end(),
    ) {
        before.retain(|step| *step != Step::LeaderEnds);
        let by = Requester::Owner;
        let steps: Vec<Step> =
            before.into_iter().chain([Step::Stop(StopKind::Terminate, by)]).chain(after).collect();
        let verdict = decide(&steps, end);
        let kill_delivered = before_the_end(&steps)
            .iter()
            .any(|step| matches!(step, Step::Escalate | Step::Stop(StopKind::Kill, _)));
        let went = matches!(end, LeaderEnd::Code(_)) || !kill_delivered;
        match verdict.state {
            TerminalState::Terminated => {}
            TerminalState::Killed => prop_assert!(!went),
            TerminalState::TimedOut => prop_assert!(!went, "a deadline's kill ended it"),
            other => prop_assert!(false, "{:?}", other),
        }
        if went {
            prop_assert_eq!(verdict.state, TerminalState::Terminated);
        }
    }

    #[test]
    fn what_is_delivered_after_an_end_by_a_stop_changes_no_verdict(
        mut before in prop::collection::vec(step(), 0..6),
        stop in step(),
        after in prop::collection::vec(step(), 0..6),
        end in end(),
    ) {
        before.retain(|step| *step != Step::LeaderEnds);
        prop_assume!(before.iter().chain([&stop]).any(|step| is_stop(*step)));
        let ended: Vec<Step> = before.into_iter().chain([stop, Step::LeaderEnds]).collect();
        let steps: Vec<Step> = ended.iter().copied().chain(after).collect();
        let (early, late) = (decide(&ended, end), decide(&steps, end));
        prop_assert_eq!((early.state, early.reason, early.exit_code), (late.state, late.reason, late.exit_code));
    }

    #[test]
    fn a_raw_status_says_code_or_signal_and_never_panics(raw: i32, code: u8, number in 1..=64_u8) {
        let _ = WaitStatus(raw).end();
        prop_assert_eq!(WaitStatus::exited(code).end(), LeaderEnd::Code(code));
        let signal = SignalNumber::new(number).expect("1 to 64 are signals");
        prop_assert_eq!(WaitStatus::signalled(signal).end(), LeaderEnd::Signal(signal));
        // Bit 7 says that a core was dumped.
        prop_assert_eq!(WaitStatus(i32::from(number) | 0x80).end(), LeaderEnd::Signal(signal));
    }
}
