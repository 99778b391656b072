//! What the service says of itself.
//!
//! Not for metrics.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use procyard_api::http::{
    Health, ProcessCounts, RecoveryReport, SessionRecovery, UnopenedSession, UnreadableRecord,
};
use procyard_core::{Handle, State};
use procyard_supervisor::Snapshot;

use super::call::Call;
use super::caller::Caller;
use super::problem::Problem;
use super::service::{OpenSession, Service};
use super::tool;

pub(crate) fn health(_: &Call) -> Result<Response, Problem> {
    tool::json(StatusCode::OK, &Health { status: "ok".to_owned() })
}

pub(crate) async fn processes(call: Call) -> Result<Response, Problem> {
    let snapshots = match call.caller {
        Caller::Loop(owner, _) => call.own_session().await?.supervisor().list(owner),
        _ => everybodys(&call.service),
    };
    tool::json(StatusCode::OK, &count(&snapshots))
}

/// The processes of all loops of all sessions, in no order.
pub(crate) fn everybodys(service: &Service) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    for session in service.sessions() {
        let supervisor = session.overseer();
        snapshots.extend(supervisor.owners().into_iter().flat_map(|owner| supervisor.list(owner)));
    }
    snapshots
}

/// Counts processes.
pub(crate) fn count(snapshots: &[Snapshot]) -> ProcessCounts {
    let mut states: BTreeMap<State, u64> = State::ALL.into_iter().map(|state| (state, 0)).collect();
    let mut counts = ProcessCounts {
        states: BTreeMap::new(),
        running: 0,
        retained: 0,
        teardown_failed: 0,
        storage_degraded: 0,
    };
    for snapshot in snapshots {
        *states.entry(snapshot.state).or_default() += 1;
        let kind = if snapshot.state.is_terminal() { &mut counts.retained } else { &mut counts.running };
        *kind += 1;
        counts.teardown_failed += u64::from(snapshot.teardown_failed);
        counts.storage_degraded += u64::from(snapshot.storage_degraded);
    }
    ProcessCounts { states, ..counts }
}

pub(crate) fn recovery(call: &Call) -> Result<Response, Problem> {
    let sessions: Vec<_> = call.service.sessions().iter().map(|session| recovered(session)).collect();
    let unopened = call.service.host.unopened().into_iter();
    let mut unopened: Vec<_> =
        unopened.map(|(session_id, problem)| UnopenedSession { session_id, problem }).collect();
    unopened.sort_by_key(|session| session.session_id);
    let unreadable: u64 = sessions.iter().map(|session| session.unreadable.len() as u64).sum();
    let anomalies = unreadable + unopened.len() as u64;
    tool::json(StatusCode::OK, &RecoveryReport { sessions, unopened, anomalies })
}

fn recovered(session: &OpenSession) -> SessionRecovery {
    let report = session.hosted().restored();
    let unreadable = report
        .unreadable
        .iter()
        .map(|(name, why)| UnreadableRecord { record: shortened(name), problem: why.clone() });
    SessionRecovery {
        session_id: session.id(),
        restored: report.restored as u64,
        lost: report.lost as u64,
        unreadable: unreadable.collect(),
        orphans_removed: report.orphans_removed as u64,
        temporaries_removed: report.temporaries_removed as u64,
    }
}

/// The name of a record without the capability that it begins with.
fn shortened(name: &str) -> String {
    match name.split_once('.').map(|(handle, rest)| (handle.parse::<Handle>(), rest)) {
        Some((Ok(handle), rest)) => format!("{handle:?}.{rest}"),
        _ => name.to_owned(),
    }
}

pub(crate) fn containment(call: &Call) -> Result<Response, Problem> {
    tool::json(StatusCode::OK, &call.service.host.containment())
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_record_shows_four_characters_of_its_handle() {
        assert_eq!(shortened("AAECAwQFBgcICQoLDA0ODw.manifest.json"), "AAEC….manifest.json");
        assert_eq!(shortened("stranger.manifest.json"), "stranger.manifest.json");
    }
}
