//! The state machine against its table, and the lifecycle matrix against the state machine.

mod words;

use procyard_core::{EventKind, InvalidTransition, Reason, State, TerminalState, matrix_admits};
use proptest::prelude::*;
use proptest::sample::select;
use words::reasons;

const TABLE: [(State, &[State]); 2] = [
    (
        State::Starting,
        &[State::Running, State::Failed, State::Terminated, State::Killed, State::LostOnRestore],
    ),
    (
        State::Running,
        &[
            State::Exited,
            State::Failed,
            State::TimedOut,
            State::Interrupted,
            State::Terminated,
            State::Killed,
            State::LostOnRestore,
        ],
    ),
];

fn follows(from: State) -> &'static [State] {
    TABLE.iter().find(|(state, _)| *state == from).map_or(&[], |(_, next)| *next)
}

#[test]
fn the_state_machine_is_its_table_and_nothing_more() {
    for from in State::ALL {
        for to in State::ALL {
            let expected =
                if follows(from).contains(&to) { Ok(to) } else { Err(InvalidTransition { from, to }) };
            assert_eq!(from.advance(to), expected, "{from} to {to}");
        }
        assert_eq!(from.is_terminal(), follows(from).is_empty());
        assert_eq!(from.terminal().map(State::from), from.is_terminal().then_some(from));
    }
}

#[test]
fn a_state_is_its_word_on_the_wire() {
    for state in State::ALL {
        assert_eq!(serde_json::to_value(state).ok(), Some(state.as_str().into()));
        assert_eq!(serde_json::from_value::<State>(state.to_string().into()).ok(), Some(state));
    }
}

proptest! {
    #[test]
    fn a_life_ends_once_and_stays_as_it_ended(wishes in prop::collection::vec(select(State::ALL.to_vec()), 0..40)) {
        let (mut state, mut ends) = (State::Starting, 0);
        for wish in wishes {
            let before = state;
            match state.advance(wish) {
                Ok(next) => {
                    prop_assert_eq!(next, wish);
                    prop_assert!(!before.is_terminal());
                    state = next;
                    ends += u32::from(state.is_terminal());
                }
                Err(refused) => prop_assert_eq!((refused.from, refused.to), (before, wish)),
            }
        }
        prop_assert_eq!(ends, u32::from(state.is_terminal()));
    }
}

#[test]
fn the_matrix_speaks_of_states_as_the_state_machine_has_them() {
    for kind in EventKind::ALL {
        for state in State::ALL {
            for reason in reasons().filter(|reason| matrix_admits(kind, state, *reason)) {
                match kind {
                    EventKind::Started | EventKind::Backgrounded => {
                        assert_eq!((state, reason), (State::Running, None));
                    }
                    EventKind::StopRequested => {
                        assert!(!state.is_terminal(), "a stop of {state}");
                        assert!(reason.is_some());
                    }
                    EventKind::Completed => {
                        assert!(state.is_terminal() && state != State::LostOnRestore, "{state} completed");
                        assert!(State::Running.advance(state).is_ok(), "{state} ends what runs");
                    }
                    EventKind::Lost => assert_eq!(state, State::LostOnRestore),
                }
            }
        }
    }
}

#[test]
fn every_terminal_state_is_announced_by_exactly_one_kind_of_event() {
    for state in State::ALL {
        let kinds = EventKind::ALL
            .into_iter()
            .filter(|kind| matches!(kind, EventKind::Completed | EventKind::Lost))
            .filter(|kind| reasons().any(|reason| matrix_admits(*kind, state, reason)))
            .count();
        assert_eq!(kinds, usize::from(state.is_terminal()), "{state}");
    }
}

#[test]
fn the_plain_reason_of_a_terminal_state_is_its_own_word() {
    for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
        let kind = if state == State::LostOnRestore { EventKind::Lost } else { EventKind::Completed };
        let own = Reason::ALL.into_iter().find(|reason| reason.as_str() == state.as_str());
        assert!(own.is_some_and(|own| matrix_admits(kind, state, Some(own))), "{state}");
    }
    assert_eq!(State::from(TerminalState::TimedOut).as_str(), Reason::TimedOut.as_str());
}
