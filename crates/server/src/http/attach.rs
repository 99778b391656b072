//! A process as a terminal over a `WebSocket` (RFC 6455).
//!
//! Only of a process that has one: of another, output and input have routes that say more. Output is read as fast as the
//! client takes it, and input is taken as fast as the process reads it: neither is buffered beyond a chunk here. Not for who
//! may: that was decided before.

use std::time::Duration;

use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use procyard_api::http::{AttachCommand, AttachQuery, AttachReport};
use procyard_core::{ErrorCode, PublicError};
use procyard_supervisor::{InputRequest, StreamFilter, SupervisorError};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::ending::Ending;
use super::problem::Problem;
use super::reading::{Piece, Reading};
use super::service::Reached;
use super::tool;

/// What a client is told that attaches to something else.
const NO_TERMINAL: &str = "the process has no terminal to attach to; its output comes from `GET …/logs?follow=true`, and what it \
    is to read goes to `POST …/input`";

/// The longest message that is taken.
const MESSAGE_MAX: usize = 1024 * 1024;

/// What is written before the socket is.
const WRITE_BUFFER: usize = 64 * 1024;

/// Reports that wait for a slow client; of its own messages none is read meanwhile.
const REPORTS: usize = 4;

/// How often a quiet client is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(20);

/// How long a client has to close after the service's farewell.
const FAREWELL: Duration = Duration::from_secs(1);

pub(crate) async fn attach(mut call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    let query: AttachQuery = call.query()?;
    let snapshot = process.snapshot()?;
    if snapshot.terminal.is_none() {
        return Err(Problem::new(ErrorCode::PtyUnavailable, NO_TERMINAL));
    }
    let cursor = query.cursor.unwrap_or(snapshot.total_bytes);
    if cursor > snapshot.total_bytes {
        return Err(SupervisorError::CursorAhead { total_bytes: snapshot.total_bytes }.into());
    }
    let (supervisor, owner, handle) = (process.supervisor(), process.owner, process.handle);
    let place = call.service.stream_place()?;
    let reading = Reading::following(supervisor, owner, handle, StreamFilter::Both, cursor)?;
    let upgrade = WebSocketUpgrade::from_request_parts(&mut call.parts, &()).await;
    let upgrade =
        upgrade.map_err(|_| Problem::argument("Upgrade", "this path speaks WebSocket (RFC 6455)"))?;
    let held = (call.service.metrics.attachment(), call.service.tasks.token(), place);
    let stop = call.service.stop.clone();
    Ok(upgrade
        .max_message_size(MESSAGE_MAX)
        .max_frame_size(MESSAGE_MAX)
        .max_write_buffer_size(2 * WRITE_BUFFER + MESSAGE_MAX)
        .write_buffer_size(WRITE_BUFFER)
        .on_upgrade(async move |socket| {
            let _held = held;
            attached(socket, &process, reading, stop).await;
        }))
}

async fn attached(socket: WebSocket, process: &Reached, reading: Reading, stop: CancellationToken) {
    let (sink, mut source) = socket.split();
    let (reports, told) = mpsc::channel(REPORTS);
    tokio::select! {
        () = take_input(&mut source, process, &reports) => return,
        () = show_output(sink, reading, told, stop) => {}
    }
    // Closed while the client still writes, if only the answer to a ping, the connection would break under what it has not read
    // yet. So it closes first (RFC 6455, section 7.1.1).
    let left = async { while let Some(Ok(_)) = source.next().await {} };
    let _ = tokio::time::timeout(FAREWELL, left).await;
}

/// Carries out what the client sends until it leaves.
async fn take_input(
    source: &mut SplitStream<WebSocket>,
    process: &Reached,
    reports: &mpsc::Sender<AttachReport>,
) {
    while let Some(Ok(message)) = source.next().await {
        let done = match message {
            Message::Binary(bytes) => write(process, &bytes).await,
            Message::Text(text) => obey(process, &text).await,
            Message::Close(_) => return,
            Message::Ping(_) | Message::Pong(_) => Ok(()),
        };
        if let Err(error) = done
            && reports.send(AttachReport::Refused { error }).await.is_err()
        {
            return;
        }
    }
}

