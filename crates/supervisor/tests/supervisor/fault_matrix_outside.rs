//! What surrounds a supervisor failing on each way through a life: each call to the store in its turn, once, or from then
//! on, or by a panic; the publisher and the notifier by an error, by never coming back, and by a panic. A caller has an
//! answer in bounded time; once all works again slots, leases, children, records and announcements are all accounted for.
//!
//! A store that hangs is not tried: a thread that the kernel does not give back has no bound.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use procyard_core::{EventId, EventKind, Handle, LifecycleEvent, Limits, Owner, State, StopKind};
use procyard_manifest::{ManifestStore, spool_name};
use procyard_supervisor::{
    CompletionNotifier, Lease, LifecyclePublisher, Notice, RestoreReport, ServiceError, Services, Started,
    StopRequest, Supervisor, SupervisorError,
};
use procyard_testkit::{Failure, Fault, Faults, FaultyDir, Journal, LosingStore, Operation, ScriptedRunner};
use tokio::sync::watch;

use crate::common::{Yard, eventually, origin, owner};
use crate::fault_matrix::{BOUND, WAYS, Way};
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _};

/// How a service breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Break {
    Fails,
    Hangs,
    Panics,
}

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Publisher,
    Notifier,
}

/// A journal one of whose services is broken until it is healed.
struct Broken {
    journal: Arc<Journal>,
    what: Option<(Service, Break)>,
    healed: watch::Sender<bool>,
}

impl Broken {
    fn new(what: Option<(Service, Break)>) -> Arc<Self> {
        Arc::new(Self { journal: Arc::default(), what, healed: watch::Sender::new(false) })
    }

    async fn at(&self, service: Service) -> Result<(), ServiceError> {
        let Some((_, how)) = self.what.filter(|(broken, _)| *broken == service && !*self.healed.borrow())
        else {
            return Ok(());
        };
        match how {
            Break::Fails => {
                Err(ServiceError::from(Box::<dyn std::error::Error + Send + Sync>::from("not now")))
            }
            Break::Hangs => {
                let mut healed = self.healed.subscribe();
                // The sender lives in this service.
                let _ = healed.wait_for(|healed| *healed).await;
                Ok(())
            }
            Break::Panics => panic!("the service breaks down"),
        }
    }
}

#[async_trait]
impl LifecyclePublisher for Broken {
    async fn publish(&self, event: &LifecycleEvent) -> Result<(), ServiceError> {
        self.at(Service::Publisher).await?;
        self.journal.publish(event).await
    }
}

#[async_trait]
impl CompletionNotifier for Broken {
    async fn notify(&self, owner: Owner, notice: &Notice) -> Result<(), ServiceError> {
        self.at(Service::Notifier).await?;
        self.journal.notify(owner, notice).await
    }
}

struct Case {
    store: LosingStore,
    faults: Arc<Faults>,
    supervisor: Supervisor,
    runner: ScriptedRunner,
    services: Arc<Broken>,
    released: Arc<AtomicU32>,
    lent: AtomicU32,
}

async fn supervisor(
    store: &LosingStore,
    faults: &Arc<Faults>,
    services: &Arc<Broken>,
) -> Result<(Supervisor, RestoreReport), SupervisorError> {
    // One at a time, so that a slot that is not given back shows.
    let limits = Limits { running_per_loop: 1, ..Limits::default() };
    let supervisor = Supervisor::new(owner(1).session, limits, FaultyDir::over(store.root(), faults));
    let report = supervisor.activate(Services::new(services.clone(), services.clone())).await?;
    Ok((supervisor, report))
}

impl Case {
    async fn new(way: Way, broken: Option<(Service, Break)>) -> Self {
        let (store, faults, services) = (LosingStore::new(), Faults::none(), Broken::new(broken));
        let (supervisor, _) = supervisor(&store, &faults, &services).await.unwrap();
        let runner = ScriptedRunner::new(way.script());
        Self {
            store,
            faults,
            supervisor,
            runner,
            services,
            released: Arc::default(),
            lent: AtomicU32::new(0),
        }
    }

