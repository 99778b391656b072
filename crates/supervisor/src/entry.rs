//! One process as the session's registry knows it: what is fixed, what is recorded, and how to wake who waits.
//!
//! Not for driving it: that is the [actor](crate::actor), one task for each live process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use procyard_core::{Handle, NotificationId, Owner, Reservation, Retained, State};
use procyard_manifest::{
    CommandRecord, Durability, Manifest, ManifestError, ManifestStore, SpoolBounds, StdinRecord,
    TerminalRecord,
};
use procyard_runner::TerminalSize;
use procyard_spool::{Bounds, SpoolOptions, SpoolReader};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::actor::Order;
use crate::course::{Course, CourseWaiter, Life, Progress, Waits};
use crate::input::InputQueue;
use crate::live::Views;
use crate::{Lease, Notice, NoticeKind, Snapshot, StdinStatus, SupervisorError};

/// What changes during a life.
pub(crate) struct Record {
    /// The durable record, as last saved; saved anew by [`Entry::update`] only.
    pub(crate) manifest: Manifest,
    /// The lifetime deadline in force.
    pub(crate) deadline: Option<Duration>,
    /// The access to the workspace, until the terminal manifest is saved.
    pub(crate) lease: Option<Lease>,
    /// The slot of a running process.
    pub(crate) reservation: Option<Reservation>,
    /// The bytes on disk of a completed one.
    pub(crate) retained: Option<Retained>,
    /// It was handed over while it was starting, which is said once it runs.
    pub(crate) hand_over_unsaid: bool,
    /// A caller that did not start it was given its handle: it outlives the one that did.
    pub(crate) joined: bool,
    /// Its place in the order of completion, once it is terminal.
    pub(crate) completion: Option<u64>,
    /// Whether its end was announced.
    pub(crate) announced: bool,
    /// A stall that the owner has not been told of.
    pub(crate) stall: Option<Notice>,
}

impl Record {
    /// The completion notice, where the process has ended and its owner is to get one and has not got it.
    pub(crate) fn notice_due(&self) -> Option<Notice> {
        let manifest = &self.manifest;
        let due = (manifest.background || manifest.handed_over) && !manifest.published.notification;
        (due && self.completion.is_some()).then(|| completion_notice(manifest))
    }
}

/// Where output is read from.
enum Source {
    /// The process lived in this supervisor.
    Open(SpoolReader),
    /// The process was restored; its spool is opened by the first read.
    Stored(SpoolOptions),
}

/// One process.
pub(crate) struct Entry {
    pub(crate) handle: Handle,
    pub(crate) sequence: u64,
    /// As the record has them, for all who look: copies of these would be the most that a look costs.
    command: Arc<CommandRecord>,
    tier: Arc<str>,
    pub(crate) orders: mpsc::Sender<Order>,
    pub(crate) input: Option<Arc<InputQueue>>,
    /// How far it has come, and who waits for it to go on.
    pub(crate) course: Course,
    /// When it was last asked for, in ticks of the registry.
    pub(crate) used: AtomicU64,
    /// How many callers stay with it for its result, the one that starts it among them until it has the handle.
    pub(crate) attending: AtomicUsize,
    /// Who looks on; nobody at a process that ended before this supervisor.
    views: Option<Arc<Views>>,
    /// Guards what changes; held for copies in and out, never across an await or a file operation.
    record: Mutex<Record>,
    /// Orders the saves of this manifest: held on blocking threads only, for one save.
    saving: Mutex<()>,
    /// Guards the choice of source; held across the opening of a stored spool, on blocking threads only.
    source: Mutex<Source>,
}

impl Entry {
    pub(crate) fn live(
        record: Record,
        sequence: u64,
        orders: mpsc::Sender<Order>,
        input: Option<Arc<InputQueue>>,
        reader: SpoolReader,
        views: Arc<Views>,
    ) -> Self {
        Self {
            views: Some(views),
            attending: AtomicUsize::new(1),
            ..Self::new(record, sequence, orders, input, Source::Open(reader), 0)
        }
    }