/// Passes bytes on as the process takes them.
async fn write(process: &Reached, mut bytes: &[u8]) -> Result<(), PublicError> {
    let supervisor = process.supervisor();
    while !bytes.is_empty() {
        let public = |error: SupervisorError| error.public();
        let room = supervisor.input_room(process.owner, &process.handle).await.map_err(public)?;
        let now = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)).max(1);
        let request = InputRequest { data: bytes[..now].to_vec(), ..InputRequest::default() };
        supervisor.input(process.owner, &process.handle, request).await.map_err(public)?;
        bytes = &bytes[now..];
    }
    Ok(())
}

async fn obey(process: &Reached, text: &str) -> Result<(), PublicError> {
    let command: AttachCommand = serde_json::from_str(text).map_err(|_| {
        let message = "a text message is {\"type\":\"resize\",\"rows\":24,\"cols\":80} or {\"type\":\"eof\"}";
        PublicError::new(ErrorCode::InvalidArguments, message)
    })?;
    match command {
        AttachCommand::Resize { rows, cols } => {
            let arguments = json!({ "process_id": process.handle, "rows": rows, "cols": cols });
            let toolbox = process.toolbox();
            // The reply is dropped: nobody reads it, so nobody is told anything by it.
            tool::call(&toolbox, "ProcessInput", arguments).await.map(drop).map_err(Problem::into_error)
        }
        AttachCommand::Eof => {
            let request = InputRequest { eof: true, ..InputRequest::default() };
            let given = process.supervisor().input(process.owner, &process.handle, request).await;
            given.map(drop).map_err(|error| error.public())
        }
    }
}

type Sink = SplitSink<WebSocket, Message>;

/// Sends output and reports until the process has ended, the client is gone, or the service stops.
async fn show_output(
    mut sink: Sink,
    mut reading: Reading,
    mut reports: mpsc::Receiver<AttachReport>,
    stop: CancellationToken,
) {
    let mut ping = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    loop {
        let sent = tokio::select! {
            biased;
            () = stop.cancelled() => return close(sink, close_code::AWAY, "the service is being shut down").await,
            Some(report) = reports.recv() => tell(&mut sink, &report).await,
            _ = ping.tick() => sink.send(Message::Ping(axum::body::Bytes::new())).await,
            piece = reading.next() => match piece {
                Ok(Piece::Bytes(bytes)) => sink.send(Message::Binary(bytes)).await,
                Ok(Piece::Gap { from, until }) => tell(&mut sink, &AttachReport::Gap { from, until }).await,
                Ok(Piece::End(snapshot)) => {
                    let report = AttachReport::Ended {
                        state: snapshot.state,
                        exit_code: snapshot.outcome.as_ref().and_then(|outcome| outcome.exit_code),
                        total_bytes: snapshot.total_bytes,
                    };
                    if tell(&mut sink, &report).await.is_err() {
                        return;
                    }
                    return close(sink, close_code::NORMAL, "the process has ended").await;
                }
                Err(error) => {
                    let ending = Ending::of(&error, stop.is_cancelled());
                    let code = match ending {
                        Ending::Gap | Ending::Unavailable => close_code::ERROR,
                        _ => close_code::AWAY,
                    };
                    let _ = tell(&mut sink, &AttachReport::Refused { error: error.public() }).await;
                    return close(sink, code, ending.as_str()).await;
                }
            },
        };
        // The client is gone.
        if sent.is_err() {
            return;
        }
    }
}

async fn tell(sink: &mut Sink, report: &AttachReport) -> Result<(), axum::Error> {
    let text = serde_json::to_string(report).map_err(axum::Error::new)?;
    sink.send(Message::Text(text.into())).await
}

async fn close(mut sink: Sink, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    // Whoever is gone already needs no farewell.
    let _ = sink.send(Message::Close(Some(frame))).await;
}
