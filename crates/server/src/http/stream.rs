//! Following as server-sent events.
//!
//! Not for what is sent: see `follow`.

use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use procyard_api::http::{EventStreamQuery, StreamEnd};
use serde::Serialize;

use super::call::Call;
use super::events::Scope;
use super::follow::{Follow, Followed};
use super::metrics::Held;
use super::problem::Problem;
use super::tool;

/// How often a quiet stream shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

const LAST_EVENT_ID: &str = "last-event-id";

pub(crate) async fn all(call: Call) -> Result<Response, Problem> {
    let query: EventStreamQuery = call.query()?;
    let scope = Scope::everything(&call, query.session_id).await?;
    follow(&call, scope, &query, None).await
}

pub(crate) async fn of_process(call: Call) -> Result<Response, Problem> {
    let query: EventStreamQuery = call.query()?;
    let scope = Scope::of_process(&call, query.session_id).await?;
    follow(&call, scope, &query, Some(0)).await
}

async fn follow(
    call: &Call,
    scope: Scope,
    query: &EventStreamQuery,
    default: Option<u64>,
) -> Result<Response, Problem> {
    let seen = last_seen(call)?.map(|seen| (seen, "Last-Event-ID"));
    let after = seen.or(query.after_seq.or(default).map(|after| (after, "after_seq")));
    let service = &call.service;
    let place = service.stream_place()?;
    let follow = Follow::begin(scope, after, query.output.unwrap_or(true), service.stop.clone()).await?;
    if follow.has_nothing_more().await? {
        // The answer upon which an event source does not connect again (WHATWG HTML, server-sent events).
        return Ok(tool::nothing());
    }
    let held = (service.metrics.stream(), place);
    let events = stream::unfold((follow, held), |(mut follow, held): (Follow, (Held, _))| async move {
        let event = event(follow.next().await?);
        Some((event, (follow, held)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

fn last_seen(call: &Call) -> Result<Option<u64>, Problem> {
    let Some(value) = call.parts.headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let wrong = || Problem::argument("Last-Event-ID", "is not the `id` of an event");
    value.to_str().ok().and_then(|text| text.trim().parse().ok()).map(Some).ok_or_else(wrong)
}

/// Only records have an `id`: going on behind the last one repeats and skips nothing.
fn event(followed: Followed) -> Result<Event, axum::Error> {
    match followed {
        Followed::Record(record) => {
            let kind = serde_json::to_value(record.kind).map_err(axum::Error::new)?;
            let name = kind.as_str().unwrap_or("record").to_owned();
            named(&name, &record).map(|event| event.id(record.seq.to_string()))
        }
        Followed::Sample(sample) => named("output", &sample),
        Followed::Lagged(lag) => named("lagged", &lag),
        Followed::End(reason) => named("end", &StreamEnd { reason }),
    }
}

fn named(name: &str, data: &impl Serialize) -> Result<Event, axum::Error> {
    Event::default().event(name).json_data(data)
}
