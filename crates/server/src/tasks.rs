//! Commands that go on after their call, as tasks of the Tasks extension (SEP-2663).
//!
//! The id of a task is the handle of its process, and its state is what the supervisor says: nothing is kept here, so a
//! task is found again after a restart. A command that fails is a task that completed, with the result that tells so; one
//! that was stopped because somebody asked is a task that was cancelled, whose outcome its owner is told as a notice.
//! Not for calls that asked for a handle: those never become tasks.

use std::time::Duration;

use procyard_api::Time;
use procyard_core::{ErrorCode, Handle, PublicError, Reason, StopKind};
use procyard_supervisor::{Snapshot, StopRequest};
use procyard_tools::Toolbox;
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

/// The state of a task, with its result once it has one.
pub(crate) async fn get(toolbox: &Toolbox, id: &str) -> Result<GetTaskResult, ErrorData> {
    let handle = handle_of(id)?;
    let snapshot = look(toolbox, &handle)?;
    let payload = if was_cancelled(&snapshot) {
        TaskPayload::Cancelled
    } else if snapshot.state.is_terminal()
        && let Some(reply) = toolbox.outcome(&handle).await.map_err(|error| refused(&error))?
    {
        let result = object(&results::result(&reply, true));
        reply.handed_to_transport();
        TaskPayload::Completed { result }
    } else {
        TaskPayload::Working
    };
    let task = task(&snapshot, payload.status());
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Stops the process of a task. A task that has ended stays as it is.
pub(crate) async fn cancel(toolbox: &Toolbox, id: &str) -> Result<(), ErrorData> {
    let handle = handle_of(id)?;
    look(toolbox, &handle)?;
    let request = StopRequest { kind: StopKind::Terminate, grace: None };
    let stopping = toolbox.supervisor().stop(toolbox.owner(), &handle, request);
    match tokio::time::timeout(CANCEL_WAIT, stopping).await {
        Ok(stopped) => stopped.map(|_| ()).map_err(|error| refused(&error.public())),
        // The stop goes on by itself.
        Err(_) => Ok(()),
    }
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
