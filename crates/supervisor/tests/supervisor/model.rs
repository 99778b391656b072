//! The whole supervisor against a small pure model: random interleavings of everything that callers, processes and the
//! clock can do, on a paused clock.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Yard, options, owner, read_from, target};
use procyard_core::{EventKind, Handle, LifecycleEvent, Limits, Owner, State, StopKind};
use procyard_supervisor::{LeftoverPolicy, Snapshot, StartOptions, Until, WaitMode};
use procyard_testkit::{DEADLINE, Journal, Leftover, Played, Reaction, Script, StartFault};
use proptest::prelude::*;

/// As many as may run at the same time.
const RUNNING: u32 = 4;

#[derive(Debug, Clone)]
enum Step {
    Start(Start),
    CancelStart { after_ms: u64, slow_ms: u64 },
    Append { which: usize, text: String },
    Exit { which: usize, code: u8 },
    Stop { which: usize, kind: StopKind, stay_ms: u64 },
    EndLeftovers { which: usize },
    Pass { ms: u64 },
    Wait { which: usize, ms: u64 },
    HandOver { which: usize },
    Abandon { which: usize },
    Transfer,
    Restart,
}

#[derive(Debug, Clone)]
struct Start {
    background: bool,
    deadline_ms: Option<u64>,
    wait_for_leftovers: bool,
    ignores_terminate: bool,
    leaves: Option<bool>,
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0_usize..6;
    let start = (any::<bool>(), prop::option::of(0_u64..4_000), any::<bool>(), any::<bool>(), {
        prop::option::weighted(0.3, any::<bool>())
    });
    let start = start.prop_map(|(background, deadline_ms, wait_for_leftovers, ignores_terminate, leaves)| {
        Step::Start(Start { background, deadline_ms, wait_for_leftovers, ignores_terminate, leaves })
    });
    let kinds = prop::sample::select(vec![StopKind::Interrupt, StopKind::Terminate, StopKind::Kill]);
    prop_oneof![
        5 => start,
        1 => (0_u64..20, 0_u64..20)
            .prop_map(|(after_ms, slow_ms)| Step::CancelStart { after_ms, slow_ms }),
        4 => (which.clone(), "[a-zé]{1,40}").prop_map(|(which, text)| Step::Append { which, text }),
        3 => (which.clone(), any::<u8>()).prop_map(|(which, code)| Step::Exit { which, code }),
        3 => (which.clone(), kinds, 0_u64..200)
            .prop_map(|(which, kind, stay_ms)| Step::Stop { which, kind, stay_ms }),
        1 => which.clone().prop_map(|which| Step::EndLeftovers { which }),
        4 => (0_u64..3_000).prop_map(|ms| Step::Pass { ms }),
        2 => (which.clone(), 0_u64..500).prop_map(|(which, ms)| Step::Wait { which, ms }),
        1 => which.clone().prop_map(|which| Step::HandOver { which }),
        1 => which.prop_map(|which| Step::Abandon { which }),
        1 => Just(Step::Transfer),
        1 => Just(Step::Restart),
    ]
}

/// What is known of one process from what was done to it.
struct Known {
    handle: Handle,
    /// `None` for a process of an earlier supervisor.
    played: Option<Played>,
    start: Start,
    printed: String,
    /// Everything that may have caused its end.
    exits: HashSet<u8>,
    stops: HashSet<Cause>,
    may_be_lost: bool,
    /// Its owner went on without its result.
    handed_over: bool,
    /// The state that was seen last.
    seen: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Cause {
    Interrupt,
    Terminate,
    Kill,
}

impl Known {
    /// Whether the model allows this end.
    fn allows(&self, state: State, code: Option<u8>) -> bool {
        match state {
            State::Starting => false,
            State::Running => true,
            State::Exited => code.is_some_and(|code| self.exits.contains(&code)),
            State::TimedOut => self.start.deadline_ms.is_some(),
            // A leader dies of no signal that nobody sent; that of an interrupt whose grace has lapsed is a failure.
            State::Interrupted | State::Failed => self.stops.contains(&Cause::Interrupt),
            State::Terminated => self.stops.contains(&Cause::Terminate),
            State::Killed => {
                self.stops.contains(&Cause::Kill)
                    || (self.stops.contains(&Cause::Terminate)
                        && (self.start.ignores_terminate || self.start.leaves == Some(true)))
            }
            State::LostOnRestore => self.may_be_lost,
        }
    }
}

struct World {
    yard: Yard,
    known: Vec<Known>,
    /// The journals of earlier supervisors, which a real one would have kept.
    journals: Vec<Arc<Journal>>,
    /// What earlier supervisors had published when they died.
    published: Vec<LifecycleEvent>,
    players: Vec<Played>,
    background: tokio::task::JoinSet<()>,
}

impl World {
    async fn new() -> Self {
        let yard = Yard::with_limits(Script::new(), limits()).await;
        let journals = vec![Arc::clone(&yard.journal)];
        Self {
            yard,
            known: Vec::new(),
            journals,
            published: Vec::new(),
            players: Vec::new(),
            background: tokio::task::JoinSet::new(),
        }
    }

