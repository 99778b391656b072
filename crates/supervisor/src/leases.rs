//! Waiting, with a bound, for the workspace: the lease table of one workspace, shared by everybody who uses it.
//!
//! Not for enforcing anything: a lease coordinates those who ask. Fairness is first come, first asked again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use procyard_core::{LeaseHolder, LeaseTable};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{Lease, SupervisorError};

/// The leases of one workspace. Cheap to clone; the clones share one table.
///
/// ```
/// use std::time::Duration;
/// use procyard_core::{LeaseHolder, WorkspaceAccess};
/// use procyard_supervisor::Leases;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let leases = Leases::new();
/// let build = LeaseHolder::Process(WorkspaceAccess::BroadWrite);
/// let held = leases.acquire(&build, Duration::ZERO).await.unwrap();
/// let snapshot = leases.acquire(&LeaseHolder::Checkpoint, Duration::ZERO).await;
/// assert!(snapshot.is_err(), "a process that may write is at work");
/// drop(held);
/// assert!(leases.acquire(&LeaseHolder::Checkpoint, Duration::ZERO).await.is_ok());
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Leases {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Guards the table; held for a grant or a release.
    table: Mutex<LeaseTable>,
    /// Woken when a lease was given back.
    released: Notify,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, LeaseTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leases {
    /// The leases of a workspace that nobody holds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits at most `within` until the workspace can be held as asked; zero asks once. What is in the way then is
    /// [`SupervisorError::WorkspaceBusy`]. The lease is given back when it is dropped. Cancellation safe.
    pub async fn acquire(&self, holder: &LeaseHolder, within: Duration) -> Result<Lease, SupervisorError> {
        let bound = Instant::now().checked_add(within);
        loop {
            let released = self.shared.released.notified();
            tokio::pin!(released);
            // Enrolled before it asks, so that what is given back in between is not missed.
            released.as_mut().enable();
            let conflict = match self.shared.table().acquire(holder) {
                Ok(token) => {
                    let shared = Arc::clone(&self.shared);
                    return Ok(Lease::new(move || {
                        shared.table().release(token);
                        shared.released.notify_waiters();
                    }));
                }
                Err(conflict) => conflict,
            };
            match bound {
                None => released.await,
                Some(bound) => {
                    if tokio::time::timeout_at(bound, released).await.is_err() {
                        return Err(SupervisorError::WorkspaceBusy(conflict));
                    }
                }
            }
        }
    }

    /// Whether nobody holds the workspace.
    pub fn is_free(&self) -> bool {
        self.shared.table().is_empty()
    }
}
