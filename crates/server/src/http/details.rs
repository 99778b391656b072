//! A process as the service shows it.
//!
//! Not for the words of its parts: those are the tools'.

use procyard_api::http::{ProcessDetails, ProcessOutcome};
use procyard_supervisor::Snapshot;
use procyard_tools::{leftovers_report, limits_report, list_entry};

/// Everything that is known of a process but its output; whose it is for the administrator alone.
pub(crate) fn details(snapshot: &Snapshot, for_admin: bool) -> ProcessDetails {
    let ended = snapshot.outcome.as_ref().filter(|_| snapshot.state.is_terminal());
    let finished_at = snapshot.finished_at.filter(|_| snapshot.state.is_terminal());
    let owner = for_admin.then_some(snapshot.identity.owner);
    ProcessDetails {
        entry: list_entry(snapshot),
        state: snapshot.state,
        outcome: ProcessOutcome::of(snapshot.state, ended.and_then(|outcome| outcome.exit_code)),
        created_at: snapshot.created_at.into(),
        duration_ms: finished_at.zip(snapshot.started_at).map(|(to, from)| to.millis_since(from)),
        timeout_s: snapshot.deadline.map(|deadline| deadline.as_secs()),
        backgrounded: snapshot.handed_over,
        retained_from: snapshot.retained_from,
        pending_input_bytes: snapshot.pending_input,
        signal: ended.and_then(|outcome| outcome.signal),
        reason: ended.map(|outcome| outcome.reason),
        diagnostic: ended.and_then(|outcome| outcome.diagnostic.clone()).filter(|text| !text.is_empty()),
        escalated: ended.is_some_and(|outcome| outcome.escalated),
        leftovers: leftovers_report(snapshot),
        rows: snapshot.terminal.map(|size| size.rows),
        cols: snapshot.terminal.map(|size| size.cols),
        tier: snapshot.tier.to_string(),
        limits: limits_report(snapshot),
        tree_exited: snapshot.tree_is_gone(),
        teardown_failed: snapshot.teardown_failed,
        storage_degraded: snapshot.storage_degraded,
        session_id: owner.map(|owner| owner.session),
        loop_id: owner.map(|owner| owner.loop_id),
    }
}