    fn pick(&mut self, which: usize) -> Option<&mut Known> {
        let count = self.known.len();
        (count > 0).then(|| &mut self.known[count - 1 - which % count])
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Start(start) => self.start(start).await,
            Step::CancelStart { after_ms, slow_ms } => self.cancel_start(after_ms, slow_ms).await,
            Step::Append { which, text } => self.append(which, &text).await,
            Step::Exit { which, code } => {
                let Some(known) = self.pick(which) else { return };
                known.exits.insert(code);
                if let Some(played) = known.played.clone() {
                    played.exit(code).await;
                }
            }
            Step::Stop { which, kind, stay_ms } => {
                let Some(known) = self.pick(which) else { return };
                known.stops.insert(match kind {
                    StopKind::Interrupt => Cause::Interrupt,
                    StopKind::Terminate => Cause::Terminate,
                    StopKind::Kill => Cause::Kill,
                });
                let handle = known.handle;
                let grace = Duration::from_millis(300);
                let request = self.yard.stop(handle, kind, grace);
                // Its caller may go away; the stop does not.
                let stopped = tokio::time::timeout(Duration::from_millis(stay_ms), request).await;
                if let Ok(stopped) = stopped {
                    let snapshot = stopped.unwrap();
                    assert!(kind == StopKind::Interrupt || snapshot.state.is_terminal());
                }
            }
            Step::EndLeftovers { which } => {
                if let Some(played) = self.pick(which).and_then(|known| known.played.clone()) {
                    played.end_leftovers();
                }
            }
            Step::Pass { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::Wait { which, ms } => {
                let Some(known) = self.pick(which) else { return };
                let handle = known.handle;
                let (supervisor, owner) = (self.yard.supervisor.clone(), self.yard.owner);
                self.background.spawn(async move {
                    let within = Duration::from_millis(ms);
                    let targets = vec![target(handle, 0)];
                    // A supervisor that is going away refuses; nothing else may happen.
                    if let Ok(waited) =
                        supervisor.wait(owner, WaitMode::All, Until::Exit, targets, within).await
                    {
                        // A process that was given to another loop meanwhile is not there.
                        let ended = |snapshot: &Snapshot| snapshot.state.is_terminal();
                        assert!(!waited[0].satisfied || waited[0].snapshot.as_ref().is_none_or(ended));
                    }
                });
            }
            Step::HandOver { which } => {
                let Some(known) = self.pick(which) else { return };
                let handle = known.handle;
                let snapshot = self.yard.supervisor.hand_over(self.yard.owner, &handle, false).await.unwrap();
                if let Some(known) = self.known.iter_mut().find(|known| known.handle == handle) {
                    known.handed_over |= snapshot.handed_over;
                    assert!(snapshot.handed_over || snapshot.state.is_terminal());
                }
            }
            Step::Abandon { which } => {
                let Some(known) = self.pick(which) else { return };
                known.handed_over = true;
                known.stops.insert(Cause::Terminate);
                let handle = known.handle;
                self.yard.supervisor.abandon(self.yard.owner, &handle);
            }
            Step::Transfer => {
                let (from, to) = (self.yard.owner, other(self.yard.owner));
                let moved = self.yard.supervisor.transfer(from, to).await.unwrap().moved;
                self.yard.owner = to;
                assert_eq!(moved.into_iter().collect::<HashSet<_>>(), self.handles());
                assert!(self.yard.supervisor.list(from).is_empty());
            }
            Step::Restart => self.restart().await,
        }
        self.look();
    }

    async fn cancel_start(&mut self, after_ms: u64, slow_ms: u64) {
        let slow = Duration::from_millis(slow_ms);
        self.yard.runner.play(Script::new().start_fault(StartFault::Slow(slow)));
        let before: HashSet<_> = self.handles();
        let start = self.yard.try_start(options());
        let in_time = tokio::time::timeout(Duration::from_millis(after_ms), start).await;
        if let Ok(Ok(handle)) = in_time {
            let played = self.yard.runner.last();
            self.learn(handle, played, foreground());
        } else {
            // What is left of it is terminal, soon.
            crate::common::eventually("a cancelled start is undone", || {
                let list = self.yard.supervisor.list(self.yard.owner);
                list.iter()
                    .filter(|process| !before.contains(&process.identity.handle))
                    .all(|process| process.state.is_terminal())
            })
            .await;
        }
    }

