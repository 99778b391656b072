//! The tools without an MCP client.
//!
//! Not for the protocol.

use axum::http::StatusCode;
use axum::response::Response;
use procyard_api::http::{InvokeReply, InvokeRequest, ToolInfo, ToolList};
use procyard_core::ErrorCode;
use procyard_tools::ToolDefinition;
use serde_json::{Map, Value};

use super::call::Call;
use super::caller::invalid;
use super::problem::Problem;
use super::tool;

pub(crate) async fn capabilities(call: Call) -> Result<Response, Problem> {
    let owner = call.caller.owner().ok_or_else(invalid)?;
    let toolbox = call.own_session().await?.toolbox(owner);
    let tools = toolbox.definitions().iter().map(info).collect();
    tool::json(StatusCode::OK, &ToolList { tools })
}

fn info(definition: &ToolDefinition) -> ToolInfo {
    ToolInfo {
        name: definition.name.to_owned(),
        title: definition.title.to_owned(),
        description: definition.description.clone(),
        input_schema: object(definition.input_schema.clone()),
        output_schema: definition.output_schema.clone().map(object).unwrap_or_default(),
        read_only: definition.annotations.read_only,
        destructive: definition.annotations.destructive,
        idempotent: definition.annotations.idempotent,
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        // Schemas and results of tools are objects.
        _ => Map::new(),
    }
}

pub(crate) async fn invoke(call: Call) -> Result<Response, Problem> {
    let owner = call.caller.owner().ok_or_else(invalid)?;
    let InvokeRequest { name, arguments } = call.body()?;
    let toolbox = call.own_session().await?.toolbox(owner);
    // Where Bash is not offered, calling it says why.
    if name != "Bash" && !toolbox.definitions().iter().any(|tool| tool.name == name) {
        let message = "there is no such tool; see /v1/mcp/capabilities";
        let error = procyard_core::PublicError::new(ErrorCode::InvalidArguments, message).field("name");
        return Err(error.into());
    }
    let mut reply = tool::call(&toolbox, &name, Value::Object(arguments)).await?;
    let body = InvokeReply {
        structured: object(std::mem::take(&mut reply.structured)),
        text: std::mem::take(&mut reply.text),
    };
    tool::with_reply(StatusCode::OK, &body, reply)
}
