//! What an owner has not been told yet: derived from the records, so that it survives a restart.
//!
//! Not for pushing: a bound notifier gets every notice as it arises.

use std::sync::Arc;

use procyard_core::{Handle, NotificationId, Owner};
use procyard_manifest::Durability;
use tracing::warn;

use crate::Notice;
use crate::entry::Entry;
use crate::shared::Shared;

/// Undelivered notices of this owner, in the order of completion; stalls after completions.
pub(crate) fn pending(shared: &Shared, owner: Owner) -> Vec<Notice> {
    let entries = shared.entries_of(owner);
    let mut completions: Vec<_> = entries.iter().filter_map(|entry| entry.pending_notice()).collect();
    // After the entries, so that one that is evicted meanwhile is told twice rather than never.
    completions.extend(shared.unclaimed_of(owner));
    completions.sort_by_key(|(order, _)| *order);
    completions.dedup_by_key(|(order, _)| *order);
    let stalls = entries.iter().filter_map(|entry| entry.record().stall.clone());
    completions.into_iter().map(|(_, notice)| notice).chain(stalls).collect()
}

/// Whether this owner has undelivered notices.
pub(crate) fn any_pending(shared: &Shared, owner: Owner) -> bool {
    shared
        .entries_of(owner)
        .iter()
        .any(|entry| entry.pending_notice().is_some() || entry.record().stall.is_some())
        || !shared.unclaimed_of(owner).is_empty()
}

/// These notices were handed to the transport.
pub(crate) fn delivered(shared: &Arc<Shared>, owner: Owner, notices: &[NotificationId]) {
    shared.claim(owner, |notice| notices.contains(&notice.id));
    for entry in shared.entries_of(owner) {
        if notices.contains(&entry.notification()) {
            settle(shared, entry);
        } else {
            let mut record = entry.record();
            if record.stall.as_ref().is_some_and(|stall| notices.contains(&stall.id)) {
                record.stall = None;
            }
        }
    }
}

/// The owner knows these outcomes from results that were handed to the transport: their notices are suppressed.
pub(crate) fn learnt(shared: &Arc<Shared>, owner: Owner, handles: &[Handle]) {
    shared.claim(owner, |notice| handles.contains(&notice.handle));
    for handle in handles {
        if let Ok(entry) = shared.find(owner, handle)
            && entry.is_terminal()
        {
            settle(shared, entry);
        }
    }
}

impl Shared {
    /// The notices of this owner's evicted processes, with their places in the order of completion.
    fn unclaimed_of(&self, owner: Owner) -> Vec<(u64, Notice)> {
        let registry = self.registry();
        let mine = registry.unclaimed.iter().filter(|unclaimed| unclaimed.owner == owner);
        mine.map(|unclaimed| (unclaimed.completion, unclaimed.notice.clone())).collect()
    }

    /// Forgets notices of this owner's evicted processes.
    fn claim(&self, owner: Owner, told: impl Fn(&Notice) -> bool) {
        self.registry().unclaimed.retain(|unclaimed| unclaimed.owner != owner || !told(&unclaimed.notice));
    }
}

/// Marks the completion notice as delivered, in memory at once and on disk soon after: a crash between delivers it
/// again, with the same id.
fn settle(shared: &Arc<Shared>, entry: Arc<Entry>) {
    let was_due = {
        let mut record = entry.record();
        if record.completion.is_none() || record.manifest.published.notification {
            return;
        }
        let was_due = record.notice_due().is_some();
        record.manifest.published.notification = true;
        was_due
    };
    // Where no notice was due, a restart knows that without the mark.
    if was_due {
        remember(shared, &entry);
    }
}

/// Saves what is marked in memory.
pub(crate) fn remember(shared: &Arc<Shared>, entry: &Arc<Entry>) {
    let (shared, entry) = (Arc::clone(shared), Arc::clone(entry));
    shared.tasks.clone().spawn(async move {
        // The marks are in the value that the save starts from.
        if let Err(error) = shared.update(&entry, Durability::Written, |_| {}).await {
            warn!(handle = ?entry.handle, %error, "a delivered notice could not be marked; it may come again");
        }
    });
}
