//! The envelope of a message: whether bytes are a message of JSON-RPC 2.0 as MCP uses it, and what is answered if not.
//!
//! The SDK answers what is no message with nothing, or with an error that says neither whose it is nor what is wrong, so
//! everything is looked at here before the SDK sees it. What asks for nothing, a notification or a response, is never
//! answered, however wrong it is (JSON-RPC 2.0 §4.1); so two peers cannot keep each other busy with errors. Not for what a
//! method takes: see `params`.

use std::fmt;

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, RequestId};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};

/// What some bytes are.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message that the SDK can read.
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that can be carried out; this is the answer.
    Refused(Refusal),
    /// Nothing that is answered.
    Ignored,
}

/// The answer to what is not carried out.
#[derive(Debug)]
pub(crate) struct Refusal {
    id: Value,
    code: ErrorCode,
    message: String,
}

impl Refusal {
    /// A refusal under an id; null where none is to be had (JSON-RPC 2.0 §5).
    pub(crate) fn new(id: Value, code: ErrorCode, message: impl Into<String>) -> Self {
        Self { id, code, message: message.into() }
    }

    /// A message that is longer than is read, of which this is the beginning.
    pub(crate) fn too_long(beginning: &[u8], most: usize) -> Self {
        let message = format!("the message is longer than {most} bytes");
        Self::new(id_in(beginning), ErrorCode::INVALID_REQUEST, message)
    }

    /// Nothing, where a message must be.
    pub(crate) fn empty() -> Self {
        Self::new(Value::Null, ErrorCode::PARSE_ERROR, "the message is not JSON: there is none")
    }

    /// A request whose id belongs to another one that is not answered yet.
    pub(crate) fn in_use(id: &RequestId) -> Self {
        let message =
            format!("the id {id} is in use by a request that is not answered yet; give each request its own");
        Self::new(json!(id), ErrorCode::INVALID_REQUEST, message)
    }

    /// The response as it goes to the client.
    pub(crate) fn response(&self) -> Value {
        let error = json!({"code": self.code.0, "message": self.message});
        json!({"jsonrpc": "2.0", "id": self.id, "error": error})
    }
}

/// Looks at one message.
pub(crate) fn read(bytes: &[u8]) -> Received {
    // RFC 8259 §8.1 lets a reader pass over the mark.
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
        return Received::Ignored;
    }
    let refuse = |id, code, message: &str| Received::Refused(Refusal::new(id, code, message));
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => message(object),
        Ok(Value::Array(_)) => refuse(
            Value::Null,
            ErrorCode::INVALID_REQUEST,
            "a batch is not taken, in no revision; send one message a line or request",
        ),
        Ok(_) => refuse(Value::Null, ErrorCode::INVALID_REQUEST, "a message is an object"),
        Err(error) => unreadable(bytes, &error),
    }
}

/// What is no JSON, or is JSON with what nobody can read: half of a surrogate pair, a number without end, nesting
/// without end. Of the latter the id is known.
fn unreadable(bytes: &[u8], error: &serde_json::Error) -> Received {
    let head: Head = serde_json::from_slice(bytes).unwrap_or_default();
    if !head.has_method && head.has_outcome {
        return Received::Ignored;
    }
    let id = head.id.filter(is_echoed).unwrap_or_default();
    Received::Refused(Refusal::new(id, ErrorCode::PARSE_ERROR, format!("the message is not JSON: {error}")))
}

fn message(mut object: Map<String, Value>) -> Received {
    let has_outcome = object.contains_key("result") || object.contains_key("error");
    let id = object.get("id").cloned();
    if !object.contains_key("method") && has_outcome {
        // Nothing is asked of a client, so this answers nothing.
        return Received::Ignored;
    }
    let Err(wrong) = checked(&mut object, id.as_ref(), has_outcome) else {
        return match serde_json::from_value::<ClientJsonRpcMessage>(Value::Object(object)) {
            Ok(message) => Received::Message(Box::new(message)),
            Err(_) if id.is_none() => Received::Ignored,
            Err(error) => Received::Refused(Refusal::new(
                id.unwrap_or_default(),
                ErrorCode::INVALID_REQUEST,
                error.to_string(),
            )),
        };
    };
    // A notification is never answered. What has neither method nor id was meant to be something else.
    if id.is_none() && object.get("method").is_some_and(Value::is_string) {
        return Received::Ignored;
    }
    let (code, why) = wrong;
    Received::Refused(Refusal::new(id.filter(is_echoed).unwrap_or_default(), code, why))
}

