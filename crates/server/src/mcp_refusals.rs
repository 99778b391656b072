//! Refusals over HTTP: of a message as an error of JSON-RPC, of anything around it as the rest of the service tells errors.
//!
//! Not for what a method answers: that is a message of the protocol, whatever it says.

use axum::Json;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use procyard_api::ErrorBody;
use procyard_core::{Effects, ErrorCode, PublicError};

use crate::envelope::Refusal;

/// The longest explanation of the SDK's that is passed on.
const REASON_MAX: usize = 200;

/// The refusal of a message. The status is what the transport's specification asks for: 400.
pub(crate) fn of_message(refusal: &Refusal) -> Response {
    (StatusCode::BAD_REQUEST, Json(refusal.response())).into_response()
}

/// The refusal of a request for what is around its message.
pub(crate) fn of_request(status: StatusCode, error: PublicError) -> Response {
    (status, Json(ErrorBody::from(error))).into_response()
}

/// The refusal of a body that is longer than is read.
pub(crate) fn too_long(most: usize) -> Response {
    let message = format!("the body is longer than {most} bytes");
    of_request(StatusCode::PAYLOAD_TOO_LARGE, PublicError::new(ErrorCode::TooLarge, message))
}

/// An answer of the SDK, whose refusals are plain text.
pub(crate) async fn in_form<B>(response: axum::http::Response<B>) -> Response
where
    B: axum::body::HttpBody<Data = bytes::Bytes, Error = std::convert::Infallible> + Send + 'static,
{
    let status = response.status();
    let refused = status.is_client_error() || status.is_server_error();
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !refused || is_json {
        return response.map(Body::new);
    }
    let (mut head, body) = response.into_parts();
    let Ok(said) = body.collect().await;
    let said = String::from_utf8_lossy(&said.to_bytes()).chars().take(REASON_MAX).collect();
    for replaced in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
        head.headers.remove(replaced);
    }
    let mut refusal = of_request(status, explained(status, said));
    refusal.headers_mut().extend(head.headers);
    refusal
}

/// What a refusal of the SDK means.
fn explained(status: StatusCode, said: String) -> PublicError {
    match status {
        StatusCode::NOT_ACCEPTABLE => {
            PublicError::argument("Accept", "must have application/json and text/event-stream")
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            PublicError::argument("Content-Type", "must be application/json")
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            PublicError::new(ErrorCode::InvalidArguments, "this path does not take this method; see `Allow`")
        }
        StatusCode::NOT_FOUND => {
            PublicError::new(ErrorCode::NotFound, "there is no such session; begin a new one with initialize")
        }
        StatusCode::FORBIDDEN if said.contains("Origin") => {
            PublicError::argument("Origin", "is none of those that may use this service")
        }
        StatusCode::FORBIDDEN => PublicError::argument("Host", "is none of the names of this service"),
        _ if status.is_server_error() => {
            tracing::error!(%status, "the endpoint of the protocol failed");
            let message = "procyard itself failed; look before you repeat the call";
            PublicError::new(ErrorCode::Internal, message).effects(Effects::Unknown)
        }
        _ => PublicError::new(ErrorCode::InvalidArguments, said),
    }
}
