//! A layer around the scripted runner with one fault, before there is a process. The process's own faults are in
//! [`crate::faulty_process`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use procyard_core::WorkspaceAccess;
use procyard_runner::{
    Capabilities, CommandSpec, ExitStatus, PreparedProcess, Process, ProcessRequest, Runner, RunnerError,
    RunnerErrorKind, SpawnFailure, StdinMode, Tier,
};
use procyard_testkit::ScriptedRunner;
use tokio::sync::{Semaphore, oneshot};

use crate::faulty_process::FaultyProcess;

/// What is wrong with a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    SpawnsWhenPreparing,
    KeepsReservations,
    TakesAnything,
    ChangesItsMind,
    NamesAnotherTier,
    ClaimsReadOnly,
    KnowsOneError,
    KeepsDroppedStarts,
    TellsAnothersEnd,
    OneAtATime,
    SwapsOutputs,
    GivesStreamsAgain,
    EndsOutputWithTheLeader,
    LosesOutputAfterTheEnd,
    CutsOutput,
    NeverEndsOutput,
    OpensStdinAlways,
    NeverEndsInput,
    CutsInput,
    TellsSuccess,
    WaitsForNothing,
    WaitsForTheTree,
    TellsTheEndOnce,
    SignalsAfterWaits,
    LosesDroppedWaits,
    InterruptIsKill,
    TerminateIsKill,
    TerminateIsInterrupt,
    KillIsInterrupt,
    CountsNobody,
    FailsAfterTheEnd,
    SignalsEverybody,
    FallsSilent,
    CountsTheLeaderOnly,
    CallsEmptyTooEarly,
    CannotTell,
    EmptiedWithSurvivors,
    EmptiedOnce,
    OutlivesItsDrop,
    ClosesNothing,
    ClosesOnce,
    PromisesTerminals,
    GivesTerminalsAStderr,
    KeepsTheFirstSize,
    ResizesAnything,
    FailsLateResizes,
    /// None: this is allowed.
    HasNoTerminals,
}

/// What is shared by what comes from one runner.
pub(crate) struct Shared {
    pub(crate) fault: Fault,
    pub(crate) inner: ScriptedRunner,
    calls: AtomicUsize,
    /// Kept until the runner is gone.
    pub(crate) hoard: Mutex<Vec<Box<dyn Process>>>,
    /// How the process ended that was waited for before.
    pub(crate) last_end: Mutex<Option<ExitStatus>>,
    turn: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn calls(&self) -> usize {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }
}

pub(crate) struct FaultyRunner(Arc<Shared>);

impl FaultyRunner {
    pub(crate) fn new(inner: ScriptedRunner, fault: Fault) -> Self {
        Self(Arc::new(Shared {
            fault,
            inner,
            calls: AtomicUsize::new(0),
            hoard: Mutex::default(),
            last_end: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }))
    }
}

#[async_trait]
impl Runner for FaultyRunner {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.inner.capabilities();
        if self.0.is(Fault::HasNoTerminals) || self.0.is(Fault::ChangesItsMind) && self.0.calls() > 0 {
            capabilities.terminals = false;
        }
        capabilities
    }

    async fn prepare(&self, mut request: ProcessRequest) -> Result<Box<dyn PreparedProcess>, RunnerError> {
        match self.0.fault {
            Fault::SpawnsWhenPreparing => {
                let early = self.0.inner.prepare(request.clone()).await?.start().await?;
                self.0.hoard.lock().unwrap().push(early);
            }
            Fault::KeepsReservations if self.0.calls() >= 40 => {
                return Err(RunnerError::spawn(SpawnFailure::Exhausted));
            }
            Fault::TakesAnything if request.check().is_err() => {
                let command = CommandSpec::Shell("something else".to_owned());
                request = ProcessRequest::new(command, "/", request.origin);
            }
            Fault::OpensStdinAlways => request.stdin = StdinMode::Open,
            Fault::PromisesTerminals => request.terminal = None,
            Fault::HasNoTerminals if request.terminal.is_some() => {
                request.check()?;
                return Err(RunnerError::new(RunnerErrorKind::PtyUnavailable, "no terminals here"));
            }
            _ => {}
        }
        let asked_for_stdin = request.stdin == StdinMode::Open && !self.0.is(Fault::OpensStdinAlways);
        let inner = self.0.inner.prepare(request).await?;
        Ok(Box::new(FaultyPrepared { shared: Arc::clone(&self.0), inner, asked_for_stdin }))
    }
}

struct FaultyPrepared {
    shared: Arc<Shared>,
    inner: Box<dyn PreparedProcess>,
    asked_for_stdin: bool,
}

#[async_trait]
impl PreparedProcess for FaultyPrepared {
    fn effective_access(&self) -> WorkspaceAccess {
        if self.shared.is(Fault::ClaimsReadOnly) {
            return WorkspaceAccess::ReadOnly;
        }
        self.inner.effective_access()
    }

    fn tier(&self) -> Tier {
        if self.shared.is(Fault::NamesAnotherTier) { Tier::CGROUP } else { self.inner.tier() }
    }

    async fn start(self: Box<Self>) -> Result<Box<dyn Process>, RunnerError> {
        let Self { shared, inner, asked_for_stdin } = *self;
        let turn = if shared.is(Fault::OneAtATime) {
            Arc::clone(&shared.turn).acquire_owned().await.ok()
        } else {
            None
        };
        let process = match shared.fault {
            Fault::KnowsOneError => {
                inner.start().await.map_err(|_| RunnerError::spawn(SpawnFailure::Other))?
            }
            Fault::KeepsDroppedStarts => start_in_a_task(Arc::clone(&shared), inner).await?,
            _ => inner.start().await?,
        };
        Ok(Box::new(FaultyProcess::new(shared, process, asked_for_stdin, turn)))
    }
}

/// What nobody waits for any more is kept.
async fn start_in_a_task(
    shared: Arc<Shared>,
    inner: Box<dyn PreparedProcess>,
) -> Result<Box<dyn Process>, RunnerError> {
    let (sender, started) = oneshot::channel();
    tokio::spawn(async move {
        if let Err(Ok(unwanted)) = sender.send(inner.start().await) {
            shared.hoard.lock().unwrap().push(unwanted);
        }
    });
    started.await.unwrap()
}
