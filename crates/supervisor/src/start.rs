//! From a prepared process to a running one: admit, record, spawn, hand to its actor; and the way back when any step
//! fails or the caller goes away.
//!
//! Not for validation of what a model wrote; only what would break the supervisor is refused here.

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{
    EventKind, Handle, Identity, Origin, Outcome, Owner, QuotaRequest, Reason, Refusal, Requester,
    Reservation, State, StopKind, Stream,
};
use procyard_manifest::{
    AccessRecord, Durability, Manifest, ManifestError, StableIds, StdinRecord, TerminalRecord, spool_name,
};
use procyard_runner::{
    Input, Output, PreparedProcess, Process, RunnerError, RunnerErrorKind, StdinMode, StreamMode,
};
use procyard_spool::Spool;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{Instrument as _, info_span, warn};

use crate::actor::{Actor, MAILBOX, Order, record_intent};
use crate::drain::Drain;
use crate::entry::{Entry, Record};
use crate::finish::{START_CANCELLED, terminalise};
use crate::input::InputQueue;
use crate::shared::{Phase, Registry, Shared, blocking, fill_random};
use crate::stop::ended;
use crate::{Lease, StartOptions, Started, SupervisorError};

/// The longest lifetime deadline: ten years, so that no clock overflows.
const DEADLINE_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

type Reply = oneshot::Sender<Result<Claim, SupervisorError>>;

/// The caller that starts a process, which stays with it until it has the handle or its start has failed.
struct Starter {
    entry: Arc<Entry>,
    left: bool,
}

impl Starter {
    /// It has the handle, or is gone. Whether nobody else has the process or is to get it.
    fn leaves(&mut self) -> bool {
        !std::mem::replace(&mut self.left, true) && self.entry.leave()
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.leaves();
    }
}

/// A start as it is on the way to its caller. One that nobody takes is killed: the caller went away before it could
/// learn the handle.
struct Claim {
    started: Started,
    unclaimed: Option<Starter>,
}

impl Claim {
    fn take(mut self) -> Started {
        self.unclaimed = None;
        self.started
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(mut starter) = self.unclaimed.take() {
            if !starter.leaves() {
                // Calls that share its key have joined it: it is theirs, and ends when the last of them goes.
                return;
            }
            let entry = &starter.entry;
            // The command may have done something: its owner learns how it ended.
            entry.record().manifest.handed_over = true;
            // The mailbox is empty or nearly so: hardly anybody knows the process yet.
            let _ = entry.orders.try_send(kill());
        }
    }
}

/// Starts in a task of its own, so that a caller that goes away at any point leaves either a running process
/// that it had been told of, or nothing.
pub(crate) async fn start(
    shared: &Arc<Shared>,
    owner: Owner,
    origin: Origin,
    prepared: Box<dyn PreparedProcess>,
    lease: Lease,
    options: StartOptions,
) -> Result<Started, SupervisorError> {
    let (reply, answer) = oneshot::channel();
    let starting = Arc::clone(shared);
    shared.tasks.spawn(async move { run(&starting, owner, origin, prepared, lease, options, reply).await });
    let answer = answer.await.map_err(|_| SupervisorError::Internal("the start ended without an answer"))?;
    answer.map(Claim::take)
}

