//! The `OpenAPI` document: that it is one, and that answers are what it says.

use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use procyard_server::http::openapi_document;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::scene::Scene;

pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi_document);

/// Each operation: method, path, operation.
pub(crate) fn operations() -> Vec<(String, String, Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let of_path = |(path, methods): (&String, &Value)| {
        let path = path.clone();
        let methods = methods.as_object().unwrap().clone();
        methods.into_iter().map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation))
    };
    paths.iter().flat_map(of_path).collect()
}

/// The operation of a request, if there is one.
pub(crate) fn operation(method: &str, path: &str) -> Option<Value> {
    let path = path.split('?').next().unwrap();
    let fits = |template: &str| {
        let (have, want): (Vec<_>, Vec<_>) = (path.split('/').collect(), template.split('/').collect());
        have.len() == want.len()
            && have
                .iter()
                .zip(&want)
                .all(|(have, want)| have == want || (want.starts_with('{') && !have.is_empty()))
    };
    let mut found: Vec<_> =
        operations().into_iter().filter(|(of, template, _)| of == method && fits(template)).collect();
    // The one with the fewest names in braces.
    found.sort_by_key(|(_, template, _)| template.matches('{').count());
    found.into_iter().next().map(|(_, _, operation)| operation)
}

/// Holds a value against a schema of the document.
fn valid(schema: &Value, value: &Value) -> Result<(), String> {
    static KNOWN: LazyLock<Mutex<HashMap<String, Validator>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap();
    let validator = known.entry(schema.to_string()).or_insert_with(|| {
        let mut whole = schema.clone();
        whole["components"] = DOCUMENT["components"].clone();
        jsonschema::draft202012::new(&whole).unwrap()
    });
    validator.validate(value).map_err(|error| format!("{error} at {}", error.instance_path()))
}

/// Fails unless an answer is one that the document has for the request. What is no route at all is answered as errors are.
pub(crate) fn check(method: &str, path: &str, answer: &Answer) {
    let request = format!("{method} {path} -> {}: {}", answer.status, answer.text());
    let Some(operation) = operation(method, path) else {
        assert!(matches!(answer.status, 404 | 405), "{request}");
        let error = json!({ "$ref": "#/components/schemas/ErrorBody" });
        return valid(&error, &answer.json()).unwrap_or_else(|problem| panic!("{request}: {problem}"));
    };
    let response = &operation["responses"][answer.status.to_string()];
    assert!(response.is_object(), "not in the document: {request}");
    match response["content"].as_object() {
        None => assert!(answer.body.is_empty(), "{request}"),
        Some(content) => {
            let given = answer.header("content-type").unwrap_or_default();
            let of = content.get(given).or_else(|| content.get(given.split(';').next().unwrap()));
            let of = of.unwrap_or_else(|| panic!("of another type, {given}: {request}"));
            if let Some(schema) = of.get("schema") {
                valid(schema, &answer.json()).unwrap_or_else(|problem| panic!("{request}: {problem}"));
            }
        }
    }
    for (name, header) in response["headers"].as_object().into_iter().flatten() {
        let given = answer.header(&name.to_ascii_lowercase());
        assert!(given.is_some() || header["required"] == json!(false), "without {name}: {request}");
        if header["schema"]["type"] == "integer" {
            assert!(given.is_none_or(|given| given.parse::<u64>().is_ok()), "{name}: {given:?}: {request}");
        }
    }
    for name in ["location", "content-range", "retry-after", "www-authenticate", "allow", "trailer"] {
        let told = response["headers"].as_object().into_iter().flatten();
        let known = told.map(|(name, _)| name.to_ascii_lowercase()).any(|known| known == name);
        assert!(known || answer.header(name).is_none(), "{name} is not in the document: {request}");
    }
}

#[test]
fn every_operation_is_described_completely() {
    let mut names = BTreeSet::new();
    for (method, path, operation) in operations() {
        let of = format!("{method} {path}");
        assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{of}");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{of}");
        let parameters = operation["parameters"].as_array().unwrap();
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
            assert!(
                parameters.iter().any(|parameter| parameter["in"] == "path" && parameter["name"] == name),
                "{of} {name}"
            );
        }
        for parameter in parameters {
            assert!(parameter["schema"].is_object(), "{of} {parameter}");
            assert!(parameter["in"] == "path" || parameter["description"].is_string(), "{of} {parameter}");
        }
        let sdk = path == "/v1/mcp";
        if method == "POST" {
            assert!(operation["requestBody"].is_object(), "{of}");
            assert!(operation["responses"]["422"].is_object() || sdk, "{of}");
        }
        assert!(operation["description"].is_string(), "{of}: for whom it is");
        for status in ["400", "401", "405", "500", "503"] {
            let told = operation["responses"][status].is_object();
            assert!(told || (path == "/health" && status == "401"), "{of}: {status}");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let error = "#/components/schemas/ErrorBody";
            let schema = &response["content"]["application/json"]["schema"]["$ref"];
            assert!(schema == error || status.as_str() < "400" || sdk, "{of}: {status}");
            for (name, header) in response["headers"].as_object().into_iter().flatten() {
                assert!(
                    header["schema"].is_object() && header["description"].is_string(),
                    "{of}: {status} {name}"
                );
            }
        }
        assert_eq!(operation["responses"]["405"]["headers"]["Allow"]["required"], json!(true), "{of}");
        assert_eq!(operation.get("security").is_some(), path == "/health", "{of}: nothing else is public");
    }
    assert!(names.len() >= 30);
}

#[test]
fn every_reference_leads_to_a_schema_and_every_schema_is_one() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    found.push(reference.clone());
                }
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    references(&DOCUMENT, &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(DOCUMENT.pointer(pointer).is_some(), "{reference}");
    }
    for (name, schema) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}");
        jsonschema::draft202012::new(schema).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_gives_its_document_to_whoever_has_a_token() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let given = scene.get(&token, "/openapi.json").await;
    assert_eq!((given.status, given.json()), (200, DOCUMENT.clone()));
    scene.end().await;
}
