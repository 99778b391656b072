//! What a new supervisor makes of the records of an old one, once, before any call is served.
//!
//! Not for finding old processes: whatever ran is gone when the session's lock is free, and a recorded PID is never
//! read.

use std::sync::Arc;

use procyard_core::{Handle, Outcome, Reason, State, Timestamp};
use procyard_manifest::{Durability, Manifest, ManifestError, Scan, Transfer, manifest_name, spool_name};
use procyard_spool::Spool;
use tracing::warn;

use crate::SupervisorError;
use crate::entry::{Entry, Record};
use crate::finish::announce;
use crate::outbox::NoticeItem;
use crate::shared::Shared;

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
        if manifest.state.is_terminal() {
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

/// Registers the processes, in the order of their admission; completions in the order of their ends.
fn register(shared: &Arc<Shared>, manifests: Vec<Manifest>) {
    let mut ends: Vec<(Option<Timestamp>, Handle)> =
        manifests.iter().map(|manifest| (manifest.finished_at, manifest.identity.handle)).collect();
    ends.sort_unstable();
    let order: std::collections::HashMap<Handle, u64> =
        ends.into_iter().zip(1..).map(|((_, handle), order)| (handle, order)).collect();
    let mut announced = Vec::new();
    {
        let mut registry = shared.registry();
        for manifest in manifests {
            let options = shared.spool_options_of(&manifest);
            let bytes = manifest
                .spool
                .disk_bytes
                .unwrap_or(manifest.spool.total_bytes - manifest.spool.retained_from);
            let completion = order.get(&manifest.identity.handle).copied();
            let record = Record {
                manifest,
                deadline: None,
                lease: None,
                reservation: None,
                retained: Some(registry.ledger.adopt(bytes)),
                completion,
                // Before this supervisor, or below, before any call is served.
                announced: true,
                stall: None,
            };
            let unpublished = !record.manifest.published.completion || record.notice_due().is_some();
            registry.admitted += 1;
            registry.completed = registry.completed.max(completion.unwrap_or(0));
            let entry = Arc::new(Entry::restored(record, registry.admitted, options));
            registry.insert(Arc::clone(&entry));
            if unpublished {
                announced.push((completion, entry));
            }
        }
    }
    announced.sort_by_key(|(completion, _)| *completion);
    for (_, entry) in announced {
        let moves = entry.record().manifest.transfers.clone();
        for Transfer { from, to, .. } in moves {
            // A notice may have been taken before a move that its notifier did not learn of.
            shared.notices.push(NoticeItem::Moved { handle: entry.handle, from, to });
        }
        announce(shared, &entry);
    }
}

fn unreadable(scan: &Scan) -> Vec<(String, String)> {
    let corrupt = scan.corrupt.iter().map(|(name, why)| (name.clone(), why.to_string()));
    let newer =
        scan.newer.iter().map(|(name, version)| (name.clone(), format!("written by version {version}")));
    corrupt.chain(newer).collect()
}
