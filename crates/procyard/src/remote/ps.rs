//! `procyard ps`: the processes of a service, as a table that fits the terminal.
//!
//! Not for their output.

use std::process::ExitCode;

use procyard_api::Time;
use procyard_api::http::{ProcessDetails, ProcessOutcome, ProcessPage, ProcessQuery};
use procyard_client::Client;
use procyard_core::{State, Timestamp};

use super::give_json;
use crate::cli::PsOptions;
use crate::say::{give, say};
use crate::summary::{bytes, millis_in_words};
use crate::table::{Cell, Colour, Column, Table};

/// The longest page of the service.
const PAGE_MAX: u64 = 100;

/// The columns, and where a terminal is narrow, which of them go first. The handle is all that reaches a process, so it stays.
const HEAD: &[Column] = &[
    Column::kept("PROCESS"),
    Column::kept("STATE"),
    Column::dropped("STARTED", 3),
    Column::dropped("RAN", 2),
    Column::dropped("OUTPUT", 1),
    Column::rest("COMMAND"),
];

pub(crate) async fn ps(options: PsOptions) -> ExitCode {
    let result = list(&options).await;
    options.remote.told(result.map(|()| 0))
}

async fn list(options: &PsOptions) -> anyhow::Result<()> {
    let client = options.remote.client()?;
    let (processes, more) = pages(&client, options).await?;
    if options.remote.json {
        return give_json(&ProcessPage { processes, next_page: more }).map(drop);
    }
    let now = Timestamp::from_system_time(std::time::SystemTime::now());
    let mut table = Table::new(HEAD);
    for process in &processes {
        table.row(row(process, now));
    }
    give(table.render())?;
    if more.is_some() {
        say("there are more; show them with --limit");
    }
    Ok(())
}

/// Processes up to the limit, and the page behind them.
async fn pages(
    client: &Client,
    options: &PsOptions,
) -> anyhow::Result<(Vec<ProcessDetails>, Option<String>)> {
    let mut processes = Vec::new();
    let mut page = None;
    loop {
        let left = options.limit.saturating_sub(processes.len() as u64);
        let query = ProcessQuery {
            state: options.state,
            limit: Some(left.clamp(1, PAGE_MAX)),
            page,
            session_id: options.session,
        };
        let found = client.processes(&query).await?;
        // A page without anything would never come to an end.
        let ended = found.processes.is_empty();
        processes.extend(found.processes);
        page = found.next_page;
        if page.is_none() || ended || processes.len() as u64 >= options.limit {
            return Ok((processes, page));
        }
    }
}

fn row(process: &ProcessDetails, now: Timestamp) -> Vec<Cell> {
    let entry = &process.entry;
    let begun = entry.started_at.unwrap_or(process.created_at);
    let ended = entry.finished_at.map_or(now, timestamp);
    let colour = match process.outcome {
        ProcessOutcome::Running => Colour::Green,
        ProcessOutcome::Completed => Colour::Plain,
        ProcessOutcome::Failed | ProcessOutcome::TimedOut | ProcessOutcome::Killed => Colour::Red,
    };
    let label = entry.description.as_deref().filter(|label| !label.is_empty());
    vec![
        Cell::plain(entry.process_id.reveal()),
        Cell::coloured(state_in_words(process), colour),
        Cell::plain(format!("{} ago", millis_in_words(now.millis_since(timestamp(begun))))),
        Cell::plain(millis_in_words(ended.millis_since(timestamp(begun)))),
        Cell::plain(bytes(entry.total_bytes)),
        Cell::plain(label.unwrap_or(&entry.command)),
    ]
}

fn timestamp(time: Time) -> Timestamp {
    time.into()
}

/// The state, with the code or the signal of an end.
pub(super) fn state_in_words(process: &ProcessDetails) -> String {
    let state = process.state.as_str().replace('_', " ");
    match (process.state, process.entry.exit_code, process.signal) {
        (State::Exited, Some(code), _) => format!("{state} {code}"),
        (State::Failed, _, Some(signal)) => format!("{state} ({signal})"),
        _ => state,
    }
}
