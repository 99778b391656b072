//! A reply to an owner, as whoever makes it holds it: what it tells is told by no other.
//!
//! Not for the bookkeeping: see `claims`.

use std::sync::Arc;

use procyard_core::{Handle, NotificationId, Owner};

use crate::claims::{Claims, Due, Records, Tale};
use crate::shared::Shared;
use crate::sync::MutexGuard;
use crate::{Notice, Snapshot, notices};

impl Records for Arc<Shared> {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        Shared::claims(self)
    }

    fn admitted(&self) -> u64 {
        self.registry().admitted
    }

    fn due(&self, owner: Owner) -> Vec<Due> {
        notices::due(self, owner)
    }

    fn delivered(&self, owner: Owner, notices: &[NotificationId]) {
        notices::delivered(self, owner, notices);
    }

    fn learnt(&self, owner: Owner, handles: &[Handle]) {
        notices::learnt(self, owner, handles);
    }
}

/// One reply to an owner while it is being made and on its way: the outcomes and notices that it tells are offered to
/// no other reply meanwhile.
///
/// What it tells counts as told from [`Telling::handed_over`] on. Dropped without that, everything is offered anew.
/// An outcome is claimed before it is looked up; a notice that another reply is carrying at that moment is then told
/// twice, which is the only case.
pub struct Telling {
    shared: Arc<Shared>,
    owner: Owner,
    tale: Tale<Arc<Shared>>,
}

impl Telling {
    pub(crate) fn new(shared: &Arc<Shared>, owner: Owner) -> Self {
        Self { shared: Arc::clone(shared), owner, tale: Tale::new(Arc::clone(shared), owner) }
    }

    /// The reply is to tell how a process ended that it is about to start: until [`Telling::outcome`] names that one, no
    /// other reply carries the notice of a process that is started from now on.
    pub fn starts(&mut self) {
        self.tale.starts();
    }

    /// The reply is to tell how this process ended, if it has by the time it is looked up. Whether the owner has such a
    /// process makes no difference.
    pub fn outcome(&mut self, handle: Handle) {
        self.tale.outcome(handle);
    }

    /// Of the outcomes that were claimed, the reply tells only these. Call it once the reply is written, before its
    /// notices are taken.
    pub fn tells(&mut self, told: &[Handle]) {
        self.tale.tells(told);
    }

    /// Up to `most` notices that the owner was not told yet and that no other reply is telling, in the order of
    /// [`Supervisor::notices`](crate::Supervisor::notices). The reply carries them.
    pub fn take_notices(&mut self, most: usize) -> Vec<Notice> {
        self.tale.take_notices(most)
    }

    /// The process that a notice is of, also where it was evicted since; `None` where the notice was given up, too.
    pub fn process_of(&self, notice: &Notice) -> Option<Snapshot> {
        notices::process_of(&self.shared, self.owner, &notice.handle)
    }

    /// The reply was handed to the transport: its owner knows what it tells. Repeating it changes nothing. Must be called
    /// within a runtime.
    pub fn handed_over(&self) {
        self.tale.handed_over();
    }
}

impl std::fmt::Debug for Telling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telling").finish_non_exhaustive()
    }
}
