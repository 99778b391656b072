//! What all parts of one session's supervisor share: limits, stores, the registry of processes, the services.
//!
//! Not for behaviour: each verb has its own file.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, OnceLock};

use procyard_core::{
    EventKind, Handle, LifecycleEvent, Limits, Owner, QuotaLedger, Reason, SessionId, State,
};
use procyard_manifest::{Durability, Manifest, ManifestStore, spool_name};
use procyard_spool::{SpoolError, SpoolOptions, SpoolReader};
use procyard_store::Dir;
use rand::TryRng as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::claims::Claims;
use crate::entry::Entry;
use crate::live::Views;
use crate::outbox::{EventItem, NoticeItem, Outbox};
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::{Clock, Services, SupervisorError};

/// Where the session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Inactive,
    Active,
    ShuttingDown,
}

/// The processes of a session, and what they take of its limits.
pub(crate) struct Registry {
    pub(crate) phase: Phase,
    pub(crate) entries: HashMap<(Owner, Handle), Arc<Entry>>,
    pub(crate) ledger: QuotaLedger,
    /// The process that an owner's idempotency key started, and the digest of its arguments.
    pub(crate) idempotent: HashMap<(Owner, String), (Handle, String)>,
    /// Evicted processes whose owners were not told of their ends, the first evicted first.
    pub(crate) unclaimed: VecDeque<Arc<Entry>>,
    /// Loops whose calls are refused.
    pub(crate) closed_loops: HashSet<Owner>,
    pub(crate) admitted: u64,
    pub(crate) completed: u64,
    ticks: u64,
}

impl Registry {
    /// The next moment of use.
    pub(crate) fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }
}

/// The head of the stream that is kept beside the window, for head-and-tail results after any flood.
const HEAD_BYTES: usize = 16 * 1024;

pub(crate) struct Shared {
    pub(crate) session: SessionId,
    pub(crate) limits: Limits,
    pub(crate) root: Arc<dyn Dir>,
    pub(crate) manifests: ManifestStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) services: OnceLock<Services>,
    pub(crate) events: Outbox<EventItem>,
    pub(crate) notices: Outbox<NoticeItem>,
    pub(crate) views: Arc<Views>,
    /// Owns every task of this session; shutdown joins them.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the last handle of this supervisor is dropped: trees are ended at once.
    pub(crate) abandoned: CancellationToken,
    /// Cancelled at the end of a shutdown: the outboxes stop.
    pub(crate) closed: CancellationToken,
    /// Guards what replies under way tell; held for bookkeeping, never across an await. Where several are held, it is
    /// taken before the registry.
    claims: Mutex<Claims>,
    /// Guards the registry; held for lookups and bookkeeping, never across an await or a file operation.
    registry: Mutex<Registry>,
}

impl Shared {
    pub(crate) fn new(session: SessionId, limits: Limits, root: Arc<dyn Dir>, clock: Arc<dyn Clock>) -> Self {
        let registry = Registry {
            phase: Phase::Inactive,
            entries: HashMap::new(),
            ledger: QuotaLedger::new(&limits),
            idempotent: HashMap::new(),
            unclaimed: VecDeque::new(),
            closed_loops: HashSet::new(),
            admitted: 0,
            completed: 0,
            ticks: 0,
        };
        Self {
            session,
            manifests: ManifestStore::new(Arc::clone(&root)),
            limits,
            root,
            clock,
            services: OnceLock::new(),
            events: Outbox::new(),
            notices: Outbox::new(),
            views: Arc::default(),
            tasks: TaskTracker::new(),
            abandoned: CancellationToken::new(),
            closed: CancellationToken::new(),
            claims: Mutex::default(),
            registry: Mutex::new(registry),
        }
    }

    pub(crate) fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of this owner, whether or not its loop was closed. One lookup under one lock: a foreign handle and a
    /// missing one are the same.
    pub(crate) fn find(&self, owner: Owner, handle: &Handle) -> Result<Arc<Entry>, SupervisorError> {
        let mut registry = self.registry();
        let tick = registry.tick();
        let entry = registry.entries.get(&(owner, *handle)).cloned();
        drop(registry);
        let entry = entry.ok_or(SupervisorError::NotFound)?;
        entry.touch(tick);
        Ok(entry)
    }

    /// Refuses before activation and during shutdown.
    pub(crate) fn admit_calls(&self) -> Result<(), SupervisorError> {
        match self.registry().phase {
            Phase::Inactive => Err(SupervisorError::NotActive),
            Phase::Active => Ok(()),
            Phase::ShuttingDown => Err(SupervisorError::ShuttingDown),
        }
    }

