//! From the JSON that a model wrote to typed arguments: every field known, of its type and within its bounds, or an
//! error that names the field.
//!
//! The schema that the model was shown is what is checked here, so the two cannot differ. Not for rules between
//! fields: each tool has its own.

use procyard_core::{ErrorCode, PublicError};
use procyard_text::shorten;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

/// Names and values in messages are one line of safe text, cut to this many characters.
const ECHO_MAX: usize = 120;

/// How similar a known name must be to be suggested; 1 is the same.
const NEAR: f64 = 0.75;

/// Parses `arguments` against `schema`, the input schema of the tool.
pub(crate) fn parse<T: DeserializeOwned>(arguments: Value, schema: &Value) -> Result<T, PublicError> {
    let mut object = match arguments {
        Value::Null => Map::new(),
        Value::Object(object) => object,
        _ => return Err(PublicError::new(ErrorCode::InvalidArguments, "the arguments must be an object")),
    };
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    // Models write `null` for an argument that they leave out.
    object.retain(|name, value| !(value.is_null() && properties.contains_key(name)));
    for (name, value) in &mut object {
        let Some(property) = properties.get(name) else { return Err(unknown(name, properties)) };
        whole_number(value);
        check_bounds(name, value, property)?;
    }
    if let Some(Value::Array(required)) = schema.get("required")
        && let Some(missing) =
            required.iter().filter_map(Value::as_str).find(|name| !object.contains_key(*name))
    {
        return Err(PublicError::argument(missing, format!("`{missing}` is missing")));
    }
    serde_path_to_error::deserialize(Value::Object(object)).map_err(|error| {
        let path = error.path().to_string();
        let problem = plain(&error.into_inner().to_string());
        let error = PublicError::new(ErrorCode::InvalidArguments, problem);
        if path == "." { error } else { error.field(shorten(&path, ECHO_MAX)) }
    })
}

fn unknown(name: &str, properties: &Map<String, Value>) -> PublicError {
    let name = &*shorten(name, ECHO_MAX);
    let nearest = properties
        .keys()
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let message = match nearest {
        Some((similar, known)) if similar >= NEAR => {
            format!("there is no argument `{name}`; did you mean `{known}`?")
        }
        _ => {
            let known: Vec<&str> = properties.keys().map(String::as_str).collect();
            format!("there is no argument `{name}`; there are {}", known.join(", "))
        }
    };
    PublicError::argument(name, message)
}

/// JSON has one kind of number: 10.0 is the integer 10.
fn whole_number(value: &mut Value) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Value::Number(number) = value
        && let Some(float) = number.as_f64().filter(|_| number.is_f64())
        && float.fract() == 0.0
        && float.abs() <= EXACT
    {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range of both types")]
        let whole = float as i64;
        *number = Number::from(whole);
    }
}

fn check_bounds(name: &str, value: &Value, property: &Value) -> Result<(), PublicError> {
    let bound = |key: &str| property.get(key).and_then(Value::as_u64);
    match value {
        Value::Number(number) => {
            let (min, max) = (bound("minimum"), bound("maximum"));
            let Some(value) = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
            else {
                return Ok(());
            };
            let low = min.is_some_and(|min| value < i128::from(min));
            let high = max.is_some_and(|max| value > i128::from(max));
            if low || high {
                let message = match (min, max) {
                    (Some(min), Some(max)) => format!("must be between {min} and {max}"),
                    (Some(min), None) => format!("must be at least {min}"),
                    (None, Some(max)) => format!("must be at most {max}"),
                    (None, None) => return Ok(()),
                };
                return Err(PublicError::argument(name, message));
            }
            Ok(())
        }
        Value::String(text) => {
            length(name, text.chars().count(), bound("minLength"), bound("maxLength"), "characters")
        }
        Value::Array(items) => length(name, items.len(), bound("minItems"), bound("maxItems"), "entries"),
        _ => Ok(()),
    }
}

fn length(
    name: &str,
    have: usize,
    min: Option<u64>,
    max: Option<u64>,
    what: &str,
) -> Result<(), PublicError> {
    let have = have as u64;
    if min.is_some_and(|min| have < min) {
        return Err(PublicError::argument(name, "must not be empty"));
    }
    match max {
        Some(max) if have > max => {
            Err(PublicError::argument(name, format!("must have at most {max} {what}, has {have}")))
        }
        _ => Ok(()),
    }
}

