//! `procyard events`: what the journal says of processes.
//!
//! Not for output: samples of it are left out.

use std::fmt::Write as _;
use std::process::ExitCode;

use procyard_api::http::{EventQuery, EventRecord, EventStreamQuery};
use procyard_client::{Client, ClientError, StreamEvent};
use procyard_core::{ErrorCode, PublicError, SessionId};

use super::ended::why_it_ends;
use super::{give_json, token};
use crate::cli::EventsOptions;
use crate::exit;
use crate::problem::refused;
use crate::say::give;

/// The longest page of the service.
const PAGE_MAX: u64 = 1000;

pub(crate) async fn events(options: EventsOptions) -> ExitCode {
    let result = tell(&options).await;
    options.remote.told(result)
}

async fn tell(options: &EventsOptions) -> anyhow::Result<u8> {
    let client = options.remote.client()?;
    let session = session(&client, options).await?;
    if options.follow {
        follow(&client, options, session).await
    } else {
        pages(&client, options, session).await
    }
}

/// Whose journal is meant. A loop's token says it by itself, a process, too.
async fn session(client: &Client, options: &EventsOptions) -> anyhow::Result<Option<SessionId>> {
    if options.handle.is_some() || options.session.is_some() || token()?.is_some() {
        return Ok(options.session);
    }
    let sessions: Vec<_> =
        client.sessions().await?.sessions.into_iter().map(|session| session.session_id).collect();
    match sessions.as_slice() {
        [one] => Ok(Some(*one)),
        [] => Err(refused(ErrorCode::NotFound, "no session is open")),
        several => {
            let named: Vec<_> = several.iter().map(ToString::to_string).collect();
            let message = format!("several sessions are open; name one with --session: {}", named.join(", "));
            Err(PublicError::argument("--session", message).into())
        }
    }
}

async fn pages(client: &Client, options: &EventsOptions, session: Option<SessionId>) -> anyhow::Result<u8> {
    let mut after = options.after;
    loop {
        let query = EventQuery { after_seq: Some(after), limit: Some(PAGE_MAX), session_id: session };
        let page = client.events(options.handle.as_ref(), &query).await?;
        if page.gap {
            options.remote.voice().note("some older events are no longer kept");
        }
        for event in &page.events {
            if !show(event, options)? {
                return Ok(exit::BROKEN_PIPE);
            }
        }
        if !page.more || page.next_seq <= after {
            return Ok(0);
        }
        after = page.next_seq;
    }
}

async fn follow(client: &Client, options: &EventsOptions, session: Option<SessionId>) -> anyhow::Result<u8> {
    let query = EventStreamQuery { after_seq: Some(options.after), output: Some(false), session_id: session };
    let mut stream = client.event_stream(options.handle.as_ref(), &query).await?;
    let mut last = options.after;
    loop {
        match stream.next().await {
            Ok(Some(StreamEvent::Record(event))) => {
                last = event.seq;
                if !show(&event, options)? {
                    return Ok(exit::BROKEN_PIPE);
                }
                if options.handle.is_some() && event.kind.is_end() {
                    return Ok(0);
                }
            }
            Ok(Some(StreamEvent::Lagged(lag))) => {
                let until = lag.until_seq.saturating_sub(1);
                let line = format!("events {} to {until} are no longer kept", lag.from_seq);
                options.remote.voice().note(line);
            }
            Ok(Some(StreamEvent::End(end))) => {
                {
                    return Err(cut_off(client, last, Some(ClientError::CutOff(end.reason.into()))).await);
                };
            }
            Ok(Some(_)) => {}
            // The stream of a process that had ended before has nothing more.
            Ok(None) if options.handle.is_some() => return Ok(0),
            Ok(None) => return Err(cut_off(client, last, None).await),
            Err(error) => return Err(cut_off(client, last, Some(error)).await),
        }
    }
}

/// Why the stream ends although what it tells of goes on, and how to go on.
async fn cut_off(client: &Client, last: u64, error: Option<ClientError>) -> anyhow::Error {
    let why = why_it_ends(client, error).await;
    why.context(format!("the events end here, and `--after {last}` goes on behind them"))
}

fn show(event: &EventRecord, options: &EventsOptions) -> anyhow::Result<bool> {
    if options.remote.json {
        return give_json(event);
    }
    let at = serde_json::to_value(event.at)?;
    let kind = serde_json::to_value(event.kind)?;
    let mut text = format!(
        "{} {} {} {} {}",
        event.seq,
        at.as_str().unwrap_or_default(),
        event.process_id.reveal(),
        kind.as_str().unwrap_or_default(),
        event.state.as_str()
    );
    // Writing to a text does not fail.
    if let Some(code) = event.exit_code {
        let _ = write!(text, " {code}");
    }
    if let Some(signal) = event.signal {
        let _ = write!(text, " ({signal})");
    }
    if let Some(reason) = event.reason.filter(|reason| reason.as_str() != event.state.as_str()) {
        let _ = write!(text, " ({reason})");
    }
    give(format_args!("{text}\n"))
}
