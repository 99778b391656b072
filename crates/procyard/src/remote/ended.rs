//! Why something that was followed ends before it is over: the service said so, or it is gone, or the connection broke.
//!
//! Not for ends that are in order.

use procyard_client::{Client, ClientError};
use procyard_core::{Effects, ErrorCode, PublicError};

/// What to say of it. A service that is stopped in order says so; where nothing was said, it is looked for.
pub(super) async fn why_it_ends(client: &Client, error: Option<ClientError>) -> anyhow::Error {
    match error {
        Some(ClientError::CutOff(why)) => ClientError::CutOff(why).into(),
        error => match client.health().await {
            Ok(_) => error.map_or_else(let_go, anyhow::Error::from),
            // One that is dying may still take a connection and no longer answers on it.
            Err(_) => died(),
        },
    }
}

fn died() -> anyhow::Error {
    let message = "the service is gone and gave no reason; what ran was ended with it, and its records are there when it is started again";
    PublicError::new(ErrorCode::Internal, message).effects(Effects::Started).into()
}

fn let_go() -> anyhow::Error {
    let message = "the service ended the stream and goes on; try again";
    PublicError::new(ErrorCode::Internal, message).effects(Effects::Started).retryable().into()
}
