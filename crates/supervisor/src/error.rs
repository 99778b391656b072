//! Why a supervisor refused or failed, and what a model or a client is told of it.
//!
//! Not for how a process ended: that is its state and outcome.

use std::fmt;

use procyard_core::{
    Effects, ErrorCode, GenerateError, InvalidSetting, LeaseConflict, MatrixError, PublicError, Refusal,
    State,
};
use procyard_runner::RunnerError;

/// A refusal or failure of a supervisor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// No such process, or not one of this owner.
    #[error("there is no such process")]
    NotFound,
    /// The session is being shut down.
    #[error("the session is being shut down")]
    ShuttingDown,
    /// The loop was closed.
    #[error("this loop was closed")]
    LoopClosed,
    /// The session was not activated yet.
    #[error("the session is not active yet")]
    NotActive,
    /// The session was activated before.
    #[error("the session is active already")]
    AlreadyActive,
    /// Completion cannot be announced, so nothing may outlive its call.
    #[error("this session cannot announce completions")]
    NotificationsUnsupported,
    /// A quota is exhausted.
    #[error(transparent)]
    Quota(#[from] Refusal),
    /// A value is wrong.
    #[error("{field}: {problem}")]
    Invalid {
        /// Which one.
        field: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A limit is configured wrongly.
    #[error(transparent)]
    Settings(#[from] InvalidSetting),
    /// The same idempotency key was used with other arguments.
    #[error("the idempotency key was used with other arguments")]
    IdempotencyConflict,
    /// The runner failed.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// A handle could not be made.
    #[error(transparent)]
    Handle(#[from] GenerateError),
    /// Something that must be durable could not be written or read.
    #[error("the session's storage failed: {0}")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The command was started and ended again, since that it runs could not be recorded.
    #[error("the start could not be recorded: {0}")]
    StartUnrecorded(#[source] Box<SupervisorError>),
    /// The output cannot be read from its storage now.
    #[error("the output cannot be read now: {0}")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Some of the output is damaged; what comes before and after is readable.
    #[error("the output from {from} to {until} is damaged")]
    Damaged {
        /// The first byte that cannot be read.
        from: u64,
        /// Where intact bytes begin again, or the end.
        until: u64,
    },
    /// The output of this process does not read.
    #[error("the output does not read: {0}")]
    Spool(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The cursor lies beyond the end.
    #[error("the cursor lies beyond the end of the output, which is at {total_bytes}")]
    CursorAhead {
        /// Where the end is.
        total_bytes: u64,
    },
    /// Somebody else holds the workspace.
    #[error(transparent)]
    WorkspaceBusy(#[from] LeaseConflict),
    /// The process takes no input.
    #[error("the process takes no input")]
    StdinClosed(StdinClosed),
    /// The pending input is full.
    #[error("{pending} bytes of input are pending, {free} are free")]
    Backpressure {
        /// Bytes pending.
        pending: u64,
        /// Bytes that would be accepted.
        free: u64,
    },
    /// The terminal has its new size, and the input that was to follow was refused.
    #[error("the size was applied, and then: {0}")]
    Resized(#[source] Box<SupervisorError>),
    /// The process has no terminal.
    #[error("the process has no terminal")]
    NoTerminal,
    /// The process has not ended.
    #[error("the process has not ended")]
    NotEnded,
    /// The tree could not be proven empty.
    #[error("the tree could not be proven empty")]
    TeardownFailed,
    /// The start was stopped before the command ran.
    #[error("the process was stopped while it was starting")]
    StoppedWhileStarting,
    /// An event that the lifecycle matrix does not have; a fault of procyard's own.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// A task ended that must not; a fault of procyard's own.
    #[error("{0}")]
    Internal(&'static str),
}

/// Why a process takes no input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinClosed {
    /// It was started without.
    Never,
    /// End of file was sent, or the process closed its end of the pipe.
    Eof,
    /// It ended.
    Ended(State),
}

impl SupervisorError {
    /// A storage failure with its cause, for trusted logs.
    pub(crate) fn storage(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Storage(Box::new(cause))
    }

    /// A wrong value.
    pub(crate) fn invalid(field: &'static str, problem: impl fmt::Display) -> Self {
        Self::Invalid { field, problem: problem.to_string() }
    }

    /// The code of the closed taxonomy.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound => ErrorCode::NotFound,
            Self::ShuttingDown | Self::LoopClosed => ErrorCode::SupervisorShuttingDown,
            Self::NotActive => ErrorCode::ProcessSetupFailed,
            Self::NotificationsUnsupported => ErrorCode::ProcessNotificationsUnsupported,
            Self::Quota(refusal) => refusal.code(),
            Self::Invalid { .. } => ErrorCode::InvalidArguments,
            Self::Settings(setting) => setting.code(),
            Self::IdempotencyConflict | Self::NotEnded => ErrorCode::Conflict,
            Self::Runner(error) => error.code(),
            Self::Storage(_) | Self::StartUnrecorded(_) | Self::Unreadable(_) => {
                ErrorCode::StorageUnavailable
            }
            Self::Spool(_) | Self::Damaged { .. } => ErrorCode::SpoolCorrupt,
            Self::CursorAhead { .. } => ErrorCode::CursorAhead,
            Self::WorkspaceBusy(conflict) => conflict.code(),
            Self::StdinClosed(_) => ErrorCode::StdinClosed,
            Self::Backpressure { .. } => ErrorCode::InputBackpressure,
            Self::Resized(error) => error.code(),
            Self::NoTerminal => ErrorCode::PtyUnavailable,
            Self::TeardownFailed => ErrorCode::TeardownFailed,
            Self::StoppedWhileStarting => ErrorCode::Terminated,
            Self::AlreadyActive | Self::Handle(_) | Self::Matrix(_) | Self::Internal(_) => {
                ErrorCode::Internal
            }
        }
    }

    /// The form that a model or a client sees.
    pub fn public(&self) -> PublicError {
        let say = |message: String| PublicError::new(self.code(), message);
        match self {
            Self::NotFound => say("there is no such process; ProcessList shows yours".to_owned()),
            Self::ShuttingDown
            | Self::LoopClosed
            | Self::NotActive
            | Self::AlreadyActive
            | Self::StoppedWhileStarting => say(self.to_string()),
            Self::NotificationsUnsupported => {
                say("this session cannot announce completions; run the command in the foreground".to_owned())
            }
            Self::Quota(Refusal::LoopSlots { .. } | Refusal::SessionSlots { .. }) => {
                say(format!("{self}; stop one or wait for one to end")).retryable()
            }
            Self::Quota(_) => say(self.to_string()).retryable(),
            Self::Invalid { field, problem } => say(problem.clone()).field(*field),
            Self::Settings(setting) => setting.public(),
            Self::IdempotencyConflict => say(
                "this idempotency_key was used with other arguments; use another key for another command".to_owned(),
            )
            .field("idempotency_key"),
            Self::Runner(error) => error.public(),
            Self::Storage(_) => say("the session's storage cannot be written".to_owned()).retryable(),
            Self::StartUnrecorded(_) => say(
                "the session's storage cannot be written; the command had begun and was ended: look before you repeat it"
                    .to_owned(),
            )
            .effects(Effects::Unknown),
            Self::Unreadable(_) => {
                say("the stored output of this process cannot be read now; try again".to_owned()).retryable()
            }
            Self::Damaged { from, until } => {
                say(format!("the output from {from} to {until} is damaged; read on at {until}")).field("cursor")
            }
            Self::Spool(_) => say("the stored output of this process is damaged".to_owned()),
            Self::CursorAhead { total_bytes } => {
                say(format!("the output ends at {total_bytes}; read from there or before")).field("cursor")
            }
            Self::WorkspaceBusy(conflict) => say(conflict.to_string()).retryable(),
            Self::StdinClosed(StdinClosed::Never) => say(
                "the process was started without stdin; start it with stdin: true or tty: true".to_owned(),
            ),
            Self::StdinClosed(StdinClosed::Eof) => {
                say("the process has closed its input, or end of file was sent; it takes no more input".to_owned())
            }
            Self::StdinClosed(StdinClosed::Ended(state)) => {
                say(format!("the process has ended ({state}); it takes no more input"))
            }
            Self::Backpressure { pending, free } => say(format!(
                "the process has not read {pending} bytes of earlier input; at most {free} more are accepted now, and \
                 nothing of this write was taken"
            ))
            .field("data")
            .retryable(),
            Self::Resized(error) => {
                let refused = error.public();
                let message = format!("{}; the terminal has its new size", refused.message);
                PublicError { message, ..refused }.effects(Effects::Started)
            }
            Self::NoTerminal => {
                say("the process has no terminal; start it with tty: true".to_owned()).field("rows")
            }
            Self::NotEnded => say("the process has not ended; stop it first".to_owned()),
            Self::TeardownFailed => say(
                "the processes were killed, but it could not be proven that all of them are gone; the attempt goes on, \
                 ask again later"
                    .to_owned(),
            )
            .retryable()
            .effects(Effects::Started),
            Self::Handle(_) | Self::Matrix(_) | Self::Internal(_) => {
                say("procyard itself failed; look before you repeat the call".to_owned()).effects(Effects::Unknown)
            }
        }
    }
}
