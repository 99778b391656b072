//! `procyard events`: what the journal says of processes.
//!
//! Not for output: samples of it are left out.

use std::fmt::Write as _;
use std::process::ExitCode;

use procyard_api::http::{EventQuery, EventRecord, EventStreamQuery};
use procyard_client::{Client, StreamEvent};
use procyard_core::SessionId;

use super::{TOKEN, print_json};
use crate::cli::EventsOptions;
use crate::say::{print, say};

/// The longest page of the service.
const PAGE_MAX: u64 = 1000;

pub(crate) async fn events(options: EventsOptions) -> ExitCode {
    let result = tell(&options).await;
    options.remote.told(result.map(|()| 0))
}

async fn tell(options: &EventsOptions) -> anyhow::Result<()> {
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
    if options.handle.is_some()
        || options.session.is_some()
        || std::env::var_os(TOKEN).is_some_and(|token| !token.is_empty())
    {
        return Ok(options.session);
    }
    let sessions: Vec<_> =
        client.sessions().await?.sessions.into_iter().map(|session| session.session_id).collect();
    match sessions.as_slice() {
        [one] => Ok(Some(*one)),
        [] => anyhow::bail!("no session is open"),
        several => {
            let named: Vec<_> = several.iter().map(ToString::to_string).collect();
            anyhow::bail!("several sessions are open; name one with --session: {}", named.join(", "))
        }
    }
}

async fn pages(client: &Client, options: &EventsOptions, session: Option<SessionId>) -> anyhow::Result<()> {
    let mut after = options.after;
    loop {
        let query = EventQuery { after_seq: Some(after), limit: Some(PAGE_MAX), session_id: session };
        let page = client.events(options.handle.as_ref(), &query).await?;
        if page.gap {
            say("some older events are no longer kept");
        }
        for event in &page.events {
            show(event, options)?;
        }
        if !page.more || page.next_seq <= after {
            return Ok(());
        }
        after = page.next_seq;
    }
}

async fn follow(client: &Client, options: &EventsOptions, session: Option<SessionId>) -> anyhow::Result<()> {
    let query = EventStreamQuery { after_seq: Some(options.after), output: Some(false), session_id: session };
    let mut stream = client.event_stream(options.handle.as_ref(), &query).await?;
    while let Some(event) = stream.next().await? {
        match event {
            StreamEvent::Record(event) => show(&event, options)?,
            StreamEvent::Lagged(lag) => {
                say(format_args!("events {} to {} are no longer kept", lag.from_seq, lag.until_seq - 1));
            }
            StreamEvent::End(end) => {
                let reason = serde_json::to_value(end.reason)?;
                anyhow::bail!(
                    "the service ended the stream ({})",
                    reason.as_str().unwrap_or_default().replace('_', " ")
                );
            }
            _ => {}
        }
    }
    Ok(())
}

fn show(event: &EventRecord, options: &EventsOptions) -> anyhow::Result<()> {
    if options.remote.json {
        return print_json(event);
    }
    let at = serde_json::to_value(event.finished_at.or(event.started_at).unwrap_or(event.created_at))?;
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
    print(std::io::stdout(), format_args!("{text}\n"));
    Ok(())
}
