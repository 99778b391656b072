//! Giving everything that one loop owns to another loop of the same session.
//!
//! Not for owners: whoever hosts the session decides, no process and no tool does.

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{Handle, Owner, Refusal, Timestamp};
use procyard_manifest::{Durability, TRANSFERS_MAX};
use tracing::{error, warn};

use crate::SupervisorError;
use crate::entry::Entry;
use crate::outbox::NoticeItem;
use crate::shared::{Registry, Shared};

const SAVE_PAUSE: Duration = Duration::from_millis(50);
const SAVE_PAUSE_LAST: Duration = Duration::from_secs(5);

/// What a transfer did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransferReport {
    /// The processes that belong to the other loop now, running and retained, in the order of their admission.
    pub moved: Vec<Handle>,
    /// Those of them whose records could not be written yet. It is tried again until the session ends; a restart
    /// before that gives them back to the loop that they came from.
    pub unsaved: Vec<Handle>,
}

/// Moves all processes of `from` to `to`, at one instant for every caller, and records that before it resolves.
pub(crate) async fn transfer(
    shared: &Arc<Shared>,
    from: Owner,
    to: Owner,
) -> Result<TransferReport, SupervisorError> {
    shared.admit_calls()?;
    for owner in [from, to] {
        if owner.session != shared.session {
            return Err(SupervisorError::invalid("to", "both loops must be of this session"));
        }
    }
    if from == to {
        return Ok(TransferReport::default());
    }
    let at = shared.clock.now();
    let Moved { mut processes, evicted } = shared.registry().reassign(from, to, at)?;
    processes.sort_by_key(|entry| entry.sequence);
    for entry in evicted.iter().chain(&processes) {
        shared.notices.push(NoticeItem::Moved { handle: entry.handle, from, to });
    }
    let mut report = TransferReport::default();
    report.moved.extend(processes.iter().map(|entry| entry.handle));
    for entry in processes.into_iter().chain(evicted) {
        if let Err(error) = save(shared, &entry).await {
            warn!(handle = ?entry.handle, %error, "a transfer could not be recorded; it is tried again");
            if report.moved.contains(&entry.handle) {
                report.unsaved.push(entry.handle);
            }
            let shared = Arc::clone(shared);
            shared.tasks.clone().spawn(async move { save_late(&shared, &entry).await });
        }
    }
    Ok(report)
}

/// Saves what is in memory already.
async fn save(shared: &Arc<Shared>, entry: &Arc<Entry>) -> Result<(), SupervisorError> {
    if shared.is_forgotten(entry) {
        return Ok(());
    }
    shared.update(entry, Durability::Synced, |_| {}).await?;
    shared.forget_if_told(entry).await
}

async fn save_late(shared: &Arc<Shared>, entry: &Arc<Entry>) {
    let mut pause = SAVE_PAUSE;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(SAVE_PAUSE_LAST),
            () = shared.closed.cancelled() => {
                error!(handle = ?entry.handle, "the session ends with a transfer unrecorded");
                return;
            }
        }
        if save(shared, entry).await.is_ok() {
            return;
        }
    }
}

/// What changed hands.
struct Moved {
    processes: Vec<Arc<Entry>>,
    /// Evicted processes whose notices go to the other loop now.
    evicted: Vec<Arc<Entry>>,
}

impl Registry {
    /// All or nothing: a loop that has no room for what runs takes nothing.
    fn reassign(&mut self, from: Owner, to: Owner, at: Timestamp) -> Result<Moved, SupervisorError> {
        if self.closed_loops.contains(&to) {
            return Err(SupervisorError::LoopClosed);
        }
        let moving: Vec<_> = self.of(from).collect();
        let evicted: Vec<_> = self.unclaimed.iter().filter(|entry| entry.owner() == from).cloned().collect();
        if moving.iter().chain(&evicted).any(|entry| entry.record().manifest.transfers.len() >= TRANSFERS_MAX)
        {
            return Err(SupervisorError::invalid("from", "has a process that changed hands too often"));
        }
        self.reassign_slots(&moving, from, to)?;
        for entry in &moving {
            self.entries.remove(&(from, entry.handle));
            {
                let mut record = entry.record();
                record.manifest.transfer(to, at);
                let named = self.free_key(from, &record.manifest);
                // A key that the other loop uses itself stays with what it started there.
                if let Some((key, digest)) = named {
                    self.idempotent.entry((to, key)).or_insert((entry.handle, digest));
                }
            }
            entry.course.give(to);
            self.entries.insert((to, entry.handle), Arc::clone(entry));
        }
        for entry in &evicted {
            entry.record().manifest.transfer(to, at);
            entry.course.give(to);
        }
        Ok(Moved { processes: moving, evicted })
    }

    fn reassign_slots(&mut self, moving: &[Arc<Entry>], from: Owner, to: Owner) -> Result<(), Refusal> {
        for (count, entry) in moving.iter().enumerate() {
            let Err(refusal) = self.reassign_slot(entry, to) else { continue };
            for entry in &moving[..count] {
                // They have just come from there, so that there is room.
                let _ = self.reassign_slot(entry, from);
            }
            return Err(refusal);
        }
        Ok(())
    }

    fn reassign_slot(&mut self, entry: &Entry, to: Owner) -> Result<(), Refusal> {
        match &mut entry.record().reservation {
            Some(reservation) => self.ledger.transfer(reservation, to),
            None => Ok(()),
        }
    }
}
