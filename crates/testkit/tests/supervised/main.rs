//! What the kit has for tests of a supervisor, tried on a real one: assertions that fail when they should, a journal that
//! does what it is told, strategies that give what they say.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is a failed test")]

mod announced;
mod everywhere;
mod journal;
mod strategies;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use procyard_core::{ExecutionId, Handle, Limits, LoopId, Origin, Owner, SessionId, StopKind};
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _};
use procyard_supervisor::{
    CommandRecord, Lease, StartOptions, StopRequest, Supervisor, Target, Until, WaitMode,
};
use procyard_testkit::{DEADLINE, Journal, LosingStore, Script, ScriptedRunner};

fn owner(of: u8) -> Owner {
    Owner { session: SessionId::from_random([9; 16]), loop_id: LoopId::from_random([of; 16]) }
}

/// A session in memory.
struct Session {
    supervisor: Supervisor,
    journal: Arc<Journal>,
    runner: ScriptedRunner,
}

impl Session {
    async fn new(script: Script) -> Self {
        let limits = Limits { waiters: 3, running_per_loop: 2, running_per_session: 2, ..Limits::default() };
        let supervisor = Supervisor::new(owner(1).session, limits, LosingStore::new().root());
        let journal = Journal::new();
        supervisor.activate(journal.services()).await.unwrap();
        Self { supervisor, journal, runner: ScriptedRunner::new(script) }
    }

    async fn start(&self, background: bool) -> Handle {
        let origin = Origin { execution: ExecutionId::from_random([3; 16]) };
        let request = ProcessRequest::new(CommandSpec::Shell("play".into()), "/", origin);
        let prepared = self.runner.prepare(request).await.unwrap();
        let options = StartOptions { background, ..StartOptions::new(CommandRecord::line("play", "/")) };
        self.supervisor.start(owner(1), origin, prepared, Lease::none(), options).await.unwrap().handle()
    }

    async fn kill(&self, process: Handle) {
        let kill = StopRequest { kind: StopKind::Kill, grace: None };
        self.supervisor.stop(owner(1), &process, kill).await.unwrap();
    }

    /// Waits until it has printed so many bytes.
    async fn prints(&self, process: Handle, total: u64) {
        let target = Target { handle: process, cursor: total.saturating_sub(1), probe: None };
        let targets = vec![target];
        let waited = self.supervisor.wait(owner(1), WaitMode::All, Until::Probe, targets, DEADLINE).await;
        assert!(waited.unwrap()[0].satisfied, "it printed less than {total} bytes");
    }

    async fn comes_to_rest(&self, process: Handle) {
        let quiet = Duration::from_secs(1);
        self.supervisor.quiet(owner(1), &process, quiet, quiet * 60).await.unwrap();
    }
}

/// What an assertion says that must not hold.
fn refusal<T>(assertion: impl FnOnce() -> T) -> String {
    let held = std::panic::catch_unwind(AssertUnwindSafe(assertion)).map(drop);
    said(held.expect_err("it must not hold"))
}

/// The same of one that waits.
async fn refusal_of(assertion: impl Future<Output = ()> + Send + 'static) -> String {
    said(tokio::spawn(assertion).await.expect_err("it must not hold").into_panic())
}

fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    *panic.downcast::<String>().expect("an assertion says something")
}