    async fn append(&mut self, which: usize, text: &str) {
        let Some(known) = self.pick(which) else { return };
        let Some(played) = known.played.clone() else { return };
        // Only what a process that runs alone prints is sure to be read.
        if known.seen == State::Running && known.exits.is_empty() && known.stops.is_empty() {
            known.printed.push_str(text);
            let (handle, total) = (known.handle, known.printed.len() as u64);
            played.stdout(text).await;
            let state = self.yard.supervisor.snapshot(self.yard.owner, &handle).unwrap().state;
            let timed =
                self.known.iter().any(|known| known.handle == handle && known.start.deadline_ms.is_some());
            if state == State::Running && !timed {
                self.yard.output_to(handle, total).await;
            }
        }
    }

    fn handles(&self) -> HashSet<Handle> {
        self.yard.supervisor.list(self.yard.owner).iter().map(|process| process.identity.handle).collect()
    }

    async fn start(&mut self, start: Start) {
        let mut script = Script::new();
        if start.ignores_terminate {
            script = script.on_terminate(Reaction::Ignore);
        }
        if let Some(ignores) = start.leaves {
            let on_terminate = if ignores { Reaction::Ignore } else { Reaction::Die };
            script = script.leaves(Leftover { count: 2, on_terminate, end_after: None, hold_output: true });
        }
        self.yard.runner.play(script);
        let running = self
            .yard
            .supervisor
            .list(self.yard.owner)
            .iter()
            .filter(|process| !process.state.is_terminal())
            .count();
        let options = StartOptions {
            background: start.background,
            deadline: start.deadline_ms.map(Duration::from_millis),
            leftovers: if start.wait_for_leftovers { LeftoverPolicy::Wait } else { LeftoverPolicy::Kill },
            ..options()
        };
        match self.yard.try_start(options).await {
            Ok(handle) => {
                let played = self.yard.runner.last();
                self.learn(handle, played, start);
            }
            Err(error) => {
                assert_eq!(error.code(), procyard_core::ErrorCode::ProcessQuotaExceeded);
                assert!(running >= RUNNING as usize, "refused with {running} running");
            }
        }
    }

    fn learn(&mut self, handle: Handle, played: Option<Played>, start: Start) {
        self.players.extend(played.clone());
        self.known.push(Known {
            handle,
            played,
            handed_over: start.background,
            start,
            printed: String::new(),
            exits: HashSet::new(),
            stops: HashSet::new(),
            may_be_lost: false,
            seen: State::Running,
        });
    }

    /// The death of the supervisor, as far as one process can play it: what it wrote is all that the next one has. It
    /// writes nothing more, since its directory is another one from here on.
    async fn restart(&mut self) {
        // What was noted before is on disk; a completion that is under way may be or not be.
        self.published.extend(self.yard.journal.events());
        let copy = Arc::new(tempfile::tempdir().unwrap());
        copy_directory(self.yard.place.path(), copy.path());
        let mut next = Yard::on(copy, Script::new(), limits()).await;
        next.owner = self.yard.owner;
        let old = std::mem::replace(&mut self.yard, next);
        self.journals.push(Arc::clone(&self.yard.journal));
        drop(old);
        for known in &mut self.known {
            known.played = None;
            known.may_be_lost |= !known.seen.is_terminal();
        }
    }

    /// Every state is one that the model allows, and no terminal one changes.
    fn look(&mut self) {
        for known in &mut self.known {
            let snapshot = self.yard.supervisor.snapshot(self.yard.owner, &known.handle).unwrap();
            let code = snapshot.outcome.as_ref().and_then(|outcome| outcome.exit_code);
            assert!(known.allows(snapshot.state, code), "{:?} {code:?} of {:?}", snapshot.state, known.start);
            assert!(!known.seen.is_terminal() || known.seen == snapshot.state, "a terminal state changed");
            assert_eq!(snapshot.state.is_terminal(), snapshot.outcome.is_some());
            known.seen = snapshot.state;
        }
    }

