//! The end of a session: every tree stopped and proven empty, every record terminal, every task joined.
//!
//! Not for a sudden death: then the runner's lifeline ends the trees.

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{Handle, Requester, StopKind};
use tokio::time::Instant;

use crate::shared::{Phase, Shared};
use crate::stop::{ended, order_stop};

/// How long the services get to take what is queued for them.
const SERVICES_GRACE: Duration = Duration::from_secs(1);

/// What a shutdown did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Processes that were stopped.
    pub stopped: usize,
    /// Processes whose trees could not be proven empty in time.
    pub failed: Vec<Handle>,
}

/// Closes admission, terminates all trees at the same time, kills after the grace, proves all empty. Idempotent;
/// bounded by grace, proof bound and drain cap.
pub(crate) async fn shutdown(shared: &Arc<Shared>) -> ShutdownReport {
    let live: Vec<_> = {
        let mut registry = shared.registry();
        registry.phase = Phase::ShuttingDown;
        registry.entries.values().filter(|entry| !entry.is_terminal()).cloned().collect()
    };
    let limits = &shared.limits;
    let grace = limits.graceful_shutdown;
    for entry in &live {
        if let Some(input) = &entry.input {
            input.close();
        }
        let _ = order_stop(entry, StopKind::Terminate, Requester::Shutdown, grace).await;
    }
    let bound = Instant::now() + grace + limits.proof_bound + limits.drain_cap + limits.leftover_grace;
    let mut report = ShutdownReport::default();
    for entry in live {
        match tokio::time::timeout_at(bound, ended(&entry)).await {
            Ok(Ok(())) => report.stopped += 1,
            Ok(Err(_)) | Err(_) => report.failed.push(entry.handle),
        }
    }
    shared.tasks.close();
    if report.failed.is_empty() {
        // Actors and marks of delivered notices end by themselves now; the services are given a bounded time.
        let flushed = Instant::now() + SERVICES_GRACE;
        while !shared.events.is_empty() || !shared.notices.is_empty() {
            if Instant::now() >= flushed {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    shared.closed.cancel();
    if report.failed.is_empty() {
        shared.tasks.wait().await;
    }
    report
}
