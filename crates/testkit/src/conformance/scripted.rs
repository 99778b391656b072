//! The scripted runner as a subject: bare, to show that it keeps the contract, or below a layer of somebody's own.
//!
//! Not for showing what real processes do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use procyard_core::{ExecutionId, Origin};
use procyard_runner::{CommandSpec, ProcessRequest, Runner, SpawnFailure};

use super::{Act, Stage, Subject};
use crate::{Leftover, Reaction, Script, ScriptedRunner, StartFault};

/// What a scripted start takes, so that one can be dropped in its middle.
const START: Duration = Duration::from_millis(1);

type Wrap = Box<dyn Fn(ScriptedRunner) -> Arc<dyn Runner> + Send + Sync>;

/// A subject for layers around a runner (one that counts, logs, limits): they are held against the contract without a real
/// process, on a clock that may be paused.
pub struct Scripted {
    wrap: Wrap,
}

impl Scripted {
    /// The scripted runner itself.
    pub fn bare() -> Self {
        Self::below(|runner| Arc::new(runner))
    }

    /// A layer around the scripted runner; made anew for each case.
    pub fn below(wrap: impl Fn(ScriptedRunner) -> Arc<dyn Runner> + Send + Sync + 'static) -> Self {
        Self { wrap: Box::new(wrap) }
    }
}

#[async_trait]
impl Subject for Scripted {
    async fn stage(&self) -> Box<dyn Stage> {
        let acts = Acts::default();
        let known = acts.clone();
        let scripted = ScriptedRunner::choosing(move |request| known.script(request));
        Box::new(ScriptedStage { runner: (self.wrap)(scripted.clone()), scripted, acts })
    }
}

/// The acts that were asked for, by the command line that stands for each.
#[derive(Clone, Default)]
struct Acts {
    /// Held for a look or an insertion.
    by_line: Arc<Mutex<HashMap<String, Act>>>,
}

impl Acts {
    fn by_line(&self) -> MutexGuard<'_, HashMap<String, Act>> {
        self.by_line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn script(&self, request: &ProcessRequest) -> Script {
        let CommandSpec::Shell(line) = &request.command else { return Script::new() };
        let script = self.by_line().get(line).map(script_of).unwrap_or_default();
        // As long as the line editing of Linux keeps it.
        if request.terminal.is_some() { script.longest_line(4095) } else { script }
    }
}

struct ScriptedStage {
    runner: Arc<dyn Runner>,
    scripted: ScriptedRunner,
    acts: Acts,
}

impl Stage for ScriptedStage {
    fn runner(&self) -> &dyn Runner {
        &*self.runner
    }

    fn request(&self, act: &Act) -> ProcessRequest {
        let line = format!("{act:?}");
        self.acts.by_line().insert(line.clone(), act.clone());
        let origin = Origin { execution: ExecutionId::from_random([1; 16]) };
        ProcessRequest::new(CommandSpec::Shell(line), "/", origin)
    }

    fn living(&self) -> usize {
        self.scripted.played().iter().map(|played| played.survivors() as usize).sum()
    }
}

fn descendants(count: u32) -> Leftover {
    Leftover { count, on_terminate: Reaction::Die, end_after: None, hold_output: true }
}

fn script_of(act: &Act) -> Script {
    let slow = Script::new().start_fault(StartFault::Slow(START));
    let failing = |failure| Script::new().start_fault(StartFault::Spawn(failure));
    match act {
        Act::Exit { stdout, stderr, code } => slow.stdout(stdout).stderr(stderr).exit(*code),
        Act::Die(signal) => slow.die_of(*signal),
        Act::Flood(bytes) => slow.stdout(vec![b'x'; *bytes]).exit(0),
        Act::Stay => slow.stdout("ready\n"),
        Act::Answer(code) => slow.stdout("ready\n").on_terminate(Reaction::Exit(*code)),
        Act::Endure => slow.stdout("ready\n").on_terminate(Reaction::Ignore).on_interrupt(Reaction::Ignore),
        Act::Accompanied(count) => slow.stdout("ready\n").leaves(descendants(*count)).accompanied(),
        Act::Leave { descendants: count, code } => slow.exit(*code).leaves(descendants(*count)),
        Act::Echo => slow.echo_input().exit(0),
        Act::CountLines => slow.stdout("ready\n").count_lines().exit(0),
        Act::TellSize => slow.tell_size(),
        Act::Write(_) => slow.exit(0),
        Act::MissingProgram => failing(SpawnFailure::NotFound),
        Act::NotExecutable => failing(SpawnFailure::NotExecutable),
        Act::DeletedWorkdir => failing(SpawnFailure::Workdir),
    }
}
