//! What the replies that are being made tell their owners, so that no two of them tell the same: the claims of all replies,
//! and the steps of one.
//!
//! Claims live in memory only: a reply that was handed over leaves its marks in the records, and one that was not leaves
//! nothing. It uses nothing but the mutex around the claims, so that its tests explore every interleaving of replies.
//!
//! Not for what is due: the records say that, see `notices`.

use std::collections::{HashMap, HashSet};

use procyard_core::{Handle, NotificationId, Owner};

use super::sync::MutexGuard;
use super::{Notice, NoticeKind};

/// A notice that its owner was not told.
pub(crate) struct Due {
    /// The place of its process in the order of admission; 0 of one that was evicted.
    pub(crate) sequence: u64,
    pub(crate) notice: Notice,
}

/// The records of a session, as far as telling goes.
pub(crate) trait Records {
    /// The claims, for one step of bookkeeping. Taken before anything that the other methods lock.
    fn claims(&self) -> MutexGuard<'_, Claims>;

    /// How many processes were admitted so far.
    fn admitted(&self) -> u64;

    /// What this owner was not told, in the order in which it is to be told.
    fn due(&self, owner: Owner) -> Vec<Due>;

    /// These notices were handed to the transport.
    fn delivered(&self, owner: Owner, notices: &[NotificationId]);

    /// The owner knows these outcomes, where there are any, from what was handed to the transport.
    fn learnt(&self, owner: Owner, handles: &[Handle]);
}

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
    fn cover(&self, owner: Owner, due: &Due) -> bool {
        let told_as_outcome = || {
            self.outcomes.contains_key(&(owner, due.notice.handle))
                || self.starts.values().any(|(of, before)| *of == owner && due.sequence > *before)
        };
        self.notices.contains(&due.notice.id)
            || (due.notice.kind == NoticeKind::Completed && told_as_outcome())
    }

    /// Of these notices, those that no reply is telling.
    pub(crate) fn open(&self, owner: Owner, due: Vec<Due>) -> Vec<Notice> {
        let due = due.into_iter().filter(|due| !self.cover(owner, due));
        due.map(|due| due.notice).collect()
    }

    fn release_start(&mut self, start: &mut Option<u64>) {
        if let Some(token) = start.take() {
            self.starts.remove(&token);
        }
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

/// One reply to an owner, from before its content is looked up until it was handed over or is lost. Dropping it gives up
/// what it claims.
pub(crate) struct Tale<R: Records> {
    records: R,
    owner: Owner,
    outcomes: HashSet<Handle>,
    start: Option<u64>,
    notices: Vec<NotificationId>,
}

impl<R: Records> Tale<R> {
    pub(crate) fn new(records: R, owner: Owner) -> Self {
        Self { records, owner, outcomes: HashSet::new(), start: None, notices: Vec::new() }
    }

    /// Claims the outcome of whatever is started from now on, until one of them is named.
    pub(crate) fn starts(&mut self) {
        let mut claims = self.records.claims();
        let before = self.records.admitted();
        claims.tokens += 1;
        let token = claims.tokens;
        claims.starts.insert(token, (self.owner, before));
        claims.release_start(&mut self.start);
        self.start = Some(token);
    }

    /// Claims the outcome of this process, if there is one by the time it is looked up.
    pub(crate) fn outcome(&mut self, handle: Handle) {
        let mut claims = self.records.claims();
        if self.outcomes.insert(handle) {
            *claims.outcomes.entry((self.owner, handle)).or_default() += 1;
        }
        claims.release_start(&mut self.start);
    }

    /// Gives up the claims on all outcomes but these.
    pub(crate) fn tells(&mut self, told: &[Handle]) {
        let mut claims = self.records.claims();
        let owner = self.owner;
        self.outcomes.retain(|handle| {
            let kept = told.contains(handle);
            if !kept {
                claims.release_outcome((owner, *handle));
            }
            kept
        });
        claims.release_start(&mut self.start);
    }

    /// Claims up to `most` notices that are due and that no reply is telling.
    pub(crate) fn take_notices(&mut self, most: usize) -> Vec<Notice> {
        let mut claims = self.records.claims();
        // Under the lock: what another reply has told meanwhile is either claimed by it still, or marked already.
        let mut open = claims.open(self.owner, self.records.due(self.owner));
        open.truncate(most);
        claims.notices.extend(open.iter().map(|notice| notice.id));
        self.notices.extend(open.iter().map(|notice| notice.id));
        open
    }

    /// Marks everything that it tells as told. The claims stay until it is dropped, so that there is no moment at which
    /// something is neither claimed nor marked.
    pub(crate) fn handed_over(&self) {
        self.records.delivered(self.owner, &self.notices);
        let told: Vec<Handle> = self.outcomes.iter().copied().collect();
        self.records.learnt(self.owner, &told);
    }
}

impl<R: Records> Drop for Tale<R> {
    fn drop(&mut self) {
        let mut claims = self.records.claims();
        for handle in self.outcomes.drain() {
            claims.release_outcome((self.owner, handle));
        }
        claims.release_start(&mut self.start);
        for notice in self.notices.drain(..) {
            claims.notices.remove(&notice);
        }
    }
}
