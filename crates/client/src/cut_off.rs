//! Why the service ends a stream that is not over.
//!
//! Not for connections that break: then nobody says why.

use procyard_api::http::StreamEndReason;
use procyard_core::{Effects, ErrorCode, PublicError};

/// What the service said. Texts are fit for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CutOff {
    /// The service is being stopped.
    #[error(
        "the service was stopped, and everything that ran was ended in order; its records are there when it is started again"
    )]
    ShuttingDown,
    /// The session has ended.
    #[error("the session was closed, and everything in it was ended")]
    SessionClosed,
    /// The loop was closed.
    #[error("the loop was closed, and everything that it ran was ended")]
    LoopClosed,
    /// There is no such process any more.
    #[error("the record of the process was removed")]
    Removed,
    /// What comes next is not retained, or is damaged. What follows that is read from a later cursor on.
    #[error("some of the output is not retained any more, or is damaged; read on behind it")]
    Gap,
    /// It cannot be read now.
    #[error("the service cannot read it now; try again")]
    Unavailable,
}

impl CutOff {
    /// From the word of a trailer or of a farewell.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "shutting_down" => Self::ShuttingDown,
            "session_closed" => Self::SessionClosed,
            "loop_closed" => Self::LoopClosed,
            "removed" => Self::Removed,
            "gap" => Self::Gap,
            "unavailable" => Self::Unavailable,
            _ => return None,
        })
    }

    /// The error in the service's own form. What was followed ran.
    pub(crate) fn public(self) -> PublicError {
        let say = |code| PublicError::new(code, self.to_string()).effects(Effects::Started);
        match self {
            Self::ShuttingDown => say(ErrorCode::SupervisorShuttingDown),
            Self::SessionClosed | Self::LoopClosed | Self::Removed => say(ErrorCode::NotFound),
            Self::Gap => say(ErrorCode::CursorGap),
            Self::Unavailable => say(ErrorCode::StorageUnavailable).retryable(),
        }
    }
}

impl From<StreamEndReason> for CutOff {
    fn from(reason: StreamEndReason) -> Self {
        match reason {
            StreamEndReason::ShuttingDown => Self::ShuttingDown,
            StreamEndReason::SessionClosed => Self::SessionClosed,
            StreamEndReason::LoopClosed => Self::LoopClosed,
            StreamEndReason::Unavailable => Self::Unavailable,
        }
    }
}
