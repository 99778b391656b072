//! The closed taxonomy of errors, and the form in which a model or a client sees one.
//!
//! Not for causes: paths, PIDs and the chain of sources stay in trusted logs.

use serde::{Deserialize, Serialize};

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// What kind of error it is; in snake case on the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)+
        }

        impl ErrorCode {
            /// Every code, in the order of declaration.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)+];

            /// The wire word.
            pub const fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $word,)+ }
            }
        }
    };
}

error_codes! {
    /// An argument is missing, unknown, of the wrong type or out of range; the field is named.
    InvalidArguments = "invalid_arguments",
    /// A configured value is negative or contradicts another; the field is named.
    InvalidSettings = "invalid_settings",
    /// Too many running processes for the loop or the session.
    ProcessQuotaExceeded = "process_quota_exceeded",
    /// Too many bytes of output retained, or too many waiters.
    OutputQuotaExceeded = "output_quota_exceeded",
    /// The containment that was required is not to be had here; nothing was spawned.
    LifetimeEnforcementUnavailable = "lifetime_enforcement_unavailable",
    /// Background use was asked for where completion cannot be announced.
    ProcessNotificationsUnsupported = "process_notifications_unsupported",
    /// The command could not be executed.
    SpawnFailed = "spawn_failed",
    /// Something around the command could not be set up.
    ProcessSetupFailed = "process_setup_failed",
    /// A terminal was asked for where none is to be had, or of a process that has none.
    PtyUnavailable = "pty_unavailable",
    /// No such process, or not one of this owner: the two cannot be told apart.
    NotFound = "not_found",
    /// The process takes no input, or no more.
    StdinClosed = "stdin_closed",
    /// The pending input is full; nothing of this write was taken.
    InputBackpressure = "input_backpressure",
    /// Strict form of a gap: bytes at the cursor are no longer retained.
    CursorGap = "cursor_gap",
    /// The cursor lies beyond the end of the stream.
    CursorAhead = "cursor_ahead",
    /// Strict form of the terminal state `timed_out`.
    TimedOut = "timed_out",
    /// Strict form of the terminal state `interrupted`.
    Interrupted = "interrupted",
    /// Strict form of the terminal state `terminated`.
    Terminated = "terminated",
    /// Strict form of the terminal state `killed`.
    Killed = "killed",
    /// The session is being shut down.
    SupervisorShuttingDown = "supervisor_shutting_down",
    /// A manifest does not load.
    ManifestCorrupt = "manifest_corrupt",
    /// A spool does not read.
    SpoolCorrupt = "spool_corrupt",
    /// Strict form of the terminal state `lost_on_restore`.
    LostOnRestore = "lost_on_restore",
    /// The tree could not be proven empty.
    TeardownFailed = "teardown_failed",
    /// The disk refused something that had to be durable.
    StorageUnavailable = "storage_unavailable",
    /// The workspace is held by somebody else.
    WorkspaceBusy = "workspace_busy",
    /// The same key was used with other arguments.
    Conflict = "conflict",
    /// A body or a value exceeds its limit.
    TooLarge = "too_large",
    /// No valid token.
    Unauthenticated = "unauthenticated",
    /// A fault of procyard's own.
    Internal = "internal",
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a failed call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effects {
    /// Nothing was started.
    #[default]
    None,
    /// The command ran or runs.
    Started,
    /// It may have run: look before repeating it.
    Unknown,
}

/// An error as a model or a client sees it: no host path, no PID, no other owner, no environment value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct PublicError {
    /// The kind.
    pub code: ErrorCode,
    /// What is wrong and, where there is something to do, what to do next.
    pub message: String,
    /// The argument or setting that is at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// What the failed call did.
    pub effects: Effects,
}

impl PublicError {
    /// An error that is not retryable, names no field and had no effects.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), field: None, retryable: false, effects: Effects::None }
    }

    /// An `invalid_arguments` that names the argument.
    pub fn argument(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArguments, message).field(field)
    }

    /// Names the field at fault.
    pub fn field(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// Says that the same call may succeed later.
    pub fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// Says what the failed call did.
    pub fn effects(self, effects: Effects) -> Self {
        Self { effects, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_its_snake_case_word_on_the_wire() {
        for code in ErrorCode::ALL {
            let wire = serde_json::to_string(code).unwrap();
            assert_eq!(wire, format!("\"{}\"", code.as_str()));
            assert_eq!(serde_json::from_str::<ErrorCode>(&wire).unwrap(), *code);
        }
    }

    #[test]
    fn the_codes_are_these() {
        let words = "invalid_arguments invalid_settings process_quota_exceeded output_quota_exceeded \
                     lifetime_enforcement_unavailable process_notifications_unsupported spawn_failed \
                     process_setup_failed pty_unavailable not_found stdin_closed input_backpressure cursor_gap \
                     cursor_ahead timed_out interrupted terminated killed supervisor_shutting_down \
                     manifest_corrupt spool_corrupt lost_on_restore teardown_failed storage_unavailable \
                     workspace_busy conflict too_large unauthenticated internal";
        let codes: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes, words.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn an_error_has_the_documented_shape() {
        let error = PublicError::argument("timeout", "must not be negative");
        assert_eq!(
            serde_json::to_value(&error).unwrap(),
            serde_json::json!({
                "code": "invalid_arguments", "message": "must not be negative", "field": "timeout",
                "retryable": false, "effects": "none"
            })
        );
    }
    #[test]
    fn an_error_says_what_was_said_of_it_and_reads_as_its_code_and_message() {
        let busy =
            PublicError::new(ErrorCode::WorkspaceBusy, "try again").retryable().effects(Effects::Unknown);
        assert_eq!((busy.retryable, busy.effects), (true, Effects::Unknown));
        assert_eq!(busy.to_string(), "workspace_busy: try again");
    }
}