    pub(crate) fn restored(record: Record, sequence: u64, options: SpoolOptions) -> Self {
        // Nobody receives: a restored process is terminal and takes no orders.
        let (orders, _) = mpsc::channel(1);
        let total = record.manifest.spool.total_bytes;
        Self::new(record, sequence, orders, None, Source::Stored(options), total)
    }

    fn new(
        record: Record,
        sequence: u64,
        orders: mpsc::Sender<Order>,
        input: Option<Arc<InputQueue>>,
        source: Source,
        total_bytes: u64,
    ) -> Self {
        let identity = record.manifest.identity;
        let life = Life { state: record.manifest.state, owner: identity.owner, teardown_failed: false };
        Self {
            handle: identity.handle,
            sequence,
            command: Arc::new(record.manifest.command.clone()),
            tier: Arc::from(record.manifest.tier.as_str()),
            orders,
            input,
            course: Course::new(Progress { total_bytes, at: Instant::now() }, life),
            used: AtomicU64::new(0),
            attending: AtomicUsize::new(0),
            views: None,
            record: Mutex::new(record),
            saving: Mutex::new(()),
            source: Mutex::new(source),
        }
    }

    /// The record, for a short look or change.
    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        // A panic while it was held cannot leave it half changed in a way that matters more than going on.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose it is now.
    pub(crate) fn owner(&self) -> Owner {
        self.course.standing().life.owner
    }

    /// A waiter at this process's course.
    pub(crate) fn waiter(&self, waits: Waits) -> CourseWaiter<&Self> {
        CourseWaiter::new(self, waits)
    }

    /// Refuses a call that was admitted before the process was given to another owner.
    pub(crate) fn still_of(&self, owner: Owner) -> Result<(), SupervisorError> {
        if self.owner() == owner { Ok(()) } else { Err(SupervisorError::NotFound) }
    }

    pub(crate) fn state(&self) -> State {
        self.course.standing().life.state
    }

    /// Whether its owner was given its handle and it outlives its callers.
    pub(crate) fn is_handed_over(&self) -> bool {
        let record = self.record();
        record.manifest.background || record.manifest.handed_over
    }

    /// A caller that stayed with it stays no longer. Whether nobody is left who has it or is to get it.
    pub(crate) fn leave(&self) -> bool {
        self.attending.fetch_sub(1, Ordering::AcqRel) == 1 && !self.record().joined
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.state().is_terminal()
    }

    /// Changes the manifest, saves it, and only then lets the change be seen. `change` is applied twice, to what is
    /// saved and to what is seen, since marks may be set in memory while the save runs. Blocking.
    pub(crate) fn update(
        &self,
        store: &ManifestStore,
        durability: Durability,
        change: impl Fn(&mut Manifest),
    ) -> Result<(), ManifestError> {
        let _turn = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.record().manifest.clone();
        change(&mut next);
        store.save_with(&next, durability)?;
        change(&mut self.record().manifest);
        Ok(())
    }

