//! Each call to the runner failing, hanging and panicking in turn, on each way through a life: nothing is lost track of.
//! Whatever the runner does, a caller has an answer in bounded time; and once the runner keeps its contract again, there
//! is no process, slot or lease left over, and every record is terminal.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::crooked::{Call, CrookedRunner, Fault};
use crate::common::{Yard, eventually, options, origin};
use procyard_core::{Handle, Limits, StopKind};
use procyard_manifest::{ManifestStore, spool_name};
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _};
use procyard_store::FsDir;
use procyard_supervisor::{Lease, LeftoverPolicy, StartOptions, StopRequest, SupervisorError};
use procyard_testkit::{DEADLINE, Leftover, Reaction, Script};

/// Above everything that a caller may have to wait for: grace, proof bound, drain cap, and the bounds of single calls.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// A way through a life.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    Exits,
    LeavesDescendants,
    WaitsForDescendants,
    Stopped(StopKind),
    TimesOut,
    ShutDown,
    CancelledStart,
}

pub(crate) const WAYS: [Way; 9] = [
    Way::Exits,
    Way::LeavesDescendants,
    Way::WaitsForDescendants,
    Way::Stopped(StopKind::Interrupt),
    Way::Stopped(StopKind::Terminate),
    Way::Stopped(StopKind::Kill),
    Way::TimesOut,
    Way::ShutDown,
    Way::CancelledStart,
];

const CALLS: [Call; 8] = [
    Call::EffectiveAccess,
    Call::Start,
    Call::TakeStdout,
    Call::Wait,
    Call::Signal,
    Call::Tree,
    Call::Emptied,
    Call::Close,
];

impl Way {
    pub(crate) fn script(self) -> Script {
        let leftover =
            |end_after| Leftover { count: 2, on_terminate: Reaction::Ignore, end_after, hold_output: true };
        let exits = Script::new().stdout("out").exit(3);
        match self {
            Way::Exits => exits,
            Way::LeavesDescendants => exits.leaves(leftover(None)),
            Way::WaitsForDescendants => exits.leaves(leftover(Some(Duration::from_secs(3)))),
            Way::Stopped(StopKind::Interrupt) => Script::new().stdout("out"),
            _ => Script::new().stdout("out").on_terminate(Reaction::Ignore),
        }
    }

    pub(crate) fn options(self) -> StartOptions {
        let deadline = matches!(self, Way::TimesOut).then_some(Duration::from_secs(1));
        let leftovers = match self {
            Way::WaitsForDescendants => LeftoverPolicy::Wait,
            _ => LeftoverPolicy::Kill,
        };
        StartOptions { background: true, deadline, leftovers, ..options() }
    }
}

struct Case {
    yard: Yard,
    runner: CrookedRunner,
    released: Arc<AtomicU32>,
}

impl Case {
    async fn new(way: Way, call: Call, fault: Fault) -> Self {
        // One at a time, so that a slot that is not given back shows.
        let limits = Limits { running_per_loop: 1, ..Limits::default() };
        let yard = Yard::with_limits(way.script(), limits).await;
        let runner = CrookedRunner::new(yard.runner.clone(), call, fault);
        Self { yard, runner, released: Arc::default() }
    }

    async fn start(&self, way: Way) -> Result<Handle, SupervisorError> {
        let request = ProcessRequest::new(CommandSpec::Shell("play".into()), "/", origin());
        let prepared = self.runner.prepare(request).await?;
        let released = Arc::clone(&self.released);
        let lease = Lease::new(move || {
            released.fetch_add(1, Ordering::SeqCst);
        });
        let started = self.yard.supervisor.start(self.yard.owner, origin(), prepared, lease, way.options());
        started.await.map(procyard_supervisor::Started::handle)
    }

