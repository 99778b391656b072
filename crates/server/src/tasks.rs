//! Commands that go on after their call, as tasks of the Tasks extension (SEP-2663).
//!
//! The id of a task is the handle of its process, and its state is what the supervisor says: nothing is kept here, so a
//! task is found again after a restart. A command that fails is a task that completed, with the result that tells so; one
//! that was stopped because somebody asked is a task that was cancelled. How a task ended is told once: by its state, by
//! the acknowledgement of its cancellation, or by a notice to whoever had neither.
//! Not for calls that asked for a handle: those never become tasks.

use std::time::Duration;

use procyard_api::Time;
use procyard_core::{ErrorCode, Handle, PublicError, Reason, StopKind};
use procyard_supervisor::{Snapshot, StopRequest, Telling};
use procyard_tools::{Reply, Toolbox};
use rmcp::ErrorData;
use rmcp::model::{CreateTaskResult, DetailedTask, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus};
use serde_json::Value;

use crate::results;

/// How often a client is advised to ask.
const POLL: u64 = 1000;

/// How long a cancellation waits to see the end. It goes on afterwards; the acknowledgement promises nothing.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

/// The task that a call becomes instead of its result.
pub(crate) fn created(toolbox: &Toolbox, handle: &Handle) -> Result<CreateTaskResult, ErrorData> {
    let snapshot = look(toolbox, handle)?;
    // It may have ended since; the client learns that when it asks.
    Ok(CreateTaskResult::new(task(&snapshot, TaskStatus::Working)))
}

/// What answers a request, and what that tells.
pub(crate) struct Told<T> {
    pub(crate) answer: T,
    tells: Option<Tells>,
}

enum Tells {
    /// A result that has everything.
    Result(Reply),
    /// That a task was cancelled.
    Cancelled(Telling),
}

impl<T> Told<T> {
    /// Says that the answer is on its way; what it tells is not announced again. Dropped without that, it is.
    pub(crate) fn handed_over(self) -> T {
        match &self.tells {
            Some(Tells::Result(reply)) => reply.handed_to_transport(),
            Some(Tells::Cancelled(telling)) => telling.handed_over(),
            None => {}
        }
        self.answer
    }
}

/// The state of a task, with its result once it has one.
pub(crate) async fn get(toolbox: &Toolbox, id: &str) -> Result<Told<GetTaskResult>, ErrorData> {
    let handle = handle_of(id)?;
    let mut telling = claim(toolbox, handle);
    let snapshot = look(toolbox, &handle)?;
    let (payload, tells) = if was_cancelled(&snapshot) {
        telling.tells(&[handle]);
        (TaskPayload::Cancelled, Some(Tells::Cancelled(telling)))
    } else {
        drop(telling);
        let ended = snapshot.state.is_terminal();
        let reply =
            if ended { toolbox.outcome(&handle).await.map_err(|error| refused(&error))? } else { None };
        match reply {
            Some(reply) => {
                let result = object(&results::result(&reply, true));
                (TaskPayload::Completed { result }, Some(Tells::Result(reply)))
            }
            None => (TaskPayload::Working, None),
        }
    };
    let task = task(&snapshot, payload.status());
    Ok(Told { answer: GetTaskResult::new(DetailedTask::new(task, payload)), tells })
}

/// Stops the process of a task. A task that has ended stays as it is. The acknowledgement tells that the task was
/// cancelled, where it was by then: whoever asked for that needs no notice of it.
pub(crate) async fn cancel(toolbox: &Toolbox, id: &str) -> Result<Told<()>, ErrorData> {
    let handle = handle_of(id)?;
    look(toolbox, &handle)?;
    let mut telling = claim(toolbox, handle);
    let request = StopRequest { kind: StopKind::Terminate, grace: None };
    let stopping = toolbox.supervisor().stop(toolbox.owner(), &handle, request);
    let tells = match tokio::time::timeout(CANCEL_WAIT, stopping).await {
        Ok(Ok(snapshot)) if was_cancelled(&snapshot) => {
            telling.tells(&[handle]);
            Some(Tells::Cancelled(telling))
        }
        Ok(Err(error)) => return Err(refused(&error.public())),
        // It had ended by itself, which the acknowledgement does not say, or the stop goes on by itself.
        Ok(Ok(_)) | Err(_) => None,
    };
    Ok(Told { answer: (), tells })
}

/// The answer is about to tell how this process ended, so that no other does meanwhile.
fn claim(toolbox: &Toolbox, handle: Handle) -> Telling {
    let mut telling = toolbox.supervisor().telling(toolbox.owner());
    telling.outcome(handle);
    telling
}

/// Takes answers to questions that a task has asked. No task here asks any, and unknown answers are ignored.
pub(crate) fn update(toolbox: &Toolbox, id: &str) -> Result<(), ErrorData> {
    look(toolbox, &handle_of(id)?).map(|_| ())
}

fn was_cancelled(snapshot: &Snapshot) -> bool {
    let reason = snapshot.outcome.as_ref().map(|outcome| outcome.reason);
    matches!(reason, Some(Reason::Interrupted | Reason::Terminated | Reason::Killed))
}

fn task(snapshot: &Snapshot, status: TaskStatus) -> Task {
    let touched = snapshot.finished_at.or(snapshot.last_output_at).or(snapshot.started_at);
    let created = Time::from(snapshot.created_at).to_string();
    let updated = Time::from(touched.unwrap_or(snapshot.created_at)).to_string();
    Task::new(snapshot.identity.handle.reveal(), status, created, updated)
        .with_status_message(message(snapshot))
        .with_poll_interval_ms(POLL)
}

fn message(snapshot: &Snapshot) -> String {
    let state = snapshot.state.as_str();
    let code = snapshot.outcome.as_ref().and_then(|outcome| outcome.exit_code);
    let code = code.map(|code| format!(" with code {code}")).unwrap_or_default();
    format!("{state}{code}, {} bytes of output", snapshot.total_bytes)
}

fn look(toolbox: &Toolbox, handle: &Handle) -> Result<Snapshot, ErrorData> {
    toolbox.supervisor().snapshot(toolbox.owner(), handle).map_err(|error| refused(&error.public()))
}

fn handle_of(id: &str) -> Result<Handle, ErrorData> {
    id.parse().map_err(|_| missing())
}

/// The answer for what does not exist, and for what belongs to somebody else.
fn missing() -> ErrorData {
    ErrorData::invalid_params("taskId: there is no such task", None)
}

fn refused(error: &PublicError) -> ErrorData {
    match error.code {
        ErrorCode::NotFound => missing(),
        _ => ErrorData::internal_error(error.message.clone(), None),
    }
}

fn object(result: &rmcp::model::CallToolResult) -> JsonObject {
    match serde_json::to_value(result) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}
