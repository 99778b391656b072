//! The supervisor of one session as its callers hold it.
//!
//! Not for behaviour: each verb has its own file, named after it.

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{Handle, Limits, NotificationId, Origin, Owner, SessionId, StopKind};
use procyard_manifest::IdempotencyRecord;
use procyard_runner::PreparedProcess;
use procyard_spool::Page;
use procyard_store::Dir;
use tokio_util::sync::CancellationToken;

use crate::outbox::{EventCourier, NoticeCourier};
use crate::shared::{Phase, Shared, blocking};
use crate::{
    Attendance, Clock, InputAccepted, InputRequest, Lease, Notice, ReadRequest, RestoreReport, Services,
    ShutdownReport, Snapshot, StartOptions, Started, StopRequest, Subscription, SupervisorError, SystemClock,
    Target, Telling, TransferReport, Until, WaitMode, WaitPlace, Waited,
};

/// Supervises the processes of one session. Cheap to clone; when the last clone is dropped without a
/// [`Supervisor::shutdown`], every tree is killed.
#[derive(Clone)]
pub struct Supervisor {
    shared: Arc<Shared>,
    /// Whether looks reach what closed loops left.
    oversees: bool,
    // Held by callers only, never by the session's own tasks.
    _last: Arc<CancelOnDrop>,
}

