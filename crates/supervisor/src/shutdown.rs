//! The end of a session: every tree stopped and proven empty, every record terminal, every task joined.
//!
//! Not for a sudden death: then the runner's lifeline ends the trees.

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{Handle, Requester, StopKind};
use tracing::warn;

use crate::shared::{Phase, Shared};
use crate::stop::end_all;

/// How long the services get to take what is queued for them.
const SERVICES_GRACE: Duration = Duration::from_secs(1);

/// What a shutdown did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Processes that were stopped.
    pub stopped: usize,
    /// Processes whose trees could not be proven empty in time.
    pub failed: Vec<Handle>,
    /// Processes that have ended and whose terminal manifests the disk does not take: a later supervisor of the session
    /// calls them lost. Also of those that ended before the shutdown.
    pub unsaved: usize,
}

/// Closes admission, stops all trees at the same time, proves all empty. Idempotent; bounded by grace, proof bound and
/// drain cap.
pub(crate) async fn shutdown(shared: &Arc<Shared>, kind: StopKind, grace: Duration) -> ShutdownReport {
    let live: Vec<_> = {
        let mut registry = shared.registry();
        registry.phase = Phase::ShuttingDown;
        registry.entries.values().filter(|entry| !entry.is_terminal()).cloned().collect()
    };
    let mut report = ShutdownReport::default();
    for (handle, proven) in end_all(shared, live, kind, Requester::Shutdown, grace).await {
        if proven {
            report.stopped += 1;
        } else {
            report.failed.push(handle);
        }
    }
    report.failed.sort_unstable();
    shared.tasks.close();
    let_services_take(shared).await;
    shared.closed.cancel();
    shared.views.close_all();
    let left: Vec<_> = shared.registry().entries.values().cloned().collect();
    for entry in left {
        entry.course.close();
    }
    if report.failed.is_empty() {
        // Actors have ended, everything else ends now.
        shared.tasks.wait().await;
    }
    report.unsaved = unsaved(shared);
    report
}

/// Waits until the services have taken what is queued for them, or have had their time.
pub(crate) async fn let_services_take(shared: &Shared) {
    if shared.notifies() {
        let flushed = async { tokio::join!(shared.events.flushed(), shared.notices.flushed()) };
        let _ = tokio::time::timeout(SERVICES_GRACE, flushed).await;
    }
}

/// How many have ended without a saved record of that: what is saved is announced.
fn unsaved(shared: &Shared) -> usize {
    let registry = shared.registry();
    registry.entries.values().filter(|entry| entry.is_terminal() && !entry.record().announced).count()
}

/// Ends what is left when the last handle of a supervisor was dropped without a shutdown: trees are killed, and then
/// the session's own tasks end.
pub(crate) async fn when_abandoned(shared: Arc<Shared>) {
    tokio::select! {
        () = shared.abandoned.cancelled() => {}
        () = shared.closed.cancelled() => return,
    }
    let report = shutdown(&shared, StopKind::Kill, Duration::ZERO).await;
    for handle in report.failed {
        warn!(?handle, "a supervisor was dropped with a tree that is not proven empty");
    }
}
