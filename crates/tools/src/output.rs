//! `ProcessOutput`: waits where it is asked to, then reads a page of each process.
//!
//! Not for checking arguments: see `question`.

use std::any::Any;
use std::time::Duration;

use procyard_api::{
    Artifact, Encoding, Matched, OutputArguments, OutputEntry, OutputReply, OutputResult, OutputResults,
    Screen, StdinState, UntilChoice,
};
use procyard_core::{Handle, PublicError, cut};
use procyard_supervisor::{
    Probe, Snapshot, StdinStatus, StreamFilter, SupervisorError, Target, Telling, Until, WaitMode,
};
use tokio::time::Instant;

use crate::bash::{diagnostic, unread_input};
use crate::matcher::{Found, MatchProbe};
use crate::page::{Look, Shown, forward, tail};
use crate::question::{Awaited, Begin, Question};
use crate::render;
use crate::reply::Answer;
use crate::source::Supervised;
use crate::toolbox::Toolbox;
use crate::watch::{ByteProbe, TextProbe};

/// Carries a call out. Cancellation safe: it changes nothing.
pub(crate) async fn output(
    toolbox: &Toolbox,
    arguments: OutputArguments,
    telling: &mut Telling,
) -> Result<Answer, PublicError> {
    let question = Question::new(arguments, toolbox.supervisor().limits())?;
    let mut readings: Vec<Reading> = question
        .targets
        .iter()
        .map(|(handle, begin)| Reading { handle: *handle, begin: *begin, found: None, refused: None })
        .collect();
    // Before the wait: an end that comes during it is this call's to tell.
    for (handle, _) in &question.targets {
        telling.outcome(*handle);
    }
    if let Some(awaited) = &question.awaited {
        wait(toolbox, &question, awaited, &mut readings).await?;
    }
    let mut entries = Vec::with_capacity(readings.len());
    for reading in readings {
        let handle = reading.handle;
        let read = read(toolbox, &question, reading).await;
        entries.push(read.map_err(|error| (handle, question.named(error))));
    }
    let told: Vec<Handle> = entries
        .iter()
        .flatten()
        .filter(|result| result.status.is_terminal())
        .map(|result| result.process_id)
        .collect();
    let encoding = question.look.encoding;
    if question.several {
        let results: Vec<OutputEntry> = entries
            .into_iter()
            .map(|entry| match entry {
                Ok(result) => OutputEntry::Read(Box::new(result)),
                Err((process_id, error)) => OutputEntry::Failed { process_id, error },
            })
            .collect();
        let text = render::several(&results, encoding);
        let reply = OutputReply::Several(OutputResults { results, notifications: Vec::new() });
        return Ok(Answer::new(&reply, text)?.telling(told));
    }
    match entries.into_iter().next() {
        Some(Ok(result)) => {
            let text = render::process_output(&result, encoding);
            Ok(Answer::new(&OutputReply::One(Box::new(result)), text)?.telling(told))
        }
        Some(Err((_, error))) => Err(error),
        None => Err(PublicError::argument("process_ids", "must not be empty")),
    }
}

/// One process that is to be read.
struct Reading {
    handle: Handle,
    begin: Begin,
    found: Option<Found>,
    refused: Option<PublicError>,
}

/// Waits for what the question asks. What the wait finds is left in `readings`.
async fn wait(
    toolbox: &Toolbox,
    question: &Question,
    awaited: &Awaited,
    readings: &mut [Reading],
) -> Result<(), PublicError> {
    let (supervisor, owner) = (toolbox.supervisor(), toolbox.owner());
    let end = Instant::now() + awaited.timeout;
    let mut targets = Vec::new();
    for reading in readings.iter_mut() {
        match target(toolbox, question, awaited, reading) {
            Ok(target) => targets.push(target),
            Err(error) => reading.refused = Some(error),
        }
    }
    // What cannot be read is as good as ended.
    let refused = targets.len() < readings.len();
    if targets.is_empty() || (refused && awaited.mode == WaitMode::Any) {
        return Ok(());
    }
    let until = if awaited.until == UntilChoice::Exit { Until::Exit } else { Until::Probe };
    let mut place = supervisor.reserve_wait().map_err(|error| error.public())?;
    let waited = place
        .wait(owner, awaited.mode, until, targets, awaited.timeout)
        .await
        .map_err(|error| error.public())?;
    for target in waited {
        let running = target.snapshot.as_ref().is_some_and(|snapshot| !snapshot.state.is_terminal());
        if target.satisfied && running && until == Until::Probe && !awaited.quiet.is_zero() {
            let within = end.saturating_duration_since(Instant::now());
            // A process that went away meanwhile is told so by its read.
            let _ = place.quiet(owner, &target.handle, awaited.quiet, within).await;
        }
        if let Some(found) = target.probe.and_then(found)
            && let Some(reading) = readings.iter_mut().find(|reading| reading.handle == target.handle)
        {
            reading.found = Some(found);
        }
    }
    Ok(())
}

