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
use crate::course::{Standing, Waits};
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
        if let (Some(result), StopKind::Interrupt) = (answered(&entry, delivered).await, request.kind) {
            result?;
        }
    }
    match request.kind {
        StopKind::Interrupt => {
            let _ = tokio::time::timeout(grace, ended_of(owner, &entry)).await;
        }
        StopKind::Terminate | StopKind::Kill => ended_of(owner, &entry).await?,
    }
    entry.snapshot_of(owner).ok_or(SupervisorError::NotFound)
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

/// What the actor answers to an order; `None` when the process is terminal without an answer.
///
/// The answer's own channel is not enough: an order that is sent while the actor lets go of its mailbox can be accepted
/// by the channel and then neither read nor dropped, as long as the entry holds the other end.
pub(crate) async fn answered<T>(entry: &Entry, answer: oneshot::Receiver<T>) -> Option<T> {
    let mut end = entry.waiter(Waits::ForLife);
    tokio::select! {
        biased;
        answer = answer => answer.ok(),
        () = end.until(|standing| standing.life.state.is_terminal().then_some(())) => None,
    }
}

/// Resolves when the process is terminal, or with an error when its tree could not be proven empty in time.
pub(crate) async fn ended(entry: &Entry) -> Result<(), SupervisorError> {
    entry.waiter(Waits::ForLife).until(settled).await
}

/// The same for a caller: when the process is given to another owner meanwhile, there is no such process.
async fn ended_of(owner: Owner, entry: &Entry) -> Result<(), SupervisorError> {
    let settled_or_given_away = |standing: &Standing| {
        settled(standing).or_else(|| (standing.life.owner != owner).then_some(Err(SupervisorError::NotFound)))
    };
    entry.waiter(Waits::ForLife).until(settled_or_given_away).await
}

fn settled(standing: &Standing) -> Option<Result<(), SupervisorError>> {
    match standing.life {
        life if life.state.is_terminal() => Some(Ok(())),
        life if life.teardown_failed => Some(Err(SupervisorError::TeardownFailed)),
        _ => None,
    }
}

/// Makes a yielded process a background one: its owner now gets a notice of its end, and a default deadline is
/// lifted. One that another caller is starting is from now on independent of that caller.
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
        record.joined |= starting;
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
    let Ok(entry) = shared.admit_loop(owner).and_then(|()| shared.find(owner, handle)) else { return };
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

#[cfg(test)]
mod tests {
    use procyard_core::{ExecutionId, Identity, LoopId, Origin, SessionId, State, Timestamp};
    use procyard_manifest::{AccessRecord, CommandRecord, Manifest, StableIds};
    use procyard_spool::SpoolOptions;
    use tokio::sync::mpsc;

    use super::*;
    use crate::entry::Record;

    /// A process that has ended.
    fn ended_process() -> Entry {
        let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
        let origin = Origin { execution: ExecutionId::from_random([3; 16]) };
        let identity = Identity { handle: Handle::from_bytes([4; 16]), owner, origin };
        let ids = StableIds::generate(|bytes| {
            *bytes = [5; 16];
            true
        });
        let at = Timestamp::from_unix_micros(0);
        let command = CommandRecord::line("true", "/");
        let mut manifest = Manifest::new(identity, command, AccessRecord::ReadOnly, ids.unwrap(), at);
        manifest.state = State::Exited;
        let record = Record {
            manifest,
            deadline: None,
            lease: None,
            reservation: None,
            retained: None,
            hand_over_unsaid: false,
            joined: false,
            completion: Some(1),
            announced: true,
            stall: None,
        };
        Entry::restored(record, 1, SpoolOptions::default())
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_that_the_mailbox_took_as_it_closed_is_answered_by_the_end() {
        let entry = ended_process();
        let (orders, mailbox) = mpsc::channel(1);
        let place = orders.reserve().await.unwrap();
        drop(mailbox);
        let (delivered, answer) = oneshot::channel::<Result<(), SupervisorError>>();
        place.send(Order::Stop {
            kind: StopKind::Kill,
            by: Requester::Owner,
            grace: Duration::ZERO,
            delivered: Some(delivered),
        });
        let answered = tokio::time::timeout(Duration::from_secs(1), answered(&entry, answer)).await;
        assert!(answered.unwrap().is_none(), "nobody is left to answer");
        assert_eq!(entry.course.waiting(), 0);
        drop(orders);
    }
}
