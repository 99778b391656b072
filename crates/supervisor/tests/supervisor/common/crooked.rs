//! A runner that plays a script and breaks the contract at one call, until it is healed.

use async_trait::async_trait;
use procyard_core::WorkspaceAccess;
use procyard_runner::{
    Capabilities, Delivery, ExitStatus, Input, Output, PreparedProcess, Process, ProcessRequest, Runner,
    RunnerError, RunnerErrorKind, Signal, StreamMode, TerminalSize, Tier, TreeProof,
};
use procyard_testkit::ScriptedRunner;
use tokio::sync::watch;

/// The call that breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    EffectiveAccess,
    Start,
    TakeStdout,
    Wait,
    Signal,
    Tree,
    Emptied,
    Close,
}

/// How it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It says that it failed, or that it cannot tell.
    Fail,
    /// It does not come back before it is healed.
    Hang,
    /// It panics.
    Panic,
}

#[derive(Clone)]
struct Bend {
    call: Call,
    fault: Fault,
    healed: watch::Sender<bool>,
}

impl Bend {
    /// Whether this call is to say that it failed.
    fn now(&self, call: Call) -> bool {
        if call != self.call || *self.healed.borrow() {
            return false;
        }
        assert!(self.fault != Fault::Panic, "the runner breaks down at {call:?}");
        self.fault == Fault::Fail
    }

    async fn at(&self, call: Call) -> bool {
        let fails = self.now(call);
        if call == self.call && self.fault == Fault::Hang {
            let mut healed = self.healed.subscribe();
            // The sender lives in this bend.
            let _ = healed.wait_for(|healed| *healed).await;
        }
        fails
    }
}

pub(crate) struct CrookedRunner {
    inner: ScriptedRunner,
    bend: Bend,
}

impl CrookedRunner {
    pub(crate) fn new(inner: ScriptedRunner, call: Call, fault: Fault) -> Self {
        Self { inner, bend: Bend { call, fault, healed: watch::Sender::new(false) } }
    }

    /// From now on it keeps the contract.
    pub(crate) fn heal(&self) {
        self.bend.healed.send_replace(true);
    }
}

#[async_trait]
impl Runner for CrookedRunner {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn prepare(&self, request: ProcessRequest) -> Result<Box<dyn PreparedProcess>, RunnerError> {
        let inner = self.inner.prepare(request).await?;
        Ok(Box::new(CrookedPrepared { inner, bend: self.bend.clone() }))
    }
}

struct CrookedPrepared {
    inner: Box<dyn PreparedProcess>,
    bend: Bend,
}

#[async_trait]
impl PreparedProcess for CrookedPrepared {
    fn effective_access(&self) -> WorkspaceAccess {
        self.bend.now(Call::EffectiveAccess);
        self.inner.effective_access()
    }

    fn tier(&self) -> Tier {
        self.inner.tier()
    }

    async fn start(self: Box<Self>) -> Result<Box<dyn Process>, RunnerError> {
        if self.bend.at(Call::Start).await {
            return Err(RunnerError::new(RunnerErrorKind::Setup, "the start failed"));
        }
        let inner = self.inner.start().await?;
        Ok(Box::new(CrookedProcess { inner, bend: self.bend }))
    }
}

struct CrookedProcess {
    inner: Box<dyn Process>,
    bend: Bend,
}

#[async_trait]
impl Process for CrookedProcess {
    fn stream_mode(&self) -> StreamMode {
        self.inner.stream_mode()
    }

    fn take_stdout(&mut self) -> Option<Output> {
        if self.bend.now(Call::TakeStdout) { None } else { self.inner.take_stdout() }
    }

    fn take_stderr(&mut self) -> Option<Output> {
        self.inner.take_stderr()
    }

    fn take_stdin(&mut self) -> Option<Input> {
        self.inner.take_stdin()
    }

    async fn wait(&self) -> ExitStatus {
        let status = self.bend.at(Call::Wait).await;
        let exit = self.inner.wait().await;
        if status { ExitStatus { status: None } } else { exit }
    }

    async fn signal(&self, signal: Signal) -> Result<Delivery, RunnerError> {
        if self.bend.at(Call::Signal).await {
            return Err(RunnerError::new(RunnerErrorKind::Setup, "the signal was not delivered"));
        }
        self.inner.signal(signal).await
    }

    async fn tree(&self) -> TreeProof {
        if self.bend.at(Call::Tree).await { TreeProof::Unknown } else { self.inner.tree().await }
    }

    async fn emptied(&self) -> TreeProof {
        if self.bend.at(Call::Emptied).await { TreeProof::Unknown } else { self.inner.emptied().await }
    }

    async fn resize(&self, size: TerminalSize) -> Result<(), RunnerError> {
        self.inner.resize(size).await
    }

    async fn close(&self) -> TreeProof {
        if self.bend.at(Call::Close).await { TreeProof::Unknown } else { self.inner.close().await }
    }
}
