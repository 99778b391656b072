//! What can go wrong between a supervisor and a runner.
//!
//! Not for how a process ended: that is an [`ExitStatus`](crate::ExitStatus), never an error.

use procyard_core::{Effects, ErrorCode, PublicError};

/// Why a command could not be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpawnFailure {
    /// The program does not exist.
    NotFound,
    /// The file is there and is no program that this machine can execute, or the interpreter that it names is missing
    /// (which `execve(2)` does not tell apart from a missing file; whoever executes must look).
    NotExecutable,
    /// The program may not be executed by this user.
    PermissionDenied,
    /// The program's file is open for writing (`ETXTBSY`).
    Busy,
    /// The working directory does not exist or cannot be entered.
    Workdir,
    /// The argument list and environment exceed what the kernel takes.
    TooLong,
    /// The system is out of processes, memory or descriptors for the moment.
    Exhausted,
    /// Anything else that `execve(2)` can answer.
    Other,
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunnerErrorKind {
    /// The request is wrong; the field is named. Nothing was spawned.
    InvalidRequest(&'static str),
    /// The command could not be executed.
    Spawn(SpawnFailure),
    /// Something around the command could not be set up. Nothing ran.
    Setup,
    /// No terminal is to be had.
    PtyUnavailable,
    /// The containment that was required is not to be had. Nothing was spawned.
    LifetimeEnforcementUnavailable,
    /// The process is gone, or what supervised it is.
    Gone,
}

/// A failure of a runner. The message is fit for a model; paths and PIDs are only in the source.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct RunnerError {
    kind: RunnerErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl RunnerError {
    /// A failure with a message that is fit for a model: no path of the host, no PID, no environment value.
    pub fn new(kind: RunnerErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// A failed execution, with the message that its kind has.
    pub fn spawn(failure: SpawnFailure) -> Self {
        let message = match failure {
            SpawnFailure::NotFound => "the program was not found; check its name and PATH",
            SpawnFailure::NotExecutable => {
                "the file is not executable on this machine, or its interpreter is missing"
            }
            SpawnFailure::PermissionDenied => "permission to execute the program was denied",
            SpawnFailure::Busy => "the program's file is still being written; try again when it is closed",
            SpawnFailure::Workdir => "the working directory does not exist or cannot be entered",
            SpawnFailure::TooLong => "the arguments and environment are too long",
            SpawnFailure::Exhausted => {
                "the system is out of processes, memory or descriptors; try again later"
            }
            SpawnFailure::Other => "the program could not be executed",
        };
        Self::new(RunnerErrorKind::Spawn(failure), message)
    }

    /// Adds the cause, for trusted logs.
    pub fn with_source(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// What kind of failure it is.
    pub const fn kind(&self) -> RunnerErrorKind {
        self.kind
    }

    /// The code of the closed taxonomy.
    pub const fn code(&self) -> ErrorCode {
        match self.kind {
            RunnerErrorKind::InvalidRequest(_) => ErrorCode::InvalidArguments,
            RunnerErrorKind::Spawn(_) => ErrorCode::SpawnFailed,
            RunnerErrorKind::Setup => ErrorCode::ProcessSetupFailed,
            RunnerErrorKind::PtyUnavailable => ErrorCode::PtyUnavailable,
            RunnerErrorKind::LifetimeEnforcementUnavailable => ErrorCode::LifetimeEnforcementUnavailable,
            RunnerErrorKind::Gone => ErrorCode::Internal,
        }
    }

    /// The form that a model or a client sees.
    pub fn public(&self) -> PublicError {
        let public = PublicError::new(self.code(), self.message.clone());
        match self.kind {
            RunnerErrorKind::InvalidRequest(field) => public.field(field),
            RunnerErrorKind::Spawn(SpawnFailure::Workdir) => public.field("workdir"),
            RunnerErrorKind::Spawn(SpawnFailure::Exhausted | SpawnFailure::Busy) => public.retryable(),
            RunnerErrorKind::Gone => public.effects(Effects::Unknown),
            _ => public,
        }
    }
}
