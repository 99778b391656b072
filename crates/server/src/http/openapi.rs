//! The `OpenAPI` 3.1 document, made of the table of routes and the schemas of the types that they take and answer. What is
//! below `/v1/mcp` has a document of its own and is described in `openapi_mcp`.
//!
//! Not for validating: what a route takes is checked against the same schemas where it is called.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::response::Response;
use procyard_api::ErrorBody;
use procyard_api::http::{AttachCommand, AttachReport, EventRecord, LagNotice, OutputSample, StreamEnd};
use serde_json::{Map, Value, json};

use super::call::Call;
use super::caller::Access;
use super::openapi_mcp;
use super::problem::Problem;
use super::route::{Content, Header, Named, Route};
use super::routes::ROUTES;
use super::tool;

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

pub(crate) fn openapi(_: &Call) -> Result<Response, Problem> {
    tool::json(StatusCode::OK, &*DOCUMENT)
}

/// The whole document.
pub fn document() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut schemas = Map::new();
    for route in ROUTES.iter() {
        let method = route.method.as_str().to_ascii_lowercase();
        paths.entry(route.path).or_default().insert(method, operation(route, &mut schemas));
    }
    paths.insert(openapi_mcp::PATH, openapi_mcp::operations());
    // What is in streams and messages, and in no response as a whole.
    for named in [
        Named::sent::<EventRecord>(),
        Named::sent::<OutputSample>(),
        Named::sent::<LagNotice>(),
        Named::sent::<StreamEnd>(),
        Named::sent::<AttachReport>(),
        Named::sent::<AttachCommand>(),
        Named::sent::<ErrorBody>(),
    ] {
        schemas.insert(named.name, named.schema);
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "procyard",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Supervises long-running commands. A token is the authority of one loop of one session, and sees \
                what is its own; the admin token opens sessions and sees everything. On the Unix socket a peer of the \
                service's own user needs no token and is the administrator. Every error has the body ErrorBody, but for those of \
                /v1/mcp. A request of HTTP/1.1 that does not name its Host once is a 400. A head of more than 64 KiB or 100 \
                headers is answered with 431, or its connection is closed; that answer, and the 400 to what does not read as \
                HTTP, have no body."
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
        },
    })
}

fn operation(route: &Route, schemas: &mut Map<String, Value>) -> Value {
    let mut responses = Map::new();
    for answer in &route.answers {
        let mut response = json!({ "description": answer.description });
        match &answer.content {
            Content::Nothing => {}
            Content::Json(named) => {
                response["content"] = json!({ "application/json": { "schema": reference(named, schemas) } });
            }
            Content::Bytes(media_type) => response["content"] = json!({ *media_type: {} }),
        }
        if !answer.headers.is_empty() {
            response["headers"] = headers(&answer.headers);
        }
        responses.insert(answer.status.to_string(), response);
    }
    for status in route.error_statuses() {
        responses.insert(status.to_string(), error(status));
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "description": serves(route.access),
        "parameters": parameters(route),
        "responses": responses,
    });
    if let Some(body) = &route.body {
        let required = body.schema.get("required").is_some();
        let schema = reference(body, schemas);
        operation["requestBody"] =
            json!({ "required": required, "content": { "application/json": { "schema": schema } } });
    }
    if route.access == Access::Public {
        operation["security"] = json!([]);
    }
    operation
}

fn reference(named: &Named, schemas: &mut Map<String, Value>) -> Value {
    schemas.entry(named.name.clone()).or_insert_with(|| named.schema.clone());
    json!({ "$ref": format!("#/components/schemas/{}", named.name) })
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters: Vec<Value> = names_in(route.path).map(path_parameter).collect();
    if let Some(query) = &route.query
        && let Some(properties) = query.schema["properties"].as_object()
    {
        for (name, schema) in properties {
            let mut schema = schema.clone();
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let mut parameter = json!({ "name": name, "in": "query", "required": false, "schema": schema });
            if let Some(description) = description {
                parameter["description"] = description;
            }
            parameters.push(parameter);
        }
    }
    for (name, description) in &route.headers {
        parameters.push(json!({
            "name": name, "in": "header", "required": false, "description": description,
            "schema": { "type": "string" }
        }));
    }
    parameters
}

/// The names in braces.
fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(name: &str) -> Value {
    let schema = if name == "process_id" {
        json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{22}$" })
    } else {
        json!({ "type": "string", "format": "uuid" })
    };
    json!({ "name": name, "in": "path", "required": true, "schema": schema })
}

/// Whom a route serves, in words.
fn serves(access: Access) -> &'static str {
    match access {
        Access::Public => "For everybody.",
        Access::Any => "For a loop, of what is its own, and for the administrator.",
        Access::Loop => "For a loop.",
        Access::Admin => "For the administrator.",
    }
}

fn headers(headers: &[Header]) -> Value {
    let described = headers.iter().map(|header| {
        let Header { name, description, schema, always } = header;
        let header = json!({ "description": description, "required": always, "schema": schema });
        ((*name).to_owned(), header)
    });
    Value::Object(described.collect())
}

/// An error that [`Problem`] answers.
fn error(status: u16) -> Value {
    let description = match status {
        400 => "An argument or the field `Host` is wrong, or the body is not JSON, or has a name twice.",
        401 => "No token, none that is valid, or none for this route.",
        404 => "There is no such thing, or it is not yours: the two cannot be told apart.",
        405 => "The answer to any other method of this path.",
        409 => "It conflicts with what is there.",
        413 => "The body is too long.",
        416 => "The cursor, record or range lies where there is nothing, or the `Range` does not read.",
        422 => "The body does not fit its schema.",
        429 => "A quota is exhausted.",
        503 => "The service or the session is being shut down, or its storage cannot be used.",
        _ => "A fault of procyard's own.",
    };
    let schema = json!({ "$ref": "#/components/schemas/ErrorBody" });
    let mut response =
        json!({ "description": description, "content": { "application/json": { "schema": schema } } });
    if let Some(header) = header_of(status) {
        response["headers"] = headers(&[header]);
    }
    response
}

/// The header that goes with an error of this status.
fn header_of(status: u16) -> Option<Header> {
    Some(match status {
        401 => Header::text("WWW-Authenticate", "`Bearer`."),
        405 => Header::text("Allow", "The methods of this path."),
        416 => {
            Header::text("Content-Range", "Of a range: how long the output is, as `bytes */100`.").sometimes()
        }
        429 | 503 => Header::number("Retry-After", "Seconds, where waiting can help.").sometimes(),
        _ => return None,
    })
}
