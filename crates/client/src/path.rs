//! Paths of routes, and queries from the types that describe them.
//!
//! Not for which routes there are.

use form_urlencoded::Serializer;
use procyard_core::Handle;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::ClientError;

/// The route of a process, or one below it.
pub(crate) fn of_process(handle: &Handle, below: &str) -> String {
    format!("/v1/processes/{}{below}", handle.reveal())
}

/// A path with the fields of `query` that have a value.
pub(crate) fn with_query(path: &str, query: &impl Serialize) -> Result<String, ClientError> {
    let fields = fields(query)?;
    let mut text = Serializer::new(String::new());
    for (name, value) in &fields {
        match value {
            Value::Null => {}
            Value::String(value) => {
                text.append_pair(name, value);
            }
            Value::Bool(_) | Value::Number(_) => {
                text.append_pair(name, &value.to_string());
            }
            Value::Array(_) | Value::Object(_) => {
                return Err(ClientError::Invalid("a query has no lists; ask for one process at a time"));
            }
        }
    }
    let text = text.finish();
    Ok(if text.is_empty() { path.to_owned() } else { format!("{path}?{text}") })
}

/// The fields of a tool's arguments without the process, which is in the path.
pub(crate) fn without_process(arguments: &impl Serialize) -> Result<Map<String, Value>, ClientError> {
    let mut fields = fields(arguments)?;
    fields.remove("process_id");
    Ok(fields)
}

fn fields(from: &impl Serialize) -> Result<Map<String, Value>, ClientError> {
    match serde_json::to_value(from) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(ClientError::Invalid("it is not written as fields")),
    }
}

#[cfg(test)]
mod tests {
    use procyard_api::http::{LogsQuery, ProcessQuery};
    use procyard_api::{StopArguments, StopMode, StreamChoice};
    use procyard_core::State;

    use super::*;

    #[test]
    fn a_query_has_what_is_set_and_is_escaped() {
        let query = ProcessQuery {
            state: Some(State::Running),
            page: Some("a b&c".to_owned()),
            ..ProcessQuery::default()
        };
        let path = with_query("/v1/processes", &query).unwrap();
        assert_eq!(path, "/v1/processes?page=a+b%26c&state=running");
        let query =
            LogsQuery { stream: Some(StreamChoice::Stderr), follow: Some(true), ..LogsQuery::default() };
        assert_eq!(with_query("/x", &query).unwrap(), "/x?follow=true&stream=stderr");
        assert_eq!(with_query("/x", &LogsQuery::default()).unwrap(), "/x");
    }

    #[test]
    fn the_process_is_in_the_path_alone() {
        let handle = Handle::from_bytes([1; 16]);
        let arguments = StopArguments { process_id: handle, mode: Some(StopMode::Kill), grace_ms: None };
        let body = Value::Object(without_process(&arguments).unwrap());
        assert_eq!(body, serde_json::json!({"mode": "kill"}));
        assert_eq!(of_process(&handle, "/stop"), "/v1/processes/AQEBAQEBAQEBAQEBAQEBAQ/stop");
    }
}
