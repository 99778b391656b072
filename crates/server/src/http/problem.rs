//! An error as a response: its status, its body, and what goes with it.
//!
//! Not for words: an error says what its maker says.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use procyard_api::ErrorBody;
use procyard_core::{Effects, ErrorCode, PublicError};
use procyard_journal::JournalError;
use procyard_supervisor::SupervisorError;

use super::host::HostError;

/// What a client that may try again is told to wait, in seconds.
const RETRY_AFTER: u64 = 1;

/// A response that says why not.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    error: PublicError,
    /// The value of `Content-Range` of a range that cannot be satisfied.
    range: Option<String>,
}

impl Problem {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        PublicError::new(code, message).into()
    }

    /// A wrong argument outside of the body.
    pub(crate) fn argument(field: &str, message: impl Into<String>) -> Self {
        PublicError::argument(field, message).into()
    }

    /// A body that is not what the route's schema says.
    pub(crate) fn schema(error: PublicError) -> Self {
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, error, range: None }
    }

    pub(crate) fn unauthenticated(message: &str) -> Self {
        Self::new(ErrorCode::Unauthenticated, message)
    }

    pub(crate) fn not_found(message: &str) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let error =
            PublicError::new(ErrorCode::InvalidArguments, "this path does not take this method; see `Allow`");
        Self { status: StatusCode::METHOD_NOT_ALLOWED, error, range: None }
    }

    pub(crate) fn shutting_down() -> Self {
        PublicError::new(ErrorCode::SupervisorShuttingDown, "the service is being shut down")
            .retryable()
            .into()
    }

    /// A call that was under way when the service was stopped.
    pub(crate) fn interrupted() -> Self {
        let error = PublicError::new(
            ErrorCode::SupervisorShuttingDown,
            "the service is being shut down; look at what the \
            call did before you repeat it",
        );
        error.effects(Effects::Unknown).into()
    }

    /// A fault of the service's own, told to trusted logs.
    pub(crate) fn internal(what: &'static str, cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "{what}");
        let error =
            PublicError::new(ErrorCode::Internal, "procyard itself failed; look before you repeat the call");
        error.effects(Effects::Unknown).into()
    }

    /// The range has nothing of a stream of this length.
    pub(crate) fn range(code: ErrorCode, message: impl Into<String>, total_bytes: u64) -> Self {
        let error = PublicError::new(code, message).field("Range");
        let status = StatusCode::RANGE_NOT_SATISFIABLE;
        Self { status, error, range: Some(format!("bytes */{total_bytes}")) }
    }

    /// The range does not read, which is the same answer (RFC 9110, section 15.5.17).
    pub(crate) fn unreadable_range(total_bytes: u64) -> Self {
        let message = "is one range of bytes, as `bytes=0-99`, `bytes=100-` or `bytes=-100`";
        Self::range(ErrorCode::InvalidArguments, message, total_bytes)
    }

    /// Whoever reads the journal has seen more than there is of it.
    pub(crate) fn ahead_of_journal(field: &str) -> Self {
        let message = "lies behind the last record of this journal; read again from the beginning";
        PublicError::new(ErrorCode::CursorAhead, message).field(field).into()
    }

    /// The error as a socket that cannot carry a status tells it.
    pub(crate) fn into_error(self) -> PublicError {
        self.error
    }
}

/// The status of an error.
pub(crate) fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidArguments
        | ErrorCode::InvalidSettings
        | ErrorCode::SpawnFailed
        | ErrorCode::ProcessSetupFailed => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::Conflict
        | ErrorCode::StdinClosed
        | ErrorCode::PtyUnavailable
        | ErrorCode::WorkspaceBusy
        | ErrorCode::LifetimeEnforcementUnavailable
        | ErrorCode::ProcessNotificationsUnsupported
        | ErrorCode::TimedOut
        | ErrorCode::Interrupted
        | ErrorCode::Terminated
        | ErrorCode::Killed
        | ErrorCode::LostOnRestore => StatusCode::CONFLICT,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::CursorAhead | ErrorCode::CursorGap => StatusCode::RANGE_NOT_SATISFIABLE,
        ErrorCode::ProcessQuotaExceeded | ErrorCode::OutputQuotaExceeded | ErrorCode::InputBackpressure => {
            StatusCode::TOO_MANY_REQUESTS
        }
        ErrorCode::SupervisorShuttingDown | ErrorCode::StorageUnavailable | ErrorCode::TeardownFailed => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        // Corrupt records, faults, and what a later version adds.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<PublicError> for Problem {
    fn from(error: PublicError) -> Self {
        Self { status: status_of(error.code), error, range: None }
    }
}

impl From<SupervisorError> for Problem {
    fn from(error: SupervisorError) -> Self {
        error.public().into()
    }
}

impl From<HostError> for Problem {
    fn from(error: HostError) -> Self {
        match error {
            HostError::NotFound => Self::not_found("there is no such session"),
            HostError::Busy => PublicError::new(
                ErrorCode::Conflict,
                "another program holds this session; end that one first",
            )
            .retryable()
            .into(),
            HostError::Full { limit } => PublicError::new(
                ErrorCode::ProcessQuotaExceeded,
                format!("{limit} sessions are open, as many as this service has at a time; end one, or wait for that"),
            )
            .retryable()
            .into(),
            HostError::ShuttingDown => Self::shutting_down(),
            HostError::Damaged(why) => {
                let message = format!(
                    "what is stored of the session does not load and is left as it is: {why}; bring it back from a backup, or \
                     begin another session"
                );
                PublicError::new(ErrorCode::ManifestCorrupt, message).into()
            }
            HostError::Failed(cause) => {
                tracing::error!(%cause, "a session failed");
                let message = "the session cannot be opened or closed now; the service's own logs say why";
                PublicError::new(ErrorCode::StorageUnavailable, message).retryable().into()
            }
        }
    }
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        if matches!(error, JournalError::Closed) {
            return PublicError::new(ErrorCode::SupervisorShuttingDown, "the session is being shut down")
                .into();
        }
        tracing::error!(%error, "a journal failed");
        PublicError::new(ErrorCode::StorageUnavailable, "the journal cannot be used now").retryable().into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let waiting_helps = self.error.retryable
            && matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let mut response = (self.status, Json(ErrorBody::from(self.error))).into_response();
        let headers = response.headers_mut();
        if waiting_helps {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(range) = self.range.and_then(|range| HeaderValue::from_str(&range).ok()) {
            headers.insert(header::CONTENT_RANGE, range);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_status_of_an_error() {
        for code in ErrorCode::ALL {
            let status = status_of(*code);
            assert!(status.is_client_error() || status.is_server_error(), "{code}");
        }
    }

    #[test]
    fn waiting_is_suggested_where_it_can_help() {
        let full = PublicError::new(ErrorCode::ProcessQuotaExceeded, "full");
        let headers = |problem: Problem| problem.into_response().headers().clone();
        assert!(!headers(full.clone().into()).contains_key(header::RETRY_AFTER));
        assert_eq!(headers(full.retryable().into())[header::RETRY_AFTER], "1");
        assert_eq!(headers(Problem::unauthenticated("who?"))[header::WWW_AUTHENTICATE], "Bearer");
        assert_eq!(
            headers(Problem::range(ErrorCode::CursorGap, "no", 7))[header::CONTENT_RANGE],
            "bytes */7"
        );
    }
}