/// A parser's message in words that do not presume Rust.
fn plain(message: &str) -> String {
    let mut message = shorten(message, 2 * ECHO_MAX);
    for (rust, plain) in [
        ("expected u64", "expected an integer of at least 0"),
        ("expected u16", "expected an integer of at least 0"),
        ("expected a sequence", "expected an array"),
        ("invalid type: sequence", "invalid type: array"),
        ("expected a map", "expected an object"),
        ("invalid type: map", "invalid type: object"),
    ] {
        message = message.replace(rust, plain);
    }
    message
}

#[cfg(test)]
mod tests {
    use procyard_api::{BashArguments, InputArguments, OutputArguments, input_schema};
    use serde_json::json;

    use super::*;

    fn refused<T: DeserializeOwned + described::Schema>(arguments: Value) -> PublicError {
        let error = parse::<T>(arguments, &T::schema()).err().expect("refused");
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        error
    }

    /// Which schema belongs to which type, so that the cases below stay short.
    mod described {
        use super::*;

        pub(super) trait Schema {
            fn schema() -> Value;
        }
        impl Schema for BashArguments {
            fn schema() -> Value {
                input_schema::<BashArguments>()
            }
        }
        impl Schema for OutputArguments {
            fn schema() -> Value {
                input_schema::<OutputArguments>()
            }
        }
        impl Schema for InputArguments {
            fn schema() -> Value {
                input_schema::<InputArguments>()
            }
        }
    }

    #[test]
    fn a_bad_argument_is_refused_by_name() {
        for (arguments, field) in [
            (json!({"command": "true", "backgruond": true}), "backgruond"),
            (json!({"command": "true", "timeout": -1}), "timeout"),
            (json!({"command": "true", "timeout": 1.5}), "timeout"),
            (json!({"command": "true", "yield_time_ms": "soon"}), "yield_time_ms"),
            (json!({"command": "true", "yield_time_ms": 600_001}), "yield_time_ms"),
            (json!({"command": 5}), "command"),
            (json!({"command": ""}), "command"),
            (json!({"argv": []}), "argv"),
            (json!({"argv": ["a", 1]}), "argv[1]"),
            (json!({"command": "true", "env": {"A": 1}}), "env.A"),
            (json!({"command": "true", "limit_bytes": 0}), "limit_bytes"),
            (json!({"command": "true", "leftovers": "keep"}), "leftovers"),
            (json!({"command": "true", "rows": 70_000}), "rows"),
            (json!({"command": "true", "description": "é".repeat(201)}), "description"),
        ] {
            let error = refused::<BashArguments>(arguments.clone());
            assert_eq!(error.field.as_deref(), Some(field), "{arguments}: {error}");
        }
        let handle = "AAECAwQFBgcICQoLDA0ODw";
        for (arguments, field) in [
            (json!({"process_id": "not-a-handle"}), "process_id"),
            (json!({"process_ids": [handle, "x"]}), "process_ids[1]"),
            (json!({"process_id": handle, "view": "picture"}), "view"),
        ] {
            let error = refused::<OutputArguments>(arguments.clone());
            assert_eq!(error.field.as_deref(), Some(field), "{arguments}: {error}");
        }
        assert_eq!(refused::<InputArguments>(json!({"data": "x"})).field.as_deref(), Some("process_id"));
    }

    #[test]
    fn a_misspelt_argument_is_told_the_right_name() {
        let error = refused::<BashArguments>(json!({"command": "true", "backgruond": true}));
        assert!(error.message.contains("did you mean `background`?"), "{error}");
        let error = refused::<BashArguments>(json!({"command": "true", "backgruond": null}));
        assert_eq!(error.field.as_deref(), Some("backgruond"));
        let error = refused::<BashArguments>(json!({"command": "true", "zzz": true}));
        assert!(error.message.contains("there are argv, background"), "{error}");
    }

    #[test]
    fn what_is_no_object_is_refused_and_null_is_an_empty_one() {
        assert_eq!(refused::<OutputArguments>(json!([1])).field, None);
        assert!(parse::<OutputArguments>(Value::Null, &input_schema::<OutputArguments>()).is_ok());
    }

    #[test]
    fn null_is_an_absent_argument_and_a_whole_float_an_integer() {
        let arguments = json!({"command": "true", "workdir": null, "timeout": 10.0});
        let parsed: BashArguments = parse(arguments, &input_schema::<BashArguments>()).unwrap();
        assert_eq!((parsed.workdir, parsed.timeout), (None, Some(10)));
    }
}
