//! The closed matrix of lifecycle events: which event may speak of which state, for which reason, with what.
//!
//! Not for publishing: a journal takes events that have passed [`LifecycleEvent::check`].

use serde::{Deserialize, Serialize};

use crate::{EventId, Identity, SignalNumber, State, Timestamp};

/// The kind of a lifecycle event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// At the start of a foreground process.
    Started,
    /// At the start of a background process, or at the hand-over of a yielded one.
    Backgrounded,
    /// A stop was asked for; recorded before any signal.
    StopRequested,
    /// The process became terminal.
    Completed,
    /// A restore found it not terminal.
    Lost,
}

impl EventKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [EventKind; 5] = [
        EventKind::Started,
        EventKind::Backgrounded,
        EventKind::StopRequested,
        EventKind::Completed,
        EventKind::Lost,
    ];

    /// Whether such an event is the last of its process.
    pub const fn is_end(self) -> bool {
        matches!(self, EventKind::Completed | EventKind::Lost)
    }
}

/// Why an event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It exited by itself.
    Exited,
    /// It failed.
    Failed,
    /// Its deadline passed.
    TimedOut,
    /// An interrupt was asked for.
    Interrupted,
    /// A terminate was asked for.
    Terminated,
    /// A kill was asked for, or a terminate had to escalate.
    Killed,
    /// The session was shut down.
    RunnerShutdown,
    /// Reserved; never emitted, since output never ends a process.
    OutputLimit,
    /// A restore found it not terminal.
    LostOnRestore,
}

impl Reason {
    /// Every reason, in the order of declaration.
    pub const ALL: [Reason; 9] = [
        Reason::Exited,
        Reason::Failed,
        Reason::TimedOut,
        Reason::Interrupted,
        Reason::Terminated,
        Reason::Killed,
        Reason::RunnerShutdown,
        Reason::OutputLimit,
        Reason::LostOnRestore,
    ];

    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Exited => "exited",
            Reason::Failed => "failed",
            Reason::TimedOut => "timed_out",
            Reason::Interrupted => "interrupted",
            Reason::Terminated => "terminated",
            Reason::Killed => "killed",
            Reason::RunnerShutdown => "runner_shutdown",
            Reason::OutputLimit => "output_limit",
            Reason::LostOnRestore => "lost_on_restore",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One record of a process's life. Metadata only: no command text, output, input, path, PID or environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleEvent {
    /// Stable over every retry.
    pub id: EventId,
    /// Which process.
    pub identity: Identity,
    /// What happened.
    pub kind: EventKind,
    /// The state that the process had or got.
    pub state: State,
    /// Why, where the matrix has a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When the process was admitted.
    pub created_at: Timestamp,
    /// When the command was executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it became terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// When the stop was asked for, or the running process was handed over. Absent where the times above say when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The exit code of an exited process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The signal that ended the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalNumber>,
    /// Why it failed or was lost; at most [`DIAGNOSTIC_MAX`](crate::DIAGNOSTIC_MAX) bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<String>,
}