    async fn finish(mut self) {
        // Everything is stopped, and then there is room for as many as may run.
        for known in &mut self.known {
            known.stops.insert(Cause::Kill);
        }
        let handles: Vec<_> = self.known.iter().map(|known| known.handle).collect();
        for handle in handles {
            let end = self.yard.stop(handle, StopKind::Kill, DEADLINE).await.unwrap();
            assert!(end.state.is_terminal());
        }
        self.look();
        while let Some(waiter) = self.background.join_next().await {
            waiter.unwrap();
        }
        self.check_output().await;
        self.yard.runner.play(Script::new());
        for _ in 0..RUNNING {
            let handle = self.yard.start(options()).await;
            let played = self.yard.runner.last();
            self.learn(handle, played, foreground());
        }
        assert!(self.yard.try_start(options()).await.is_err());
        for known in &mut self.known {
            known.stops.insert(Cause::Terminate);
        }
        let report = self.yard.supervisor.shutdown().await;
        assert_eq!((report.stopped, report.failed.len()), (RUNNING as usize, 0));
        self.look_after_shutdown();
        for played in &self.players {
            played.ended().await;
            assert_eq!(played.survivors(), 0, "a tree outlived its supervisor");
        }
        self.check_events();
    }

    async fn check_output(&mut self) {
        for known in &self.known {
            let (page, snapshot) =
                self.yard.supervisor.read(self.yard.owner, &known.handle, read_from(0)).await.unwrap();
            let text = String::from_utf8(page.bytes).unwrap();
            assert_eq!(snapshot.total_bytes, text.len() as u64);
            // A process that was stopped while it printed has printed less.
            let ended_itself =
                known.stops.iter().all(|stop| *stop == Cause::Kill) && known.start.deadline_ms.is_none();
            if ended_itself && !known.may_be_lost {
                assert_eq!(text, known.printed);
            } else {
                assert!(known.printed.starts_with(&text), "{text:?} of {:?}", known.printed);
            }
        }
    }

    fn look_after_shutdown(&mut self) {
        let list = self.yard.supervisor.list(self.yard.owner);
        let states: HashMap<_, _> =
            list.iter().map(|process| (process.identity.handle, process.state)).collect();
        for known in &self.known {
            let state = states[&known.handle];
            assert!(state.is_terminal());
            assert!(!known.seen.is_terminal() || known.seen == state);
        }
    }

    /// Each end was announced under one id, and under that of one kind; what was handed over was told.
    fn check_events(&self) {
        let mut contents: HashMap<_, LifecycleEvent> = HashMap::new();
        let last = self.yard.journal.events();
        for event in self.published.iter().chain(&last) {
            let first = contents.entry(event.id).or_insert_with(|| event.clone());
            assert_eq!(first, event, "what is published again is what was published");
        }
        for known in &self.known {
            let mut ids = HashSet::new();
            let mut told = HashSet::new();
            let begins = |event: &LifecycleEvent| {
                event.identity.handle == known.handle
                    && matches!(event.kind, EventKind::Started | EventKind::Backgrounded)
            };
            assert!(contents.values().any(begins), "its start was published");
            for journal in &self.journals {
                let events = journal.events();
                let mine: Vec<_> =
                    events.iter().filter(|event| event.identity.handle == known.handle).collect();
                let ends = |kind| matches!(kind, EventKind::Completed | EventKind::Lost);
                let end = mine.iter().position(|event| ends(event.kind));
                assert!(end.is_none_or(|end| end + 1 == mine.len()), "nothing is said after the end");
                ids.extend(mine.iter().filter(|event| ends(event.kind)).map(|event| event.id));
                let notices = journal.notices();
                told.extend(
                    notices
                        .iter()
                        .filter(|(_, notice)| notice.handle == known.handle)
                        .map(|(_, notice)| notice.id),
                );
            }
            if known.may_be_lost {
                // An end whose record the crash took was announced, and so is the loss that the record says.
                assert!((1..=2).contains(&ids.len()), "{ids:?}");
            } else {
                assert_eq!(ids.len(), 1, "{:?}", known.seen);
            }
            assert!(told.len() <= 1);
            if known.handed_over && !known.may_be_lost {
                assert_eq!(told.len(), 1, "its owner was told once");
            }
        }
    }
}

fn foreground() -> Start {
    Start {
        background: false,
        deadline_ms: None,
        wait_for_leftovers: false,
        ignores_terminate: false,
        leaves: None,
    }
}

/// The other of the two loops that own the processes in turn.
fn other(loop_of: Owner) -> Owner {
    if loop_of == owner(1) { owner(2) } else { owner(1) }
}

fn limits() -> Limits {
    Limits { running_per_loop: RUNNING, running_per_session: RUNNING, ..Limits::default() }
}

fn copy_directory(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_directory(&entry.path(), &target);
        } else {
            // One that is being replaced may be gone.
            let _ = std::fs::copy(entry.path(), target);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_supervisor_does_what_the_model_allows(steps in prop::collection::vec(step(), 1..24)) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for step in steps {
                world.take(step).await;
            }
            world.finish().await;
        });
    }
}
