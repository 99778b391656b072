//! The end of a process: output complete and synced, terminal manifest on disk, slots back, waiters woken, event and
//! notice out, in this order.
//!
//! Not for deciding the state: that is [`Causes`](procyard_core::Causes).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use procyard_core::{EventKind, LeaderEnd, Leftovers, Outcome, Reason, SIGKILL, SUPERVISION_LOST, State};
use procyard_manifest::{Durability, Manifest, spool_name};
use procyard_runner::ExitStatus;
use procyard_spool::Spool;
use tokio::time::Instant;
use tracing::{error, warn};

use crate::Notice;
use crate::actor::{Actor, until};
use crate::course::Waits;
use crate::entry::Entry;
use crate::outbox::NoticeItem;
use crate::shared::{Shared, blocking};

/// How often a terminal manifest is tried before waiters are woken without it.
const SAVE_ATTEMPTS: u32 = 3;
const SAVE_PAUSE: Duration = Duration::from_millis(50);
const SAVE_PAUSE_LAST: Duration = Duration::from_secs(5);

impl Actor {
    /// Ends the drain and records how the process ended.
    pub(crate) async fn finish(self, exit: ExitStatus, leftovers: Option<Leftovers>) {
        let verdict =
            self.causes.decide(exit.status.map_or(LeaderEnd::Unknown, procyard_core::WaitStatus::end));
        let mut outcome = Outcome::of(&verdict, exit.status);
        outcome.leftovers = leftovers;
        if State::from(verdict.state) == State::Failed && exit.status.is_none() {
            outcome.diagnostic = Some(SUPERVISION_LOST.to_owned());
        }
        self.note_memory_kills(&mut outcome);
        let mut state = State::from(verdict.state);
        if self.entry.record().manifest.state == State::Starting {
            state = State::Failed;
            outcome = Outcome {
                wait_status: exit.status,
                leftovers,
                ..Outcome::diagnosed(Reason::Failed, START_UNRECORDED)
            };
        }
        let Self { shared, entry, process, drain, .. } = self;
        // The tree is gone: what the pipes still hold is little, and is read whether or not a reader keeps up.
        drain.unpaced.cancel();
        let spool = {
            await_end_of_output(&shared, &entry, drain.at_eof.clone()).await;
            drain.end().await
        };
        if let Some(input) = &entry.input {
            input.close();
            outcome.unread_input = input.pending();
        }
        // The tree is proven empty; a runner that cannot let go of what is left keeps nobody waiting.
        if tokio::time::timeout(shared.limits.proof_bound, process.close()).await.is_err() {
            warn!(handle = ?entry.handle, "the runner did not close a process in time");
        }
        terminalise(&shared, &entry, state, outcome, spool).await;
    }

    /// Records what the memory limit has killed, for the save that follows. Where that may be what ended the leader, the
    /// outcome says so.
    fn note_memory_kills(&self, outcome: &mut Outcome) {
        let kills = self.process.memory_kills();
        let mut record = self.entry.record();
        let manifest = &mut record.manifest;
        let Some(limits) = manifest.limits.as_ref().filter(|_| kills > 0) else { return };
        if outcome.reason == Reason::Failed && outcome.signal == Some(SIGKILL) {
            outcome.diagnostic = Some(limits.memory_reached(kills));
        }
        manifest.memory_kills = kills;
    }
}

/// Waits until every stream is at end of file. The tree is gone by now, so that comes at once, unless somebody
/// outside it holds a pipe: then the quiet time decides, and the cap whatever is still written.
async fn await_end_of_output(shared: &Shared, entry: &Entry, mut at_eof: tokio::sync::watch::Receiver<bool>) {
    let cap = Instant::now() + shared.limits.drain_cap;
    let mut output = entry.waiter(Waits::ForOutput);
    let mut seen = entry.course.standing().progress.total_bytes;
    loop {
        let quiet = Instant::now() + shared.limits.drain_quiet;
        tokio::select! {
            biased;
            _ = at_eof.wait_for(|eof| *eof) => return,
            total = output.until(|standing| standing.output_beyond(seen)) => {
                seen = total;
                if Instant::now() >= cap {
                    return;
                }
            }
            () = until(Some(quiet.min(cap))) => return,
        }
    }
}

