//! The Model Context Protocol in the `OpenAPI` document: where it is, which headers it has, how it refuses.
//!
//! Its messages are JSON-RPC, whose schemas the protocol has. Not for serving it.

use serde_json::{Map, Value, json};

/// Where it is.
pub(crate) const PATH: &str = "/v1/mcp";

/// The operations, by method.
pub(crate) fn operations() -> Map<String, Value> {
    let message = json!({
        "description": "One message of JSON-RPC 2.0.",
        "type": "object",
        "properties": { "jsonrpc": { "const": "2.0" } },
        "required": ["jsonrpc"]
    });
    let events = json!({ "text/event-stream": {} });
    let mut post = operation(
        "mcp_post",
        "Send a message of the Model Context Protocol, by its streamable HTTP transport: its answer comes as JSON or as \
         server-sent events. A client that opens a session is given its id.",
        &[SESSION, REVISION],
        &[
            (
                "200",
                "The answer.",
                json!({ "application/json": { "schema": { "type": "object" } }, "text/event-stream": {} }),
            ),
            ("202", "The message needs no answer.", Value::Null),
        ],
        &[400, 404, 406, 413, 415],
    );
    post["requestBody"] =
        json!({ "required": true, "content": { "application/json": { "schema": message } } });
    post["responses"]["200"]["headers"] = json!({
        "Mcp-Session-Id": { "description": "The session that was opened.", "required": false, "schema": { "type": "string" } }
    });
    let get = operation(
        "mcp_listen",
        "Listen to what a session of the Model Context Protocol has to say beside answers, or resume a stream of it.",
        &[
            SESSION,
            REVISION,
            ("Last-Event-ID", "The `id` of the last event that was seen of a stream that broke off."),
        ],
        &[("200", "Messages, as server-sent events.", events)],
        &[400, 404, 406],
    );
    let delete = operation(
        "mcp_end",
        "End a session of the Model Context Protocol. The processes of its loop go on.",
        &[SESSION, REVISION],
        &[("202", "It has ended.", Value::Null)],
        &[400, 404],
    );
    Map::from_iter(
        [("post", post), ("get", get), ("delete", delete)].map(|(method, of)| (method.to_owned(), of)),
    )
}

const SESSION: (&str, &str) =
    ("Mcp-Session-Id", "The session, for revisions of the protocol that have them.");
const REVISION: (&str, &str) =
    ("MCP-Protocol-Version", "The revision of the protocol that the client speaks.");

fn operation(
    name: &str,
    summary: &str,
    headers: &[(&str, &str)],
    answers: &[(&str, &str, Value)],
    errors: &[u16],
) -> Value {
    let parameters = headers.iter().map(|(name, description)| {
        json!({ "name": name, "in": "header", "required": false, "description": description, "schema": { "type": "string" } })
    });
    let mut responses = Map::new();
    for (status, description, content) in answers {
        let mut response = json!({ "description": description });
        if !content.is_null() {
            response["content"] = content.clone();
        }
        responses.insert((*status).to_owned(), response);
    }
    for status in errors.iter().chain(&[401, 403, 405, 500, 503]) {
        responses.insert(status.to_string(), error(*status));
    }
    json!({
        "operationId": name,
        "summary": summary,
        "description": "For a loop.",
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": responses,
    })
}

/// The transport refuses in words or as JSON-RPC, and the service as it does everywhere.
fn error(status: u16) -> Value {
    let description = match status {
        400 => "The message, its headers, or `Host` is not what the protocol says, or a session is missing.",
        401 => "No token, or none of a loop.",
        403 => "`Host` or `Origin` is not one that may use this service.",
        404 => "There is no such session, or no such method of the protocol.",
        405 => "The answer to any other method, and where the revision of the client has no sessions.",
        406 => "The client does not accept what would be sent: `application/json` and `text/event-stream`.",
        413 => "The message is too long.",
        415 => "The body is not JSON, or no message.",
        503 => "The service is being shut down, or its sessions are all in use.",
        _ => "A fault of procyard's own.",
    };
    let mut response = json!({
        "description": description,
        "content": { "text/plain": {}, "application/json": { "schema": { "type": "object" } } }
    });
    let header = match status {
        401 => Some(("WWW-Authenticate", "`Bearer`.", true)),
        405 => Some(("Allow", "The methods of this path.", true)),
        503 => Some(("Retry-After", "Seconds, where waiting can help.", false)),
        _ => None,
    };
    if let Some((name, description, required)) = header {
        response["headers"] = json!({ name: { "description": description, "required": required, "schema": { "type": "string" } } });
    }
    response
}
