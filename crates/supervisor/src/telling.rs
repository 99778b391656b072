//! What the replies that are being made tell their owners, so that no two of them tell the same.
//!
//! Claims live in memory only: a reply that was handed over leaves its marks in the records, and one that was not leaves
//! nothing. Not for what is due: see `notices`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use procyard_core::{Handle, NotificationId, Owner};

use crate::notices::{self, Due};
use crate::shared::Shared;
use crate::{Notice, NoticeKind};

/// What the replies that are being made are going to tell.
#[derive(Default)]
pub(crate) struct Claims {
    /// Processes whose outcome is told, where there is one by then, and by how many replies.
    outcomes: HashMap<(Owner, Handle), usize>,
    /// Starts whose outcome is told, and how many processes had been admitted before each.
    starts: HashMap<u64, (Owner, u64)>,
    notices: HashSet<NotificationId>,
    tokens: u64,
}

impl Claims {
    /// Whether some reply is telling this.
    pub(crate) fn cover(&self, owner: Owner, due: &Due) -> bool {
        let told_as_outcome = || {
            self.outcomes.contains_key(&(owner, due.notice.handle))
                || self.starts.values().any(|(of, before)| *of == owner && due.sequence > *before)
        };
        self.notices.contains(&due.notice.id)
            || (due.notice.kind == NoticeKind::Completed && told_as_outcome())
    }

    fn release_outcome(&mut self, key: (Owner, Handle)) {
        if let Some(replies) = self.outcomes.get_mut(&key) {
            *replies -= 1;
            if *replies == 0 {
                self.outcomes.remove(&key);
            }
        }
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
    outcomes: HashSet<Handle>,
    start: Option<u64>,
    notices: Vec<NotificationId>,
}

impl Telling {
    pub(crate) fn new(shared: &Arc<Shared>, owner: Owner) -> Self {
        let shared = Arc::clone(shared);
        Self { shared, owner, outcomes: HashSet::new(), start: None, notices: Vec::new() }
    }

    /// The reply is to tell how a process ended that it is about to start: until [`Telling::outcome`] names that one, no
    /// other reply carries the notice of a process that is started from now on.
    pub fn starts(&mut self) {
        let mut claims = self.shared.claims();
        let before = self.shared.registry().admitted;
        claims.tokens += 1;
        let token = claims.tokens;
        claims.starts.insert(token, (self.owner, before));
        if let Some(earlier) = self.start.replace(token) {
            claims.starts.remove(&earlier);
        }
    }

    /// The reply is to tell how this process ended, if it has by the time it is looked up. Whether the owner has such a
    /// process makes no difference.
    pub fn outcome(&mut self, handle: Handle) {
        let mut claims = self.shared.claims();
        if self.outcomes.insert(handle) {
            *claims.outcomes.entry((self.owner, handle)).or_default() += 1;
        }
        if let Some(token) = self.start.take() {
            claims.starts.remove(&token);
        }
    }

    /// Of the outcomes that were claimed, the reply tells only these. Call it once the reply is written, before its
    /// notices are taken.
    pub fn tells(&mut self, told: &[Handle]) {
        let mut claims = self.shared.claims();
        let owner = self.owner;
        self.outcomes.retain(|handle| {
            let kept = told.contains(handle);
            if !kept {
                claims.release_outcome((owner, *handle));
            }
            kept
        });
        if let Some(token) = self.start.take() {
            claims.starts.remove(&token);
        }
    }

    /// Up to `most` notices that the owner was not told yet and that no other reply is telling, in the order of
    /// [`Supervisor::notices`](crate::Supervisor::notices). The reply carries them.
    pub fn take_notices(&mut self, most: usize) -> Vec<Notice> {
        let mut claims = self.shared.claims();
        let mut open = notices::open(&self.shared, &claims, self.owner);
        open.truncate(most);
        claims.notices.extend(open.iter().map(|notice| notice.id));
        self.notices.extend(open.iter().map(|notice| notice.id));
        open
    }

    /// The reply was handed to the transport: its owner knows what it tells. Repeating it changes nothing. Must be called
    /// within a runtime.
    pub fn handed_over(&self) {
        notices::delivered(&self.shared, self.owner, &self.notices);
        let told: Vec<Handle> = self.outcomes.iter().copied().collect();
        notices::learnt(&self.shared, self.owner, &told);
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let mut claims = self.shared.claims();
        for handle in self.outcomes.drain() {
            claims.release_outcome((self.owner, handle));
        }
        if let Some(token) = self.start.take() {
            claims.starts.remove(&token);
        }
        for notice in self.notices.drain(..) {
            claims.notices.remove(&notice);
        }
    }
}

impl std::fmt::Debug for Telling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telling").finish_non_exhaustive()
    }
}
