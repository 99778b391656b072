//! Stopping a process on request, and handing one over.
//!
//! Not for carrying the stop out: the process's own actor does, whether or not the caller stays to see it.

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{Handle, Owner, Requester, State, StopKind};
use procyard_manifest::Durability;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::actor::Order;
use crate::entry::Entry;
use crate::shared::Shared;
use crate::{Snapshot, StopRequest, SupervisorError};

/// The longest grace that a stop may ask for.
const GRACE_MAX: Duration = Duration::from_secs(3600);

/// Stops a process. Of a terminal one it gives the result and sends nothing. Terminate and kill resolve when
/// the tree is proven empty and the terminal manifest is on disk; an interrupt resolves at the exit or after its grace.
/// Cancelling it does not cancel the stop.
pub(crate) async fn stop(
    shared: &Arc<Shared>,
    owner: Owner,
    handle: &Handle,
    request: StopRequest,
) -> Result<Snapshot, SupervisorError> {
    shared.admit_calls()?;
    let entry = shared.find(owner, handle)?;
    let grace = request.grace.unwrap_or(shared.limits.graceful_shutdown);
    if grace > GRACE_MAX {
        return Err(SupervisorError::invalid(
            "grace_ms",
            format!("must be at most {}", GRACE_MAX.as_millis()),
        ));
    }
    if let Some(delivered) = order_stop(&entry, request.kind, Requester::Owner, grace).await {
        // The actor may end the process before it reads the order: then there is no answer, and no need of one.
        if let (Ok(result), StopKind::Interrupt) = (delivered.await, request.kind) {
            result?;
        }
    }
    match request.kind {
        StopKind::Interrupt => {
            let _ = tokio::time::timeout(grace, ended_of(owner, &entry)).await;
        }
        StopKind::Terminate | StopKind::Kill => ended_of(owner, &entry).await?,
    }
    entry.still_of(owner)?;
    Ok(entry.snapshot())
}

/// Stops all of these at the same time and closes their input; says of each whether it is proven gone. Bounded by grace,
/// proof bound and drain cap. Cancelling it cancels no stop.
pub(crate) async fn end_all(
    shared: &Arc<Shared>,
    living: Vec<Arc<Entry>>,
    kind: StopKind,
    by: Requester,
    grace: Duration,
) -> Vec<(Handle, bool)> {
    let limits = &shared.limits;
    let bound = Instant::now() + grace + limits.proof_bound + limits.drain_cap + limits.leftover_grace;
    let ends: Vec<_> = living
        .into_iter()
        .map(|entry| {
            if let Some(input) = &entry.input {
                input.close();
            }
            let handle = entry.handle;
            let end = shared.tasks.spawn(async move {
                let end = async {
                    let _ = order_stop(&entry, kind, by, grace).await;
                    ended(&entry).await
                };
                matches!(tokio::time::timeout_at(bound, end).await, Ok(Ok(())))
            });
            (handle, end)
        })
        .collect();
    let mut proven = Vec::with_capacity(ends.len());
    for (handle, end) in ends {
        proven.push((handle, end.await.unwrap_or(false)));
    }
    proven
}

/// Sends the order; `None` when the process is terminal already.
pub(crate) async fn order_stop(
    entry: &Entry,
    kind: StopKind,
    by: Requester,
    grace: Duration,
) -> Option<oneshot::Receiver<Result<(), SupervisorError>>> {
    if entry.is_terminal() {
        return None;
    }
    let (delivered, answer) = oneshot::channel();
    let order = Order::Stop { kind, by, grace, delivered: Some(delivered) };
    entry.orders.send(order).await.ok().map(|()| answer)
}

/// Resolves when the process is terminal, or with an error when its tree could not be proven empty in time.
pub(crate) async fn ended(entry: &Entry) -> Result<(), SupervisorError> {
    let mut life = entry.life.subscribe();
    let settled =
        life.wait_for(|life| life.state.is_terminal() || life.teardown_failed).await.map(|life| *life);
    match settled {
        Ok(life) if life.state.is_terminal() => Ok(()),
        Ok(_) => Err(SupervisorError::TeardownFailed),
        Err(_) => Err(SupervisorError::Internal("the process lost its record")),
    }
}

/// The same for a caller: when the process is given to another owner meanwhile, there is no such process.
async fn ended_of(owner: Owner, entry: &Entry) -> Result<(), SupervisorError> {
    let mut life = entry.life.subscribe();
    tokio::select! {
        biased;
        ended = ended(entry) => ended,
        // What it resolves to is a lock on the state: it is dropped in here.
        () = async { let _ = life.wait_for(|life| life.owner != owner).await; } => Err(SupervisorError::NotFound),
    }
}

/// Makes a yielded process a background one: its owner now gets a notice of its end, and a default deadline is
/// lifted.
pub(crate) async fn hand_over(
    shared: &Arc<Shared>,
    owner: Owner,
    handle: &Handle,
    lift_deadline: bool,
) -> Result<Snapshot, SupervisorError> {
    shared.admit_calls()?;
    if !shared.notifies() {
        return Err(SupervisorError::NotificationsUnsupported);
    }
    let entry = shared.find(owner, handle)?;
    if lift_deadline {
        entry.record().deadline = None;
        // Of a process that has just ended there is nothing to lift.
        let _ = entry.orders.send(Order::LiftDeadline).await;
    }
    let (newly, starting) = {
        let mut record = entry.record();
        let newly = !record.manifest.background && !record.manifest.handed_over && !entry.is_terminal();
        let starting = record.manifest.state == State::Starting;
        record.manifest.handed_over |= newly;
        record.hand_over_unsaid |= newly && starting;
        (newly, starting)
    };
    if newly {
        // Saved with what follows at the latest: a hand-over that a crash forgets has no caller left to tell.
        let now = shared.clock.now();
        let saved = shared
            .update(&entry, Durability::Written, move |manifest| {
                manifest.handed_over = true;
                // The record of an end stands as it is.
                if manifest.state.is_terminal() {
                    return;
                }
                manifest.handed_over_at = Some(now);
                if lift_deadline {
                    manifest.deadline_at = None;
                }
            })
            .await;
        if let Err(error) = saved {
            tracing::warn!(handle = ?entry.handle, %error, "a hand-over could not be recorded");
        }
        // Of a process that is starting it is said once that one runs, by its start.
        if !starting {
            shared.publish_hand_over(&entry);
        }
    }
    entry.still_of(owner)?;
    Ok(entry.snapshot())
}

/// The caller of a foreground call went away before its result: the process is stopped, and its owner gets a notice of
/// the outcome that nobody saw.
pub(crate) fn abandon(shared: &Arc<Shared>, owner: Owner, handle: &Handle) {
    let Ok(entry) = shared.find(owner, handle) else { return };
    let missed = {
        let mut record = entry.record();
        let newly = !record.manifest.background && !record.manifest.handed_over;
        record.manifest.handed_over = true;
        // An end that was announced already was announced without this notice.
        if newly && record.announced { record.notice_due() } else { None }
    };
    if let Some(notice) = missed {
        shared.notify(owner, notice);
    }
    let grace = shared.limits.graceful_shutdown;
    let shared = Arc::clone(shared);
    shared.tasks.clone().spawn(async move {
        let _ = order_stop(&entry, StopKind::Terminate, Requester::Owner, grace).await;
        crate::notices::remember(&shared, &entry);
    });
}
