//! One task for each live process: it watches the leader, obeys orders, keeps the deadlines, and sees the process to
//! its end.
//!
//! Not for output: the [drain](crate::drain) reads, and [settle](crate::settle) decides when all is read.

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{Causes, EventKind, NotificationId, Reason, Requester, State, StopKind};
use procyard_manifest::{Durability, StopRecord, TerminalRecord};
use procyard_runner::{Delivery, ExitStatus, Process, Signal, TerminalSize};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::course::Waits;
use crate::drain::Drain;
use crate::entry::Entry;
use crate::finish::give_up;
use crate::shared::{Shared, fill_random};
use crate::sound::sound;
use crate::{LeftoverPolicy, Notice, NoticeKind, SupervisorError};

/// How many orders may wait for one actor; who sends more waits until it has obeyed some.
pub(crate) const MAILBOX: usize = 32;

/// What an actor is told.
pub(crate) enum Order {
    /// Stop the tree. `delivered` hears when the first signal is out, or why it is not.
    Stop {
        kind: StopKind,
        by: Requester,
        grace: Duration,
        delivered: Option<oneshot::Sender<Result<(), SupervisorError>>>,
    },
    /// The process has become a background one: its default deadline no longer holds.
    LiftDeadline,
    /// Give the terminal another size.
    Resize { size: TerminalSize, done: oneshot::Sender<Result<(), SupervisorError>> },
    /// An interrupt character was accepted as input to a terminal.
    TypedInterrupt,
    /// Other input was accepted: a typed interrupt no longer owns an exit.
    TypedOther,
}

/// Something that happened to a live process, other than to its leader and its output.
pub(crate) enum Happening {
    Ordered(Order),
    DeadlinePassed,
    GracePassed,
    ProofOverdue,
    InterruptLapsed,
    Quiet,
    Resumed,
    Abandoned,
}

pub(crate) struct Actor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) process: Arc<dyn Process>,
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) drain: Drain,
    pub(crate) causes: Causes,
    pub(crate) leftovers: LeftoverPolicy,
    pub(crate) stall_window: Option<Duration>,
    pub(crate) deadline: Option<Instant>,
    /// When a terminate becomes a kill.
    pub(crate) kill_at: Option<Instant>,
    /// When what SIGKILL was sent to must be gone.
    proof_due: Option<Instant>,
    /// SIGKILL has gone out, or was tried.
    killing: bool,
    /// A stop is under way: the tree is being ended, whoever's cause owns the exit.
    pub(crate) stopping: bool,
    /// When the open interrupt no longer owns an exit.
    interrupt_until: Option<Instant>,
    /// Whether that interrupt was typed: more input takes its claim, too.
    interrupt_typed: bool,
    /// The output that the last stall notice was about.
    stalled_at: Option<u64>,
}

