//! What a new supervisor makes of the records of an old one, once, before any call is served.
//!
//! Not for finding old processes: whatever ran is gone when the session's lock is free, and a recorded PID is never
//! read.

use std::collections::HashMap;
use std::sync::Arc;

use procyard_core::{Handle, Outcome, Reason, State, Timestamp};
use procyard_manifest::{Durability, Manifest, ManifestError, Scan, Transfer, manifest_name, spool_name};
use procyard_spool::Spool;
use tracing::warn;

use crate::SupervisorError;
use crate::entry::{Entry, Record};
use crate::outbox::{EventItem, NoticeItem};
use crate::shared::{Registry, Shared};

/// What a restore found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Completed processes that can be asked for again.
    pub restored: usize,
    /// Processes that were running or starting, and are lost.
    pub lost: usize,
    /// File names of records that do not load, and why. They are left as they are.
    pub unreadable: Vec<(String, String)>,
    /// Spools without a record that were removed.
    pub orphans_removed: usize,
    /// Temporary files of interrupted saves that were removed.
    pub temporaries_removed: usize,
}

/// Scans the records and registers every process. Blocking.
pub(crate) fn restore(shared: &Arc<Shared>) -> Result<RestoreReport, SupervisorError> {
    let scan = shared.manifests.scan().map_err(SupervisorError::storage)?;
    let mut report = RestoreReport {
        temporaries_removed: scan.swept_temporaries,
        unreadable: unreadable(&scan),
        ..RestoreReport::default()
    };
    for name in &scan.orphan_spools {
        match procyard_spool::remove(shared.root.as_ref(), name) {
            Ok(()) => report.orphans_removed += 1,
            Err(error) => warn!(%error, "an orphan spool could not be removed"),
        }
    }
    let mut manifests = scan.manifests;
    manifests.sort_by_key(|manifest| (manifest.created_at, manifest.identity.handle));
    let mut found = Vec::with_capacity(manifests.len());
    for mut manifest in manifests {
        if manifest.identity.owner.session != shared.session {
            report
                .unreadable
                .push((manifest_name(&manifest.identity.handle), "of another session".to_owned()));
            continue;
        }
        if manifest.evicted {
            // Not to be asked for again; it is there for what is still to be told.
        } else if manifest.state.is_terminal() {
            report.restored += 1;
        } else {
            match lose(shared, &mut manifest) {
                Ok(()) => report.lost += 1,
                Err(error @ ManifestError::Io(_)) => return Err(SupervisorError::storage(error)),
                // One record that cannot go on hides no other.
                Err(error) => {
                    report.unreadable.push((manifest_name(&manifest.identity.handle), error.to_string()));
                    continue;
                }
            }
        }
        found.push(manifest);
    }
    register(shared, found);
    Ok(report)
}

/// Repairs and syncs the spool of a process that a crash cut short, and makes it lost, durably.
fn lose(shared: &Shared, manifest: &mut Manifest) -> Result<(), ManifestError> {
    let handle = manifest.identity.handle;
    let options = shared.spool_options_of(manifest);
    match Spool::recover(Arc::clone(&shared.root), &spool_name(&handle), options) {
        Ok((mut spool, found)) => {
            if let Err(error) = spool.sync() {
                warn!(?handle, %error, "the output of a lost process could not be synced");
                manifest.storage_degraded = true;
            }
            let bounds = spool.reader().bounds();
            let shorter = bounds.total_bytes < manifest.spool.total_bytes
                || bounds.retained_from < manifest.spool.retained_from;
            manifest.storage_degraded |= shorter || found.damaged || found.holes;
            // What the spool holds is believed; what the record said beyond that is gone.
            manifest.spool.total_bytes = bounds.total_bytes;
            manifest.spool.retained_from = bounds.retained_from;
            manifest.spool.disk_bytes = Some(spool.reader().disk_bytes());
        }
        Err(error) => {
            warn!(?handle, %error, "the output of a lost process does not read");
            manifest.storage_degraded = true;
        }
    }
    let outcome = Outcome::diagnosed(Reason::LostOnRestore, "its supervisor ended while it ran");
    let at = shared.clock.now().max(manifest.started_at.unwrap_or(manifest.created_at));
    manifest.finish(State::LostOnRestore, outcome, at);
    shared.manifests.save_with(manifest, Durability::Synced)
}

