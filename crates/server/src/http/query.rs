//! A query string as the object that its route's schema describes.
//!
//! Not for checking: what does not read as its type stays text, and is refused by name where all arguments are checked.

use procyard_core::PublicError;
use serde_json::{Map, Value};

/// More parameters than any route has.
const PARAMETERS_MAX: usize = 64;

/// The parameters by name, each of the type that the schema says.
pub(crate) fn object(query: &str, schema: &Value) -> Result<Value, PublicError> {
    let mut object = Map::new();
    for (name, text) in form_urlencoded::parse(query.as_bytes()) {
        if object.len() == PARAMETERS_MAX {
            return Err(PublicError::argument(
                name,
                format!("a query has at most {PARAMETERS_MAX} parameters"),
            ));
        }
        let kind = schema["properties"][&*name]["type"].as_str();
        let value = match kind {
            Some("integer") => text.parse::<u64>().map(Value::from).ok(),
            Some("boolean") => text.parse::<bool>().map(Value::from).ok(),
            _ => None,
        };
        let value = value.unwrap_or_else(|| Value::from(&*text));
        if object.insert(name.to_string(), value).is_some() {
            return Err(PublicError::argument(name, "is given twice"));
        }
    }
    Ok(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_of_the_types_of_the_schema() {
        let schema = json!({"properties": {
            "n": {"type": "integer"}, "b": {"type": "boolean"}, "s": {"type": "string"}
        }});
        for (query, expect) in [
            ("", json!({})),
            ("n=7&b=true&s=7", json!({"n": 7, "b": true, "s": "7"})),
            ("n=-1&b=yes&x=1", json!({"n": "-1", "b": "yes", "x": "1"})),
            ("s=a%20b%2Bc+d", json!({"s": "a b+c d"})),
        ] {
            assert_eq!(object(query, &schema).unwrap(), expect, "{query}");
        }
        assert_eq!(object("n=1&n=2", &schema).unwrap_err().field.as_deref(), Some("n"));
        let many: Vec<_> = (0..100).map(|number| format!("p{number}=1")).collect();
        assert!(object(&many.join("&"), &schema).is_err());
    }
}
