//! Why something that was followed ends before it is over: the service was stopped, the session was closed, or the
//! connection broke.
//!
//! Not for ends that are in order.

use procyard_api::http::StreamEndReason;
use procyard_client::{Client, ClientError};
use procyard_core::{Effects, ErrorCode, PublicError};

/// What to say of it. A service that was stopped in order says so itself; where nothing was said, it is looked for.
pub(super) async fn why_it_ends(
    client: &Client,
    reason: Option<StreamEndReason>,
    error: Option<ClientError>,
) -> anyhow::Error {
    match (reason, error) {
        (Some(StreamEndReason::ShuttingDown), _) => stopped(),
        (Some(StreamEndReason::SessionClosed), _) => {
            PublicError::new(ErrorCode::NotFound, "the session was closed, and everything in it was ended")
                .into()
        }
        (Some(StreamEndReason::Unavailable), _) => {
            PublicError::new(ErrorCode::StorageUnavailable, "the service cannot read it now; try again")
                .retryable()
                .into()
        }
        (None, error) => match client.health().await {
            Ok(_) => anyhow::Error::from(error.map_or_else(let_go, anyhow::Error::from)),
            Err(gone) if gone.is_unreachable() => died(),
            Err(_) => stopped(),
        },
    }
}

/// The service said so.
fn stopped() -> anyhow::Error {
    let message = "the service was stopped, and everything that ran was ended in order; its records are there when it is started again";
    PublicError::new(ErrorCode::SupervisorShuttingDown, message).effects(Effects::Started).into()
}

/// Nobody said so.
fn died() -> anyhow::Error {
    let message = "the service is gone and gave no reason; what ran was ended with it, and its records are there when it is started again";
    PublicError::new(ErrorCode::Internal, message).effects(Effects::Started).into()
}

fn let_go() -> anyhow::Error {
    PublicError::new(ErrorCode::Internal, "the service ended the stream and goes on; try again")
        .retryable()
        .into()
}
