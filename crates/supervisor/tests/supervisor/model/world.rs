//! A supervisor on a scripted runner, a store in memory and a paused clock, to which the steps of a case are done.
//!
//! Not for what comes of them: see `check`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use procyard_core::{
    ErrorCode, EventId, EventKind, Handle, LifecycleEvent, Limits, NotificationId, Owner, Timestamp,
};
use procyard_manifest::IdempotencyRecord;
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _, StdinMode};
use procyard_supervisor::{
    Attendance, Clock, CommandRecord, InputRequest, Lease, LeftoverPolicy, Notice, NoticeKind, Services,
    StartOptions, Started, StopRequest, Subscription, Supervisor, SupervisorError, Target, Telling, WaitMode,
    Waited,
};
use procyard_testkit::{LosingStore, Loss, Played, Script, ScriptedRunner, StartFault};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::calls::{Answer, Waits};
use super::reference::{
    self, GRACE, LOOPS, Millis, Model, News, PENDING_INPUT, RETAINED, RUNNING, RUNNING_PER_LOOP, WAITERS,
};
use super::services::{Taken, Tap};
use super::steps::{Death, Plan, Step, Until, Which};
use crate::common::{Find, origin, owner, read_from, target};

/// What a step takes of the clock.
const STEP: Millis = 4;

/// After this long a service that takes everything again has taken everything.
pub(super) const CAUGHT_UP: Millis = 31_000;

/// What a finished call gave, as far as it is known without knowing handles.
pub(super) enum Raw {
    Started(Started),
    Known(Answer),
}

/// The wall clock goes as the paused one does.
pub(super) struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        timestamp(millis(self.0))
    }
}

pub(super) fn timestamp(at: Millis) -> Timestamp {
    Timestamp::from_unix_micros(1_000_000_000 + i64::try_from(at).unwrap() * 1_000)
}

fn millis(began: Instant) -> Millis {
    u64::try_from(began.elapsed().as_millis()).unwrap()
}

/// A loop of the session.
pub(super) fn loop_of(number: usize) -> Owner {
    owner(1 + u8::try_from(number).unwrap())
}

pub(super) struct View {
    pub(super) owner: usize,
    pub(super) subscription: Subscription,
}

pub(super) struct World {
    pub(super) model: Model,
    pub(super) began: Instant,
    pub(super) store: LosingStore,
    pub(super) supervisor: Supervisor,
    pub(super) runner: ScriptedRunner,
    pub(super) taken: Arc<Mutex<Taken>>,
    tap: Arc<Tap>,
    /// From when on everything that was said is known to be taken; never while a service refuses.
    pub(super) caught_up: Option<Millis>,
    pub(super) handles: Vec<Handle>,
    pub(super) calls: BTreeMap<usize, JoinHandle<(Millis, Raw)>>,
    pub(super) tellings: Vec<Telling>,
    attendances: Vec<Attendance>,
    pub(super) views: Vec<View>,
    /// Leases that were lent, and the process that holds each.
    pub(super) leases: Vec<(Arc<AtomicU32>, Option<usize>)>,
    pub(super) seen: Seen,
}

/// What was seen of what the services were given.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) events: usize,
    pub(super) news: usize,
    pub(super) by_id: HashMap<EventId, LifecycleEvent>,
    /// What was published under the supervisor of now.
    pub(super) said: BTreeSet<EventId>,
    pub(super) kinds: BTreeMap<usize, Vec<EventKind>>,
    /// The ends that were pushed under the supervisor of now.
    pub(super) pushed: BTreeSet<usize>,
    pub(super) stalls: BTreeSet<NotificationId>,
    /// For whom a notifier keeps the end of each process.
    pub(super) inbox: BTreeMap<usize, Owner>,
    pub(super) notice_ids: BTreeMap<News, NotificationId>,
    pub(super) totals: Vec<usize>,
}

fn limits() -> Limits {
    let period = Duration::from_millis;
    Limits {
        running_per_loop: u32::try_from(RUNNING_PER_LOOP).unwrap(),
        running_per_session: u32::try_from(RUNNING).unwrap(),
        retained_per_session: u32::try_from(RETAINED).unwrap(),
        waiters: u32::try_from(WAITERS).unwrap(),
        window_bytes: 4096,
        spool_bytes: 64 * 1024,
        pending_input_bytes: PENDING_INPUT,
        graceful_shutdown: period(GRACE),
        drain_quiet: period(reference::DRAIN_QUIET),
        drain_cap: period(reference::DRAIN_CAP),
        leftover_grace: period(reference::LEFTOVER_GRACE),
        ..Limits::default()
    }
}