    /// The reader of the output; opens a stored spool. Blocking for a restored process the first time.
    pub(crate) fn reader(
        &self,
        open: impl FnOnce(SpoolOptions) -> Result<SpoolReader, procyard_spool::SpoolError>,
    ) -> Result<SpoolReader, procyard_spool::SpoolError> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        match &*source {
            Source::Open(reader) => Ok(reader.clone()),
            Source::Stored(options) => {
                let reader = open(*options)?;
                *source = Source::Open(reader.clone());
                Ok(reader)
            }
        }
    }

    /// Takes over what a stored spool really holds, once it is open.
    pub(crate) fn believe(&self, reader: &SpoolReader) {
        self.note_damage(reader);
        self.course.correct(reader.bounds().total_bytes);
    }

    /// Says from now on that output is missing, once its reader has found that.
    pub(crate) fn note_damage(&self, reader: &SpoolReader) {
        if reader.degraded() {
            self.record().manifest.storage_degraded = true;
        }
    }

    /// What the record says can be read.
    pub(crate) fn recorded_bounds(&self) -> Bounds {
        let SpoolBounds { total_bytes, retained_from, .. } = self.record().manifest.spool;
        Bounds { total_bytes, retained_from }
    }

    /// There is more output, and it can be read: wakes who waits for it. Whether anybody did.
    pub(crate) fn advance(&self, total_bytes: u64) -> bool {
        let awaited = self.course.append(total_bytes, Instant::now());
        if let Some(views) = &self.views {
            views.show_output(|| self.owner(), self.handle, total_bytes);
        }
        awaited
    }

    /// The reader, if it needs no opening.
    pub(crate) fn open_reader(&self) -> Option<SpoolReader> {
        match &*self.source.try_lock().ok()? {
            Source::Open(reader) => Some(reader.clone()),
            Source::Stored(_) => None,
        }
    }

    /// Replaces the reader when the process has ended and its window is given back.
    pub(crate) fn settle_reader(&self, reader: SpoolReader) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Source::Open(reader);
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_at(&self.course.standing().life)
    }

    /// The process as it is now, of this owner; `None` when it has another one.
    pub(crate) fn snapshot_of(&self, owner: Owner) -> Option<Snapshot> {
        let life = self.course.standing().life;
        (life.owner == owner).then(|| self.snapshot_at(&life))
    }

    fn snapshot_at(&self, life: &Life) -> Snapshot {
        let input = self.input.as_ref().map(|input| input.status());
        let bounds = self.open_reader().map(|reader| reader.bounds());
        let record = self.record();
        let manifest = &record.manifest;
        let SpoolBounds { total_bytes, retained_from, .. } = manifest.spool;
        let bounds = bounds.unwrap_or(Bounds { total_bytes, retained_from });
        Snapshot {
            identity: manifest.identity,
            command: Arc::clone(&self.command),
            state: life.state,
            handed_over: manifest.background || manifest.handed_over,
            created_at: manifest.created_at,
            started_at: manifest.started_at,
            // Recorded a moment before the state lets it be seen.
            finished_at: manifest.finished_at.filter(|_| life.state.is_terminal()),
            deadline: record.deadline,
            unread_input: match manifest.outcome.as_ref().filter(|_| life.state.is_terminal()) {
                Some(outcome) => outcome.unread_input,
                None => input.map_or(0, |input| input.lost),
            },
            outcome: manifest.outcome.clone().filter(|_| life.state.is_terminal()),
            total_bytes: bounds.total_bytes,
            retained_from: bounds.retained_from,
            last_output_at: manifest.last_output_at,
            storage_degraded: manifest.storage_degraded,
            teardown_failed: life.teardown_failed,
            terminal: manifest.terminal.map(terminal_size),
            initial_terminal: manifest.initial_terminal.map(terminal_size),
            stdin: match (input, manifest.stdin) {
                (Some(input), _) if input.open && !life.state.is_terminal() => StdinStatus::Open,
                (None, StdinRecord::None) => StdinStatus::None,
                _ => StdinStatus::Closed,
            },
            pending_input: input.map_or(0, |input| input.pending),
            tier: Arc::clone(&self.tier),
            limits: manifest.limits.clone(),
            memory_kills: if life.state.is_terminal() { manifest.memory_kills } else { 0 },
            sequence: self.sequence,
        }
    }

    /// The completion notice, where its owner is to get one and has not got it.
    pub(crate) fn pending_notice(&self) -> Option<(u64, Notice)> {
        let record = self.record();
        record.completion.zip(record.notice_due())
    }

    /// The stable id of its completion notice.
    pub(crate) fn notification(&self) -> NotificationId {
        self.record().manifest.ids.notification
    }

    pub(crate) fn touch(&self, tick: u64) {
        self.used.store(tick, Ordering::Relaxed);
    }
}

impl AsRef<Course> for Entry {
    fn as_ref(&self) -> &Course {
        &self.course
    }
}

fn terminal_size(record: TerminalRecord) -> TerminalSize {
    TerminalSize { rows: record.rows, cols: record.cols }
}

/// The notice of a terminal manifest.
fn completion_notice(manifest: &Manifest) -> Notice {
    let outcome = manifest.outcome.as_ref();
    Notice {
        id: manifest.ids.notification,
        kind: NoticeKind::Completed,
        handle: manifest.identity.handle,
        state: manifest.state,
        reason: outcome.map(|outcome| outcome.reason),
        exit_code: outcome.and_then(|outcome| outcome.exit_code),
        started_at: manifest.started_at,
        finished_at: manifest.finished_at,
    }
}
