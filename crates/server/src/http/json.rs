//! A body of JSON, of which no object has a name twice: readers differ in which of the two they take, so that one who checks
//! it and one who carries it out could see different calls.
//!
//! Not for schemas.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a body is refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It is not JSON.
    Malformed(serde_json::Error),
    /// An object has this name twice; with the way to it.
    Twice(String),
}

/// The value of a body.
pub(crate) fn parse(body: &[u8]) -> Result<Value, Refused> {
    let mut strict = Strict { twice: &mut None, place: &mut Vec::new() };
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = strict.reborrow().deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match (value, strict.twice.take()) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(twice)) => Err(Refused::Twice(twice)),
        (Err(error), None) => Err(Refused::Malformed(error)),
    }
}

/// Reads a value, and where that fails for a name that comes twice, leaves the name behind.
struct Strict<'s> {
    twice: &'s mut Option<String>,
    /// The names and indices that lead here.
    place: &'s mut Vec<String>,
}

impl Strict<'_> {
    fn reborrow(&mut self) -> Strict<'_> {
        Strict { twice: self.twice, place: self.place }
    }

    /// The way to a name of this object, as the errors of arguments have it.
    fn way_to(&self, name: &str) -> String {
        let steps = self.place.iter().map(String::as_str).chain([name]);
        steps.fold(String::new(), |way, step| match step {
            index if index.starts_with('[') => way + index,
            name if way.is_empty() => name.to_owned(),
            name => way + "." + name,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        loop {
            self.place.push(format!("[{}]", array.len()));
            let item = items.next_element_seed(self.reborrow())?;
            self.place.pop();
            match item {
                Some(item) => array.push(item),
                None => return Ok(Value::Array(array)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if object.contains_key(&name) {
                *self.twice = Some(self.way_to(&name));
                return Err(A::Error::custom("a name comes twice"));
            }
            self.place.push(name);
            let value = entries.next_value_seed(self.reborrow())?;
            if let Some(name) = self.place.pop() {
                object.insert(name, value);
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_read_as_the_value_it_is() {
        for text in [
            "null",
            "true",
            "-1",
            "18446744073709551615",
            "1.5",
            "1e3",
            r#""a\nb""#,
            "[]",
            "{}",
            r#"{"a":[{"b":1},{"b":2}]}"#,
            r#" {"a": {"c": null}, "b": {"c": "x"}} "#,
        ] {
            let expect: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap(), expect, "{text}");
        }
    }

    #[test]
    fn a_name_that_comes_twice_is_refused_with_the_way_to_it() {
        for (text, way) in [
            (r#"{"a":1,"a":1}"#, "a"),
            (r#"{"a":1,"\u0061":2}"#, "a"),
            (r#"{"env":{"A":"1","B":"2","A":"3"}}"#, "env.A"),
            (r#"{"x":[0,{"y":{"z":1,"z":2}}]}"#, "x[1].y.z"),
            (r#"[{"a":1,"a":2}]"#, "[0].a"),
        ] {
            match parse(text.as_bytes()) {
                Err(Refused::Twice(found)) => assert_eq!(found, way, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "{} {}", r#"{"a":}"#, "{'a':1}", r#"{"a":1,}"#, "1e999", "\"\u{1}\"", &deep] {
            assert!(matches!(parse(text.as_bytes()), Err(Refused::Malformed(_))), "{text:.20}");
        }
        assert!(matches!(parse(b"\"\xff\""), Err(Refused::Malformed(_))));
        assert_eq!(parse(b"{\"a\": 1}").unwrap(), json!({"a": 1}));
    }
}
