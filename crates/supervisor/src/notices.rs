//! What an owner has not been told yet: derived from the records, so that it survives a restart.
//!
//! Not for pushing: a bound notifier gets every notice as it arises.

use std::sync::Arc;

use procyard_core::{Handle, NotificationId, Owner};
use tracing::warn;

use crate::claims::Due;
use crate::entry::Entry;
use crate::shared::Shared;
use crate::{Notice, Snapshot};

/// Undelivered notices of this owner, in the order of completion; stalls after completions, in the order of admission.
pub(crate) fn due(shared: &Shared, owner: Owner) -> Vec<Due> {
    let entries = shared.entries_of(owner);
    let completed = entries.iter().filter_map(|entry| {
        let (order, notice) = entry.pending_notice()?;
        Some((order, Due { sequence: entry.sequence, notice }))
    });
    let mut completions: Vec<_> = completed.collect();
    // After the entries, so that one that is evicted meanwhile is told twice rather than never.
    completions.extend(shared.unclaimed_of(owner));
    completions.sort_by_key(|(order, _)| *order);
    completions.dedup_by_key(|(order, _)| *order);
    let stalls = entries.iter().filter_map(|entry| {
        let notice = entry.record().stall.clone()?;
        Some(Due { sequence: entry.sequence, notice })
    });
    let mut stalls: Vec<_> = stalls.collect();
    stalls.sort_by_key(|due| due.sequence);
    completions.into_iter().map(|(_, due)| due).chain(stalls).collect()
}

/// Undelivered notices of this owner that no reply is telling.
pub(crate) fn open(shared: &Shared, owner: Owner) -> Vec<Notice> {
    let claims = shared.claims();
    claims.open(owner, due(shared, owner))
}

/// A process of this owner, also one that was evicted and whose notice is still to be told.
pub(crate) fn process_of(shared: &Shared, owner: Owner, handle: &Handle) -> Option<Snapshot> {
    let entry = {
        let registry = shared.registry();
        if registry.closed_loops.contains(&owner) {
            return None;
        }
        let evicted = || registry.unclaimed.iter().find(|entry| entry.handle == *handle);
        Arc::clone(registry.entries.get(&(owner, *handle)).or_else(evicted)?)
    };
    entry.snapshot_of(owner)
}

/// These notices were handed to the transport.
pub(crate) fn delivered(shared: &Arc<Shared>, owner: Owner, notices: &[NotificationId]) {
    if notices.is_empty() {
        return;
    }
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
    // After the entries: one that is evicted meanwhile is found here.
    for entry in shared.take_unclaimed(owner, |entry| notices.contains(&entry.notification())) {
        settle(shared, entry);
    }
}

/// The owner knows these outcomes from results that were handed to the transport: their notices are suppressed.
pub(crate) fn learnt(shared: &Arc<Shared>, owner: Owner, handles: &[Handle]) {
    if handles.is_empty() || shared.admit_loop(owner).is_err() {
        return;
    }
    for handle in handles {
        if let Ok(entry) = shared.find(owner, handle)
            && entry.is_terminal()
        {
            settle(shared, entry);
        }
    }
    for entry in shared.take_unclaimed(owner, |entry| handles.contains(&entry.handle)) {
        settle(shared, entry);
    }
}

impl Shared {
    /// The notices of this owner's evicted processes, with their places in the order of completion; none of a loop that
    /// was closed.
    fn unclaimed_of(&self, owner: Owner) -> Vec<(u64, Due)> {
        let registry = self.registry();
        if registry.closed_loops.contains(&owner) {
            return Vec::new();
        }
        let mine = registry.unclaimed.iter().filter(|entry| entry.owner() == owner);
        let due = mine.filter_map(|entry| entry.pending_notice());
        due.map(|(completion, notice)| (completion, Due { sequence: 0, notice })).collect()
    }

    /// Takes out those of this owner's evicted processes that it was told of.
    fn take_unclaimed(&self, owner: Owner, told: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        let mut registry = self.registry();
        if registry.closed_loops.contains(&owner) {
            return Vec::new();
        }
        let (told, kept) = std::mem::take(&mut registry.unclaimed)
            .into_iter()
            .partition(|entry| entry.owner() == owner && told(entry));
        registry.unclaimed = kept;
        Vec::from(told)
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
        if let Err(error) = shared.note_told(&entry, |_| {}).await {
            warn!(handle = ?entry.handle, %error, "a delivered notice could not be marked; it may come again");
        }
    });
}
