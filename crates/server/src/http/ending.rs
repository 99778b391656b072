//! How a response that streams output says why it ends.
//!
//! A response that ends early must not look like one that is whole. Its body breaks off, which every client of HTTP notices.
//! That has no room for a reason, so a client that takes trailers (`TE: trailers`, RFC 9110, section 10.1.4) gets the reason
//! as one instead, behind a body that is complete as a message. Not for what is sent before.

use std::io;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use hyper::body::Frame;
use procyard_core::ErrorCode;
use procyard_supervisor::SupervisorError;

/// The trailer.
pub(crate) const END: HeaderName = HeaderName::from_static("procyard-end");

/// Why a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything was sent.
    Complete,
    /// The service is being shut down.
    ShuttingDown,
    /// The session was ended.
    SessionClosed,
    /// The loop was closed.
    LoopClosed,
    /// There is no such process any more.
    Removed,
    /// What comes next is not retained, or is damaged.
    Gap,
    /// The output cannot be read now.
    Unavailable,
}

impl Ending {
    /// What an error of the supervisor means for a response that was under way.
    pub(crate) fn of(error: &SupervisorError, stopped: bool) -> Self {
        match error.code() {
            _ if matches!(error, SupervisorError::LoopClosed) => Self::LoopClosed,
            ErrorCode::SupervisorShuttingDown if stopped => Self::ShuttingDown,
            ErrorCode::SupervisorShuttingDown => Self::SessionClosed,
            ErrorCode::NotFound => Self::Removed,
            ErrorCode::SpoolCorrupt => Self::Gap,
            _ => Self::Unavailable,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ShuttingDown => "shutting_down",
            Self::SessionClosed => "session_closed",
            Self::LoopClosed => "loop_closed",
            Self::Removed => "removed",
            Self::Gap => "gap",
            Self::Unavailable => "unavailable",
        }
    }

    /// The last that a body has: a trailer for a client that takes one; for another nothing, or a failure that breaks the body
    /// off.
    pub(crate) fn last_frame(self, trailers: bool) -> Option<io::Result<Frame<Bytes>>> {
        match self {
            _ if trailers => {
                let told = (END, HeaderValue::from_static(self.as_str()));
                Some(Ok(Frame::trailers(HeaderMap::from_iter([told]))))
            }
            Self::Complete => None,
            cut => Some(Err(io::Error::other(cut.as_str()))),
        }
    }
}

/// Whether a client takes trailers.
pub(crate) fn takes_trailers(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::TE).iter().filter_map(|codings| codings.to_str().ok());
    codings
        .flat_map(|codings| codings.split(','))
        .any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}
