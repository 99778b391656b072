//! One route: who may call it, what it takes, what it answers, and what carries it out. The router and the `OpenAPI`
//! document are made of the same routes, so that neither has one that the other lacks.
//!
//! Not for the routes themselves.

use std::pin::Pin;
use std::sync::LazyLock;

use axum::http::Method;
use axum::response::Response;
use procyard_api::{input_schema, result_schema};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::call::Call;
use super::caller::Access;
use super::problem::Problem;

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// A schema under the name that the document gives it.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) schema: Value,
    /// The arguments of the tool that this is taken from, with what the path says.
    tool: Option<Value>,
}

impl Named {
    fn taken<T: JsonSchema>() -> Self {
        Self { name: T::schema_name().into_owned(), schema: exact(input_schema::<T>()), tool: None }
    }

    pub(crate) fn sent<T: JsonSchema>() -> Self {
        Self { name: T::schema_name().into_owned(), schema: result_schema::<T>(), tool: None }
    }

    /// The arguments of a tool without what the path says already.
    fn of_tool<T: JsonSchema>(name: &str, without: &[&str]) -> Self {
        let tool = input_schema::<T>();
        let mut schema = tool.clone();
        if let Some(properties) = schema["properties"].as_object_mut() {
            for field in without {
                properties.remove(*field);
            }
        }
        if let Some(object) = schema.as_object_mut()
            && let Some(Value::Array(required)) = object.get_mut("required")
        {
            required.retain(|field| !without.iter().any(|without| field == without));
            if required.is_empty() {
                object.remove("required");
            }
        }
        Self { name: name.to_owned(), schema: exact(schema), tool: Some(tool) }
    }

    /// The same with `null` for whatever may be left out, which is taken for that.
    fn nullable(mut self) -> Self {
        let required = self.schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let properties =
            self.schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
        for (_, property) in properties.filter(|(name, _)| !required.iter().any(|required| required == *name))
        {
            let Some(property) = property.as_object_mut() else { continue };
            if let Some(Value::String(kind)) = property.get("type").cloned() {
                property.insert("type".to_owned(), json!([kind, "null"]));
            }
            if let Some(Value::Array(values)) = property.get_mut("enum") {
                values.push(Value::Null);
            }
        }
        self
    }

    /// The schema of the tool's own arguments.
    pub(crate) fn tool(&self) -> &Value {
        self.tool.as_ref().unwrap_or(&self.schema)
    }
}

/// The greatest whole number that every reader of JSON takes for what it is (RFC 8259, section 6).
const EXACT_MAX: u64 = (1 << 53) - 1;

/// The schema of arguments whose whole numbers all have a greatest one.
fn exact(mut schema: Value) -> Value {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, property) in properties.filter(|(_, property)| property["type"] == "integer") {
        if let Some(property) = property.as_object_mut() {
            property.entry("maximum").or_insert_with(|| json!(EXACT_MAX));
        }
    }
    schema
}

/// What a route without a query or a body takes.
static NOTHING: LazyLock<Named> =
    LazyLock::new(|| Named { name: String::new(), schema: json!({ "properties": {} }), tool: None });

/// What a response holds.
pub(crate) enum Content {
    Nothing,
    Json(Named),
    /// Something else, of this media type.
    Bytes(&'static str),
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) description: &'static str,
    pub(crate) content: Content,
    pub(crate) headers: Vec<Header>,
}

/// A header that a response has, always or sometimes.
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) schema: Value,
    pub(crate) always: bool,
}

impl Header {
    pub(crate) fn text(name: &'static str, description: &'static str) -> Self {
        Self { name, description, schema: json!({ "type": "string" }), always: true }
    }

    pub(crate) fn number(name: &'static str, description: &'static str) -> Self {
        Self { schema: json!({ "type": "integer", "minimum": 0 }), ..Self::text(name, description) }
    }

    pub(crate) fn sometimes(self) -> Self {
        Self { always: false, ..self }
    }
}

pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// The name of the operation.
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) access: Access,
    pub(crate) query: Option<Named>,
    /// Request headers that mean something: name and description.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Option<Named>,
    pub(crate) answers: Vec<Answer>,
    /// Statuses of errors beyond those that every route has.
    pub(crate) errors: Vec<u16>,
    pub(crate) handler: fn(Call) -> Answering,
}

impl Route {
    pub(crate) fn new(
        method: Method,
        path: &'static str,
        name: &'static str,
        access: Access,
        summary: &'static str,
        handler: fn(Call) -> Answering,
    ) -> Self {
        Self {
            method,
            path,
            name,
            summary,
            access,
            query: None,
            headers: Vec::new(),
            body: None,
            answers: Vec::new(),
            errors: Vec::new(),
            handler,
        }
    }

    pub(crate) fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(Named::taken::<T>()), ..self }
    }

    pub(crate) fn query_of_tool<T: JsonSchema>(self, name: &str, without: &[&str]) -> Self {
        Self { query: Some(Named::of_tool::<T>(name, without)), ..self }
    }

    pub(crate) fn header(mut self, name: &'static str, description: &'static str) -> Self {
        self.headers.push((name, description));
        self
    }

    pub(crate) fn body<T: JsonSchema>(self) -> Self {
        Self { body: Some(Named::taken::<T>().nullable()), ..self }
    }

    pub(crate) fn body_of_tool<T: JsonSchema>(self, name: &str, without: &[&str]) -> Self {
        Self { body: Some(Named::of_tool::<T>(name, without).nullable()), ..self }
    }

    fn answer(mut self, status: u16, description: &'static str, content: Content) -> Self {
        self.answers.push(Answer { status, description, content, headers: Vec::new() });
        self
    }

    /// A header of the answer that was named last.
    pub(crate) fn with(mut self, header: Header) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.headers.push(header);
        }
        self
    }

    pub(crate) fn json<T: JsonSchema>(self, status: u16, description: &'static str) -> Self {
        self.answer(status, description, Content::Json(Named::sent::<T>()))
    }

    pub(crate) fn bytes(self, status: u16, media_type: &'static str, description: &'static str) -> Self {
        self.answer(status, description, Content::Bytes(media_type))
    }

    pub(crate) fn nothing(self, status: u16, description: &'static str) -> Self {
        self.answer(status, description, Content::Nothing)
    }

    pub(crate) fn errors(self, statuses: &[u16]) -> Self {
        Self { errors: statuses.to_vec(), ..self }
    }

    /// What the query holds; of a route without one, nothing.
    pub(crate) fn takes_query(&self) -> &Named {
        self.query.as_ref().unwrap_or(&NOTHING)
    }

    /// What the body holds; of a route without one, nothing.
    pub(crate) fn takes_body(&self) -> &Named {
        self.body.as_ref().unwrap_or(&NOTHING)
    }

    /// Every status of an error that this route answers.
    pub(crate) fn error_statuses(&self) -> Vec<u16> {
        let mut statuses = vec![400, 405, 500, 503];
        if self.access != Access::Public {
            // A token's session may have to be opened first, and there may be no place for it.
            statuses.extend([401, 429]);
        }
        if self.body.is_some() {
            statuses.extend([413, 422]);
        }
        statuses.extend(&self.errors);
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }
}