/// What is wrong with an event that the matrix refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// This kind of event does not speak of this state for this reason.
    #[error("the lifecycle matrix has no such event, state and reason")]
    Combination,
    /// A field is missing that this kind of event has.
    #[error("the event lacks {0}")]
    Missing(&'static str),
    /// A field is there that this kind of event does not have.
    #[error("the event must not carry {0}")]
    Surplus(&'static str),
}

/// Whether the matrix has this combination.
pub const fn matrix_admits(kind: EventKind, state: State, reason: Option<Reason>) -> bool {
    use EventKind::{Backgrounded, Completed, Lost, Started, StopRequested};
    matches!(
        (kind, state, reason),
        (Started | Backgrounded, State::Running, None)
            | (
                StopRequested,
                State::Starting | State::Running,
                Some(Reason::Interrupted | Reason::Terminated | Reason::Killed)
            )
            | (Completed, State::Exited, Some(Reason::Exited))
            | (Completed, State::Failed, Some(Reason::Failed))
            | (Completed, State::TimedOut, Some(Reason::TimedOut))
            | (Completed, State::Interrupted, Some(Reason::Interrupted))
            | (
                Completed,
                State::Terminated,
                Some(Reason::Terminated | Reason::RunnerShutdown | Reason::OutputLimit)
            )
            | (Completed, State::Killed, Some(Reason::Killed | Reason::RunnerShutdown | Reason::OutputLimit))
            | (Lost, State::LostOnRestore, Some(Reason::LostOnRestore))
    )
}

impl LifecycleEvent {
    /// When it happened, as far as the event tells.
    pub fn happened_at(&self) -> Timestamp {
        self.at.or(self.finished_at).or(self.started_at).unwrap_or(self.created_at)
    }

    /// Checks the event against the matrix and its rules about fields.
    pub fn check(&self) -> Result<(), MatrixError> {
        if !matrix_admits(self.kind, self.state, self.reason) {
            return Err(MatrixError::Combination);
        }
        let begins = matches!(self.kind, EventKind::Started | EventKind::Backgrounded);
        let ends = self.kind.is_end();
        need("at", self.at.is_some(), false, !ends && self.kind != EventKind::Started)?;
        need("started_at", self.started_at.is_some(), begins, true)?;
        need("finished_at", self.finished_at.is_some(), ends, ends)?;
        let exited = self.state == State::Exited;
        need("exit_code", self.exit_code.is_some(), exited, exited)?;
        need("signal", self.signal.is_some(), false, ends && !exited)?;
        let diagnosed = matches!(self.state, State::Failed | State::LostOnRestore);
        need("diagnostic", self.diagnostic.is_some(), false, diagnosed)
    }
}

const fn need(field: &'static str, there: bool, required: bool, allowed: bool) -> Result<(), MatrixError> {
    match (there, required, allowed) {
        (false, true, _) => Err(MatrixError::Missing(field)),
        (true, _, false) => Err(MatrixError::Surplus(field)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_closed() {
        let reasons = || std::iter::once(None).chain(Reason::ALL.map(Some));
        let admitted = EventKind::ALL
            .into_iter()
            .flat_map(|kind| State::ALL.map(|state| (kind, state)))
            .flat_map(|(kind, state)| reasons().map(move |reason| (kind, state, reason)))
            .filter(|(kind, state, reason)| matrix_admits(*kind, *state, *reason))
            .count();
        // started, backgrounded; stop_requested 2 × 3; completed 4 + 3 + 3; lost.
        assert_eq!(admitted, 2 + 6 + 10 + 1);
    }

    fn event(kind: EventKind, state: State, reason: Option<Reason>) -> LifecycleEvent {
        let ends = matches!(kind, EventKind::Completed | EventKind::Lost);
        LifecycleEvent {
            id: EventId::from_random([1; 16]),
            identity: crate::testing::identity(1),
            kind,
            state,
            reason,
            created_at: Timestamp::from_unix_micros(1),
            started_at: Some(Timestamp::from_unix_micros(2)),
            finished_at: ends.then_some(Timestamp::from_unix_micros(3)),
            at: None,
            exit_code: (state == State::Exited).then_some(0),
            signal: None,
            diagnostic: None,
        }
    }

    #[test]
    fn an_event_carries_what_its_kind_has_and_nothing_else() {
        let exited = event(EventKind::Completed, State::Exited, Some(Reason::Exited));
        assert_eq!(exited.check(), Ok(()));
        assert_eq!(
            LifecycleEvent { exit_code: None, ..exited.clone() }.check(),
            Err(MatrixError::Missing("exit_code"))
        );
        assert_eq!(
            LifecycleEvent { finished_at: None, ..exited.clone() }.check(),
            Err(MatrixError::Missing("finished_at"))
        );
        assert_eq!(
            LifecycleEvent { diagnostic: Some("why".into()), ..exited }.check(),
            Err(MatrixError::Surplus("diagnostic"))
        );
        let started = event(EventKind::Started, State::Running, None);
        assert_eq!(started.check(), Ok(()));
        assert_eq!(
            LifecycleEvent { started_at: None, ..started.clone() }.check(),
            Err(MatrixError::Missing("started_at"))
        );
        assert_eq!(
            LifecycleEvent { finished_at: Some(Timestamp::from_unix_micros(9)), ..started }.check(),
            Err(MatrixError::Surplus("finished_at"))
        );
        let stopped = event(EventKind::StopRequested, State::Running, Some(Reason::Killed));
        let stopped = LifecycleEvent { at: Some(Timestamp::from_unix_micros(5)), ..stopped };
        assert_eq!((stopped.check(), stopped.happened_at()), (Ok(()), Timestamp::from_unix_micros(5)));
        let killed = event(EventKind::Completed, State::Killed, Some(Reason::RunnerShutdown));
        assert_eq!(killed.happened_at(), Timestamp::from_unix_micros(3));
        assert_eq!(killed.check(), Ok(()));
        assert_eq!(
            LifecycleEvent { exit_code: Some(0), ..killed }.check(),
            Err(MatrixError::Surplus("exit_code"))
        );
    }
}
