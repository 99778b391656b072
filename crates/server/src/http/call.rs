//! One request, authenticated, as the handler of its route sees it.
//!
//! Not for answering.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::request::Parts;
use procyard_core::{ErrorCode, Handle, LoopId, NotificationId, PublicError, SessionId};
use procyard_tools::parse_arguments;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::caller::Caller;
use super::json;
use super::problem::Problem;
use super::query;
use super::route::{Named, Route};
use super::service::{OpenSession, Reached, Service};

pub(crate) struct Call {
    pub(crate) service: Arc<Service>,
    pub(crate) caller: Caller,
    pub(crate) route: &'static Route,
    pub(crate) parts: Parts,
    /// What stands in the path at the names of the route.
    pub(crate) path: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Call {
    /// The query as an object; anything in it where the route has none is refused.
    fn query_object(&self) -> Result<Value, Problem> {
        let text = self.parts.uri.query().unwrap_or_default();
        Ok(query::object(text, &self.route.takes_query().schema)?)
    }

    /// The query. What is wrong with it is a 400.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        Ok(parse_arguments(self.query_object()?, &self.route.takes_query().schema)?)
    }

    /// Refuses a query where the route has none.
    pub(crate) fn no_query(&self) -> Result<(), Problem> {
        match self.query_object()? {
            Value::Object(object) if object.is_empty() => Ok(()),
            Value::Object(object) => {
                let name = object.keys().next().cloned().unwrap_or_default();
                Err(Problem::argument(&shown(&name), "this route takes no query"))
            }
            _ => Ok(()),
        }
    }

    /// The query as the arguments `T` of a tool about one process.
    pub(crate) fn query_of_tool<T>(&self, handle: Handle) -> Result<Value, Problem>
    where
        T: DeserializeOwned,
    {
        Ok(tool_arguments::<T>(self.query_object()?, self.route.takes_query(), handle)?)
    }

    /// The body as JSON; none is an empty object. What is no JSON, or has a name twice, is a 400.
    pub(crate) fn json(&self) -> Result<Value, Problem> {
        if self.body.is_empty() {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        let value = json::parse(&self.body).map_err(|refused| match refused {
            json::Refused::Malformed(error) => {
                Problem::new(ErrorCode::InvalidArguments, format!("the body is not JSON: {error}"))
            }
            json::Refused::Twice(way) => Problem::argument(&shown(&way), "is given twice"),
        })?;
        match value {
            // A tool takes it for no arguments; the body of a request that has none is empty.
            Value::Null => Err(Problem::schema(PublicError::new(
                ErrorCode::InvalidArguments,
                "the body must be an object",
            ))),
            value => Ok(value),
        }
    }

    /// The body. What does not fit its schema is a 422.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        parse_arguments(self.json()?, &self.route.takes_body().schema).map_err(Problem::schema)
    }

    /// The body as the arguments `T` of a tool about one process.
    pub(crate) fn body_of_tool<T>(&self, handle: Handle) -> Result<Value, Problem>
    where
        T: DeserializeOwned,
    {
        tool_arguments::<T>(self.json()?, self.route.takes_body(), handle).map_err(Problem::schema)
    }

    fn path(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn handle(&self) -> Result<Handle, Problem> {
        let malformed =
            |error: procyard_core::ParseHandleError| Problem::argument("process_id", error.to_string());
        self.path("process_id").parse().map_err(malformed)
    }

    pub(crate) fn session_id(&self) -> Result<SessionId, Problem> {
        self.path("session_id").parse().map_err(|error| malformed("session_id", error))
    }

    pub(crate) fn loop_id(&self) -> Result<LoopId, Problem> {
        self.path("loop_id").parse().map_err(|error| malformed("loop_id", error))
    }

    pub(crate) fn notification_id(&self) -> Result<NotificationId, Problem> {
        self.path("notification_id").parse().map_err(|error| malformed("notification_id", error))
    }

    /// The process of the path.
    pub(crate) async fn process(&self) -> Result<Reached, Problem> {
        self.service.reach(self.caller, self.handle()?).await
    }

    /// The session of the loop that calls.
    pub(crate) async fn own_session(&self) -> Result<Arc<OpenSession>, Problem> {
        self.service.session_of(self.caller).await
    }
}

/// A name that a client has made up, as an error shows it.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}

fn malformed(field: &str, error: procyard_core::IdError) -> Problem {
    Problem::argument(field, error.to_string())
}

/// Arguments whose `process_id` comes from the path: complete and checked as `T`.
fn tool_arguments<T>(given: Value, takes: &Named, handle: Handle) -> Result<Value, PublicError>
where
    T: DeserializeOwned,
{
    let mut arguments: Value = parse_arguments(given, &takes.schema)?;
    arguments["process_id"] = serde_json::json!(handle);
    let _: T = parse_arguments(arguments.clone(), takes.tool())?;
    Ok(arguments)
}