/// Registers the processes, in the order of their admission, and has everything told that is not known to be told, in
/// the order of their ends.
fn register(shared: &Arc<Shared>, manifests: Vec<Manifest>) {
    let mut ends: Vec<(Option<Timestamp>, Handle)> =
        manifests.iter().map(|manifest| (manifest.finished_at, manifest.identity.handle)).collect();
    ends.sort_unstable();
    let order: HashMap<Handle, u64> =
        ends.into_iter().zip(1..).map(|((_, handle), order)| (handle, order)).collect();
    let (mut found, mut evicted) = (Vec::with_capacity(manifests.len()), Vec::new());
    {
        let mut registry = shared.registry();
        for manifest in manifests {
            let completion = order.get(&manifest.identity.handle).copied().unwrap_or(0);
            let entry = enter(shared, &mut registry, manifest, completion);
            if entry.record().manifest.evicted {
                evicted.push(Arc::clone(&entry));
            } else {
                registry.insert(Arc::clone(&entry));
            }
            found.push((completion, entry));
        }
        found.sort_by_key(|(completion, _)| *completion);
        // The latest ends are kept when there are too many.
        for (_, entry) in &found {
            if entry.record().manifest.evicted && entry.pending_notice().is_some() {
                evicted.extend(registry.keep_unclaimed(entry));
            }
        }
    }
    for (_, entry) in found {
        tell_again(shared, &entry);
    }
    shared.remove_from_disk(evicted);
}

/// What is known of a process that ended before.
fn enter(shared: &Shared, registry: &mut Registry, manifest: Manifest, completion: u64) -> Arc<Entry> {
    let options = shared.spool_options_of(&manifest);
    let spool = &manifest.spool;
    let bytes = spool.disk_bytes.unwrap_or(spool.total_bytes - spool.retained_from);
    let retained = (!manifest.evicted).then(|| registry.ledger.adopt(bytes));
    let record = Record {
        manifest,
        deadline: None,
        lease: None,
        reservation: None,
        retained,
        hand_over_unsaid: false,
        joined: false,
        completion: Some(completion),
        // Before this supervisor, or soon, before any call is served.
        announced: true,
        stall: None,
    };
    registry.admitted += 1;
    registry.completed = registry.completed.max(completion);
    Arc::new(Entry::restored(record, registry.admitted, options))
}

/// Queues what is not known to be told: when the end of a process is not marked as published, nothing else of it may be.
fn tell_again(shared: &Arc<Shared>, entry: &Arc<Entry>) {
    let (events, moves, notice) = {
        let record = entry.record();
        let manifest = &record.manifest;
        let known = manifest.published.completion || !shared.publishes();
        let events = if known { Vec::new() } else { manifest.events() };
        (events, manifest.transfers.clone(), record.notice_due())
    };
    for event in events {
        shared.events.push(EventItem { event, entry: Arc::clone(entry) });
    }
    if let Some(notice) = notice {
        for Transfer { from, to, .. } in moves {
            // A notice may have been taken before a move that its notifier did not learn of.
            shared.notices.push(NoticeItem::Moved { handle: entry.handle, from, to });
        }
        shared.notify(entry.owner(), notice);
    }
}

fn unreadable(scan: &Scan) -> Vec<(String, String)> {
    let corrupt = scan.corrupt.iter().map(|(name, why)| (name.clone(), why.to_string()));
    let newer =
        scan.newer.iter().map(|(name, version)| (name.clone(), format!("written by version {version}")));
    corrupt.chain(newer).collect()
}
