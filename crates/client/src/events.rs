//! What happens to processes: pages of the journal, and the live stream.
//!
//! Not for the inbox of a loop: that is asked of the service.

use std::collections::VecDeque;

use hyper::header::ACCEPT;
use procyard_api::http::{
    EventPage, EventQuery, EventRecord, EventStreamQuery, LagNotice, OutputSample, StreamEnd,
};
use procyard_core::Handle;
use serde::de::DeserializeOwned;

use crate::client::Ask;
use crate::path::{of_process, with_query};
use crate::sse::{Event, Parser};
use crate::{Client, ClientError, Logs};

impl Client {
    /// A page of the journal: of one process, or of all that this token may see.
    pub async fn events(
        &self,
        process: Option<&Handle>,
        query: &EventQuery,
    ) -> Result<EventPage, ClientError> {
        self.look(&route(process, ""), query).await
    }

    /// What happens from now on, or from a record on: of one process until its end, or of all that this token may see.
    pub async fn event_stream(
        &self,
        process: Option<&Handle>,
        query: &EventStreamQuery,
    ) -> Result<Events, ClientError> {
        let ask = Ask::get(with_query(&route(process, "/stream"), query)?);
        let answer = self.succeed(ask.header(ACCEPT.as_str(), "text/event-stream")).await?;
        Ok(Events { bytes: Logs::of(answer), parser: Parser::default(), ready: VecDeque::new() })
    }
}

fn route(process: Option<&Handle>, below: &str) -> String {
    match process {
        Some(handle) => of_process(handle, &format!("/events{below}")),
        None => format!("/v1/events{below}"),
    }
}

/// What a stream of events carries.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// A record of the journal, each once and in order.
    Record(Box<EventRecord>),
    /// A sample of the newest output.
    Output(OutputSample),
    /// Records were skipped.
    Lagged(LagNotice),
    /// The stream ends, and not because the process has.
    End(StreamEnd),
}

/// A live stream of events. Dropping it ends the request.
#[derive(Debug)]
pub struct Events {
    bytes: Logs,
    parser: Parser,
    ready: VecDeque<StreamEvent>,
}

impl Events {
    /// The next event; `None` when the stream has ended. Cancellation safe. To go on after an error, ask for a stream
    /// after the last record's `seq`.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            while let Some(event) = self.parser.next()? {
                self.ready.extend(understood(&event)?);
            }
            if self.ready.is_empty() {
                match self.bytes.next().await? {
                    Some(bytes) => self.parser.push(&bytes),
                    None => return Ok(None),
                }
            }
        }
    }
}

/// An event, unless a later service has named one that this client does not know.
fn understood(event: &Event) -> Result<Option<StreamEvent>, ClientError> {
    fn parsed<T: DeserializeOwned>(event: &Event) -> Result<T, ClientError> {
        serde_json::from_str(&event.data).map_err(ClientError::not_understood)
    }
    Ok(Some(match event.name.as_str() {
        "output" => StreamEvent::Output(parsed(event)?),
        "lagged" => StreamEvent::Lagged(parsed(event)?),
        "end" => StreamEvent::End(parsed(event)?),
        _ if event.id.is_some() => StreamEvent::Record(Box::new(parsed(event)?)),
        _ => return Ok(None),
    }))
}