async fn run(
    shared: &Arc<Shared>,
    owner: Owner,
    origin: Origin,
    prepared: Box<dyn PreparedProcess>,
    lease: Lease,
    options: StartOptions,
    mut reply: Reply,
) {
    if reply.is_closed() {
        // The caller went away before anything was done for it.
        return;
    }
    let admission = match admit(shared, owner, origin, prepared.as_ref(), lease, &options) {
        Ok(Admitted::New(admission)) => *admission,
        Ok(Admitted::Existing(handle)) => {
            let _ = reply.send(Ok(Claim { started: Started::Existing(handle), unclaimed: None }));
            return;
        }
        Err(error) => {
            let _ = reply.send(Err(error));
            return;
        }
    };
    let Admission { entry, spool, mut orders } = admission;
    if let Err(error) = record_starting(shared, &entry).await {
        shared.forget(&entry);
        let _ = reply.send(Err(error));
        return;
    }
    let mut starter = Starter { entry: Arc::clone(&entry), left: false };
    let launched = match spawn(shared, &mut starter, prepared, &mut reply, &mut orders).await {
        Ok(launched) => launched,
        Err(failure) => {
            let (state, outcome) = failure.outcome();
            // Its end is told by the answer, and by a notice only when nobody is there to take that.
            let answered = failure.is_answer() && !reply.is_closed();
            entry.record().manifest.published.notification |= answered;
            terminalise(shared, &entry, state, outcome, Some(spool)).await;
            if failure.may_pass() {
                let manifest = entry.record().manifest.clone();
                shared.registry().free_key(entry.owner(), &manifest);
            }
            let _ = reply.send(Err(failure.error()));
            return;
        }
    };
    let handle = entry.handle;
    let background = options.background;
    let actor = take_over(shared, &entry, launched, spool, orders, options);
    let started_at = shared.clock.now();
    let running = shared
        .update(&entry, Durability::Written, move |manifest| {
            manifest.state = State::Running;
            manifest.started_at = Some(started_at.max(manifest.created_at));
        })
        .await;
    // Whatever is logged of the life of the process, by whichever crate, stands in it; of a handle four characters are shown.
    let span = info_span!("process", ?handle);
    if let Err(error) = running {
        // The command runs and cannot be recorded: it is ended rather than left without a record.
        let _ = entry.orders.send(kill()).await;
        shared.tasks.spawn(actor.run().instrument(span));
        // When its tree cannot be proven empty, its record says so, and the attempt goes on.
        let _ = ended(&entry).await;
        let _ = reply.send(Err(SupervisorError::StartUnrecorded(Box::new(error))));
        return;
    }
    entry.course.runs();
    let kind = if background { EventKind::Backgrounded } else { EventKind::Started };
    shared.publish(&entry, kind, State::Running, None);
    let handed_over = std::mem::take(&mut entry.record().hand_over_unsaid);
    if handed_over {
        shared.publish_hand_over(&entry);
    }
    let claim = Claim { started: Started::New(handle), unclaimed: Some(starter) };
    // Not taken, it is dropped, here or on the way.
    let _ = reply.send(Ok(claim));
    shared.tasks.spawn(actor.run().instrument(span));
}

const fn kill() -> Order {
    Order::Stop { kind: StopKind::Kill, by: Requester::Owner, grace: Duration::ZERO, delivered: None }
}

enum Admitted {
    New(Box<Admission>),
    Existing(Handle),
}

struct Admission {
    entry: Arc<Entry>,
    spool: Spool,
    orders: mpsc::Receiver<Order>,
}

/// Checks, reserves, mints and registers; touches no disk. Everything that it refuses leaves nothing behind.
fn admit(
    shared: &Arc<Shared>,
    owner: Owner,
    origin: Origin,
    prepared: &dyn PreparedProcess,
    lease: Lease,
    options: &StartOptions,
) -> Result<Admitted, SupervisorError> {
    let ceiling = check(shared, owner, options)?;
    let ids = StableIds::generate(fill_random)?;
    let now = shared.clock.now();
    // The runner is foreign code: it is asked before anything is held or reserved.
    let access = AccessRecord::from(&prepared.effective_access());
    let tier = prepared.tier();
    let limits = options.limits.effective(prepared.effective_limits());
    let mut registry = shared.registry();
    match registry.phase {
        Phase::Active => {}
        Phase::Inactive => return Err(SupervisorError::NotActive),
        Phase::ShuttingDown => return Err(SupervisorError::ShuttingDown),
    }
    if registry.closed_loops.contains(&owner) {
        return Err(SupervisorError::LoopClosed);
    }
    if let Some(key) = &options.command.idempotency
        && let Some(handle) = registry.find_idempotent(owner, &key.key, &key.digest)?
    {
        return Ok(Admitted::Existing(handle));
    }
    let handle = Handle::generate(fill_random, |handle| registry.entries.contains_key(&(owner, *handle)))?;
    let window_bytes = shared.limits.window_bytes;
    let request = QuotaRequest { window_bytes, spool_bytes: ceiling };
    let (reservation, evicted) = reserve(&mut registry, owner, request)?;
    let identity = Identity { handle, owner, origin };
    let mut manifest = Manifest::new(identity, options.command.clone(), access, ids, now);
    tier.as_str().clone_into(&mut manifest.tier);
    manifest.limits = limits;
    manifest.terminal = options.terminal.map(|size| TerminalRecord { rows: size.rows, cols: size.cols });
    manifest.stdin = match options.stdin {
        StdinMode::Open => StdinRecord::Open,
        StdinMode::Null => StdinRecord::None,
    };
    manifest.background = options.background;
    manifest.deadline_at = options.deadline.map(|deadline| now.after(deadline));
    manifest.spool.ceiling = Some(ceiling);
    registry.admitted += 1;
    let spool = Spool::create(Arc::clone(&shared.root), &spool_name(&handle), shared.spool_options(ceiling));
    let takes_input = options.terminal.is_some() || options.stdin == StdinMode::Open;
    let input = takes_input
        .then(|| Arc::new(InputQueue::new(shared.limits.pending_input_bytes, options.terminal.is_some())));
    let (sender, orders) = mpsc::channel(MAILBOX);
    let record = Record {
        manifest,
        deadline: options.deadline,
        lease: Some(lease),
        reservation: Some(reservation),
        retained: None,
        hand_over_unsaid: false,
        joined: false,
        completion: None,
        announced: false,
        stall: None,
    };
    let entry = Arc::new(Entry::live(
        record,
        registry.admitted,
        sender,
        input,
        spool.reader(),
        Arc::clone(&shared.views),
    ));
    registry.insert(Arc::clone(&entry));
    drop(registry);
    shared.remove_from_disk(evicted);
    Ok(Admitted::New(Box::new(Admission { entry, spool, orders })))
}