async fn supervisor_on(store: &LosingStore, tap: &Arc<Tap>, began: Instant) -> Supervisor {
    let session = loop_of(0).session;
    let supervisor = Supervisor::with_clock(session, limits(), store.root(), Arc::new(Virtual(began)));
    supervisor.activate(Services::new(tap.clone(), tap.clone())).await.unwrap();
    supervisor
}

impl World {
    pub(super) async fn new() -> Self {
        let (began, store, taken) = (Instant::now(), LosingStore::new(), Arc::default());
        let tap = Arc::new(Tap::new(&taken));
        let supervisor = supervisor_on(&store, &tap, began).await;
        Self {
            model: Model::default(),
            began,
            store,
            supervisor,
            runner: ScriptedRunner::new(Script::new()),
            taken,
            tap,
            caught_up: Some(0),
            handles: Vec::new(),
            calls: BTreeMap::new(),
            tellings: Vec::new(),
            attendances: Vec::new(),
            views: Vec::new(),
            leases: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// The process that a step is about, and its owner.
    fn pick(&self, which: Which) -> Option<(usize, usize, Handle)> {
        let count = self.model.processes.len();
        let id = count.checked_sub(1 + which % count.max(1))?;
        Some((id, self.model.processes[id].owner, self.handles[id]))
    }

    /// The process as its runner knows it, while it lives in the supervisor of now.
    fn played(&self, id: usize) -> Option<Played> {
        let native = self.model.processes[id].native;
        let place = self.model.launched.iter().position(|launched| *launched == id)?;
        native.then(|| self.runner.played()[place].clone())
    }

    pub(super) async fn pass(&mut self, period: Millis) {
        tokio::time::sleep(Duration::from_millis(period)).await;
        self.model.advance(self.model.now + period);
        assert_eq!(self.model.now, millis(self.began), "the clocks agree");
    }

    pub(super) async fn take(&mut self, step: Step) {
        match step {
            Step::Start(plan) => self.start(plan).await,
            Step::Append { which, text } => {
                let Some((id, ..)) = self.pick(which) else { return };
                let now = self.model.now;
                self.model.processes[id].print(&text, now);
                if let Some(played) = self.played(id) {
                    played.stdout(text).await;
                }
            }
            Step::Exit { which, code } => {
                let Some((id, ..)) = self.pick(which) else { return };
                let now = self.model.now;
                self.model.processes[id].exit(code, now);
                if let Some(played) = self.played(id) {
                    played.exit(code).await;
                }
            }
            Step::EndLeftovers { which } => {
                let Some((id, ..)) = self.pick(which) else { return };
                let now = self.model.now;
                self.model.processes[id].end_leftovers(now);
                if let Some(played) = self.played(id) {
                    played.end_leftovers();
                }
            }
            Step::Pass { seconds } => self.pass(seconds * reference::SECOND).await,
            Step::Cancel { which } => self.cancel(which).await,
            Step::Services { publisher, notifier } => self.set_services(publisher, notifier),
            Step::Restart(death) => self.restart(death).await,
            Step::Subscribe { of } => {
                let subscribed = self.supervisor.subscribe(loop_of(of));
                let refused = self.model.refuses(of);
                assert_eq!(subscribed.as_ref().err().map(SupervisorError::code), refused, "a view");
                self.views.extend(subscribed.map(|subscription| View { owner: of, subscription }));
            }
            Step::Transfer { from, to } => {
                let moved = self.supervisor.transfer(loop_of(from), loop_of(to)).await;
                let moved = moved.map(|report| {
                    assert!(report.unsaved.is_empty());
                    report.moved
                });
                let expected = self.model.transfer(from, to);
                let expected = expected.map(|ids| ids.iter().map(|id| self.handles[*id]).collect());
                assert_eq!(moved.map_err(|error| error.code()), expected, "a transfer");
            }
            Step::Stop { .. }
            | Step::Wait { .. }
            | Step::Quiet { .. }
            | Step::Room { .. }
            | Step::CloseLoop { .. }
            | Step::Shutdown => self.call(step),
            other => self.ask(other).await,
        }
        self.model.follow();
        self.pass(STEP).await;
        self.look();
    }

    /// Calls that take no time.
    async fn ask(&mut self, step: Step) {
        match step {
            Step::Input { which, kilobytes, eof } => {
                let Some((id, of, handle)) = self.pick(which) else { return };
                let data = vec![b'i'; kilobytes * 1024];
                let expected = self.model.input(of, id, data.len() as u64, eof);
                let request = InputRequest { data, eof, ..InputRequest::default() };
                let accepted = self.supervisor.input(loop_of(of), &handle, request).await;
                let accepted = accepted.map(|accepted| accepted.pending_bytes);
                assert_eq!(accepted.map_err(|error| error.code()), expected, "input");
            }
            Step::Read { which, cursor } => {
                let Some((id, of, handle)) = self.pick(which) else { return };
                let expected = self.model.call(of, id).map(|process| process.printed.clone());
                let expected = expected
                    .and_then(|text| text.get(cursor..).map(str::to_owned).ok_or(ErrorCode::CursorAhead));
                let page = self.supervisor.read(loop_of(of), &handle, read_from(cursor as u64)).await;
                let text = page.map(|(page, _)| String::from_utf8(page.bytes).unwrap());
                assert_eq!(text.map_err(|error| error.code()), expected, "a read");
            }
            Step::HandOver { which, lift } => {
                let Some((id, of, handle)) = self.pick(which) else { return };
                let expected = self.model.hand_over(of, id, lift);
                let handed = self.supervisor.hand_over(loop_of(of), &handle, lift).await;
                assert_eq!(handed.map(drop).map_err(|error| error.code()), expected, "a hand-over");
            }
            Step::Attend { which } => {
                let Some((id, of, handle)) = self.pick(which) else { return };
                self.model.attend(of, id);
                self.attendances.push(self.supervisor.attend(loop_of(of), handle));
            }
            Step::Leave { which, released } => {
                let Some(which) = which.checked_rem(self.attendances.len()) else { return };
                // Whether it is told once more is not certain.
                let learnt = self.model.processes.get(self.model.attending[which].1);
                let released = released || learnt.is_some_and(|process| process.learnt_before);
                self.model.leave(which, released);
                let attendance = self.attendances.remove(which);
                if released {
                    attendance.release();
                }
            }
            Step::Learnt { which } => {
                let Some((id, of, handle)) = self.pick(which) else { return };
                self.model.learnt(of, &BTreeSet::from([id]));
                self.supervisor.learnt(loop_of(of), &[handle]);
            }
            Step::Deliver { of, most } => {
                let mut notices = self.supervisor.notices(loop_of(of));
                notices.truncate(most);
                let told = notices.iter().map(|notice| self.news(notice)).collect();
                self.model.delivered(of, &told);
                let ids: Vec<_> = notices.iter().map(|notice| notice.id).collect();
                self.supervisor.delivered(loop_of(of), &ids);
            }
            Step::Tell { of, outcome, most } => {
                let mut telling = self.supervisor.telling(loop_of(of));
                let outcome = outcome.and_then(|which| self.pick(which));
                if let Some((_, _, handle)) = outcome {
                    telling.outcome(handle);
                }
                self.model.tell(of, outcome.map(|(id, ..)| id));
                let taken: Vec<_> =
                    telling.take_notices(most).iter().map(|notice| self.news(notice)).collect();
                let open = self.model.notices(of);
                assert_eq!(taken.len(), open.len().min(most), "as many as there are");
                self.model.claim(&taken);
                self.tellings.push(telling);
            }
            Step::EndTelling { which, handed_over } => {
                let Some(which) = which.checked_rem(self.tellings.len()) else { return };
                self.model.end_reply(which, handed_over);
                let telling = self.tellings.remove(which);
                if handed_over {
                    telling.handed_over();
                }
            }
            other => unreachable!("{other:?} is done elsewhere"),
        }
    }

    /// What a notice is about.
    pub(super) fn news(&self, notice: &Notice) -> News {
        let id = self.id_of(notice.handle);
        match notice.kind {
            NoticeKind::Completed => News::End(id),
            NoticeKind::Stalled { .. } => News::Stall(id, self.model.processes[id].stalls),
        }
    }

    pub(super) fn id_of(&self, handle: Handle) -> usize {
        self.handles.iter().position(|known| *known == handle).expect("a process that was started")
    }

    async fn start(&mut self, plan: Plan) {
        let mut script = Script::new().on_terminate(plan.on_terminate).on_interrupt(plan.on_interrupt);
        if let Some(leftover) = plan.leftover {
            script = script.leaves(leftover);
        }
        if plan.fails {
            script = script.start_fault(StartFault::NotFound);
        } else if let Some(slow) = plan.slow {
            script = script.start_fault(StartFault::Slow(Duration::from_millis(slow)));
        }
        self.runner.play(script);
        let stdin = if plan.stdin { StdinMode::Open } else { StdinMode::Null };
        let request =
            ProcessRequest { stdin, ..ProcessRequest::new(CommandSpec::Shell("play".into()), "/", origin()) };
        let prepared = self.runner.prepare(request).await.unwrap();
        let released = Arc::new(AtomicU32::new(0));
        let lease = Lease::new({
            let released = Arc::clone(&released);
            move || {
                released.fetch_add(1, Ordering::SeqCst);
            }
        });
        let options = StartOptions {
            background: plan.background,
            deadline: plan.deadline.map(Duration::from_millis),
            stall_window: plan.stall.map(Duration::from_millis),
            leftovers: if plan.waits_for_leftovers { LeftoverPolicy::Wait } else { LeftoverPolicy::Kill },
            stdin,
            ..StartOptions::new(CommandRecord {
                idempotency: plan.key.map(|(key, digest)| key_record(key, digest)),
                ..CommandRecord::line(&self.model.processes.len().to_string(), "/")
            })
        };
        let waits = self.model.start(&plan);
        let holder = if let Ok(Waits::Start { id }) = &waits { Some(*id) } else { None };
        self.leases.push((released, holder));
        let supervisor = self.supervisor.clone();
        self.run(waits, async move {
            let started = supervisor.start(loop_of(plan.owner), origin(), prepared, lease, options).await;
            started.map(Raw::Started)
        });
    }

    /// Calls that wait, each in a task of its own.
    fn call(&mut self, step: Step) {
        let supervisor = self.supervisor.clone();
        let seconds = Duration::from_secs;
        match step {
            Step::Stop { which, kind, grace } => {
                let Some((id, of, handle)) = self.pick(which) else { return };
                let waits = self.model.stop(of, id, kind, grace);
                let request = StopRequest { kind, grace: Some(Duration::from_millis(grace)) };
                self.run(waits, async move {
                    let stopped = supervisor.stop(loop_of(of), &handle, request).await;
                    stopped.map(|snapshot| Raw::Known(Answer::Ended(snapshot.state)))
                });
            }
            Step::Wait { targets, any, until, seconds: timeout } => {
                let picked: Vec<_> = targets
                    .iter()
                    .filter_map(|(which, cursor)| Some((self.pick(*which)?, *cursor)))
                    .collect();
                let Some(((_, of, _), _)) = picked.first().copied() else { return };
                let expected = picked.iter().map(|((id, ..), cursor)| (*id, *cursor)).collect();
                let waits = self.model.wait(of, expected, any, until, timeout * reference::SECOND);
                let targets = picked
                    .iter()
                    .map(|((_, _, handle), cursor)| match until {
                        Until::Match(letter) => Target {
                            cursor: *cursor as u64,
                            ..Find::in_output_of(*handle, letter.to_string().as_bytes())
                        },
                        Until::Exit | Until::Output => target(*handle, *cursor as u64),
                    })
                    .collect();
                let mode = if any { WaitMode::Any } else { WaitMode::All };
                let until = match until {
                    Until::Exit => procyard_supervisor::Until::Exit,
                    Until::Output | Until::Match(_) => procyard_supervisor::Until::Probe,
                };
                self.run(waits, async move {
                    let waited = supervisor.wait(loop_of(of), mode, until, targets, seconds(timeout)).await;
                    let flags = |waited: &Waited| (waited.satisfied, waited.snapshot.is_some());
                    waited.map(|waited| Raw::Known(Answer::Waited(waited.iter().map(flags).collect())))
                });
            }
            Step::Quiet { which, seconds: quiet, within } => {
                let Some((id, of, handle)) = self.pick(which) else { return };
                let waits = self.model.quiet(of, id, quiet * reference::SECOND, within * reference::SECOND);
                self.run(waits, async move {
                    let done = supervisor.quiet(loop_of(of), &handle, seconds(quiet), seconds(within)).await;
                    done.map(|()| Raw::Known(Answer::Done))
                });
            }
            Step::Room { which } => {
                let Some((id, of, handle)) = self.pick(which) else { return };
                let waits = self.model.room(of, id);
                self.run(waits, async move {
                    let free = supervisor.input_room(loop_of(of), &handle).await;
                    free.map(|free| Raw::Known(Answer::Room(free)))
                });
            }
            Step::CloseLoop { of } => {
                let waits = self.model.close_loop(of);
                self.run(Ok(waits), async move {
                    let left = supervisor.close_loop(loop_of(of)).await;
                    left.map(|left| Raw::Known(Answer::Left(left)))
                });
            }
            Step::Shutdown => {
                let waits = self.model.shutdown();
                self.run(Ok(waits), async move {
                    let report = supervisor.shutdown().await;
                    assert!(report.failed.is_empty(), "{report:?}");
                    Ok(Raw::Known(Answer::Left(report.stopped)))
                });
            }
            other => unreachable!("{other:?} is done elsewhere"),
        }
    }

    fn run(
        &mut self,
        waits: Result<Waits, Answer>,
        call: impl Future<Output = Result<Raw, SupervisorError>> + Send + 'static,
    ) {
        let number = self.model.begin(waits);
        let began = self.began;
        let call = tokio::spawn(async move {
            let answer = call.await;
            let raw = answer.unwrap_or_else(|error| Raw::Known(Answer::Refused(error.code())));
            (millis(began), raw)
        });
        self.calls.insert(number, call);
    }

    /// The caller of one of the calls that wait goes away.
    async fn cancel(&mut self, which: Which) {
        let waiting: Vec<_> = self
            .model
            .calls
            .iter()
            .filter(|(_, call)| call.answer.is_none())
            .map(|(number, _)| *number)
            .collect();
        let Some(number) = which.checked_rem(waiting.len()).map(|which| waiting[which]) else { return };
        let call = self.calls.remove(&number).expect("it waits");
        call.abort();
        assert!(call.await.is_err_and(|error| error.is_cancelled()), "it was waiting still");
        if let Some(Waits::Start { id }) = self.model.calls.remove(&number).map(|call| call.waits) {
            self.model.cancel_start(id);
        }
    }

    fn set_services(&mut self, publisher: bool, notifier: bool) {
        self.tap.publisher_refuses.store(!publisher, Ordering::SeqCst);
        self.tap.notifier_refuses.store(!notifier, Ordering::SeqCst);
        self.caught_up = match (publisher && notifier, self.caught_up) {
            (false, _) => None,
            (true, Some(since)) => Some(since),
            (true, None) => Some(self.model.now + CAUGHT_UP),
        };
    }

    async fn restart(&mut self, death: Death) {
        // What was written when it died.
        let found = self.store.after_cut(Loss::Nothing);
        if death == Death::Killed {
            self.tap.cut.store(true, Ordering::SeqCst);
            self.store = found;
        }
        for (number, call) in std::mem::take(&mut self.calls) {
            call.abort();
            let _ = call.await;
            let starting = self.model.calls.remove(&number).filter(|call| call.answer.is_none());
            if let (Death::Dropped, Some(Waits::Start { id })) = (death, starting.map(|call| call.waits)) {
                self.model.cancel_start(id);
            }
        }
        self.tellings.clear();
        self.views.clear();
        for attendance in self.attendances.drain(..) {
            attendance.release();
        }
        if death == Death::Dropped {
            self.pass(STEP).await;
        }
        self.model.die(death);
        let tap = Arc::new(Tap::new(&self.taken));
        for (new, old) in [
            (&tap.publisher_refuses, &self.tap.publisher_refuses),
            (&tap.notifier_refuses, &self.tap.notifier_refuses),
        ] {
            new.store(old.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        if death == Death::Dropped {
            // Nobody holds it from here on but its own tasks.
            self.supervisor = Supervisor::new(loop_of(0).session, limits(), self.store.root());
            self.pass(reference::SECOND * 2).await;
            self.check_eviction(None);
            self.check_events();
            self.check_pushes();
            self.tap.cut.store(true, Ordering::SeqCst);
        }
        self.tap = tap;
        self.supervisor = supervisor_on(&self.store, &self.tap, self.began).await;
        self.model.restore();
        self.seen.pushed.clear();
        self.seen.said.clear();
        self.seen.totals = self.model.processes.iter().map(|process| process.printed.len()).collect();
        if self.caught_up.is_some() {
            self.caught_up = Some(self.model.now);
        }
    }

    /// Everything ends: nothing is left of any process, and there is room for as many as may be.
    pub(super) async fn finish(mut self) {
        self.take(Step::Restart(Death::Dropped)).await;
        self.take(Step::Services { publisher: true, notifier: true }).await;
        self.pass(CAUGHT_UP).await;
        self.look();
        self.check_disk();
        for number in 0..=RUNNING {
            self.take(Step::Start(Plan::plain(number % LOOPS))).await;
        }
        self.take(Step::Shutdown).await;
        self.pass(GRACE).await;
        self.look();
        for played in self.runner.played() {
            assert_eq!(played.survivors(), 0, "a tree outlived its supervisor");
            assert!(played.is_closed(), "a process was not let go of");
        }
        assert!(self.model.processes.iter().all(super::process::Process::is_terminal));
    }
}

pub(super) fn key_record(key: u8, digest: u8) -> IdempotencyRecord {
    IdempotencyRecord { key: format!("k{key}"), digest: format!("d{digest}") }
}
