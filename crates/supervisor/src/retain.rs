//! What is kept of completed processes, and who goes first when it is too much.
//!
//! Not for running processes: those are never evicted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use procyard_core::{Handle, Owner};
use procyard_manifest::{Durability, Manifest, spool_name};
use tokio::task::JoinHandle;
use tracing::warn;

use crate::SupervisorError;
use crate::entry::Entry;
use crate::finish::was_given_up;
use crate::shared::{Registry, Shared, blocking};

/// How many evicted processes are kept for the notices that their owners did not ask for in time; metadata only, so
/// many fit.
const UNCLAIMED_MAX: usize = 1024;

/// Which of two processes of one owner with the same key the key names: what the owner started itself, the latest of that;
/// else what it was given first, as at the time of the transfers.
fn holds_before(one: &Manifest, other: &Manifest) -> bool {
    let own = |manifest: &Manifest| {
        manifest.transfers.first().is_none_or(|transfer| transfer.from == manifest.identity.owner)
    };
    let given =
        |manifest: &Manifest| (manifest.transfers.last().map(|transfer| transfer.at), manifest.created_at);
    match (own(one), own(other)) {
        (true, true) => one.created_at > other.created_at,
        (false, false) => given(one) < given(other),
        (own, _) => own,
    }
}

impl Registry {
    pub(crate) fn insert(&mut self, entry: Arc<Entry>) {
        let owner = entry.owner();
        let manifest = entry.record().manifest.clone();
        if let Some(key) = manifest.command.idempotency.as_ref().filter(|_| !was_given_up(&manifest)) {
            let place = (owner, key.key.clone());
            let holder =
                self.idempotent.get(&place).and_then(|(handle, _)| self.entries.get(&(owner, *handle)));
            if !holder.is_some_and(|holder| holds_before(&holder.record().manifest, &manifest)) {
                self.idempotent.insert(place, (entry.handle, key.digest.clone()));
            }
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
    }

    /// Takes a completed process out, and keeps it for its notice where its owner was not told. What is to be removed
    /// from disk for that goes into `evicted`.
    fn evict(&mut self, entry: Arc<Entry>, evicted: &mut Vec<Arc<Entry>>) {
        self.remove(&entry);
        if entry.pending_notice().is_some() {
            evicted.extend(self.keep_unclaimed(&entry));
        }
        evicted.push(entry);
    }

    /// Keeps an evicted process for its notice. When that is too many, the oldest is given up: nobody asked for it.
    pub(crate) fn keep_unclaimed(&mut self, entry: &Arc<Entry>) -> Option<Arc<Entry>> {
        self.unclaimed.push_back(Arc::clone(entry));
        let given_up = if self.unclaimed.len() > UNCLAIMED_MAX { self.unclaimed.pop_front() } else { None };
        if let Some(given_up) = &given_up {
            given_up.record().manifest.published.notification = true;
        }
        given_up
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
    pub(crate) fn evict_bytes(&mut self, bytes: u64) -> Vec<Arc<Entry>> {
        let free = self.ledger.usage().retained_bytes.saturating_sub(bytes);
        let mut evicted = Vec::new();
        for entry in self.evictable() {
            if self.ledger.usage().retained_bytes <= free {
                break;
            }
            self.evict(entry, &mut evicted);
        }
        evicted
    }

    /// Takes out the least recently used beyond `keep`.
    fn evict_beyond(&mut self, keep: usize) -> Vec<Arc<Entry>> {
        let completed = self.entries.values().filter(|entry| entry.record().completion.is_some()).count();
        let surplus = completed.saturating_sub(keep);
        if surplus == 0 {
            return Vec::new();
        }
        let mut evicted = Vec::new();
        for entry in self.evictable().into_iter().take(surplus) {
            self.evict(entry, &mut evicted);
        }
        evicted
    }
}

/// Takes a completed process of this owner out, and removes what it has on disk.
pub(crate) async fn remove(
    shared: &Arc<Shared>,
    owner: Owner,
    handle: &Handle,
) -> Result<(), SupervisorError> {
    shared.admit_calls()?;
    let entry = shared.find(owner, handle)?;
    let mut removed = Vec::new();
    {
        let mut registry = shared.registry();
        // Nobody else has removed it, or given it away, since it was found.
        if !registry.entries.contains_key(&(owner, *handle)) {
            return Err(SupervisorError::NotFound);
        }
        if entry.record().completion.is_none() {
            return Err(SupervisorError::NotEnded);
        }
        registry.evict(entry, &mut removed);
    }
    let clearing = shared.remove_from_disk(removed);
    match clearing {
        // It is removed, whatever the disk says: what is left of it goes with the session.
        Some(clearing) => clearing.await.map_err(|_| SupervisorError::Internal("removing a process failed")),
        None => Ok(()),
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
        entry.course.close();
        let lease = entry.record().lease.take();
        // Outside the lock: it calls whoever lent it.
        drop(lease);
    }

    /// Removes what evicted processes have on disk, on a blocking thread.
    pub(crate) fn remove_from_disk(self: &Arc<Self>, evicted: Vec<Arc<Entry>>) -> Option<JoinHandle<()>> {
        if evicted.is_empty() {
            return None;
        }
        let shared = Arc::clone(self);
        Some(self.tasks.spawn_blocking(move || {
            for entry in evicted {
                if let Err(error) = shared.clear(&entry) {
                    warn!(handle = ?entry.handle, %error, "an evicted process could not be removed from disk");
                }
            }
        }))
    }

    /// Removes the manifest, then the spool: a crash between leaves an orphan spool, which the next restore sweeps. While
    /// something of the end is still to be told, the manifest stays, marked, so that it survives a crash, too.
    fn clear(&self, entry: &Entry) -> io::Result<()> {
        if !self.owes(entry) {
            self.manifests.remove(&entry.handle)?;
        } else if !entry.record().manifest.evicted {
            let mark = |manifest: &mut Manifest| manifest.evicted = true;
            entry.update(&self.manifests, Durability::Synced, mark).map_err(io::Error::other)?;
        }
        procyard_spool::remove(self.root.as_ref(), &spool_name(&entry.handle))?;
        self.forget_told(entry)
    }

    /// Removes the manifest of an evicted process once nothing is to be told of it. Whatever comes last, the eviction or
    /// the telling, calls this afterwards and finds both done.
    fn forget_told(&self, entry: &Entry) -> io::Result<()> {
        if self.is_forgotten(entry) { self.manifests.remove(&entry.handle) } else { Ok(()) }
    }

    /// Whether a process is evicted and nothing is to be told of it any more, so that it has no record.
    pub(crate) fn is_forgotten(&self, entry: &Entry) -> bool {
        let evicted = entry.record().manifest.evicted;
        evicted && !self.owes(entry)
    }

    /// Saves what was told of a process, as `mark` notes it; of an evicted one that was the last use of its record.
    pub(crate) async fn note_told(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        mark: impl Fn(&mut Manifest) + Send + 'static,
    ) -> Result<(), SupervisorError> {
        self.update(entry, Durability::Written, mark).await?;
        self.forget_if_told(entry).await
    }

    /// Removes the record of an evicted process that nothing is to be told of any more. After every save of one, since
    /// a save may bring back what was just removed.
    pub(crate) async fn forget_if_told(self: &Arc<Self>, entry: &Arc<Entry>) -> Result<(), SupervisorError> {
        if !entry.record().manifest.evicted {
            return Ok(());
        }
        let (shared, entry) = (Arc::clone(self), Arc::clone(entry));
        blocking(move || shared.forget_told(&entry)).await?.map_err(SupervisorError::storage)
    }

    /// Whether the end of a process is still to be published, or its owner to be told of it.
    fn owes(&self, entry: &Entry) -> bool {
        let record = entry.record();
        (self.publishes() && !record.manifest.published.completion) || record.notice_due().is_some()
    }

    /// All processes of an owner; none of a loop that was closed.
    pub(crate) fn entries_of(&self, owner: Owner) -> Vec<Arc<Entry>> {
        let registry = self.registry();
        if registry.closed_loops.contains(&owner) { Vec::new() } else { registry.of(owner).collect() }
    }
}