/// Refuses what cannot be supervised; the effective ceiling of the spool.
fn check(shared: &Shared, owner: Owner, options: &StartOptions) -> Result<u64, SupervisorError> {
    if owner.session != shared.session {
        return Err(SupervisorError::NotFound);
    }
    if options.background && !shared.notifies() {
        return Err(SupervisorError::NotificationsUnsupported);
    }
    if options.deadline.is_some_and(|deadline| deadline > DEADLINE_MAX) {
        return Err(SupervisorError::invalid("timeout", "must be at most ten years"));
    }
    if options.input.is_some() && (options.terminal.is_some() || options.stdin == StdinMode::Null) {
        return Err(SupervisorError::invalid("input", "needs a standard input that is a pipe"));
    }
    if options.input.as_ref().is_some_and(|input| input.len() as u64 > shared.limits.pending_input_bytes) {
        let problem = format!("must be at most {} bytes", shared.limits.pending_input_bytes);
        return Err(SupervisorError::invalid("input", problem));
    }
    let configured = shared.limits.spool_bytes;
    match options.spool_ceiling {
        None => Ok(configured),
        Some(0) => Err(SupervisorError::invalid("max_output_bytes", "must be positive")),
        Some(ceiling) if ceiling > configured => {
            Err(SupervisorError::invalid("max_output_bytes", format!("must be at most {configured}")))
        }
        Some(ceiling) => Ok(ceiling),
    }
}