impl Actor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        entry: Arc<Entry>,
        process: Arc<dyn Process>,
        orders: mpsc::Receiver<Order>,
        drain: Drain,
        leftovers: LeftoverPolicy,
        stall_window: Option<Duration>,
    ) -> Self {
        let deadline = entry.record().deadline.map(|deadline| Instant::now() + deadline);
        Self {
            shared,
            entry,
            process,
            orders,
            drain,
            causes: Causes::default(),
            leftovers,
            stall_window,
            deadline,
            kill_at: None,
            proof_due: None,
            killing: false,
            stopping: false,
            interrupt_until: None,
            interrupt_typed: false,
            stalled_at: None,
        }
    }

    /// Sees the process to its end, also when its runner, which is foreign code, panics on the way.
    pub(crate) async fn run(self) {
        let (shared, entry) = (Arc::clone(&self.shared), Arc::clone(&self.entry));
        let mut drained = self.drain.at_eof.clone();
        // When it breaks, whatever is left of the process goes with it, its tree included.
        if sound(Box::pin(self.live())).await.is_none() {
            let bound = shared.limits.proof_bound;
            let _ = tokio::time::timeout(bound, drained.wait_for(|ended| *ended)).await;
            give_up(&shared, &entry).await;
        }
    }

    async fn live(mut self) {
        let exit = self.until_leader_ends().await;
        debug!(handle = ?self.entry.handle, "the leader has ended");
        let late = self.take_typed_orders();
        self.causes.leader_ended();
        self.interrupt_until = None;
        self.proof_due = None;
        for order in late {
            self.obey(order).await;
        }
        let leftovers = self.settle().await;
        self.finish(exit, leftovers).await;
    }

    async fn until_leader_ends(&mut self) -> ExitStatus {
        let process = Arc::clone(&self.process);
        loop {
            let happening = tokio::select! {
                exit = process.wait() => return exit,
                happening = self.happening() => happening,
            };
            self.attend(happening).await;
        }
    }

    /// Heeds what was typed before the leader ended, perhaps because of it; gives the other orders back.
    fn take_typed_orders(&mut self) -> Vec<Order> {
        let mut others = Vec::new();
        while others.len() < MAILBOX
            && let Ok(order) = self.orders.try_recv()
        {
            match order {
                Order::TypedInterrupt => self.typed_interrupt(),
                Order::TypedOther => self.typed_other(),
                other => others.push(other),
            }
        }
        others
    }

    fn typed_interrupt(&mut self) {
        self.causes.delivered(StopKind::Interrupt, Requester::Owner);
        self.interrupt_until = Instant::now().checked_add(self.shared.limits.graceful_shutdown);
        self.interrupt_typed = true;
    }

    fn typed_other(&mut self) {
        if self.interrupt_typed {
            self.interrupt_until = None;
            self.causes.interrupt_lapsed();
        }
    }

    /// What happens next. Cancellation safe: nothing is lost when another branch wins.
    pub(crate) async fn happening(&mut self) -> Happening {
        let quiet_at = self.quiet_at();
        let resumed = output_resumes(&self.entry, self.stalled_at);
        tokio::select! {
            Some(order) = self.orders.recv() => Happening::Ordered(order),
            () = until(self.kill_at) => Happening::GracePassed,
            () = until(self.proof_due) => Happening::ProofOverdue,
            () = until(self.deadline) => Happening::DeadlinePassed,
            () = until(self.interrupt_until) => Happening::InterruptLapsed,
            () = until(quiet_at) => Happening::Quiet,
            () = resumed => Happening::Resumed,
            () = self.shared.abandoned.cancelled(), if !self.stopping => Happening::Abandoned,
        }
    }

    pub(crate) async fn attend(&mut self, happening: Happening) {
        match happening {
            Happening::Ordered(order) => self.obey(order).await,
            Happening::DeadlinePassed => {
                self.deadline = None;
                let grace = self.shared.limits.graceful_shutdown;
                let _ = self.stop(StopKind::Terminate, Requester::Deadline, grace).await;
            }
            Happening::GracePassed => {
                self.await_proof();
                if self.deliver(Signal::Kill).await.is_ok_and(|delivery| delivery.processes > 0) {
                    self.causes.escalated();
                }
            }
            Happening::ProofOverdue => {
                warn!(handle = ?self.entry.handle, "a killed tree is not gone; the attempt goes on");
                self.set_teardown_failed(true);
                self.await_proof();
                let _ = self.deliver(Signal::Kill).await;
            }
            Happening::InterruptLapsed => {
                self.interrupt_until = None;
                self.causes.interrupt_lapsed();
            }
            Happening::Quiet => self.report_stall(),
            // The next look at what may happen arms the stall watch anew.
            Happening::Resumed => self.stalled_at = None,
            Happening::Abandoned => {
                let _ = self.stop(StopKind::Kill, Requester::Shutdown, Duration::ZERO).await;
            }
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Stop { kind, by, grace, delivered } => {
                let result = self.stop(kind, by, grace).await;
                if let Some(delivered) = delivered {
                    // Whoever asked may have gone; the stop goes on.
                    let _ = delivered.send(result);
                }
            }
            Order::LiftDeadline => self.deadline = None,
            Order::Resize { size, done } => {
                let _ = done.send(self.resize(size).await);
            }
            Order::TypedInterrupt => self.typed_interrupt(),
            Order::TypedOther => self.typed_other(),
        }
    }

    /// Records the intent, delivers the first signal, and arms what follows it.
    async fn stop(&mut self, kind: StopKind, by: Requester, grace: Duration) -> Result<(), SupervisorError> {
        record_intent(&self.shared, &self.entry, State::Running, kind).await;
        if self.is_repeated(kind) {
            let due = Instant::now() + grace;
            self.kill_at = self.kill_at.map(|earlier| earlier.min(due));
            return Ok(());
        }
        let signal = match kind {
            StopKind::Interrupt => Signal::Interrupt,
            StopKind::Terminate => Signal::Terminate,
            StopKind::Kill => Signal::Kill,
        };
        let delivery = self.deliver(signal).await;
        let now = Instant::now();
        match kind {
            StopKind::Interrupt => {
                let delivery = delivery?;
                if delivery.leader_alive {
                    self.causes.delivered(kind, by);
                    self.interrupt_until = Some(now + grace);
                    self.interrupt_typed = false;
                }
                return Ok(());
            }
            StopKind::Terminate => {
                let due = now + grace;
                self.kill_at = Some(self.kill_at.map_or(due, |earlier| earlier.min(due)));
            }
            StopKind::Kill => self.await_proof(),
        }
        self.stopping = true;
        // A signal whose fate is unknown counts as one that met the leader: the intent was there first.
        let met_leader = delivery.as_ref().map_or(true, |delivery| delivery.leader_alive);
        if !met_leader {
            self.causes.leader_ended();
        }
        if met_leader || self.leftovers == LeftoverPolicy::Wait {
            self.causes.delivered(kind, by);
        }
        delivery.map(|_| ())
    }

    /// Whether a stop at least as strong is under way: it goes on, and no signal is sent again.
    fn is_repeated(&self, kind: StopKind) -> bool {
        match kind {
            StopKind::Interrupt => false,
            StopKind::Terminate => self.stopping,
            StopKind::Kill => self.killing,
        }
    }

    /// SIGKILL goes out: within the proof bound everything is gone, or it could not be torn down.
    fn await_proof(&mut self) {
        self.kill_at = None;
        self.killing = true;
        self.proof_due = Some(Instant::now() + self.shared.limits.proof_bound);
    }

    /// Delivers a signal; a runner that does not answer within the proof bound has failed.
    pub(crate) async fn deliver(&self, signal: Signal) -> Result<Delivery, SupervisorError> {
        let bound = self.shared.limits.proof_bound;
        match tokio::time::timeout(bound, self.process.signal(signal)).await {
            Ok(Ok(delivery)) => Ok(delivery),
            Ok(Err(error)) => {
                warn!(handle = ?self.entry.handle, %error, "a signal was not delivered");
                Err(error.into())
            }
            Err(_) => Err(SupervisorError::Internal("the runner did not deliver a signal in time")),
        }
    }

    async fn resize(&self, size: TerminalSize) -> Result<(), SupervisorError> {
        let bound = self.shared.limits.proof_bound;
        match tokio::time::timeout(bound, self.process.resize(size)).await {
            Ok(Ok(())) => {
                let record = TerminalRecord { rows: size.rows, cols: size.cols };
                self.entry.record().manifest.resize(record);
                self.drain.sizes.send_replace(Some(size));
                Ok(())
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(SupervisorError::Internal("the runner did not resize a terminal in time")),
        }
    }

    /// When the stall window will have passed without output; never twice for the same silence.
    fn quiet_at(&self) -> Option<Instant> {
        let window = self.stall_window?;
        let progress = self.entry.course.standing().progress;
        if self.stalled_at == Some(progress.total_bytes) { None } else { progress.at.checked_add(window) }
    }

    fn report_stall(&mut self) {
        let Some(window) = self.stall_window else { return };
        let progress = self.entry.course.standing().progress;
        let quiet = progress.at.elapsed();
        if quiet < window {
            return;
        }
        self.stalled_at = Some(progress.total_bytes);
        let mut bytes = [0; 16];
        if !fill_random(&mut bytes) {
            return;
        }
        let id = NotificationId::from_random(bytes);
        let notice = {
            let mut record = self.entry.record();
            let notice = Notice {
                id,
                kind: NoticeKind::Stalled { quiet, total_bytes: progress.total_bytes },
                handle: self.entry.handle,
                state: State::Running,
                reason: None,
                exit_code: None,
                started_at: record.manifest.started_at,
                finished_at: None,
            };
            record.stall = Some(notice.clone());
            notice
        };
        self.shared.notify(self.entry.owner(), notice);
    }
}