/// What is waited for of one process: output from where its page will begin, or from its end for a tail.
fn target(
    toolbox: &Toolbox,
    question: &Question,
    awaited: &Awaited,
    reading: &Reading,
) -> Result<Target, PublicError> {
    let snapshot =
        toolbox.supervisor().snapshot(toolbox.owner(), &reading.handle).map_err(|error| error.public())?;
    let cursor = match reading.begin {
        Begin::Cursor(cursor) if cursor > snapshot.total_bytes => {
            return Err(SupervisorError::CursorAhead { total_bytes: snapshot.total_bytes }.public());
        }
        Begin::Cursor(cursor) => cursor,
        Begin::Tail(_) => snapshot.total_bytes,
    };
    let probe = match (&awaited.pattern, awaited.until) {
        (Some(pattern), UntilChoice::Match) => {
            let probe = MatchProbe::new(std::sync::Arc::clone(pattern), question.streams);
            Some(Box::new(probe) as Box<dyn Probe>)
        }
        (_, UntilChoice::Exit) => None,
        // What moves the cursor or clears a part changes the screen, too.
        _ if question.screen => None,
        _ => output_probe(question.streams, &question.look),
    };
    Ok(Target { handle: reading.handle, cursor, probe })
}

/// What makes a read show something; `None` where any byte does.
pub(crate) fn output_probe(streams: StreamFilter, look: &Look) -> Option<Box<dyn Probe>> {
    match (look.encoding, streams) {
        (Encoding::SafeText, _) => Some(Box::new(TextProbe::new(streams, look.collapse))),
        (Encoding::Base64, StreamFilter::Both) => None,
        (Encoding::Base64, StreamFilter::Only(_)) => Some(Box::new(ByteProbe(streams))),
    }
}

fn found(probe: Box<dyn Probe>) -> Option<Found> {
    let probe: Box<dyn Any> = probe;
    probe.downcast::<MatchProbe>().ok()?.found()
}

async fn read(toolbox: &Toolbox, question: &Question, reading: Reading) -> Result<OutputResult, PublicError> {
    if let Some(refused) = reading.refused {
        return Err(refused);
    }
    let source = Supervised {
        supervisor: toolbox.supervisor(),
        owner: toolbox.owner(),
        handle: reading.handle,
        streams: question.streams,
    };
    let (screen, shown) = match reading.begin {
        _ if question.screen => look_at(toolbox, &source, question.look.limit).await?,
        Begin::Cursor(cursor) => (None, forward(&source, cursor, &question.look).await?),
        Begin::Tail(of) => (None, tail(&source, of, &question.look).await?),
    };
    let matched = reading.found.map(|found| {
        let text = cut(&found.text, question.look.limit);
        Matched { cursor: found.cursor, text: text.to_owned(), truncated: text.len() < found.text.len() }
    });
    Ok(OutputResult { matched, screen, ..result(shown) })
}

/// The screen of a process, and the rest of its result.
pub(crate) async fn look_at(
    toolbox: &Toolbox,
    source: &Supervised<'_>,
    limit: usize,
) -> Result<(Option<Screen>, Shown), PublicError> {
    let snapshot = source.supervisor.snapshot(source.owner, &source.handle);
    let snapshot = snapshot.map_err(|error| error.public())?;
    let (screen, shown) = toolbox.screens().look(source, snapshot, limit).await?;
    Ok((Some(screen), shown))
}

/// A page as a result.
pub(crate) fn result(shown: Shown) -> OutputResult {
    let snapshot = shown.snapshot;
    let handle = snapshot.identity.handle;
    let outcome = snapshot.outcome.as_ref().filter(|_| snapshot.state.is_terminal());
    OutputResult {
        process_id: handle,
        status: snapshot.state,
        output: shown.output,
        screen: None,
        start_cursor: shown.start_cursor,
        next_cursor: shown.next_cursor,
        total_bytes: shown.total_bytes,
        retained_from: shown.retained_from,
        gap: shown.gap,
        normalized: shown.normalized,
        binary: shown.binary,
        artifact: Artifact { id: handle, encoding: Encoding::Base64 },
        stdin: stdin(&snapshot),
        unread_input_bytes: unread_input(&snapshot),
        exit_code: outcome.and_then(|outcome| outcome.exit_code),
        signal: outcome.and_then(|outcome| outcome.signal),
        reason: outcome.map(|outcome| outcome.reason),
        diagnostic: outcome.and_then(diagnostic),
        started_at: snapshot.started_at.map(Into::into),
        finished_at: snapshot.finished_at.map(Into::into),
        last_output_at: snapshot.last_output_at.map(Into::into),
        storage_degraded: snapshot.storage_degraded,
        matched: None,
        notifications: Vec::new(),
    }
}

/// Whether a process takes input.
pub(crate) fn stdin(snapshot: &Snapshot) -> StdinState {
    match snapshot.stdin {
        StdinStatus::Open => StdinState::Open,
        StdinStatus::Closed => StdinState::Closed,
        StdinStatus::None => StdinState::None,
    }
}

/// Milliseconds of an argument as a duration; zero when it is absent.
pub(crate) fn millis(value: Option<u64>) -> Duration {
    Duration::from_millis(value.unwrap_or_default())
}