/// Reserves, evicting least recently used output before a start is refused for space.
fn reserve(
    registry: &mut Registry,
    owner: Owner,
    request: QuotaRequest,
) -> Result<(Reservation, Vec<Arc<Entry>>), SupervisorError> {
    match registry.ledger.reserve(owner, request) {
        Ok(reservation) => Ok((reservation, Vec::new())),
        Err(Refusal::SpoolBytes { shortfall, evictable, .. }) if shortfall <= evictable => {
            let evicted = registry.evict_bytes(shortfall);
            Ok((registry.ledger.reserve(owner, request)?, evicted))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

async fn record_starting(shared: &Arc<Shared>, entry: &Arc<Entry>) -> Result<(), SupervisorError> {
    let (shared, entry) = (Arc::clone(shared), Arc::clone(entry));
    blocking(move || {
        let manifest = entry.record().manifest.clone();
        shared.manifests.create(&manifest).map_err(|error| {
            if let ManifestError::Invalid { field, problem } = error {
                return SupervisorError::invalid(field, problem);
            }
            // The failure may have come after the rename.
            if matches!(error, ManifestError::Io(_))
                && let Err(error) = shared.manifests.remove(&entry.handle)
            {
                warn!(handle = ?entry.handle, %error, "the record of a refused start may be left");
            }
            SupervisorError::storage(error)
        })
    })
    .await?
}

/// Why there is no process.
enum SpawnFailure {
    Runner(RunnerError),
    Stopped { kind: StopKind, by: Requester },
    CallerGone,
}

impl SpawnFailure {
    /// Whether it is what became of the command, and not that the start was given up.
    fn is_answer(&self) -> bool {
        matches!(self, SpawnFailure::Runner(_))
    }

    /// Whether the same start may succeed later: its key then starts it.
    fn may_pass(&self) -> bool {
        matches!(self, SpawnFailure::Runner(error) if error.public().retryable)
    }

    fn outcome(&self) -> (State, Outcome) {
        match self {
            SpawnFailure::Runner(error) => {
                (State::Failed, Outcome::diagnosed(Reason::Failed, &error.public().message))
            }
            SpawnFailure::CallerGone => (State::Failed, Outcome::diagnosed(Reason::Failed, START_CANCELLED)),
            SpawnFailure::Stopped { kind, by } => {
                let (state, reason) = match kind {
                    StopKind::Kill => (State::Killed, Reason::Killed),
                    StopKind::Interrupt | StopKind::Terminate => (State::Terminated, Reason::Terminated),
                };
                let reason = if *by == Requester::Shutdown { Reason::RunnerShutdown } else { reason };
                (state, Outcome { diagnostic: None, ..Outcome::diagnosed(reason, "") })
            }
        }
    }

    fn error(self) -> SupervisorError {
        match self {
            SpawnFailure::Runner(error) => error.into(),
            SpawnFailure::Stopped { .. } => SupervisorError::StoppedWhileStarting,
            SpawnFailure::CallerGone => SupervisorError::Internal("the start was cancelled"),
        }
    }
}

/// A started process with its streams taken out.
struct Launched {
    process: Box<dyn Process>,
    streams: Vec<(Stream, Output)>,
    stdin: Option<Input>,
}

impl Launched {
    fn take_apart(mut process: Box<dyn Process>) -> Self {
        let first = match process.stream_mode() {
            StreamMode::Pipes => Stream::Stdout,
            StreamMode::Terminal => Stream::Terminal,
        };
        let outputs = [(first, process.take_stdout()), (Stream::Stderr, process.take_stderr())];
        let streams = outputs.into_iter().filter_map(|(stream, output)| Some((stream, output?))).collect();
        let stdin = process.take_stdin();
        Self { process, streams, stdin }
    }
}

/// Starts the process in a task, since a runner is foreign code that may panic or hang; gives up when the caller
/// goes away, unless others have joined the start, or when somebody stops the process meanwhile. A start that is given up
/// leaves no process behind.
async fn spawn(
    shared: &Arc<Shared>,
    starter: &mut Starter,
    prepared: Box<dyn PreparedProcess>,
    reply: &mut Reply,
    orders: &mut mpsc::Receiver<Order>,
) -> Result<Launched, SpawnFailure> {
    if reply.is_closed() && starter.leaves() {
        return Err(SpawnFailure::CallerGone);
    }
    let mut starting = tokio::spawn(async move { prepared.start().await.map(Launched::take_apart) });
    let given_up = tokio::select! {
        started = &mut starting => {
            return match started {
                Ok(Ok(launched)) => Ok(launched),
                Ok(Err(error)) => Err(SpawnFailure::Runner(error)),
                Err(_) => Err(SpawnFailure::Runner(RunnerError::new(
                    RunnerErrorKind::Setup,
                    "the runner failed while it started the process",
                ))),
            };
        }
        () = abandoned(starter, reply) => SpawnFailure::CallerGone,
        (kind, by) = stop_ordered(orders) => {
            record_intent(shared, &starter.entry, State::Starting, kind).await;
            SpawnFailure::Stopped { kind, by }
        }
    };
    starting.abort();
    if let Ok(Ok(launched)) = starting.await {
        // It came up in the same instant. Whoever it is dropped by kills it; this waits until it is gone.
        let _ = tokio::time::timeout(shared.limits.proof_bound, launched.process.close()).await;
    }
    Err(given_up)
}

/// Resolves when the caller goes away and nobody has joined its start. Of one that was joined, the last that stays and
/// then goes orders a stop.
async fn abandoned(starter: &mut Starter, reply: &mut Reply) {
    reply.closed().await;
    if !starter.leaves() {
        std::future::pending().await
    }
}

/// Resolves when a stop is ordered; other orders make no sense before there is a process.
async fn stop_ordered(orders: &mut mpsc::Receiver<Order>) -> (StopKind, Requester) {
    loop {
        match orders.recv().await {
            Some(Order::Stop { kind, by, delivered, .. }) => {
                if let Some(delivered) = delivered {
                    let _ = delivered.send(Ok(()));
                }
                return (kind, by);
            }
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// Begins draining and input, and builds the actor; its mailbox holds what was ordered meanwhile.
fn take_over(
    shared: &Arc<Shared>,
    entry: &Arc<Entry>,
    launched: Launched,
    spool: Spool,
    orders: mpsc::Receiver<Order>,
    options: StartOptions,
) -> Actor {
    let Launched { process, streams, stdin } = launched;
    let process: Arc<dyn Process> = Arc::from(process);
    // What does not run yet is not quiet.
    entry.course.rest_from(Instant::now());
    let window = shared.limits.window_bytes;
    let clock = Arc::clone(&shared.clock);
    let drain = Drain::begin(Arc::clone(entry), clock, spool, streams, options.pace, window);
    if let (Some(queue), Some(stdin)) = (entry.input.clone(), stdin) {
        if let Some(input) = options.input {
            // It fits: the size was checked at admission and the queue was empty.
            let _ = queue.push(input, true, || {});
        }
        queue.attach(Arc::downgrade(&process));
        let stop = drain.stop.clone();
        shared.tasks.spawn(async move { queue.write_to(stdin, stop).await });
    }
    Actor::new(
        Arc::clone(shared),
        Arc::clone(entry),
        process,
        orders,
        drain,
        options.leftovers,
        options.stall_window,
    )
}