/// The first intent is recorded and published before its signal goes out.
pub(crate) async fn record_intent(shared: &Arc<Shared>, entry: &Arc<Entry>, state: State, kind: StopKind) {
    let reason = match kind {
        StopKind::Interrupt => Reason::Interrupted,
        StopKind::Terminate => Reason::Terminated,
        StopKind::Kill => Reason::Killed,
    };
    let (known, recorded) = {
        let record = entry.record();
        (record.manifest.stop_requested.is_some(), record.manifest.state)
    };
    if known {
        return;
    }
    let stop = StopRecord { reason, state, at: shared.clock.now() };
    let saved =
        shared.update(entry, Durability::Written, move |manifest| manifest.stop_requested = Some(stop)).await;
    if let Err(error) = saved {
        warn!(handle = ?entry.handle, %error, "a stop goes ahead although its intent could not be recorded");
    }
    // A process whose start could not be recorded is undone, not stopped.
    if recorded == state {
        shared.publish(entry, EventKind::StopRequested, state, Some(reason));
    }
}

/// Resolves when something is printed after the stall that was reported at this total; never without one.
async fn output_resumes(entry: &Entry, stalled_at: Option<u64>) {
    let Some(stalled_at) = stalled_at else { return std::future::pending().await };
    entry.waiter(Waits::ForOutput).until(|standing| standing.output_beyond(stalled_at)).await;
}

/// Sleeps until then; for ever without one.
pub(crate) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
