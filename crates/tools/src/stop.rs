//! `ProcessStop`: ends a process.
//!
//! Not for signals or escalation: the supervisor stops, this asks and tells.

use std::time::Duration;

use procyard_api::{StopArguments, StopMode, StopResult};
use procyard_core::{PublicError, StopKind};
use procyard_supervisor::{StopRequest, Telling};

use crate::bash::leftovers;
use crate::render;
use crate::reply::Answer;
use crate::toolbox::Toolbox;

/// Carries a call out. Dropping the future does not take the stop back.
pub(crate) async fn stop(
    toolbox: &Toolbox,
    arguments: StopArguments,
    telling: &mut Telling,
) -> Result<Answer, PublicError> {
    let kind = match arguments.mode.unwrap_or_default() {
        StopMode::Interrupt => StopKind::Interrupt,
        StopMode::Terminate => StopKind::Terminate,
        StopMode::Kill => StopKind::Kill,
    };
    let request = StopRequest { kind, grace: arguments.grace_ms.map(Duration::from_millis) };
    let handle = arguments.process_id;
    telling.outcome(handle);
    let snapshot =
        toolbox.supervisor().stop(toolbox.owner(), &handle, request).await.map_err(|error| error.public())?;
    let ended = snapshot.state.is_terminal();
    let outcome = snapshot.outcome.as_ref().filter(|_| ended);
    let result = StopResult {
        process_id: handle,
        status: snapshot.state,
        exit_code: outcome.and_then(|outcome| outcome.exit_code),
        signal: outcome.and_then(|outcome| outcome.signal),
        reason: outcome.map(|outcome| outcome.reason),
        started_at: snapshot.started_at.map(Into::into),
        finished_at: snapshot.finished_at.map(Into::into),
        tree_exited: snapshot.tree_is_gone(),
        escalated: outcome.is_some_and(|outcome| outcome.escalated),
        leftovers: outcome.and_then(leftovers),
        storage_degraded: snapshot.storage_degraded,
        notifications: Vec::new(),
    };
    let text = render::stop(&result);
    Ok(Answer::new(&result, text)?.telling(if ended { vec![handle] } else { Vec::new() }))
}
