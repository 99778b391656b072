//! The lifecycle matrix, written out: exactly these events, with exactly these fields.

mod words;

use procyard_core::{
    EventId, EventKind, ExecutionId, Handle, Identity, LifecycleEvent, LoopId, MatrixError, Origin, Owner,
    Reason, SIGTERM, SessionId, State, Timestamp, matrix_admits,
};
use words::reasons;

type Row = (EventKind, &'static [State], &'static [Option<Reason>]);

const TABLE: [Row; 10] = [
    (EventKind::Started, &[State::Running], &[None]),
    (EventKind::Backgrounded, &[State::Running], &[None]),
    (
        EventKind::StopRequested,
        &[State::Starting, State::Running],
        &[Some(Reason::Interrupted), Some(Reason::Terminated), Some(Reason::Killed)],
    ),
    (EventKind::Completed, &[State::Exited], &[Some(Reason::Exited)]),
    (EventKind::Completed, &[State::Failed], &[Some(Reason::Failed)]),
    (EventKind::Completed, &[State::TimedOut], &[Some(Reason::TimedOut)]),
    (EventKind::Completed, &[State::Interrupted], &[Some(Reason::Interrupted)]),
    (
        EventKind::Completed,
        &[State::Terminated],
        &[Some(Reason::Terminated), Some(Reason::RunnerShutdown), Some(Reason::OutputLimit)],
    ),
    (
        EventKind::Completed,
        &[State::Killed],
        &[Some(Reason::Killed), Some(Reason::RunnerShutdown), Some(Reason::OutputLimit)],
    ),
    (EventKind::Lost, &[State::LostOnRestore], &[Some(Reason::LostOnRestore)]),
];

fn known(kind: EventKind, state: State, reason: Option<Reason>) -> bool {
    TABLE
        .iter()
        .any(|(of, states, reasons)| *of == kind && states.contains(&state) && reasons.contains(&reason))
}

/// Every event that there can be of these three, by which of the six optional fields it has.
fn event(kind: EventKind, state: State, reason: Option<Reason>, fields: u8) -> LifecycleEvent {
    let has = |bit: u8| fields & (1 << bit) != 0;
    let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
    LifecycleEvent {
        id: EventId::from_random([3; 16]),
        identity: Identity {
            handle: Handle::from_bytes([4; 16]),
            owner,
            origin: Origin { execution: ExecutionId::from_random([5; 16]) },
        },
        kind,
        state,
        reason,
        created_at: Timestamp::from_unix_micros(1),
        started_at: has(0).then_some(Timestamp::from_unix_micros(2)),
        finished_at: has(1).then_some(Timestamp::from_unix_micros(3)),
        exit_code: has(2).then_some(0),
        signal: has(3).then_some(SIGTERM),
        diagnostic: has(4).then(|| "why".to_owned()),
        at: has(5).then_some(Timestamp::from_unix_micros(4)),
    }
}

#[test]
fn the_matrix_is_the_table_and_everything_else_is_refused() {
    for kind in EventKind::ALL {
        for state in State::ALL {
            for reason in reasons() {
                let expected = known(kind, state, reason);
                assert_eq!(matrix_admits(kind, state, reason), expected, "{kind:?} {state} {reason:?}");
                if !expected {
                    assert_eq!(event(kind, state, reason, 0).check(), Err(MatrixError::Combination));
                }
            }
        }
    }
}

#[test]
fn an_event_has_the_fields_that_its_row_has_whatever_else_it_lacks() {
    for (kind, states, reasons) in TABLE {
        for (state, reason) in
            states.iter().flat_map(|state| reasons.iter().map(move |reason| (*state, *reason)))
        {
            for fields in 0..64_u8 {
                let event = event(kind, state, reason, fields);
                let begins = matches!(kind, EventKind::Started | EventKind::Backgrounded);
                let ends = matches!(kind, EventKind::Completed | EventKind::Lost);
                let exited = state == State::Exited;
                let diagnosed = matches!(state, State::Failed | State::LostOnRestore);
                let fits = (event.started_at.is_some() || !begins)
                    && event.finished_at.is_some() == ends
                    && event.exit_code.is_some() == exited
                    && (event.at.is_none() || !(ends || kind == EventKind::Started))
                    && (event.signal.is_none() || (ends && !exited))
                    && (event.diagnostic.is_none() || diagnosed);
                assert_eq!(event.check().is_ok(), fits, "{event:?}");
            }
        }
    }
}

#[test]
fn an_event_says_who_when_and_how_it_ended_and_nothing_else() {
    let whole = event(EventKind::Completed, State::Failed, Some(Reason::Failed), 63);
    let value = serde_json::to_value(&whole).expect("an event is json");
    let mut names: Vec<_> = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "at",
        "created_at",
        "diagnostic",
        "exit_code",
        "finished_at",
        "id",
        "identity",
        "kind",
        "reason",
        "signal",
        "started_at",
        "state",
    ];
    assert_eq!(names, expected);
    let identity: Vec<_> =
        value["identity"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
    assert_eq!(identity, ["handle", "origin", "owner"]);
    assert_eq!(serde_json::from_value::<LifecycleEvent>(value).ok(), Some(whole));
}

#[test]
fn a_reason_is_its_word_on_the_wire_and_in_text() {
    for reason in Reason::ALL {
        assert_eq!(serde_json::to_value(reason).ok(), Some(reason.as_str().into()));
        assert_eq!(reason.to_string(), reason.as_str());
    }
}
