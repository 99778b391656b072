//! Tools and their results in the words of the protocol.
//!
//! Not for what is in a result: the tools make that.

use std::sync::Arc;

use procyard_tools::{Reply, Surface, ToolDefinition};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

/// The result of a call: the text that a model reads, and the structured result where the tool promises one.
pub(crate) fn result(reply: &Reply, structured: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(reply.text.clone())];
    let mut result =
        if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured.then(|| reply.structured.clone());
    result
}

/// The tools of a surface as its clients are told of them, made once for all of these.
pub(crate) fn tools(surface: &dyn Surface) -> Arc<[Tool]> {
    surface.definitions().iter().cloned().map(tool).collect()
}

fn tool(definition: ToolDefinition) -> Tool {
    let hints = definition.annotations;
    let annotations = ToolAnnotations::with_title(definition.title)
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world);
    let tool = Tool::new(definition.name, definition.description, Arc::new(object(definition.input_schema)))
        .with_title(definition.title)
        .with_annotations(annotations);
    match definition.output_schema {
        Some(schema) => tool.with_raw_output_schema(Arc::new(object(schema))),
        None => tool,
    }
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        // The tools' schemas are objects; a schema of anything admits nothing less.
        _ => JsonObject::new(),
    }
}
