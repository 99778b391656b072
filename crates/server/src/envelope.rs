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
    /// Several messages at once, which only revisions up to 2025-03-26 have.
    Batch(Vec<Value>),
    /// Nothing that is answered.
    Ignored,
}

/// A batch of more messages is refused as one, whoever waits for what.
pub(crate) const BATCH_MAX: usize = 128;

/// Where a batch may be, and what to do elsewhere.
const NO_BATCH: &str = "a batch is taken on a stream alone, and in no revision but 2024-11-05 and 2025-03-26; send one message \
                        a line or request";

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

    /// A batch where none is taken, as a whole.
    pub(crate) fn batched() -> Self {
        Self::new(Value::Null, ErrorCode::INVALID_REQUEST, NO_BATCH)
    }

    /// The same, once for each message of it that waits for an answer; as a whole where none does or there are too many.
    pub(crate) fn each_batched(batch: &[Value]) -> Vec<Self> {
        let few = if batch.len() > BATCH_MAX { &[] } else { batch };
        let requests = few.iter().filter(|message| message.get("method").is_some());
        let ids = requests.map(|request| echoed(request.get("id"))).filter(|id| !id.is_null());
        let each: Vec<_> = ids.map(|id| Self::new(id, ErrorCode::INVALID_REQUEST, NO_BATCH)).collect();
        if each.is_empty() { vec![Self::batched()] } else { each }
    }

    /// A batch, in a revision that has them, which has nothing in it or too much.
    pub(crate) fn of_batch(messages: &[Value]) -> Option<Self> {
        let why = match messages.len() {
            0 => "a batch has at least one message".to_owned(),
            1..=BATCH_MAX => return None,
            many => {
                format!("a batch has at most {BATCH_MAX} messages, and this one has {many}; send several")
            }
        };
        Some(Self::new(Value::Null, ErrorCode::INVALID_REQUEST, why))
    }

    /// The request that opens the protocol, in a batch: revision 2025-03-26 forbids it, since what is in a batch depends on
    /// what is agreed upon.
    pub(crate) fn opens_in_batch(id: &RequestId) -> Self {
        let message = "initialize must not be in a batch; send it alone";
        Self::new(json!(id), ErrorCode::INVALID_REQUEST, message)
    }

    /// JSON of another kind than a message has.
    fn not_an_object() -> Self {
        Self::new(Value::Null, ErrorCode::INVALID_REQUEST, "a message is an object")
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
    match serde_json::from_slice(bytes) {
        Ok(Value::Array(batch)) => Received::Batch(batch),
        Ok(value) => read_one(value),
        Err(error) => unreadable(bytes, &error),
    }
}

/// Looks at a message that is not several.
pub(crate) fn read_one(value: Value) -> Received {
    match value {
        Value::Object(object) => message(object),
        _ => Received::Refused(Refusal::not_an_object()),
    }
}

/// What is no JSON, or is JSON with what nobody can read: half of a surrogate pair, a number without end, nesting
/// without end. Of the latter the id is known.
fn unreadable(bytes: &[u8], error: &serde_json::Error) -> Received {
    let head: Head = serde_json::from_slice(bytes).unwrap_or_default();
    if !head.has_method && head.has_outcome {
        return Received::Ignored;
    }
    let id = echoed(head.id.as_ref());
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
                echoed(id.as_ref()),
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
    Received::Refused(Refusal::new(echoed(id.as_ref()), code, why))
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

/// The id under which a message is refused: its own, where that is a string or an integer. Null for what nobody could know
/// again: a fraction, which is no id in MCP, and a number beyond 64 bits, which is not read as it was written.
fn echoed(id: Option<&Value>) -> Value {
    match id {
        Some(id) if id.is_u64() => id.clone(),
        Some(id) => RequestId::deserialize(id).map_or(Value::Null, |id| json!(id)),
        None => Value::Null,
    }
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
    echoed(head.id.as_ref())
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
    }

    #[test]
    fn an_id_that_is_no_integer_is_refused_and_never_echoed_as_another_one() {
        for (id, echoed) in [
            ("1.5", Value::Null),
            ("-1e300", Value::Null),
            ("9223372036854775808", json!(9_223_372_036_854_775_808_u64)),
            ("18446744073709551615", json!(u64::MAX)),
            ("18446744073709551616", Value::Null),
            ("-9223372036854775809", Value::Null),
            ("9007199254740993.0", Value::Null),
            ("[1]", Value::Null),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let refused = refused(&line);
            assert_eq!((&refused["id"], &refused["error"]["code"]), (&echoed, &json!(-32600)), "{line}");
        }
        // Whatever else is wrong.
        for (id, echoed) in [("18446744073709551616", Value::Null), ("7.0", json!(7)), ("7", json!(7))] {
            for line in [
                format!(r#"{{"jsonrpc":"1.0","id":{id},"method":"ping"}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"a":1e999}}}}"#),
            ] {
                assert_eq!(refused(&line)["id"], echoed, "{line}");
            }
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
