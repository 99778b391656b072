//! What is wrong with the parameters of a request, by the name of the field.
//!
//! The SDK takes a request of a known method whose parameters do not fit for one of an unknown method. Not for the
//! arguments of a tool: each checks its own.

use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, ClientJsonRpcMessage, ClientRequest, CustomRequest, ErrorCode,
    ErrorData, GetTaskParams, InitializeRequestParams, PaginatedRequestParams, ReadResourceRequestParams,
    SubscribeRequestParams, SubscriptionsListenRequestParams, UnsubscribeRequestParams, UpdateTaskParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::envelope::Refusal;

/// The answer to what the SDK could not read as a request that it knows: an unknown method, or a known one whose
/// parameters are not what it takes.
pub(crate) fn not_understood(request: CustomRequest) -> ErrorData {
    match mistake(&request) {
        Some(why) => ErrorData::invalid_params(why, None),
        None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
    }
}

/// The refusal of a request whose parameters do not fit, for where the SDK would say something else: before a session is
/// open.
pub(crate) fn refusal(message: &ClientJsonRpcMessage) -> Option<Refusal> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::CustomRequest(custom) = &request.request else { return None };
    Some(Refusal::new(json!(request.id), ErrorCode::INVALID_PARAMS, mistake(custom)?))
}

/// What does not fit; `None` where the method is unknown.
fn mistake(request: &CustomRequest) -> Option<String> {
    let of = match request.method.as_str() {
        "initialize" => misfit::<InitializeRequestParams>,
        "tools/call" => misfit::<CallToolRequestParams>,
        "resources/read" => misfit::<ReadResourceRequestParams>,
        "resources/subscribe" => misfit::<SubscribeRequestParams>,
        "resources/unsubscribe" => misfit::<UnsubscribeRequestParams>,
        "subscriptions/listen" => misfit::<SubscriptionsListenRequestParams>,
        "tools/list" | "resources/list" | "resources/templates/list" => misfit::<PaginatedRequestParams>,
        "tasks/get" => misfit::<GetTaskParams>,
        "tasks/update" => misfit::<UpdateTaskParams>,
        "tasks/cancel" => misfit::<CancelTaskParams>,
        _ => return None,
    };
    Some(of(request.params.as_ref().unwrap_or(&json!({}))))
}

fn misfit<T: DeserializeOwned>(params: &Value) -> String {
    match serde_path_to_error::deserialize::<_, T>(params) {
        Err(error) if error.path().iter().next().is_some() => {
            format!("params.{}: {}", error.path(), error.inner())
        }
        Err(error) => format!("params: {}", error.inner()),
        Ok(_) => "params do not fit".to_owned(),
    }
}