/// Holds the members of a message against JSON-RPC 2.0 and what MCP makes of it.
fn checked(
    object: &mut Map<String, Value>,
    id: Option<&Value>,
    has_outcome: bool,
) -> Result<(), (ErrorCode, String)> {
    let invalid = |why: &str| Err((ErrorCode::INVALID_REQUEST, why.to_owned()));
    match object.get("method") {
        None => return invalid("there is no method"),
        Some(method) if !method.is_string() => return invalid("the method must be a string"),
        Some(_) if has_outcome => return invalid("a request has neither result nor error"),
        Some(_) => {}
    }
    if object.get("jsonrpc").is_none_or(|version| version != "2.0") {
        return invalid("jsonrpc must be \"2.0\"");
    }
    if id.is_some_and(|id| RequestId::deserialize(id).is_err()) {
        return invalid("the id must be a string or an integer of 64 bits");
    }
    match object.get("params") {
        // Not what the protocol says, but nothing else can be meant.
        Some(Value::Null) => {
            object.remove("params");
        }
        Some(Value::Object(params)) => {
            if let Some(meta) = params.get("_meta").filter(|meta| !meta.is_object() && !meta.is_null()) {
                return Err(misfit("params._meta", "an object", meta));
            }
            // The SDK would take it for no cursor, and begin anew.
            let pages =
                object.get("method").and_then(Value::as_str).is_some_and(|method| method.ends_with("/list"));
            if let Some(cursor) =
                params.get("cursor").filter(|cursor| pages && !cursor.is_string() && !cursor.is_null())
            {
                return Err(misfit("params.cursor", "a string", cursor));
            }
        }
        Some(other) => return Err(misfit("params", "an object", other)),
        None => {}
    }
    Ok(())
}

fn misfit(what: &str, wanted: &str, found: &Value) -> (ErrorCode, String) {
    let kind = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    (ErrorCode::INVALID_PARAMS, format!("{what} must be {wanted}, not {kind}"))
}

/// Whether an answer can carry this as its id: JSON-RPC has numbers of any kind, where MCP takes integers.
fn is_echoed(id: &Value) -> bool {
    id.is_string() || id.is_number()
}

/// What can be known of a message without reading all of it.
#[derive(Default)]
struct Head {
    id: Option<Value>,
    has_method: bool,
    has_outcome: bool,
}

/// The id that the beginning of a message says, where it does.
fn id_in(beginning: &[u8]) -> Value {
    let mut head = Head::default();
    // It ends in the middle, so there is always an error; what came before it counts.
    let _ = serde_json::Deserializer::from_slice(beginning).deserialize_map(Heads(&mut head));
    head.id.filter(is_echoed).unwrap_or_default()
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut head = Self::default();
        deserializer.deserialize_map(Heads(&mut head))?;
        Ok(head)
    }
}

/// Fills a head in, as far as it gets.
struct Heads<'h>(&'h mut Head);

impl<'de> Visitor<'de> for Heads<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "id" => self.0.id = Some(map.next_value()?),
                other => {
                    self.0.has_method |= other == "method";
                    self.0.has_outcome |= matches!(other, "result" | "error");
                    // Passed over without being read, so that nothing in it is in the way.
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(line: &str) -> Value {
        match read(line.as_bytes()) {
            Received::Refused(refusal) => refusal.response(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_refusal_has_the_form_of_the_specification() {
        assert_eq!(
            refused("42"),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "a message is an object"}})
        );
    }

    #[test]
    fn a_number_that_is_an_integer_is_an_id_however_it_is_written() {
        for (id, same) in [("1", json!(1)), ("1.0", json!(1)), ("1e2", json!(100)), ("-0", json!(0))] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let Received::Message(message) = read(line.as_bytes()) else { panic!("{line}") };
            let ClientJsonRpcMessage::Request(request) = *message else { panic!("{line}") };
            assert_eq!(json!(request.id), same, "{line}");
        }
        for id in ["1.5", "9223372036854775808", "-1e300"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(refused(&line)["error"]["code"], -32600, "{line}");
            assert!(refused(&line)["id"].is_number(), "{line}");
        }
    }

    #[test]
    fn the_id_is_found_in_the_beginning_of_a_message() {
        for (beginning, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"bbbb"#, json!(7)),
            (r#"{"id":"seven","params":[[["#, json!("seven")),
            (r#"{"params":{"id":1},"id":7,"#, json!(7)),
            (r#"{"params":{"id":1}"#, Value::Null),
            (r#"{"id":{"a":1},"b"#, Value::Null),
            (r#"{"id":"not whole"#, Value::Null),
            ("[7", Value::Null),
            ("", Value::Null),
        ] {
            assert_eq!(id_in(beginning.as_bytes()), id, "{beginning}");
        }
    }

    #[test]
    fn an_unreadable_response_is_not_answered() {
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":"\ud800"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"\udc00"}}"#,
        ] {
            assert!(matches!(read(line.as_bytes()), Received::Ignored), "{line}");
        }
    }
}
