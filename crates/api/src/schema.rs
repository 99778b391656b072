//! JSON schemas in the plain subset that every client understands: inline, without `null`, enumerations as `enum`.
//!
//! Not for validation: arguments are parsed by the types themselves, schemas only describe them.

use procyard_core::{ErrorCode, EventKind, State};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::ErrorBody;

/// The schema of a tool's arguments: an object without unknown fields.
pub fn input_schema<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// The schema of a tool's structured result: either a `T` or an [`ErrorBody`], with `"type": "object"` at the root.
pub fn output_schema<T: JsonSchema>() -> Value {
    let result = generate::<T>(SchemaSettings::draft2020_12().for_serialize());
    let error = generate::<ErrorBody>(SchemaSettings::draft2020_12().for_serialize());
    let mut alternatives = match result.get("anyOf") {
        Some(Value::Array(several)) => several.clone(),
        _ => vec![result],
    };
    alternatives.push(error);
    json!({ "type": "object", "anyOf": alternatives })
}

/// The schema of what is sent as a `T`, without the alternative of an error.
pub fn result_schema<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut value = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut value);
    if let Value::Object(root) = &mut value {
        root.remove("title");
        root.remove("description");
    }
    value
}

/// Rewrites what the generator says in the general way into the plain one.
fn simplify(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(object) => {
            drop_null(object);
            merge_only_choice(object);
            constants_to_enum(object);
            // `uint64` and its kin are no formats that JSON Schema knows; the bounds say it all.
            if object.get("format").and_then(Value::as_str).is_some_and(|format| format.contains("int")) {
                object.remove("format");
            }
            object.values_mut().for_each(simplify);
        }
        _ => {}
    }
}

/// An optional field is absent when it has no value, so no schema needs `null`.
fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
    }
}

fn merge_only_choice(object: &mut Map<String, Value>) {
    let only = match object.get("anyOf") {
        Some(Value::Array(choices)) if choices.len() == 1 => choices[0].as_object().cloned(),
        _ => None,
    };
    if let Some(only) = only {
        object.remove("anyOf");
        for (key, value) in only {
            object.entry(key).or_insert(value);
        }
    }
}

fn constants_to_enum(object: &mut Map<String, Value>) {
    if let Some(word) = object.remove("const") {
        object.insert("enum".to_owned(), json!([word]));
    }
    let words: Option<Vec<Value>> = match object.get("oneOf") {
        Some(Value::Array(choices)) => choices
            .iter()
            .map(|choice| match (choice.get("const"), choice.get("enum")) {
                (Some(word), _) => Some(vec![word.clone()]),
                (None, Some(Value::Array(words))) => Some(words.clone()),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(|lists| lists.concat()),
        _ => None,
    };
    if let Some(words) = words {
        object.remove("oneOf");
        object.insert("type".to_owned(), json!("string"));
        object.insert("enum".to_owned(), Value::Array(words));
    }
}

pub(crate) fn handle(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{22}$" })
}

pub(crate) fn handles(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "items": handle(generator), "minItems": 1, "maxItems": 64, "uniqueItems": true
    })
}

pub(crate) fn cursors(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "additionalProperties": { "type": "integer", "minimum": 0 }, "maxProperties": 64
    })
}

pub(crate) fn state(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": State::ALL.map(State::as_str) })
}

pub(crate) fn state_counts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": { "enum": State::ALL.map(State::as_str) },
        "additionalProperties": { "type": "integer", "minimum": 0 }
    })
}

pub(crate) fn event_kind(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": EventKind::ALL })
}

pub(crate) fn uuid(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "uuid" })
}

pub(crate) fn word(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

pub(crate) fn error(_: &mut SchemaGenerator) -> Schema {
    let codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    json_schema!({
        "type": "object",
        "properties": {
            "code": { "type": "string", "enum": codes, "description": "What kind of error it is." },
            "message": { "type": "string", "description": "What is wrong, and what to do next where there is something to do." },
            "field": { "type": "string", "description": "The argument at fault." },
            "retryable": { "type": "boolean", "description": "Whether the same call may succeed later." },
            "effects": {
                "type": "string", "enum": ["none", "started", "unknown"],
                "description": "What the failed call did: nothing; the command ran or runs; look before you repeat it."
            }
        },
        "required": ["code", "message", "retryable", "effects"]
    })
}
