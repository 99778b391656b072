//! Callers that stay with a process: it is stopped when the last of them goes away before its result.
//!
//! Not for the stop itself: see `stop`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use procyard_core::{Handle, Owner, State};

use crate::course::{Standing, Waits};
use crate::entry::Entry;
use crate::shared::Shared;
use crate::{Snapshot, SupervisorError};

/// A caller that stays with a process until it has the result; several can, when they share an idempotency key.
///
/// Dropped without [`Attendance::release`] it means that the caller is gone. When the last one goes so from a process
/// that was not handed over, the process is [abandoned](crate::Supervisor::abandon); a start that others have joined goes
/// on when the caller that began it goes, and is abandoned with the last of them. Must be dropped within a runtime.
pub struct Attendance {
    shared: Arc<Shared>,
    owner: Owner,
    handle: Handle,
    /// `None`: there is no such process.
    entry: Option<Arc<Entry>>,
    released: AtomicBool,
}

impl Attendance {
    pub(crate) fn begin(shared: &Arc<Shared>, owner: Owner, handle: Handle) -> Self {
        let entry = shared.admit_loop(owner).and_then(|()| shared.find(owner, &handle)).ok();
        if let Some(entry) = &entry {
            entry.attending.fetch_add(1, Ordering::AcqRel);
        }
        let shared = Arc::clone(shared);
        Self { shared, owner, handle, entry, released: AtomicBool::new(false) }
    }

    /// Resolves when the process runs or has ended: of a start that another caller has begun, when it is known what came of
    /// it. Cancellation safe.
    pub async fn begun(&self) -> Result<Snapshot, SupervisorError> {
        let entry = self.entry.as_ref().ok_or(SupervisorError::NotFound)?;
        let begun = |standing: &Standing| {
            let starting = standing.life.state == State::Starting && standing.life.owner == self.owner;
            (!starting || standing.closed).then_some(())
        };
        entry.waiter(Waits::ForLife).until(begun).await;
        entry.snapshot_of(self.owner).ok_or(SupervisorError::NotFound)
    }

    /// The caller has its result, or needs none any more: its leaving stops nothing.
    pub fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let Some(entry) = &self.entry else { return };
        // One that still starts is nobody's who was not given its handle, also where it is to be a background process.
        let needs_somebody = || !entry.is_handed_over() || entry.state() == State::Starting;
        if entry.leave() && !self.released.load(Ordering::Relaxed) && needs_somebody() {
            crate::stop::abandon(&self.shared, self.owner, &self.handle);
        }
    }
}

impl std::fmt::Debug for Attendance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attendance").field("handle", &self.handle).finish_non_exhaustive()
    }
}
