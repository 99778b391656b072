//! A tool's answer as a response.
//!
//! What a reply tells counts as told when its bytes are taken by the connection. A look of the administrator tells the owner
//! nothing: the reply is dropped, and everything in it is told again. Not for arguments.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::Response;
use futures_util::stream;
use procyard_api::ErrorBody;
use procyard_core::PublicError;
use procyard_tools::{CallContext, Reply, Toolbox};
use serde::Serialize;
use serde_json::Value;

use super::problem::Problem;
use super::service::Reached;

/// Calls a tool; its error is a problem.
pub(crate) async fn call(toolbox: &Toolbox, name: &str, arguments: Value) -> Result<Reply, Problem> {
    let reply = toolbox.call(name, arguments, CallContext::default()).await;
    if reply.is_error { Err(error_of(&reply).into()) } else { Ok(reply) }
}

fn error_of(reply: &Reply) -> PublicError {
    let body: Result<ErrorBody, _> = serde_json::from_value(reply.structured.clone());
    body.map_or_else(
        |_| PublicError::new(procyard_core::ErrorCode::Internal, "the tool failed"),
        |body| body.error,
    )
}

/// Calls a tool about one process and answers what it answers.
pub(crate) async fn call_about(process: &Reached, name: &str, arguments: Value) -> Result<Response, Problem> {
    let toolbox = process.toolbox();
    let mut reply = call(&toolbox, name, arguments).await?;
    if process.by_admin {
        if let Value::Object(object) = &mut reply.structured {
            object.remove("notifications");
        }
        return json(StatusCode::OK, &reply.structured);
    }
    let structured = std::mem::take(&mut reply.structured);
    with_reply(StatusCode::OK, &structured, reply)
}

/// A response of JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    respond(status, Body::from(written(value)?))
}

/// A response of JSON that tells what `reply` tells.
pub(crate) fn with_reply(
    status: StatusCode,
    value: &impl Serialize,
    reply: Reply,
) -> Result<Response, Problem> {
    let bytes = written(value)?;
    let length = bytes.len();
    let telling = stream::once(async move {
        reply.handed_to_transport();
        Ok::<_, Infallible>(Bytes::from(bytes))
    });
    let mut response = respond(status, Body::from_stream(telling))?;
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    Ok(response)
}

fn written(value: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(|error| Problem::internal("a result could not be written", &error))
}

fn respond(status: StatusCode, body: Body) -> Result<Response, Problem> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(|error| Problem::internal("a response could not be made", &error))
}

/// A response without a body.
pub(crate) fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
