//! Waiting for output or for the end of processes. Wake-ups come from appends and from the terminal transition; nothing
//! polls on a timer.
//!
//! Not for looking at output: a [`Probe`](crate::Probe) does, which `feed` feeds.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use procyard_core::{Handle, Owner, Waiter};
use tokio::time::Instant;

use crate::course::{CourseWaiter, Progress, Standing, Waits};
use crate::entry::Entry;
use crate::feed::{Feed, Time};
use crate::shared::Shared;
use crate::{Probe, SupervisorError, Target, Until, WaitMode, Waited};

/// The most targets of one wait.
pub const TARGETS_MAX: usize = 64;

/// A waiter's place among those of its session, given back when it is dropped. Whoever starts or writes something and
/// waits for what comes of it takes the place first, so that a session without one refuses before anything happens.
pub struct WaitPlace {
    shared: Arc<Shared>,
    waiter: Option<Waiter>,
    /// Whether it may wait for what a closed loop has left.
    oversees: bool,
}

impl WaitPlace {
    pub(crate) fn take(shared: &Arc<Shared>, oversees: bool) -> Result<Self, SupervisorError> {
        shared.admit_calls()?;
        let waiter = shared.registry().ledger.reserve_waiter()?;
        Ok(Self { shared: Arc::clone(shared), waiter: Some(waiter), oversees })
    }

    fn admit(&self, owner: Owner) -> Result<(), SupervisorError> {
        self.shared.admit_calls()?;
        if self.oversees { Ok(()) } else { self.shared.admit_loop(owner) }
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
        self.admit(owner)?;
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
        self.admit(owner)?;
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
    if targets.is_empty() || targets.len() > TARGETS_MAX {
        return Err(SupervisorError::invalid("process_ids", format!("must be 1 to {TARGETS_MAX}")));
    }
    let mut watches: Vec<Watch> =
        targets.into_iter().map(|target| Watch::new(shared, owner, target)).collect();
    {
        // A time beyond what the clock can tell never comes.
        let end = Instant::now().checked_add(timeout);
        let time = Time::new(end, watches.len());
        let mut pending: Vec<_> =
            watches.iter_mut().map(|watch| watch.wait(shared, until, time)).map(Some).collect();
        let mut done = false;
        let mut looks = |context: &mut Context<'_>, over| {
            let mut open = 0_usize;
            for slot in &mut pending {
                match slot.as_mut().map(|target| target.poll(context, over)) {
                    Some(Poll::Pending) => open += 1,
                    Some(Poll::Ready(satisfied)) => {
                        *slot = None;
                        done |= satisfied;
                    }
                    None => {}
                }
            }
            open == 0 || (done && mode == WaitMode::Any)
        };
        let mut over = timeout.is_zero();
        let mut time = pin!(crate::actor::until(end));
        poll_fn(|context| {
            // What is there is looked at whatever the time, within a bound: a wait that may not wait still looks.
            if looks(context, over) {
                return Poll::Ready(());
            }
            // The time limit of a wait is not an error: what is not satisfied by then says so.
            if !over && time.as_mut().poll(context).is_ready() {
                over = true;
                if looks(context, over) {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
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
    let entry = shared.find(owner, handle)?;
    let end = Instant::now().checked_add(within);
    let mut news = entry.waiter(Waits::ForOutput);
    loop {
        let Progress { total_bytes, at } = entry.course.standing().progress;
        let due = at.checked_add(quiet).into_iter().chain(end).min();
        let more = |standing: &Standing| {
            let over = is_over(standing, owner) || standing.closed;
            let Progress { total_bytes: total, at: last } = standing.progress;
            (over || (total, last) != (total_bytes, at)).then_some(over)
        };
        tokio::select! {
            biased;
            over = news.until(more) => {
                if over {
                    return entry.still_of(owner);
                }
                // However fast it prints.
                if end.is_some_and(|end| Instant::now() >= end) {
                    return Ok(());
                }
            }
            () = crate::actor::until(due) => return Ok(()),
        }
    }
}

/// Whether there is nothing more to wait for in this process: it is terminal, or for this owner there is no such process
/// any more.
pub(crate) fn is_over(standing: &Standing, owner: Owner) -> bool {
    standing.life.state.is_terminal() || standing.life.owner != owner
}

struct Watch {
    owner: Owner,
    handle: Handle,
    entry: Option<Arc<Entry>>,
    /// Output from here on counts.
    cursor: u64,
    probe: Option<Box<dyn Probe>>,
    satisfied: bool,
}

/// One target that is waited for.
enum Pending<'w> {
    /// What happened is seen from where the process stands.
    Seen { waiter: CourseWaiter<&'w Entry>, owner: Owner, beyond: Option<u64>, satisfied: &'w mut bool },
    /// A probe looks at the output.
    Probed(Pin<Box<dyn Future<Output = bool> + Send + 'w>>),
    /// A process that is not there is satisfied at once.
    Missing,
}

impl Pending<'_> {
    /// Ready with whether it is satisfied; if the time is `over`, then at once, or as soon as what is there was looked at.
    fn poll(&mut self, context: &mut Context<'_>, over: bool) -> Poll<bool> {
        match self {
            Pending::Missing => Poll::Ready(true),
            Pending::Probed(future) => future.as_mut().poll(context),
            Pending::Seen { waiter, owner, beyond, satisfied } => {
                let look = |standing: &Standing| {
                    let more = beyond.is_some_and(|cursor| standing.progress.total_bytes > cursor);
                    let found = more || is_over(standing, *owner);
                    (found || standing.closed || over).then_some(found)
                };
                let found = waiter.poll(context, look);
                **satisfied = found == Poll::Ready(true);
                found
            }
        }
    }
}

impl Watch {
    fn new(shared: &Shared, owner: Owner, target: Target) -> Self {
        let entry = shared.find(owner, &target.handle).ok();
        Self {
            owner,
            handle: target.handle,
            satisfied: entry.is_none(),
            entry,
            cursor: target.cursor,
            probe: target.probe,
        }
    }

    fn wait<'w>(&'w mut self, shared: &'w Arc<Shared>, until: Until, time: Time) -> Pending<'w> {
        let Some(entry) = &self.entry else { return Pending::Missing };
        let (owner, cursor, satisfied) = (self.owner, self.cursor, &mut self.satisfied);
        if until == Until::Probe
            && let Some(probe) = self.probe.as_deref_mut()
        {
            let feed = Feed { shared, entry, owner, cursor, probe, time };
            return Pending::Probed(Box::pin(async move {
                *satisfied = feed.run().await;
                *satisfied
            }));
        }
        let (waits, beyond) = match until {
            Until::Exit => (Waits::ForLife, None),
            Until::Probe => (Waits::ForOutput, Some(cursor)),
        };
        Pending::Seen { waiter: entry.waiter(waits), owner, beyond, satisfied }
    }

    fn into_waited(self) -> Waited {
        Waited {
            handle: self.handle,
            probe: self.probe,
            satisfied: self.satisfied,
            snapshot: self.entry.and_then(|entry| entry.snapshot_of(self.owner)),
        }
    }
}