/// Records the end of a process whose supervision broke down; its tree was killed when it was let go.
pub(crate) async fn give_up(shared: &Arc<Shared>, entry: &Arc<Entry>) {
    error!(handle = ?entry.handle, "the supervision of a process broke down");
    if entry.record().completion.is_some() {
        return;
    }
    let outcome = Outcome::diagnosed(Reason::Failed, SUPERVISION_LOST);
    terminalise(shared, entry, State::Failed, outcome, None).await;
}

/// Gives the lease back. What it calls is foreign code, whose panic must not keep anybody waiting.
fn release_lease(entry: &Entry) {
    let lease = entry.record().lease.take();
    if catch_unwind(AssertUnwindSafe(|| drop(lease))).is_err() {
        error!(handle = ?entry.handle, "a lease could not be given back");
    }
}

/// Makes a process terminal. The one place that does.
pub(crate) async fn terminalise(
    shared: &Arc<Shared>,
    entry: &Arc<Entry>,
    state: State,
    outcome: Outcome,
    spool: Option<Spool>,
) {
    // Also of what never ran: whoever waits for room learns that there will be none.
    if let Some(input) = &entry.input {
        input.close();
    }
    let (disk_bytes, degraded) = settle_spool(shared, entry, spool).await;
    let finished_at = shared.clock.now();
    let bounds = entry.open_reader().map(|reader| reader.bounds());
    let last_output_at = entry.record().manifest.last_output_at;
    let handed_over = entry.record().manifest.handed_over;
    let terminal = move |manifest: &mut Manifest| {
        // A clock that went back must not make an end before its start.
        let at = finished_at.max(manifest.started_at.unwrap_or(manifest.created_at));
        manifest.finish(state, outcome.clone(), at);
        manifest.last_output_at = last_output_at;
        manifest.handed_over |= handed_over;
        manifest.storage_degraded |= degraded;
        if let Some(bounds) = bounds {
            manifest.spool.total_bytes = bounds.total_bytes;
            manifest.spool.retained_from = bounds.retained_from;
            manifest.spool.disk_bytes = Some(disk_bytes);
        }
    };
    let saved = save_terminal(shared, entry, terminal.clone()).await;
    if !saved {
        let mut record = entry.record();
        terminal(&mut record.manifest);
        record.manifest.storage_degraded = true;
    }
    {
        let mut registry = shared.registry();
        let mut record = entry.record();
        if let Some(reservation) = record.reservation.take() {
            record.retained = Some(registry.ledger.retain(reservation, disk_bytes));
        }
        registry.completed += 1;
        record.completion = Some(registry.completed);
        record.stall = None;
        // An end is a use: what has just ended is not the first to be evicted.
        entry.touch(registry.tick());
        if was_given_up(&record.manifest) {
            registry.free_key(entry.owner(), &record.manifest);
        }
    }
    release_lease(entry);
    // From here on it is seen to have ended: whoever then waits for what is announced of that waits for this, too.
    let _coming = (shared.events.coming(), shared.notices.coming());
    if !entry.course.end(state) {
        error!(handle = ?entry.handle, "a process was ended twice; its first end stands");
    }
    if saved {
        announce(shared, entry);
    } else {
        let (shared, entry) = (Arc::clone(shared), Arc::clone(entry));
        shared.tasks.clone().spawn(async move { save_late(&shared, &entry, terminal).await });
    }
    shared.evict_surplus();
}

/// The diagnostic of a start whose caller went away.
pub(crate) const START_CANCELLED: &str = "the start was cancelled";

/// The diagnostic of a start that was undone because the disk did not take its record.
const START_UNRECORDED: &str = "its start could not be recorded, so it was ended";

