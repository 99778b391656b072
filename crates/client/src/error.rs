//! Why a request to the service did not give what was asked for, and what to do next.
//!
//! Not for processes that fail: that is a result.

use std::time::Duration;

use procyard_api::ErrorBody;
use procyard_core::{Effects, ErrorCode, PublicError};

use crate::CutOff;

/// What went wrong. Texts are fit for a person who runs a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody answers at the address. Nothing was sent.
    #[error("no service answers at {address} ({}); start one with `procyard serve`", reason(.source))]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// Why it could not be connected to.
        #[source]
        source: std::io::Error,
    },
    /// The Unix socket is of a user who is neither this one nor root. Nothing was sent.
    #[error("another user listens at {address}; nothing was sent there")]
    Stranger {
        /// Where the socket is.
        address: String,
    },
    /// The service refused, and says why. Its `effects` tell whether anything was started.
    #[error("{}", .error.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the service says.
        error: PublicError,
        /// After how long it may be tried again, where waiting can help.
        retry_after: Option<Duration>,
    },
    /// The service did not say why it refused, or it is something else that answers.
    #[error("the service answered with status {status} and without a reason; is this a procyard service?")]
    Unexplained {
        /// The HTTP status.
        status: u16,
    },
    /// The connection broke. The request may have been carried out.
    #[error(
        "the connection to the service broke; look whether the request was carried out before you repeat it"
    )]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A stream ended before it was over, and the service says why.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// An answer, an event or a message is longer than this client takes.
    #[error("the service's answer is longer than {limit} bytes; ask for less at a time")]
    TooLong {
        /// The most that is taken.
        limit: usize,
    },
    /// The answer is not what this version of the client understands.
    #[error("the service's answer is not understood; client and service may be of different versions")]
    NotUnderstood(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The request cannot be sent as it is.
    #[error("the request cannot be sent: {0}")]
    Invalid(&'static str),
}

impl ClientError {
    /// The refusal, where the service gave one.
    pub fn refusal(&self) -> Option<&PublicError> {
        match self {
            ClientError::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The error in the service's own form: what it said, or what stands for that where it said nothing.
    pub fn public(&self) -> PublicError {
        let say = |code| PublicError::new(code, self.to_string());
        match self {
            ClientError::Refused { error, .. } => error.clone(),
            ClientError::CutOff(why) => why.public(),
            ClientError::Unreachable { .. } => say(ErrorCode::Internal).retryable(),
            ClientError::Broken(_) | ClientError::NotUnderstood(_) => {
                say(ErrorCode::Internal).effects(Effects::Unknown)
            }
            ClientError::TooLong { .. } => say(ErrorCode::TooLarge),
            ClientError::Invalid(_) => say(ErrorCode::InvalidArguments),
            ClientError::Stranger { .. } => say(ErrorCode::Unauthenticated),
            ClientError::Unexplained { .. } => say(ErrorCode::Internal),
        }
    }

    /// Whether nobody answers, so that nothing was asked.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, ClientError::Unreachable { .. })
    }

    pub(crate) fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Broken(error.into())
    }

    pub(crate) fn not_understood(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::NotUnderstood(error.into())
    }

    /// From an answer that is no success.
    pub(crate) fn of_answer(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(body) => Self::Refused { status, error: body.error, retry_after },
            Err(_) => Self::Unexplained { status },
        }
    }
}

/// The system's words without its number of the error, for the middle of a sentence.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
