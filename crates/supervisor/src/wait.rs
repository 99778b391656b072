//! Waiting for output or for the end of processes. Wake-ups come from appends and from the terminal transition; nothing
//! polls on a timer.
//!
//! Not for looking at output: a [`Probe`](crate::Probe) does.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use procyard_core::{Handle, Owner, Waiter};
use procyard_spool::StreamFilter;
use tokio::time::Instant;

use crate::entry::{Entry, Life};
use crate::read::read_entry;
use crate::shared::Shared;
use crate::{Probe, ReadFrom, ReadRequest, SupervisorError, Target, Until, WaitMode, Waited};

/// How much output a probe is fed at a time.
const FEED_BYTES: usize = 64 * 1024;

/// The most targets of one wait.
pub const TARGETS_MAX: usize = 64;

/// A waiter's place among those of its session, given back when it is dropped. Whoever starts or writes something and
/// waits for what comes of it takes the place first, so that a session without one refuses before anything happens.
pub struct WaitPlace {
    shared: Arc<Shared>,
    waiter: Option<Waiter>,
}

impl WaitPlace {
    pub(crate) fn take(shared: &Arc<Shared>) -> Result<Self, SupervisorError> {
        shared.admit_calls()?;
        let waiter = shared.registry().ledger.reserve_waiter()?;
        Ok(Self { shared: Arc::clone(shared), waiter: Some(waiter) })
    }

    /// Waits in this place as [`Supervisor::wait`](crate::Supervisor::wait) does. Cancellation safe, but for the
    /// probes, which are dropped.
    pub async fn wait(
        &mut self,
        owner: Owner,
        mode: WaitMode,
        until: Until,
        targets: Vec<Target>,
        timeout: Duration,
    ) -> Result<Vec<Waited>, SupervisorError> {
        wait(&self.shared, owner, mode, until, targets, timeout).await
    }

    /// Waits in this place as [`Supervisor::quiet`](crate::Supervisor::quiet) does. Cancellation safe.
    pub async fn quiet(
        &mut self,
        owner: Owner,
        handle: &Handle,
        quiet: Duration,
        within: Duration,
    ) -> Result<(), SupervisorError> {
        self::quiet(&self.shared, owner, handle, quiet, within).await
    }
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.shared.registry().ledger.release_waiter(waiter);
        }
    }
}

impl std::fmt::Debug for WaitPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitPlace").finish_non_exhaustive()
    }
}

/// Waits until one target or each is satisfied, or the timeout has passed.
async fn wait(
    shared: &Arc<Shared>,
    owner: Owner,
    mode: WaitMode,
    until: Until,
    targets: Vec<Target>,
    timeout: Duration,
) -> Result<Vec<Waited>, SupervisorError> {
    shared.admit_calls()?;
    shared.admit_loop(owner)?;
    if targets.is_empty() || targets.len() > TARGETS_MAX {
        return Err(SupervisorError::invalid("process_ids", format!("must be 1 to {TARGETS_MAX}")));
    }
    let mut watches: Vec<Watch> =
        targets.into_iter().map(|target| Watch::new(shared, owner, target)).collect();
    {
        // A time beyond what the clock can tell never comes.
        let end = Instant::now().checked_add(timeout);
        let mut pending: Vec<_> =
            watches.iter_mut().map(|watch| Some(Box::pin(watch.satisfy(shared, until, end)))).collect();
        let mut done = false;
        let all = poll_fn(|context| {
            let mut open = 0_usize;
            for slot in &mut pending {
                match slot.as_mut().map(|future| Pin::new(future).poll(context)) {
                    Some(Poll::Pending) => open += 1,
                    Some(Poll::Ready(satisfied)) => {
                        *slot = None;
                        done |= satisfied;
                    }
                    None => {}
                }
            }
            let enough = open == 0 || (done && mode == WaitMode::Any);
            if enough { Poll::Ready(()) } else { Poll::Pending }
        });
        // The time limit of a wait is not an error: what is not satisfied by then says so.
        tokio::select! {
            () = all => {}
            () = shared.closed.cancelled() => {}
        }
    }
    let waited = watches.into_iter().map(Watch::into_waited);
    Ok(waited.collect())
}

