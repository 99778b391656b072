//! The states of a process and the one function that decides what may follow what.
//!
//! Not for deciding *which* terminal state an exit has: that is [`Causes`](crate::Causes).

use serde::{Deserialize, Serialize};

/// Where a process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Admitted and recorded; not yet running.
    Starting,
    /// The command was executed.
    Running,
    /// The leader exited by itself, with any code.
    Exited,
    /// Spawn or setup failed after admission, or the leader died of a signal nobody here sent.
    Failed,
    /// The lifetime deadline passed; the tree was stopped.
    TimedOut,
    /// It exited because of an interrupt that was asked for.
    Interrupted,
    /// It ended after a requested terminate, or session shutdown.
    Terminated,
    /// It was force-killed: by request, by escalation, or at shutdown.
    Killed,
    /// A restore found it not terminal.
    LostOnRestore,
}

/// A state that nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TerminalState {
    /// See [`State::Exited`].
    Exited,
    /// See [`State::Failed`].
    Failed,
    /// See [`State::TimedOut`].
    TimedOut,
    /// See [`State::Interrupted`].
    Interrupted,
    /// See [`State::Terminated`].
    Terminated,
    /// See [`State::Killed`].
    Killed,
    /// See [`State::LostOnRestore`].
    LostOnRestore,
}

/// A transition that the state machine does not have. The old state stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a process that is {from} cannot become {to}")]
pub struct InvalidTransition {
    /// The state that stands.
    pub from: State,
    /// The state that was refused.
    pub to: State,
}

impl State {
    /// Every state, in the order of declaration.
    pub const ALL: [State; 9] = [
        State::Starting,
        State::Running,
        State::Exited,
        State::Failed,
        State::TimedOut,
        State::Interrupted,
        State::Terminated,
        State::Killed,
        State::LostOnRestore,
    ];

    /// Decides a transition: the new state, or a typed refusal. Terminal states accept none, not even to
    /// themselves.
    pub const fn advance(self, to: State) -> Result<State, InvalidTransition> {
        use State::{
            Exited, Failed, Interrupted, Killed, LostOnRestore, Running, Starting, Terminated, TimedOut,
        };
        match (self, to) {
            (Starting, Running | Failed | Terminated | Killed | LostOnRestore)
            | (Running, Exited | Failed | TimedOut | Terminated | Killed | Interrupted | LostOnRestore) => {
                Ok(to)
            }
            (from, to) => Err(InvalidTransition { from, to }),
        }
    }

    /// The terminal state that this is, if it is one.
    pub const fn terminal(self) -> Option<TerminalState> {
        match self {
            State::Starting | State::Running => None,
            State::Exited => Some(TerminalState::Exited),
            State::Failed => Some(TerminalState::Failed),
            State::TimedOut => Some(TerminalState::TimedOut),
            State::Interrupted => Some(TerminalState::Interrupted),
            State::Terminated => Some(TerminalState::Terminated),
            State::Killed => Some(TerminalState::Killed),
            State::LostOnRestore => Some(TerminalState::LostOnRestore),
        }
    }

    /// Whether nothing follows this state.
    pub const fn is_terminal(self) -> bool {
        self.terminal().is_some()
    }

    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Exited => "exited",
            State::Failed => "failed",
            State::TimedOut => "timed_out",
            State::Interrupted => "interrupted",
            State::Terminated => "terminated",
            State::Killed => "killed",
            State::LostOnRestore => "lost_on_restore",
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<TerminalState> for State {
    fn from(terminal: TerminalState) -> State {
        match terminal {
            TerminalState::Exited => State::Exited,
            TerminalState::Failed => State::Failed,
            TerminalState::TimedOut => State::TimedOut,
            TerminalState::Interrupted => State::Interrupted,
            TerminalState::Terminated => State::Terminated,
            TerminalState::Killed => State::Killed,
            TerminalState::LostOnRestore => State::LostOnRestore,
        }
    }
}
