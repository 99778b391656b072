//! One route: who may call it, what it takes, what it answers, and what carries it out. The router and the `OpenAPI`
//! document are made of the same routes, so that neither has one that the other lacks.
//!
//! Not for the routes themselves.

use std::pin::Pin;

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
}

impl Named {
    fn taken<T: JsonSchema>() -> Self {
        Self { name: T::schema_name().into_owned(), schema: input_schema::<T>() }
    }

    pub(crate) fn sent<T: JsonSchema>() -> Self {
        Self { name: T::schema_name().into_owned(), schema: result_schema::<T>() }
    }

    /// The arguments of a tool without what the path says already.
    fn of_tool<T: JsonSchema>(name: &str, without: &[&str]) -> Self {
        let mut schema = input_schema::<T>();
        if let Some(properties) = schema["properties"].as_object_mut() {
            for field in without {
                properties.remove(*field);
            }
        }
        if let Some(required) = schema["required"].as_array_mut() {
            required.retain(|field| !without.iter().any(|without| field == without));
        }
        Self { name: name.to_owned(), schema }
    }
}

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
        Self { body: Some(Named::taken::<T>()), ..self }
    }

    pub(crate) fn body_of_tool<T: JsonSchema>(self, name: &str, without: &[&str]) -> Self {
        Self { body: Some(Named::of_tool::<T>(name, without)), ..self }
    }

    fn answer(mut self, status: u16, description: &'static str, content: Content) -> Self {
        self.answers.push(Answer { status, description, content });
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

    /// The schema of the query; of a route without one, that of nothing.
    pub(crate) fn query_schema(&self) -> Value {
        self.query.as_ref().map_or_else(|| json!({ "properties": {} }), |query| query.schema.clone())
    }

    pub(crate) fn body_schema(&self) -> Value {
        self.body.as_ref().map_or_else(|| json!({ "properties": {} }), |body| body.schema.clone())
    }

    /// Every status of an error that this route answers.
    pub(crate) fn error_statuses(&self) -> Vec<u16> {
        let mut statuses = vec![400, 500, 503];
        if self.access != Access::Public {
            statuses.push(401);
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
