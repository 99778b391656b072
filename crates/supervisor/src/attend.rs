//! Callers that stay with a process: it is stopped when the last of them goes away before its result.
//!
//! Not for the stop itself: see `stop`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use procyard_core::{Handle, Owner};

use crate::entry::Entry;
use crate::shared::Shared;

/// A caller that stays with a process until it has the result; several can, when they share an idempotency key.
///
/// Dropped without [`Attendance::release`] it means that the caller is gone. When the last one goes so from a process
/// that was not handed over, the process is [abandoned](crate::Supervisor::abandon). Must be dropped within a runtime.
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

    /// The caller has its result, or needs none any more: its leaving stops nothing.
    pub fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let Some(entry) = &self.entry else { return };
        let last = entry.attending.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && !self.released.load(Ordering::Relaxed) && !entry.is_handed_over() {
            crate::stop::abandon(&self.shared, self.owner, &self.handle);
        }
    }
}

impl std::fmt::Debug for Attendance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attendance").field("handle", &self.handle).finish_non_exhaustive()
    }
}