    /// Goes the way; every call on it has an answer within the bound.
    async fn go(&self, way: Way) {
        if let Way::CancelledStart = way {
            let _ = tokio::time::timeout(Duration::from_millis(1), self.start(way)).await;
            return;
        }
        let Ok(started) = tokio::time::timeout(BOUND, self.start(way)).await else {
            // A runner may hang in its start for as long as its caller stays; the caller has just gone away.
            return;
        };
        let Ok(handle) = started else { return };
        match way {
            Way::Stopped(kind) => {
                let stop = StopRequest { kind, grace: Some(Duration::from_secs(1)) };
                let stop = self.yard.supervisor.stop(self.yard.owner, &handle, stop);
                let _ = tokio::time::timeout(BOUND, stop).await.expect("a stop has an answer in time");
            }
            Way::ShutDown => {
                let report = tokio::time::timeout(BOUND, self.yard.supervisor.shutdown()).await;
                report.expect("a shutdown ends in time");
            }
            _ => tokio::time::sleep(BOUND).await,
        }
    }

    /// Ends what the way and the fault have left running, as an owner would once the runner works again.
    async fn end_everything(&self) {
        for process in self.yard.supervisor.list(self.yard.owner) {
            if process.state.is_terminal() {
                continue;
            }
            let kill = StopRequest { kind: StopKind::Kill, grace: None };
            let stop = self.yard.supervisor.stop(self.yard.owner, &process.identity.handle, kill);
            let _ = tokio::time::timeout(BOUND, stop).await.expect("a kill has an answer in time");
        }
    }

    async fn check(self, way: Way) {
        let list = || self.yard.supervisor.list(self.yard.owner);
        eventually("every process is terminal", || list().iter().all(|process| process.state.is_terminal()))
            .await;
        eventually("the lease is given back", || self.released.load(Ordering::SeqCst) > 0).await;
        if let Some(played) = self.yard.runner.last() {
            tokio::time::timeout(DEADLINE, played.ended()).await.expect("the leader ends");
            eventually("the tree is empty", || played.survivors() == 0).await;
        }
        if matches!(way, Way::ShutDown) {
            assert_eq!(self.released.load(Ordering::SeqCst), 1, "the lease is given back once");
        } else {
            let again = self.start(Way::Exits).await;
            assert!(again.is_ok(), "the slot is free again: {again:?}");
            let report = self.yard.supervisor.shutdown().await;
            assert!(report.failed.is_empty());
            assert_eq!(self.released.load(Ordering::SeqCst), 2, "each lease is given back once");
        }
        // What a session had no time to announce, the next one does.
        let next = self.yard.restarted().await;
        let journals = [&self.yard.journal, &next.journal];
        let completions = |handle: Handle| -> Vec<_> {
            journals.iter().flat_map(|journal| journal.ends_of(handle)).collect()
        };
        let scan = ManifestStore::new(FsDir::open(self.yard.place.path()).unwrap()).scan().unwrap();
        assert!(scan.corrupt.is_empty() && scan.newer.is_empty() && scan.orphan_spools.is_empty());
        assert!(scan.manifests.iter().all(|manifest| manifest.state.is_terminal()));
        for manifest in &scan.manifests {
            let handle = manifest.identity.handle;
            eventually("its end is announced", || !completions(handle).is_empty()).await;
            assert_eq!(completions(handle).len(), 1, "its end is announced once");
            // A spool is there exactly where something was printed.
            let spool = self.yard.place.path().join(spool_name(&handle));
            assert_eq!(spool.exists(), manifest.spool.total_bytes > 0);
        }
    }
}

async fn run(way: Way, call: Call, fault: Fault) {
    let case = Case::new(way, call, fault).await;
    case.go(way).await;
    case.runner.heal();
    case.end_everything().await;
    case.check(way).await;
}

fn check(fault: Fault) {
    for way in WAYS {
        for call in CALLS {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            let outcome =
                std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(way, call, fault))));
            assert!(outcome.is_ok(), "{way:?} with {call:?} and {fault:?}: see above");
        }
    }
}

#[test]
fn a_runner_that_fails_at_any_call_leaves_nothing_behind() {
    check(Fault::Fail);
}

#[test]
fn a_runner_that_hangs_at_any_call_leaves_nothing_behind() {
    check(Fault::Hang);
}

#[test]
fn a_runner_that_panics_at_any_call_leaves_nothing_behind() {
    check(Fault::Panic);
}