    async fn start(&self, way: Way) -> Result<Handle, SupervisorError> {
        let request = ProcessRequest::new(CommandSpec::Shell("play".into()), "/", origin());
        let prepared = self.runner.prepare(request).await?;
        let released = Arc::clone(&self.released);
        self.lent.fetch_add(1, Ordering::SeqCst);
        let lease = Lease::new(move || {
            released.fetch_add(1, Ordering::SeqCst);
        });
        let started = self.supervisor.start(owner(1), origin(), prepared, lease, way.options()).await;
        started.map(Started::handle)
    }

    /// Goes the way; every call on it has an answer within the bound, whatever surrounds it.
    async fn go(&self, way: Way) {
        if let Way::CancelledStart = way {
            let _ = tokio::time::timeout(Duration::from_millis(1), self.start(way)).await;
            return;
        }
        let started = tokio::time::timeout(BOUND, self.start(way)).await.expect("a start has an answer");
        let Ok(handle) = started else { return };
        match way {
            Way::Stopped(kind) => {
                let stop = StopRequest { kind, grace: Some(Duration::from_secs(1)) };
                let stop = self.supervisor.stop(owner(1), &handle, stop);
                let _ = tokio::time::timeout(BOUND, stop).await.expect("a stop has an answer in time");
            }
            Way::ShutDown => {
                let report = tokio::time::timeout(BOUND, self.supervisor.shutdown()).await;
                assert!(report.expect("a shutdown ends in time").failed.is_empty());
            }
            _ => tokio::time::sleep(BOUND).await,
        }
    }

    /// Nothing is left, and there is room.
    async fn check_ended(&self, way: Way) {
        let kill = StopRequest { kind: StopKind::Kill, grace: None };
        for process in self.supervisor.list(owner(1)) {
            if !process.state.is_terminal() {
                let stop = self.supervisor.stop(owner(1), &process.identity.handle, kill);
                let _ = tokio::time::timeout(BOUND, stop).await.expect("a kill has an answer in time");
            }
        }
        let list = || self.supervisor.list(owner(1));
        eventually("all is terminal", || list().iter().all(|process| process.state.is_terminal())).await;
        let all_back = || self.released.load(Ordering::SeqCst) == self.lent.load(Ordering::SeqCst);
        eventually("each lease is given back once", all_back).await;
        let survivors = || self.runner.played().iter().map(procyard_testkit::Played::survivors).sum::<u32>();
        eventually("every tree is empty", || survivors() == 0).await;
        if !matches!(way, Way::ShutDown) {
            let again = self.start(Way::Exits).await;
            assert!(again.is_ok(), "the slot is free: {again:?}");
        }
    }

    /// With everything in order again the session ends, and the next one knows the same.
    async fn check_told(self) {
        self.faults.heal();
        self.services.healed.send_replace(true);
        // What is tried again by now and then is tried.
        tokio::time::sleep(BOUND).await;
        assert!(self.supervisor.shutdown().await.failed.is_empty());
        assert!(self.supervisor.reserve_wait().is_err());
        let after = Broken::new(None);
        let _next = supervisor(&self.store, &self.faults, &after).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let said = |handle: Handle| -> BTreeSet<EventId> {
            let journals = [&self.services.journal, &after.journal];
            journals.iter().flat_map(|journal| journal.ends_of(handle)).collect()
        };
        let noticed = |handle: Handle| {
            let journals = [&self.services.journal, &after.journal];
            journals.iter().any(|journal| journal.noticed().contains(&handle))
        };
        let scan = ManifestStore::new(self.store.root()).scan().unwrap();
        assert!(scan.corrupt.is_empty() && scan.newer.is_empty() && scan.orphan_spools.is_empty());
        for manifest in &scan.manifests {
            let handle = manifest.identity.handle;
            assert!(manifest.state.is_terminal(), "{manifest:?}");
            assert_eq!(said(handle).len(), 1, "its end is said under one id: {manifest:?}");
            assert!(noticed(handle), "its owner is told: {manifest:?}");
            let name = spool_name(&handle);
            let spool = self.store.root().list().unwrap().iter().any(|entry| entry.name == name);
            assert!(spool || manifest.spool.total_bytes == 0 || manifest.storage_degraded, "{manifest:?}");
        }
        for journal in [&self.services.journal, &after.journal] {
            let events = journal.events();
            for process in events.iter().map(|event| event.identity.handle) {
                let mine: Vec<_> = events.iter().filter(|event| event.identity.handle == process).collect();
                let ends = |kind| matches!(kind, EventKind::Completed | EventKind::Lost);
                let end = mine.iter().position(|event| ends(event.kind));
                assert!(end.is_none_or(|end| end + 1 == mine.len()), "nothing follows the end: {mine:?}");
            }
        }
    }
}