/// Whether the start of a terminal process was given up before anything came of it: its idempotency key then starts the
/// command when it comes again. A command that could not be executed is an answer, which its key goes on giving.
pub(crate) fn was_given_up(manifest: &Manifest) -> bool {
    let diagnostic = manifest.outcome.as_ref().and_then(|outcome| outcome.diagnostic.as_deref());
    match manifest.state {
        State::Terminated | State::Killed => manifest.started_at.is_none(),
        State::Failed => {
            manifest.started_at.is_none() && matches!(diagnostic, Some(START_CANCELLED | START_UNRECORDED))
        }
        _ => false,
    }
}

/// Syncs the output and gives its window back: a terminal manifest never names bytes that a power cut can take.
async fn settle_spool(shared: &Arc<Shared>, entry: &Arc<Entry>, spool: Option<Spool>) -> (u64, bool) {
    let (owner, entry) = (Arc::clone(shared), Arc::clone(entry));
    let untouched = |spool: &Spool| spool.total_bytes() == 0 && spool.reader().disk_bytes() == 0;
    let nothing_to_sync = spool.as_ref().is_some_and(untouched);
    let settle = move || {
        let mut degraded = false;
        let spool = spool.or_else(|| {
            degraded = true;
            let options = owner.spool_options_of(&entry.record().manifest);
            Spool::recover(Arc::clone(&owner.root), &spool_name(&entry.handle), options)
                .ok()
                .map(|(spool, _)| spool)
        });
        let Some(mut spool) = spool else { return (0, true) };
        if let Err(error) = spool.sync() {
            warn!(handle = ?entry.handle, %error, "output could not be synced");
            degraded = true;
        }
        let reader = spool.finish();
        let disk_bytes = reader.disk_bytes();
        degraded |= reader.degraded();
        entry.settle_reader(reader);
        (disk_bytes, degraded)
    };
    // A process that printed nothing has no files to wait for, and is spared a hop.
    if nothing_to_sync { settle() } else { blocking(settle).await.unwrap_or((0, true)) }
}

async fn save_terminal(
    shared: &Arc<Shared>,
    entry: &Arc<Entry>,
    change: impl Fn(&mut Manifest) + Clone + Send + 'static,
) -> bool {
    for attempt in 1..=SAVE_ATTEMPTS {
        match shared.update(entry, Durability::Synced, change.clone()).await {
            Ok(()) => return true,
            Err(error) => {
                warn!(handle = ?entry.handle, %error, attempt, "a terminal manifest could not be saved");
            }
        }
        tokio::time::sleep(SAVE_PAUSE * attempt).await;
    }
    false
}

/// Goes on saving a terminal manifest until the disk takes it, for a last time when the session ends; only then is it
/// announced.
async fn save_late(
    shared: &Arc<Shared>,
    entry: &Arc<Entry>,
    change: impl Fn(&mut Manifest) + Clone + Send + 'static,
) {
    let mut pause = SAVE_PAUSE;
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = shared.closed.cancelled() => true,
        };
        pause = (pause * 2).min(SAVE_PAUSE_LAST);
        let change = change.clone();
        let degraded = move |manifest: &mut Manifest| {
            change(manifest);
            manifest.storage_degraded = true;
        };
        // What is in memory is terminal already; what is on disk is what the change must start from.
        if shared.update(entry, Durability::Synced, degraded).await.is_ok() {
            announce(shared, entry);
            return;
        }
        if last {
            error!(handle = ?entry.handle, "the session ends with a terminal manifest unsaved");
            return;
        }
    }
}

/// Queues the lifecycle event of a terminal process, and the notice that its owner is to get.
fn announce(shared: &Arc<Shared>, entry: &Arc<Entry>) {
    let (state, reason, notice) = {
        let mut record = entry.record();
        record.announced = true;
        let manifest = &record.manifest;
        let reason = manifest.outcome.as_ref().map(|outcome| outcome.reason);
        (manifest.state, reason, record.notice_due())
    };
    shared.publish(entry, EventKind::Completed, state, reason);
    if let Some(notice) = notice {
        shared.notify(entry.owner(), notice);
    }
}

impl Shared {
    /// Queues a notice for the notifier.
    pub(crate) fn notify(&self, owner: procyard_core::Owner, notice: Notice) {
        self.notices.push(NoticeItem::Notice { owner, notice });
    }
}