/// Waits until nothing was printed for `quiet`, or the process is terminal, or `within` has passed.
async fn quiet(
    shared: &Arc<Shared>,
    owner: Owner,
    handle: &Handle,
    quiet: Duration,
    within: Duration,
) -> Result<(), SupervisorError> {
    shared.admit_calls()?;
    let entry = shared.find(owner, handle)?;
    let end = Instant::now().checked_add(within);
    let mut progress = entry.progress.subscribe();
    let mut life = entry.life.subscribe();
    loop {
        let silent = progress.borrow_and_update().at.checked_add(quiet);
        let due = silent.into_iter().chain(end).min();
        tokio::select! {
            biased;
            // What it resolves to is a lock on the state, which the next look takes again: it is dropped in here.
            () = async { let _ = life.wait_for(|life| life.state.is_terminal() || life.owner != owner).await; } => {
                return entry.still_of(owner);
            }
            Ok(()) = progress.changed() => {}
            () = crate::actor::until(due) => return Ok(()),
        }
    }
}

struct Watch {
    owner: Owner,
    handle: Handle,
    entry: Option<Arc<Entry>>,
    /// How far the probe was fed.
    cursor: u64,
    probe: Option<Box<dyn Probe>>,
    satisfied: bool,
}

impl Watch {
    fn new(shared: &Shared, owner: Owner, target: Target) -> Self {
        let entry = shared.find(owner, &target.handle).ok();
        Self {
            owner,
            handle: target.handle,
            entry,
            cursor: target.cursor,
            probe: target.probe,
            satisfied: false,
        }
    }

    /// Resolves with true when the target is satisfied, with false at `end`. A process that is not there is satisfied
    /// at once.
    async fn satisfy(&mut self, shared: &Arc<Shared>, until: Until, end: Option<Instant>) -> bool {
        self.satisfied = match (self.entry.clone(), until) {
            (None, _) => true,
            (Some(entry), Until::Exit) => {
                let mut life = entry.life.subscribe();
                tokio::select! {
                    biased;
                    // The sender lives in the entry that is held here.
                    _ = life.wait_for(|life| life.state.is_terminal() || life.owner != self.owner) => true,
                    () = crate::actor::until(end) => false,
                }
            }
            (Some(entry), Until::Probe) => self.satisfy_probe(shared, &entry, end).await,
        };
        self.satisfied
    }

    /// What is there already is fed whatever the time: a wait that may not wait still looks.
    async fn satisfy_probe(
        &mut self,
        shared: &Arc<Shared>,
        entry: &Arc<Entry>,
        end: Option<Instant>,
    ) -> bool {
        let mut progress = entry.progress.subscribe();
        let mut life = entry.life.subscribe();
        loop {
            // The state is looked at before the output: what was printed before the end is fed before the end.
            let Life { state, owner, .. } = *life.borrow_and_update();
            if owner != self.owner {
                // From now on it is a process that is not there.
                return true;
            }
            let ended = state.is_terminal();
            let total = progress.borrow_and_update().total_bytes;
            if self.feed_to(shared, entry, total).await {
                return true;
            }
            if ended {
                if let Some(probe) = &mut self.probe {
                    probe.finish();
                }
                return true;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return false;
            }
            tokio::select! {
                // The senders live in the entry that is held here.
                _ = progress.changed() => {}
                _ = life.changed() => {}
                () = crate::actor::until(end) => return false,
            }
        }
    }

    /// Feeds what was printed up to `total`; true when the probe is satisfied.
    async fn feed_to(&mut self, shared: &Arc<Shared>, entry: &Arc<Entry>, total: u64) -> bool {
        let Some(probe) = &mut self.probe else { return total > self.cursor };
        while self.cursor < total {
            let request = ReadRequest {
                from: ReadFrom::Cursor(self.cursor),
                max_bytes: FEED_BYTES,
                streams: StreamFilter::Both,
            };
            // Output that does not read cannot satisfy anything; the end of the process will.
            let Ok(page) = read_entry(shared, entry, request).await else { return false };
            if page.next_cursor <= self.cursor {
                return false;
            }
            self.cursor = page.next_cursor;
            if feed_page(probe.as_mut(), &page) {
                return true;
            }
        }
        false
    }

    fn into_waited(self) -> Waited {
        Waited {
            handle: self.handle,
            probe: self.probe,
            satisfied: self.satisfied,
            snapshot: self.entry.filter(|entry| entry.owner() == self.owner).map(|entry| entry.snapshot()),
        }
    }
}

/// Feeds a page's bytes and gaps in the order of their cursors.
fn feed_page(probe: &mut dyn Probe, page: &procyard_spool::Page) -> bool {
    let mut gaps = page.gaps.iter().peekable();
    for span in &page.spans {
        while let Some(gap) = gaps.next_if(|gap| gap.until <= span.cursor) {
            probe.gap(gap.until);
        }
        if probe.feed(span.cursor, span.stream, &page.bytes[span.offset..span.offset + span.len]) {
            return true;
        }
    }
    for gap in gaps {
        probe.gap(gap.until);
    }
    false
}