/// Runs a case; what it was is said when it fails.
fn run(what: &str, case: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(case)));
    assert!(outcome.is_ok(), "{what}: see above");
}

/// Each call to the store on each way fails by this rule, until a way makes no such call.
fn check_store(rule: impl Fn(u64) -> Fault) {
    for way in WAYS {
        for call in 0.. {
            let reached = std::cell::Cell::new(false);
            run(&format!("{way:?}, call {call} to the store"), async {
                let case = Case::new(way, None).await;
                case.faults.fail(rule(call));
                case.go(way).await;
                reached.set(case.faults.failed() > 0);
                case.faults.heal();
                case.check_ended(way).await;
                case.check_told().await;
            });
            if !reached.get() {
                assert!(call > 5, "{way:?} makes calls");
                break;
            }
        }
    }
}

#[test]
fn a_store_that_fails_once_at_any_call_leaves_nothing_behind() {
    check_store(|call| Fault::on(&Operation::ALL).after(call).times(1));
}

#[test]
fn a_store_that_fails_from_any_call_on_leaves_nothing_behind() {
    check_store(|call| Fault::on(&Operation::ALL).with(Failure::NoSpace).after(call));
}

#[test]
fn a_store_that_panics_at_any_call_leaves_nothing_behind() {
    check_store(|call| Fault::on(&Operation::ALL).with(Failure::Panic).after(call).times(1));
}

#[test]
fn a_service_that_breaks_in_any_way_delays_nobody_and_is_told_everything_later() {
    for way in WAYS {
        for service in [Service::Publisher, Service::Notifier] {
            for how in [Break::Fails, Break::Hangs, Break::Panics] {
                run(&format!("{way:?}, {service:?} {how:?}"), async {
                    let case = Case::new(way, Some((service, how))).await;
                    case.go(way).await;
                    // Before it is healed.
                    case.check_ended(way).await;
                    case.check_told().await;
                });
            }
        }
    }
}

/// What a session that died left: one process that ran, one that had ended.
async fn left_over() -> LosingStore {
    let store = LosingStore::new();
    let place = Arc::new(tempfile::tempdir().unwrap());
    let script = procyard_testkit::Script::new().stdout("out");
    let yard = Yard::try_over(place, store.root(), script, Limits::default()).await.unwrap();
    let running = yard.background().await;
    let ended = yard.background().await;
    yard.runner.last().unwrap().exit(0).await;
    yard.output_to(running, 3).await;
    yard.end(ended).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    store.after_cut(procyard_testkit::Loss::Nothing)
}

#[test]
fn a_restore_at_any_call_of_which_the_store_breaks_is_refused_or_whole() {
    for failure in [Failure::Io, Failure::NoSpace, Failure::Panic] {
        for call in 0.. {
            let reached = std::cell::Cell::new(false);
            run(&format!("{failure:?} at call {call}"), async {
                let (store, faults, services) = (left_over().await, Faults::none(), Broken::new(None));
                faults.fail(Fault::on(&Operation::ALL).with(failure).after(call).times(1));
                let first = supervisor(&store, &faults, &services).await;
                if let Ok((first, report)) = first {
                    let list = first.list(owner(1));
                    let known = list.len() + report.unreadable.len();
                    assert_eq!(known, 2, "a session that is served knows all, or says what it cannot read");
                    assert!(list.iter().all(|process| process.state.is_terminal()));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    first.shutdown().await;
                }
                reached.set(faults.failed() > 0);
                faults.heal();
                let (next, _) = supervisor(&store, &faults, &services).await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
                let found = next.list(owner(1));
                assert_eq!(found.len(), 2);
                for process in found {
                    let ids: BTreeSet<_> =
                        services.journal.ends_of(process.identity.handle).into_iter().collect();
                    // The end of the other one was said before.
                    let ran = process.state == State::LostOnRestore;
                    assert!(ids.len() <= 1 && (!ran || ids.len() == 1), "its end is said under one id");
                }
                assert_eq!(next.notices(owner(1)).len(), 2, "its owner is told of both");
            });
            if !reached.get() {
                assert!(call > 5, "a restore makes calls");
                break;
            }
        }
    }
}