    /// Refuses calls of a loop that was closed.
    pub(crate) fn admit_loop(&self, owner: Owner) -> Result<(), SupervisorError> {
        let closed = self.registry().closed_loops.contains(&owner);
        if closed { Err(SupervisorError::LoopClosed) } else { Ok(()) }
    }

    pub(crate) fn spool_options(&self, ceiling: u64) -> SpoolOptions {
        SpoolOptions {
            ceiling,
            window: usize::try_from(self.limits.window_bytes).unwrap_or(usize::MAX),
            head: HEAD_BYTES,
        }
    }

    /// The options that the spool of a recorded process was written with.
    pub(crate) fn spool_options_of(&self, manifest: &Manifest) -> SpoolOptions {
        self.spool_options(manifest.spool.ceiling.unwrap_or(self.limits.spool_bytes))
    }

    /// Opens the spool of a completed process for reading, which has what its record says, or a gap. Blocking.
    pub(crate) fn open_spool(&self, entry: &Entry, options: SpoolOptions) -> Result<SpoolReader, SpoolError> {
        let recorded = entry.recorded_bounds();
        SpoolReader::open_recorded(Arc::clone(&self.root), &spool_name(&entry.handle), options, recorded)
    }

    /// Changes and saves the manifest of a process on a blocking thread.
    pub(crate) async fn update(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        durability: Durability,
        change: impl Fn(&mut Manifest) + Send + 'static,
    ) -> Result<(), SupervisorError> {
        let (shared, entry) = (Arc::clone(self), Arc::clone(entry));
        blocking(move || entry.update(&shared.manifests, durability, change))
            .await?
            .map_err(SupervisorError::storage)
    }

    /// Queues an event with the stable id that the manifest holds for it.
    pub(crate) fn publish(&self, entry: &Arc<Entry>, kind: EventKind, state: State, reason: Option<Reason>) {
        if !self.publishes() {
            return;
        }
        let event = {
            let record = entry.record();
            let recorded = record.manifest.events().into_iter().find(|event| event.kind == kind);
            recorded.unwrap_or_else(|| event_of(&record.manifest, kind, state, reason))
        };
        self.events.push(EventItem { event, entry: Arc::clone(entry) });
    }

    /// Queues `backgrounded` for a process that was handed over, unless it has ended: nothing is said of a process
    /// after its end.
    pub(crate) fn publish_hand_over(&self, entry: &Arc<Entry>) {
        let record = entry.record();
        if record.completion.is_none() && self.publishes() {
            let kind = EventKind::Backgrounded;
            let recorded = record.manifest.events().into_iter().find(|event| event.kind == kind);
            let event = recorded.unwrap_or_else(|| event_of(&record.manifest, kind, State::Running, None));
            // Queued under the lock that the end takes before its own event.
            self.events.push(EventItem { event, entry: Arc::clone(entry) });
        }
    }

    /// Whether there is anybody to give events to.
    pub(crate) fn publishes(&self) -> bool {
        self.services.get().is_some_and(|services| services.publisher.is_some())
    }

    /// Whether this session can announce completions.
    pub(crate) fn notifies(&self) -> bool {
        self.services
            .get()
            .is_some_and(|services| services.notifier.is_some() && services.publisher.is_some())
    }
}

/// An event whose fact could not be recorded; the others are as the manifest has them.
fn event_of(manifest: &Manifest, kind: EventKind, state: State, reason: Option<Reason>) -> LifecycleEvent {
    let ends = kind.is_end();
    let outcome = manifest.outcome.as_ref().filter(|_| ends);
    let id = match kind {
        EventKind::Started => manifest.ids.started,
        EventKind::Backgrounded => manifest.ids.backgrounded,
        EventKind::StopRequested => manifest.ids.stop_requested,
        EventKind::Completed => manifest.ids.completed,
        EventKind::Lost => manifest.ids.lost,
    };
    let event = LifecycleEvent {
        id,
        identity: manifest.identity,
        kind,
        state,
        reason,
        created_at: manifest.created_at,
        started_at: manifest.started_at,
        finished_at: manifest.finished_at.filter(|_| ends),
        at: None,
        exit_code: outcome.and_then(|outcome| outcome.exit_code),
        signal: outcome.and_then(|outcome| outcome.signal).filter(|_| state != State::Exited),
        diagnostic: outcome.and_then(|outcome| outcome.diagnostic.clone()),
    };
    debug_assert_eq!(event.check(), Ok(()), "{event:?}");
    event
}

/// Runs blocking work on a blocking thread; a panic there is an internal error here.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SupervisorError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| SupervisorError::Internal("a storage task failed"))
}

/// Fills 16 bytes from the operating system's randomness; says whether it could.
pub(crate) fn fill_random(bytes: &mut [u8; 16]) -> bool {
    rand::rngs::SysRng.try_fill_bytes(bytes).is_ok()
}