struct CancelOnDrop(CancellationToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Supervisor {
    /// A supervisor over the session's private directory. It needs no runner, ever; it serves no call before
    /// [`Supervisor::activate`].
    pub fn new(session: SessionId, limits: Limits, root: Arc<dyn Dir>) -> Self {
        Self::with_clock(session, limits, root, Arc::new(SystemClock))
    }

    /// The same, with another source of wall-clock time.
    pub fn with_clock(session: SessionId, limits: Limits, root: Arc<dyn Dir>, clock: Arc<dyn Clock>) -> Self {
        let shared = Shared::new(session, limits, root, clock);
        let last = Arc::new(CancelOnDrop(shared.abandoned.clone()));
        Self { shared: Arc::new(shared), oversees: false, _last: last }
    }

    /// The same supervisor for whoever hosts the session: it reaches what loops that were closed have left, too, as every
    /// supervisor does after a restart. It starts nothing for them. Nothing that an owner can reach may hold one.
    pub fn overseeing(&self) -> Self {
        Self { oversees: true, ..self.clone() }
    }

    /// Whether this loop was [closed](Supervisor::close_loop).
    pub fn is_closed(&self, owner: Owner) -> bool {
        self.shared.admit_loop(owner).is_err()
    }

    /// Refuses calls about the processes of a loop that was closed.
    fn admit(&self, owner: Owner) -> Result<(), SupervisorError> {
        if self.oversees { Ok(()) } else { self.shared.admit_loop(owner) }
    }

    /// Binds the services, restores what earlier supervisors of this session recorded, and begins to serve calls.
    /// Once. Not cancellation safe: drop the supervisor when it was cancelled.
    pub async fn activate(&self, services: Services) -> Result<RestoreReport, SupervisorError> {
        let shared = &self.shared;
        shared.services.set(services).map_err(|_| SupervisorError::AlreadyActive)?;
        let restoring = Arc::clone(shared);
        let report = blocking(move || crate::restore::restore(&restoring)).await??;
        {
            let mut registry = shared.registry();
            // A shutdown that came meanwhile stands.
            if registry.phase == Phase::Inactive {
                registry.phase = Phase::Active;
            }
        }
        self.spawn_outboxes();
        // Not among the session's tasks, since it waits for those.
        tokio::spawn(crate::shutdown::when_abandoned(Arc::clone(shared)));
        shared.evict_surplus();
        Ok(report)
    }

    fn spawn_outboxes(&self) {
        let Some(services) = self.shared.services.get().cloned() else { return };
        let tasks = &self.shared.tasks;
        if let Some(publisher) = services.publisher {
            let shared = Arc::clone(&self.shared);
            let courier = EventCourier { shared: Arc::clone(&shared), publisher };
            tasks.spawn(async move { shared.events.deliver(shared.closed.clone(), courier).await });
        }
        if let Some(notifier) = services.notifier {
            let shared = Arc::clone(&self.shared);
            let courier = NoticeCourier { shared: Arc::clone(&shared), notifier };
            tasks.spawn(async move { shared.notices.deliver(shared.closed.clone(), courier).await });
        }
    }

    /// The session.
    pub fn session(&self) -> SessionId {
        self.shared.session
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Whether completions can be announced, which background use needs.
    pub fn notifies(&self) -> bool {
        self.shared.notifies()
    }

    /// Starts a prepared process. When this returns, the command was executed and is recorded, and lives
    /// independently of the caller. Dropping the future before that undoes everything: no process, slot, lease
    /// or non-terminal record stays behind.
    pub async fn start(
        &self,
        owner: Owner,
        origin: Origin,
        prepared: Box<dyn PreparedProcess>,
        lease: Lease,
        options: StartOptions,
    ) -> Result<Started, SupervisorError> {
        crate::start::start(&self.shared, owner, origin, prepared, lease, options).await
    }

    /// The same for a caller that stays with the process for its result, as by [`Supervisor::attend`] from the moment at
    /// which it has the handle: another that shares its key and goes is then never the last.
    pub async fn start_attended(
        &self,
        owner: Owner,
        origin: Origin,
        prepared: Box<dyn PreparedProcess>,
        lease: Lease,
        options: StartOptions,
    ) -> Result<(Started, Attendance), SupervisorError> {
        crate::start::start_attended(&self.shared, owner, origin, prepared, lease, options).await
    }

    /// Looks an idempotency key up before anything is prepared: the process that it started with the same
    /// arguments, or a conflict.
    pub fn find_idempotent(
        &self,
        owner: Owner,
        record: &IdempotencyRecord,
    ) -> Result<Option<Handle>, SupervisorError> {
        self.shared.admit_calls()?;
        self.shared.admit_loop(owner)?;
        self.shared.registry().find_idempotent(owner, &record.key, &record.digest)
    }

    /// A process as it is now, from memory.
    pub fn snapshot(&self, owner: Owner, handle: &Handle) -> Result<Snapshot, SupervisorError> {
        self.shared.admit_calls()?;
        self.admit(owner)?;
        Ok(self.shared.find(owner, handle)?.snapshot())
    }

    /// The processes of this owner, running and retained, newest first. None of a loop that was closed.
    pub fn list(&self, owner: Owner) -> Vec<Snapshot> {
        if self.admit(owner).is_err() {
            return Vec::new();
        }
        let entries: Vec<_> = self.shared.registry().of(owner).collect();
        let mut list: Vec<_> = entries.iter().map(|entry| entry.snapshot()).collect();
        list.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.sequence));
        list
    }

    /// Reads output. From memory where the window has it; else on a blocking thread. Cancellation safe.
    pub async fn read(
        &self,
        owner: Owner,
        handle: &Handle,
        request: ReadRequest,
    ) -> Result<(Page, Snapshot), SupervisorError> {
        self.admit(owner)?;
        crate::read::read(&self.shared, owner, handle, request).await
    }

    /// The first bytes of the stream, at most 16 KiB, kept whatever falls out later. Cancellation safe.
    pub async fn head(&self, owner: Owner, handle: &Handle) -> Result<(Page, Snapshot), SupervisorError> {
        self.admit(owner)?;
        crate::read::head(&self.shared, owner, handle).await
    }

    /// Takes a waiter's place, for a wait that comes later. Refused when all places of the session are taken.
    pub fn reserve_wait(&self) -> Result<WaitPlace, SupervisorError> {
        WaitPlace::take(&self.shared, self.oversees)
    }

    /// Waits for output or for the end; see [`Until`]. Refused when all waiters' places of the session are taken.
    /// Cancellation safe, but for the probes, which are dropped.
    pub async fn wait(
        &self,
        owner: Owner,
        mode: WaitMode,
        until: Until,
        targets: Vec<Target>,
        timeout: Duration,
    ) -> Result<Vec<Waited>, SupervisorError> {
        self.reserve_wait()?.wait(owner, mode, until, targets, timeout).await
    }

    /// Resolves when nothing was printed for `quiet`, or the process is terminal, or `within` has passed.
    pub async fn quiet(
        &self,
        owner: Owner,
        handle: &Handle,
        quiet: Duration,
        within: Duration,
    ) -> Result<(), SupervisorError> {
        self.reserve_wait()?.quiet(owner, handle, quiet, within).await
    }

    /// Gives input to a process: accepted whole or refused whole, never waiting for the process to read it.
    /// A size is applied first; when that fails, nothing is written. What would be refused is refused before; where it is
    /// only refused after the size was applied, the error is [`SupervisorError::Resized`].
    pub async fn input(
        &self,
        owner: Owner,
        handle: &Handle,
        request: InputRequest,
    ) -> Result<InputAccepted, SupervisorError> {
        self.admit(owner)?;
        crate::give::give(&self.shared, owner, handle, request).await
    }

    /// Resolves when at least half of the pending input of a process is free, with how many bytes that is, so that
    /// a long input can be passed on without being refused. Cancellation safe.
    pub async fn input_room(&self, owner: Owner, handle: &Handle) -> Result<u64, SupervisorError> {
        self.admit(owner)?;
        crate::give::room(&self.shared, owner, handle).await
    }

    /// Stops a process; see [`StopRequest`]. Of a terminal process it gives the result and sends nothing.
    /// Cancelling it does not cancel the stop.
    pub async fn stop(
        &self,
        owner: Owner,
        handle: &Handle,
        request: StopRequest,
    ) -> Result<Snapshot, SupervisorError> {
        self.admit(owner)?;
        crate::stop::stop(&self.shared, owner, handle, request).await
    }

    /// Makes a yielded process a background one; `lift_deadline` removes its lifetime deadline. One that another caller is
    /// starting no longer depends on that caller; whether it comes to be is told by [`Attendance::begun`].
    pub async fn hand_over(
        &self,
        owner: Owner,
        handle: &Handle,
        lift_deadline: bool,
    ) -> Result<Snapshot, SupervisorError> {
        self.admit(owner)?;
        crate::stop::hand_over(&self.shared, owner, handle, lift_deadline).await
    }

    /// A caller stays with a process for its result: when the last one goes away without it, the process is stopped, as
    /// by [`Supervisor::abandon`]; unless it was handed over.
    pub fn attend(&self, owner: Owner, handle: Handle) -> Attendance {
        Attendance::begin(&self.shared, owner, handle)
    }

    /// The caller of a foreground call went away before its result: the process is terminated, and its owner gets a
    /// notice of the outcome that nobody saw. Returns at once; must be called within a runtime.
    pub fn abandon(&self, owner: Owner, handle: &Handle) {
        crate::stop::abandon(&self.shared, owner, handle);
    }

    /// A reply to this owner that is going to be made: what it tells is told by no other.
    pub fn telling(&self, owner: Owner) -> Telling {
        Telling::new(&self.shared, owner)
    }

    /// What this owner was not told yet and no reply under way is telling: completions in their order, then stalls in the
    /// order of admission.
    pub fn notices(&self, owner: Owner) -> Vec<Notice> {
        crate::notices::open(&self.shared, owner)
    }

    /// Whether there is any of [`Supervisor::notices`], so that an idle agent can be woken.
    pub fn has_pending(&self, owner: Owner) -> bool {
        !self.notices(owner).is_empty()
    }

    /// These notices were told by means other than a [`Telling`], and handed to the transport. Must be called within a runtime.
    pub fn delivered(&self, owner: Owner, notices: &[NotificationId]) {
        crate::notices::delivered(&self.shared, owner, notices);
    }

    /// The owner has learnt how these processes ended, from results that were handed to the transport. Must be called
    /// within a runtime.
    pub fn learnt(&self, owner: Owner, handles: &[Handle]) {
        crate::notices::learnt(&self.shared, owner, handles);
    }

    /// Gives everything of one loop to another loop of this session: running and retained processes, and what its
    /// owner was not told yet. At one instant: from then on `from` is told that there is no such process, also by calls that
    /// wait, and `to` has them. All or nothing: a loop that has not enough slots for what runs takes nothing. The records
    /// keep the trail, and are on disk when this resolves.
    ///
    /// For whoever hosts the session: nothing that an owner can reach may call it. Cancelled, the transfer stands, and some
    /// of it may be recorded late or, when the supervisor dies, not at all.
    pub async fn transfer(&self, from: Owner, to: Owner) -> Result<TransferReport, SupervisorError> {
        crate::transfer::transfer(&self.shared, from, to).await
    }

    /// Ends one loop: refuses its further calls, for good, and stops and proves empty all that it runs. Its live views show
    /// these ends, and then end themselves. How many of its processes are not proven gone: until that is zero, call it again.
    /// What it retained stays on disk until it is evicted, and can be given to another loop. Bounded as a shutdown is;
    /// cancelling it cancels no stop.
    pub async fn close_loop(&self, owner: Owner) -> Result<usize, SupervisorError> {
        crate::close_loop::close_loop(&self.shared, owner).await
    }

    /// A live view of this owner's processes, from now on. Whoever subscribes first and reads journal and output second
    /// misses nothing.
    pub fn subscribe(&self, owner: Owner) -> Result<Subscription, SupervisorError> {
        self.shared.admit_calls()?;
        let subscription = Subscription::begin(&self.shared.views, owner);
        // Looked at after it has begun: a loop that is closed meanwhile ends it.
        self.shared.admit_loop(owner)?;
        Ok(subscription)
    }

    /// A live view of everybody's processes in this session. For whoever hosts the session: nothing that an owner can
    /// reach may call it.
    pub fn subscribe_all(&self) -> Result<Subscription, SupervisorError> {
        self.shared.admit_calls()?;
        Ok(Subscription::begin_all(&self.shared.views))
    }

    /// The owners that have processes, in their order. For whoever hosts the session: nothing that an owner can reach may
    /// call it.
    pub fn owners(&self) -> Vec<Owner> {
        let mut owners: Vec<_> = self.shared.registry().entries.keys().map(|(owner, _)| *owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Whose process this is. For whoever hosts the session: nothing that an owner can reach may call it.
    pub fn owner_of(&self, handle: &Handle) -> Option<Owner> {
        let registry = self.shared.registry();
        registry.entries.keys().find(|(_, known)| known == handle).map(|(owner, _)| *owner)
    }

    /// Removes a completed process with its output; one that has not ended is [`SupervisorError::NotEnded`]. It is gone
    /// from memory at once and from disk when this resolves. A notice of its end that its owner was not told is still told.
    /// Cancelled, it is removed all the same.
    pub async fn remove(&self, owner: Owner, handle: &Handle) -> Result<(), SupervisorError> {
        self.admit(owner)?;
        crate::retain::remove(&self.shared, owner, handle).await
    }

    /// Ends the session: closes admission, stops every tree and proves it empty, joins every task. Idempotent; bounded
    /// by the graceful period, the proof bound and the drain cap.
    pub async fn shutdown(&self) -> ShutdownReport {
        self.shutdown_within(self.shared.limits.graceful_shutdown).await
    }

    /// The same, with another time between terminate and kill.
    pub async fn shutdown_within(&self, grace: Duration) -> ShutdownReport {
        crate::shutdown::shutdown(&self.shared, StopKind::Terminate, grace).await
    }
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("session", &self.shared.session).finish_non_exhaustive()
    }
}
