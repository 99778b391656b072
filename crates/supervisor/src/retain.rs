//! What is kept of completed processes, and who goes first when it is too much.
//!
//! Not for running processes: those are never evicted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use procyard_core::{Handle, Owner};
use procyard_manifest::{Manifest, spool_name};
use tracing::warn;

use crate::entry::Entry;
use crate::finish::never_ran;
use crate::shared::{Registry, Shared};
use crate::{Notice, SupervisorError};

/// Notices of evicted processes that are kept for their owners; metadata only, so many fit.
const UNCLAIMED_MAX: usize = 1024;

/// A notice that outlived its process, since its owner did not ask in time.
pub(crate) struct Unclaimed {
    pub(crate) owner: Owner,
    pub(crate) completion: u64,
    pub(crate) notice: Notice,
}

impl Registry {
    pub(crate) fn insert(&mut self, entry: Arc<Entry>) {
        let owner = entry.owner();
        let never_ran = never_ran(&entry.record().manifest);
        if let Some(key) = entry.record().manifest.command.idempotency.as_ref().filter(|_| !never_ran) {
            let named = (entry.handle, key.digest.clone());
            self.idempotent.insert((owner, key.key.clone()), named);
        }
        self.entries.insert((owner, entry.handle), entry);
    }

    /// The process that this key started with these arguments.
    pub(crate) fn find_idempotent(
        &self,
        owner: Owner,
        key: &str,
        digest: &str,
    ) -> Result<Option<Handle>, SupervisorError> {
        match self.idempotent.get(&(owner, key.to_owned())) {
            None => Ok(None),
            Some((handle, known)) if known == digest => Ok(Some(*handle)),
            Some(_) => Err(SupervisorError::IdempotencyConflict),
        }
    }

    /// Lets the idempotency key of a process start another one; the key and its digest, where it had one.
    pub(crate) fn free_key(&mut self, owner: Owner, manifest: &Manifest) -> Option<(String, String)> {
        let key = (owner, manifest.command.idempotency.as_ref()?.key.clone());
        self.idempotent.get(&key).filter(|(handle, _)| *handle == manifest.identity.handle)?;
        let (_, digest) = self.idempotent.remove(&key)?;
        Some((key.1, digest))
    }

    /// Takes a process out, with what it holds of the limits.
    pub(crate) fn remove(&mut self, entry: &Entry) {
        let owner = entry.owner();
        self.entries.remove(&(owner, entry.handle));
        let mut record = entry.record();
        self.free_key(owner, &record.manifest);
        if let Some(reservation) = record.reservation.take() {
            self.ledger.release(reservation);
        }
        if let Some(retained) = record.retained.take() {
            self.ledger.forget(retained);
        }
        if let Some((completion, notice)) = record.completion.zip(record.notice_due()) {
            if self.unclaimed.len() >= UNCLAIMED_MAX {
                self.unclaimed.pop_front();
            }
            self.unclaimed.push_back(Unclaimed { owner, completion, notice });
        }
    }

    /// The processes of an owner.
    pub(crate) fn of(&self, owner: Owner) -> impl Iterator<Item = Arc<Entry>> {
        let mine = self.entries.iter().filter(move |((of, _), _)| *of == owner);
        mine.map(|(_, entry)| Arc::clone(entry))
    }

    /// Completed processes, the least recently used first.
    fn evictable(&self) -> Vec<Arc<Entry>> {
        let completed = self.entries.values().filter(|entry| entry.record().completion.is_some());
        let mut completed: Vec<_> = completed.cloned().collect();
        completed.sort_by_cached_key(|entry| {
            (entry.used.load(Ordering::Relaxed), entry.record().completion.unwrap_or(u64::MAX))
        });
        completed
    }

    /// Takes out the least recently used until `bytes` are free.
    pub(crate) fn evict_bytes(&mut self, bytes: u64) -> Vec<Handle> {
        let free = self.ledger.usage().retained_bytes.saturating_sub(bytes);
        let mut evicted = Vec::new();
        for entry in self.evictable() {
            if self.ledger.usage().retained_bytes <= free {
                break;
            }
            self.remove(&entry);
            evicted.push(entry.handle);
        }
        evicted
    }

    /// Takes out the least recently used beyond `keep`.
    fn evict_beyond(&mut self, keep: usize) -> Vec<Handle> {
        let completed = self.entries.values().filter(|entry| entry.record().completion.is_some()).count();
        let surplus = completed.saturating_sub(keep);
        if surplus == 0 {
            return Vec::new();
        }
        let oldest: Vec<_> = self.evictable().into_iter().take(surplus).collect();
        for entry in &oldest {
            self.remove(entry);
        }
        oldest.iter().map(|entry| entry.handle).collect()
    }
}

impl Shared {
    /// Evicts completed processes beyond the retention limit.
    pub(crate) fn evict_surplus(self: &Arc<Self>) {
        let keep = usize::try_from(self.limits.retained_per_session).unwrap_or(usize::MAX);
        let evicted = self.registry().evict_beyond(keep);
        self.remove_from_disk(evicted);
    }

    /// Takes a process that never came to be out of the registry.
    pub(crate) fn forget(&self, entry: &Entry) {
        self.registry().remove(entry);
        let lease = entry.record().lease.take();
        // Outside the lock: it calls whoever lent it.
        drop(lease);
    }

    /// Removes the manifest, then the spool, of each on a blocking thread: a crash between leaves an orphan spool, which
    /// the next restore sweeps.
    pub(crate) fn remove_from_disk(self: &Arc<Self>, handles: Vec<Handle>) {
        if handles.is_empty() {
            return;
        }
        let shared = Arc::clone(self);
        self.tasks.spawn_blocking(move || {
            for handle in handles {
                let removed = shared
                    .manifests
                    .remove(&handle)
                    .and_then(|()| procyard_spool::remove(shared.root.as_ref(), &spool_name(&handle)));
                if let Err(error) = removed {
                    warn!(?handle, %error, "an evicted process could not be removed from disk");
                }
            }
        });
    }

    /// All processes of an owner; none of a loop that was closed.
    pub(crate) fn entries_of(&self, owner: Owner) -> Vec<Arc<Entry>> {
        let registry = self.registry();
        if registry.closed_loops.contains(&owner) { Vec::new() } else { registry.of(owner).collect() }
    }
}
