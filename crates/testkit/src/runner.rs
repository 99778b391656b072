//! A runner that plays scripts.
//!
//! Not for policy: it starts whatever a runner could start.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use procyard_core::{EffectiveLimits, WorkspaceAccess};
use procyard_runner::{
    Capabilities, PreparedProcess, Process, ProcessRequest, Runner, RunnerError, SpawnFailure, StdinMode,
    Tier,
};

use crate::played::{Played, ScriptedProcess};
use crate::script::{Script, StartFault};

/// Chooses the script of a request.
type Choice = Arc<dyn Fn(&ProcessRequest) -> Script + Send + Sync>;

struct Stage {
    scripts: VecDeque<Script>,
    requests: Vec<ProcessRequest>,
    played: Vec<Played>,
}

/// Plays a script for each process: the queued ones in order, the last one again and again. A script is taken when a
/// process is prepared. Clones share everything but the access and the limits that they
/// enforce.
#[derive(Clone)]
pub struct ScriptedRunner {
    capabilities: Capabilities,
    access: WorkspaceAccess,
    limits: EffectiveLimits,
    choice: Option<Choice>,
    /// Guards what was asked for and what is played; held for a push or a copy.
    stage: Arc<Mutex<Stage>>,
}

impl ScriptedRunner {
    /// The tier that it reports.
    pub const TIER: Tier = Tier::named("scripted");

    /// A contained runner with terminals that plays this script.
    pub fn new(script: Script) -> Self {
        let stage = Stage { scripts: VecDeque::from([script]), requests: Vec::new(), played: Vec::new() };
        Self {
            capabilities: Capabilities { tier: Some(Self::TIER), terminals: true },
            access: WorkspaceAccess::BroadWrite,
            limits: EffectiveLimits::default(),
            choice: None,
            stage: Arc::new(Mutex::new(stage)),
        }
    }

    /// A contained runner with terminals that plays for each request what `choice` gives for it.
    pub fn choosing(choice: impl Fn(&ProcessRequest) -> Script + Send + Sync + 'static) -> Self {
        Self { choice: Some(Arc::new(choice)), ..Self::new(Script::new()) }
    }

    /// One that contains nothing.
    pub fn uncontained(script: Script) -> Self {
        let mut runner = Self::new(script);
        runner.capabilities.tier = None;
        runner
    }

    /// The same runner, enforcing this access to the workspace; by default it enforces nothing.
    pub fn enforcing(mut self, access: WorkspaceAccess) -> Self {
        self.access = access;
        self
    }

    /// The same runner, saying this of the caps on what a process may take; by default it says nothing.
    pub fn limiting(mut self, limits: EffectiveLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Queues a script behind those that are queued already.
    pub fn then(&self, script: Script) {
        self.stage().scripts.push_back(script);
    }

    /// Plays this script from now on, whatever was queued.
    pub fn play(&self, script: Script) {
        self.stage().scripts = VecDeque::from([script]);
    }

    /// The processes that were started, in order.
    pub fn played(&self) -> Vec<Played> {
        self.stage().played.clone()
    }

    /// The process that was started last.
    pub fn last(&self) -> Option<Played> {
        self.stage().played.last().cloned()
    }

    /// What was asked for, in order.
    pub fn requests(&self) -> Vec<ProcessRequest> {
        self.stage().requests.clone()
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Runner for ScriptedRunner {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn prepare(&self, request: ProcessRequest) -> Result<Box<dyn PreparedProcess>, RunnerError> {
        request.check()?;
        let chosen = self.choice.as_ref().map(|choice| choice(&request));
        let mut stage = self.stage();
        let script = chosen.or_else(|| match stage.scripts.len() {
            0 | 1 => stage.scripts.front().cloned(),
            _ => stage.scripts.pop_front(),
        });
        stage.requests.push(request.clone());
        drop(stage);
        Ok(Box::new(Prepared { runner: self.clone(), script: script.unwrap_or_default(), request }))
    }
}

struct Prepared {
    runner: ScriptedRunner,
    script: Script,
    request: ProcessRequest,
}

#[async_trait]
impl PreparedProcess for Prepared {
    fn effective_access(&self) -> WorkspaceAccess {
        self.runner.access.clone()
    }

    fn effective_limits(&self) -> EffectiveLimits {
        self.runner.limits.clone()
    }

    fn tier(&self) -> Tier {
        ScriptedRunner::TIER
    }

    #[expect(clippy::panic, reason = "a script can ask for a runner that panics")]
    async fn start(self: Box<Self>) -> Result<Box<dyn Process>, RunnerError> {
        match self.script.start_fault {
            Some(StartFault::NotFound) => return Err(RunnerError::spawn(SpawnFailure::NotFound)),
            Some(StartFault::Spawn(failure)) => return Err(RunnerError::spawn(failure)),
            Some(StartFault::Slow(pause)) => tokio::time::sleep(pause).await,
            Some(StartFault::Hang) => std::future::pending().await,
            Some(StartFault::Panic) => panic!("the script asks for this"),
            None => {}
        }
        let terminal = self.request.terminal;
        let takes_input = terminal.is_some() || self.request.stdin == StdinMode::Open;
        let (process, played) = ScriptedProcess::play(self.script, terminal, takes_input);
        self.runner.stage().played.push(played);
        Ok(Box::new(process))
    }
}
