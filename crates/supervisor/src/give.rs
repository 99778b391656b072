//! Accepting input for a process: its size first, then bytes, then end of file.
//!
//! Not for writing it: each process has one writer of its own.

use std::sync::Arc;

use procyard_core::{Handle, Owner};
use procyard_runner::TerminalSize;
use tokio::sync::oneshot;

use crate::actor::Order;
use crate::course::Waits;
use crate::entry::Entry;
use crate::input::InputQueue;
use crate::shared::Shared;
use crate::stop::answered;
use crate::{InputAccepted, InputRequest, StdinClosed, SupervisorError};

/// The interrupt character of a terminal (`VINTR`, by default).
const INTERRUPT: u8 = 0x03;

pub(crate) async fn give(
    shared: &Arc<Shared>,
    owner: Owner,
    handle: &Handle,
    request: InputRequest,
) -> Result<InputAccepted, SupervisorError> {
    shared.admit_calls()?;
    let entry = shared.find(owner, handle)?;
    let cursor_before = entry.course.standing().progress.total_bytes;
    let writes = !request.data.is_empty() || request.eof;
    let InputRequest { size, data, eof } = request;
    if let Some(size) = size {
        if entry.record().manifest.terminal.is_none() {
            return Err(SupervisorError::NoTerminal);
        }
        if writes {
            // Refused before the size is applied, so that a refused call has done nothing.
            open_input(&entry)?.would_accept(&data, eof).map_err(|error| explain(&entry, error))?;
        }
        resize(&entry, size).await?;
        entry.still_of(owner)?;
    }
    let accepted_bytes = data.len() as u64;
    let mut pending_bytes = 0;
    if writes {
        let written = write(&entry, data, eof).await;
        // What came in its way meanwhile, the end or other input, does not take the size back.
        pending_bytes = written.map_err(|error| match size {
            Some(_) => SupervisorError::Resized(Box::new(error)),
            None => error,
        })?;
    }
    Ok(InputAccepted { accepted_bytes, pending_bytes, cursor_before })
}

async fn resize(entry: &Entry, size: TerminalSize) -> Result<(), SupervisorError> {
    let (done, answer) = oneshot::channel();
    let ended = || SupervisorError::StdinClosed(StdinClosed::Ended(entry.state()));
    entry.orders.send(Order::Resize { size, done }).await.map_err(|_| ended())?;
    answered(entry, answer).await.ok_or_else(ended)?
}

/// Puts input into the queue; how much is pending then.
async fn write(entry: &Entry, data: Vec<u8>, eof: bool) -> Result<u64, SupervisorError> {
    let input = open_input(entry)?;
    let typed = input.is_terminal().then(|| data.contains(&INTERRUPT));
    // An actor that is gone needs no telling.
    let told = match typed {
        Some(interrupt) => entry.orders.reserve().await.ok().map(|place| (place, interrupt)),
        None => None,
    };
    // Told before the process can have it: whatever it does because of it comes after.
    let tell = || {
        if let Some((place, interrupt)) = told {
            place.send(if interrupt { Order::TypedInterrupt } else { Order::TypedOther });
        }
    };
    input.push(data, eof, tell).map_err(|error| explain(entry, error))
}

/// The queue of a process that lives and was started with one.
fn open_input(entry: &Entry) -> Result<&InputQueue, SupervisorError> {
    let state = entry.state();
    if state.is_terminal() {
        return Err(SupervisorError::StdinClosed(StdinClosed::Ended(state)));
    }
    entry.input.as_deref().ok_or(SupervisorError::StdinClosed(StdinClosed::Never))
}

/// A queue that closed because the process ended says so.
fn explain(entry: &Entry, error: SupervisorError) -> SupervisorError {
    match (error, entry.state()) {
        (SupervisorError::StdinClosed(_), state) if state.is_terminal() => {
            SupervisorError::StdinClosed(StdinClosed::Ended(state))
        }
        (error, _) => error,
    }
}

/// Resolves when at least half of the pending input is free, with how much is.
pub(crate) async fn room(
    shared: &Arc<Shared>,
    owner: Owner,
    handle: &Handle,
) -> Result<u64, SupervisorError> {
    shared.admit_calls()?;
    let entry = shared.find(owner, handle)?;
    let input = open_input(&entry)?;
    let mut given_away = entry.waiter(Waits::ForLife);
    let room = tokio::select! {
        room = input.room() => room.map_err(|error| explain(&entry, error)),
        () = given_away.until(|standing| (standing.life.owner != owner).then_some(())) => {
            Err(SupervisorError::NotFound)
        }
    };
    entry.still_of(owner)?;
    room
}
