//! Owners know nothing of each other: for any call, a foreign process is a missing one, in its answer, its time and its
//! effects. A table says of each public method which calls stand for it; a method that is missing there fails.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::future::Future as _;
use std::time::Duration;

use crate::common::{Find, Yard, eventually, options, origin, owner, read_from, target};
use procyard_core::{Handle, Owner, SessionId, StopKind};
use procyard_manifest::{manifest_name, spool_name};
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _, StdinMode, TerminalSize};
use procyard_supervisor::{
    CommandRecord, IdempotencyRecord, InputRequest, Lease, LeftoverPolicy, LiveEvent, ReadFrom, ReadRequest,
    StartOptions, StopRequest, StreamFilter, SupervisorError, Until, WaitMode,
};
use procyard_testkit::{Leftover, Played, Reaction, Script, StartFault};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Call {
    Start,
    FindKey,
    Snapshot,
    List,
    Read,
    ReadTail,
    Head,
    Wait(Until),
    WaitForBytes,
    Quiet,
    InPlace,
    QuietInPlace,
    Input,
    EndOfFile,
    Resize,
    Room,
    Stop(StopKind),
    HandOver,
    Attend,
    AttendAndRelease,
    Abandon,
    Remove,
    Tell,
    TellStart,
    Notices,
    Delivered,
    Learnt,
    Transfer,
    Subscribe,
    CloseLoop,
}

/// What a public method has to do with owners.
enum Share {
    /// These calls of a stranger stand for it.
    Shown(&'static [Call]),
    /// It concerns no owner, and why.
    Nobody(&'static str),
}

use Share::{Nobody, Shown};

/// Every public method of everything that a caller is given.
const METHODS: &[(&str, Share)] = &[
    ("Supervisor::new", Nobody("there is nothing yet")),
    ("Supervisor::with_clock", Nobody("there is nothing yet")),
    ("Supervisor::activate", Nobody("the host's; no call is served before")),
    ("Supervisor::session", Nobody("all owners are of the session")),
    ("Supervisor::limits", Nobody("configured")),
    ("Supervisor::notifies", Nobody("configured")),
    ("Supervisor::start", Shown(&[Call::Start])),
    ("Supervisor::find_idempotent", Shown(&[Call::FindKey])),
    ("Supervisor::snapshot", Shown(&[Call::Snapshot])),
    ("Supervisor::list", Shown(&[Call::List])),
    ("Supervisor::read", Shown(&[Call::Read, Call::ReadTail])),
    ("Supervisor::head", Shown(&[Call::Head])),
    ("Supervisor::reserve_wait", Shown(&[Call::InPlace, Call::QuietInPlace])),
    ("Supervisor::wait", Shown(&[Call::Wait(Until::Exit), Call::Wait(Until::Probe), Call::WaitForBytes])),
    ("Supervisor::quiet", Shown(&[Call::Quiet])),
    ("Supervisor::input", Shown(&[Call::Input, Call::EndOfFile, Call::Resize])),
    ("Supervisor::input_room", Shown(&[Call::Room])),
    (
        "Supervisor::stop",
        Shown(&[
            Call::Stop(StopKind::Interrupt),
            Call::Stop(StopKind::Terminate),
            Call::Stop(StopKind::Kill),
        ]),
    ),
    ("Supervisor::hand_over", Shown(&[Call::HandOver])),
    ("Supervisor::attend", Shown(&[Call::Attend, Call::AttendAndRelease])),
    ("Supervisor::abandon", Shown(&[Call::Abandon])),
    ("Supervisor::remove", Shown(&[Call::Remove])),
    ("Supervisor::telling", Shown(&[Call::Tell, Call::TellStart])),
    ("Supervisor::notices", Shown(&[Call::Notices])),
    ("Supervisor::has_pending", Shown(&[Call::Notices])),
    ("Supervisor::delivered", Shown(&[Call::Delivered])),
    ("Supervisor::learnt", Shown(&[Call::Learnt])),
    ("Supervisor::transfer", Shown(&[Call::Transfer])),
    ("Supervisor::close_loop", Shown(&[Call::CloseLoop])),
    ("Supervisor::subscribe", Shown(&[Call::Subscribe])),
    ("Supervisor::subscribe_all", Nobody("the host's; it shows all of the session")),
    ("Supervisor::overseeing", Nobody("the host's; it reaches what closed loops have left")),
    ("Supervisor::is_closed", Nobody("the host's; it closes loops itself")),
    ("Supervisor::owners", Nobody("the host's; it names all of the session")),
    ("Supervisor::owner_of", Nobody("the host's; it knows all of the session")),
    ("Supervisor::shutdown", Nobody("the host's; it ends all of the session")),
    ("Supervisor::shutdown_within", Nobody("the host's; it ends all of the session")),
    ("WaitPlace::wait", Shown(&[Call::InPlace])),
    ("WaitPlace::quiet", Shown(&[Call::QuietInPlace])),
    ("Attendance::begun", Shown(&[Call::Attend])),
    ("Attendance::release", Shown(&[Call::AttendAndRelease])),
    ("Telling::starts", Shown(&[Call::TellStart])),
    ("Telling::outcome", Shown(&[Call::Tell])),
    ("Telling::tells", Shown(&[Call::Tell])),
    ("Telling::take_notices", Shown(&[Call::Tell])),
    ("Telling::process_of", Shown(&[Call::Tell])),
    ("Telling::handed_over", Shown(&[Call::Tell, Call::TellStart])),
    ("Subscription::next", Shown(&[Call::Subscribe])),
    ("Lease::none", Nobody("the host's, for a process of any owner")),
    ("Lease::new", Nobody("the host's, for a process of any owner")),
    ("Leases::new", Nobody("a workspace belongs to no owner")),
    ("Leases::acquire", Nobody("a workspace belongs to no owner")),
    ("Leases::is_free", Nobody("a workspace belongs to no owner")),
];

/// What a caller is given that has methods.
const TYPES: [&str; 7] =
    ["Supervisor", "WaitPlace", "Attendance", "Telling", "Subscription", "Lease", "Leases"];

fn calls() -> Vec<Call> {
    let shown = METHODS.iter().flat_map(|(_, share)| match share {
        Shown(calls) => *calls,
        Nobody(_) => &[],
    });
    shown.copied().collect()
}

/// The public methods in the sources of the crate, as `Type::method`. Blocks of methods begin and end at the margin, as
/// the formatter has it.
fn public_methods() -> BTreeSet<String> {
    let mut methods = BTreeSet::new();
    let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
    for source in sources {
        let text = std::fs::read_to_string(source.unwrap().path()).unwrap();
        let mut of = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("impl ").and_then(|rest| rest.strip_suffix(" {")) {
                of = TYPES.iter().find(|known| **known == name);
            } else if line == "}" {
                of = None;
            }
            let begins = ["pub fn ", "pub async fn ", "pub const fn "];
            let method = begins.iter().find_map(|begin| line.trim_start().strip_prefix(begin));
            if let (Some(of), Some(method)) = (of, method) {
                let end = method.find(['(', '<']).unwrap();
                methods.insert(format!("{of}::{}", &method[..end]));
            }
        }
    }
    methods
}

#[test]
fn every_public_method_is_in_the_table() {
    let known: BTreeSet<_> = METHODS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(known.len(), METHODS.len(), "each once");
    assert_eq!(public_methods(), known, "a method was added or has gone: what may a stranger learn by it?");
    for (name, share) in METHODS {
        match share {
            Shown(calls) => assert!(!calls.is_empty(), "{name}"),
            Nobody(why) => assert!(!why.is_empty(), "{name}"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Life {
    Starting,
    Running,
    OnTerminal,
    Stalled,
    LeftDescendants,
    Unproven,
    Ended,
    Restored,
}

const LIVES: [Life; 8] = [
    Life::Starting,
    Life::Running,
    Life::OnTerminal,
    Life::Stalled,
    Life::LeftDescendants,
    Life::Unproven,
    Life::Ended,
    Life::Restored,
];

fn key() -> IdempotencyRecord {
    IdempotencyRecord { key: "k".into(), digest: "d".into() }
}

fn keyed() -> CommandRecord {
    CommandRecord { idempotency: Some(key()), ..options().command }
}

/// Everything that a caller can see of an answer, without the handle that it gave itself.
fn seen<T: Debug>(result: Result<T, SupervisorError>) -> String {
    match result {
        Ok(value) => format!("ok {value:?}"),
        Err(error) => format!("{} {:?} {error:?}", error.code(), error.public()),
    }
}

const WITHIN: Duration = Duration::from_secs(5);

/// The answer to a call of `who` about `handle`; `real` is the process of the other owner.
async fn answer(yard: &Yard, who: Owner, handle: Handle, real: Handle, call: Call) -> String {
    let supervisor = &yard.supervisor;
    let of_output = |call: Call| match call {
        Call::Read => read_from(0),
        _ => ReadRequest { from: ReadFrom::TailLines(3), max_bytes: 64, streams: StreamFilter::Both },
    };
    match call {
        Call::Start => {
            let request = ProcessRequest::new(CommandSpec::Shell("play".into()), "/", origin());
            let prepared = yard.runner.prepare(request).await.unwrap();
            let options = StartOptions { command: keyed(), ..options() };
            let started = supervisor.start(who, origin(), prepared, Lease::none(), options).await;
            seen(started.map(|started| started.handle() == real))
        }
        Call::FindKey => seen(supervisor.find_idempotent(who, &key()).map(|found| found == Some(real))),
        Call::Snapshot => seen(supervisor.snapshot(who, &handle)),
        Call::List => {
            let list = supervisor.list(who);
            format!("{:?}", list.iter().find(|process| process.identity.handle == real))
        }
        Call::Read | Call::ReadTail => seen(supervisor.read(who, &handle, of_output(call)).await),
        Call::Head => seen(supervisor.head(who, &handle).await),
        Call::Wait(_) | Call::WaitForBytes | Call::Quiet | Call::InPlace | Call::QuietInPlace => {
            waited(yard, who, handle, call).await
        }
        Call::Input | Call::EndOfFile | Call::Resize => {
            let request = match call {
                Call::Input => InputRequest { data: b"in".to_vec(), ..InputRequest::default() },
                Call::EndOfFile => InputRequest { eof: true, ..InputRequest::default() },
                _ => {
                    InputRequest { size: Some(TerminalSize { rows: 5, cols: 5 }), ..InputRequest::default() }
                }
            };
            seen(supervisor.input(who, &handle, request).await)
        }
        Call::Room => seen(supervisor.input_room(who, &handle).await),
        Call::Stop(kind) => {
            seen(supervisor.stop(who, &handle, StopRequest { kind, grace: Some(WITHIN) }).await)
        }
        Call::HandOver => seen(supervisor.hand_over(who, &handle, true).await),
        Call::Attend => {
            let attendance = supervisor.attend(who, handle);
            seen(attendance.begun().await)
        }
        Call::AttendAndRelease => {
            supervisor.attend(who, handle).release();
            String::new()
        }
        Call::Remove => seen(supervisor.remove(who, &handle).await),
        Call::Abandon => {
            supervisor.abandon(who, &handle);
            String::new()
        }
        Call::Learnt => {
            supervisor.learnt(who, &[handle]);
            String::new()
        }
        Call::Tell | Call::TellStart | Call::Notices | Call::Delivered => told(yard, who, handle, real, call),
        Call::Transfer => seen(supervisor.transfer(who, owner(0)).await.map(|report| {
            assert!(!report.moved.contains(&real));
        })),
        Call::Subscribe => seen(supervisor.subscribe(who).map(drop)),
        Call::CloseLoop => seen(supervisor.close_loop(who).await),
    }
}

async fn waited(yard: &Yard, who: Owner, handle: Handle, call: Call) -> String {
    let supervisor = &yard.supervisor;
    let until = if let Call::Wait(until) = call { until } else { Until::Probe };
    match call {
        Call::Quiet => seen(supervisor.quiet(who, &handle, WITHIN, WITHIN).await),
        Call::QuietInPlace => {
            let mut place = supervisor.reserve_wait().unwrap();
            seen(place.quiet(who, &handle, WITHIN, WITHIN).await)
        }
        Call::InPlace => {
            let mut place = supervisor.reserve_wait().unwrap();
            let waited = place.wait(who, WaitMode::All, until, vec![target(handle, 0)], WITHIN).await;
            seen(waited.map(|waited| (waited[0].satisfied, waited[0].snapshot.is_some())))
        }
        Call::WaitForBytes => {
            let targets = vec![Find::in_output_of(handle, b"out")];
            match supervisor.wait(who, WaitMode::Any, until, targets, WITHIN).await {
                Ok(waited) => {
                    let waited = waited.into_iter().next().unwrap();
                    let (satisfied, known) = (waited.satisfied, waited.snapshot.is_some());
                    let probe = crate::common::found(waited);
                    format!("{satisfied} {known} {} {} {}", probe.fed, probe.finished, probe.found)
                }
                Err(error) => seen::<()>(Err(error)),
            }
        }
        _ => {
            let waited = supervisor.wait(who, WaitMode::All, until, vec![target(handle, 0)], WITHIN).await;
            seen(waited.map(|waited| (waited[0].satisfied, waited[0].snapshot.is_some())))
        }
    }
}

fn told(yard: &Yard, who: Owner, handle: Handle, real: Handle, call: Call) -> String {
    let supervisor = &yard.supervisor;
    // The ids are in the other owner's notices: a stranger may try them.
    let before = supervisor.notices(yard.owner);
    let ids: Vec<_> = before.iter().map(|notice| notice.id).collect();
    if let Call::Tell | Call::TellStart = call {
        let mut telling = supervisor.telling(who);
        match call {
            Call::TellStart => telling.starts(),
            _ => telling.outcome(handle),
        }
        let taken = telling.take_notices(8);
        assert!(taken.iter().all(|notice| notice.handle != real));
        // A notice is data, and can be made up.
        assert!(before.iter().all(|notice| telling.process_of(notice).is_none()));
        assert_eq!(supervisor.notices(yard.owner), before, "a claim of a stranger takes nothing");
        telling.tells(&[handle]);
        telling.handed_over();
        return String::new();
    }
    if let Call::Delivered = call {
        supervisor.delivered(who, &ids);
    }
    let notices = supervisor.notices(who);
    assert_eq!(supervisor.has_pending(who), !notices.is_empty());
    format!("{:?}", notices.iter().find(|notice| notice.handle == real))
}

/// What its owner sees of a process, and what its runner saw.
fn state_of(yard: &Yard, handle: Handle, played: Option<&Played>) -> String {
    let list = yard.supervisor.list(yard.owner);
    let notices = (yard.supervisor.notices(yard.owner), yard.supervisor.has_pending(yard.owner));
    let key = yard.supervisor.find_idempotent(yard.owner, &key()).unwrap();
    let acts = played.map(|played| (played.signals(), played.sizes(), played.survivors()));
    let mut files = yard.files();
    files.retain(|name| [manifest_name(&handle), spool_name(&handle)].contains(name));
    let events = yard.journal.events();
    let said: Vec<_> = events.iter().filter(|event| event.identity.handle == handle).collect();
    format!("{list:?} {notices:?} {key:?} {acts:?} {files:?} {said:?}")
}

/// A session with one process of `whose`, in this moment of its life.
async fn a_process(life: Life, whose: Owner) -> (Yard, Handle, Option<Played>) {
    let mut script = Script::new().stdout("out");
    let leftover = Leftover { count: 2, on_terminate: Reaction::Ignore, end_after: None, hold_output: true };
    match life {
        Life::Starting => script = script.start_fault(StartFault::Hang),
        Life::LeftDescendants => script = script.leaves(leftover),
        Life::Unproven => script = script.unprovable(),
        _ => {}
    }
    let mut yard = Yard::new(script).await;
    yard.owner = whose;
    let options = StartOptions {
        background: true,
        command: keyed(),
        terminal: matches!(life, Life::OnTerminal).then(TerminalSize::default),
        stdin: StdinMode::Open,
        stall_window: matches!(life, Life::Stalled).then_some(Duration::from_secs(1)),
        leftovers: LeftoverPolicy::Wait,
        ..options()
    };
    if let Life::Starting = life {
        let request = ProcessRequest::new(CommandSpec::Shell("play".into()), "/", origin());
        let prepared = yard.runner.prepare(request).await.unwrap();
        let supervisor = yard.supervisor.clone();
        tokio::spawn(async move {
            let _ = supervisor.start(whose, origin(), prepared, Lease::none(), options).await;
        });
        eventually("it is starting", || !yard.supervisor.list(whose).is_empty()).await;
        let handle = yard.supervisor.list(whose)[0].identity.handle;
        yard.runner.play(Script::new());
        return (yard, handle, None);
    }
    let handle = yard.start(options).await;
    yard.output_to(handle, 3).await;
    let played = yard.runner.last().unwrap();
    match life {
        Life::Starting | Life::Running | Life::OnTerminal => {}
        Life::Stalled => eventually("it stalls", || yard.supervisor.has_pending(whose)).await,
        Life::LeftDescendants => {
            played.exit(0).await;
            played.ended().await;
        }
        Life::Unproven => {
            played.exit(0).await;
            let failed = || yard.supervisor.snapshot(whose, &handle).unwrap().teardown_failed;
            eventually("its proof fails", failed).await;
        }
        Life::Ended | Life::Restored => {
            played.exit(0).await;
            yard.end(handle).await;
        }
    }
    yard.runner.play(Script::new());
    if let Life::Restored = life {
        yard = yard.restarted().await;
        yard.owner = whose;
        return (yard, handle, None);
    }
    (yard, handle, Some(played))
}

/// Nothing of the process is shown to whoever looks on for the stranger.
async fn look_on(yard: &Yard, stranger: Owner, handle: Handle) {
    let Ok(mut view) = yard.supervisor.subscribe(stranger) else { return };
    let stop = StopRequest { kind: StopKind::Kill, grace: None };
    let _ = yard.supervisor.stop(yard.owner, &handle, stop).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while let std::task::Poll::Ready(Some(event)) = std::pin::pin!(view.next()).poll(&mut context) {
        let of = match event {
            LiveEvent::Lifecycle(event) => event.identity.handle,
            LiveEvent::Output { handle, .. } => handle,
            LiveEvent::Lagged(lost) => panic!("{lost} events of a stranger"),
        };
        assert_ne!(of, handle, "a stranger looks on");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_foreign_process_is_a_missing_one(
        life in prop::sample::select(LIVES.to_vec()),
        whose in 1_u8..=255,
        stranger in 1_u8..=255,
        other_session in any::<bool>(),
        missing in any::<[u8; 16]>(),
        calls in prop::collection::vec(prop::sample::select(calls()), 1..8),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (yard, handle, played) = a_process(life, owner(whose)).await;
            let mut stranger = owner(stranger);
            if other_session || stranger == yard.owner {
                stranger.session = SessionId::from_random([8; 16]);
            }
            let missing = Handle::from_bytes(missing);
            // What its own end still has to write and to say.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let before = state_of(&yard, handle, played.as_ref());
            for call in &calls {
                let began = tokio::time::Instant::now();
                let of_missing = answer(&yard, stranger, missing, handle, *call).await;
                let time_of_missing = began.elapsed();
                let began = tokio::time::Instant::now();
                let of_foreign = answer(&yard, stranger, handle, handle, *call).await;
                assert_eq!(of_foreign, of_missing, "{call:?}");
                assert_eq!(began.elapsed(), time_of_missing, "{call:?} takes as long");
                // What it may have set going comes to rest.
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert_eq!(state_of(&yard, handle, played.as_ref()), before, "{call:?} has no effect");
            }
            look_on(&yard, stranger, handle).await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_idempotency_key_belongs_to_its_owner() {
    let yard = Yard::new(Script::new()).await;
    let key = key();
    let mut command = options().command;
    command.idempotency = Some(key.clone());
    let options = StartOptions { command, ..options() };
    let mine = yard.start(options.clone()).await;
    assert_eq!(yard.supervisor.find_idempotent(owner(2), &key).unwrap(), None);
    let theirs = yard.try_start_as(owner(2), options).await.unwrap();
    assert_ne!(mine, theirs);
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_another_session_starts_nothing() {
    let yard = Yard::new(Script::new()).await;
    let mut stranger = yard.owner;
    stranger.session = SessionId::from_random([8; 16]);
    let refused = yard.try_start_as(stranger, options()).await;
    assert_eq!(refused.unwrap_err().code(), procyard_core::ErrorCode::NotFound);
    assert!(yard.runner.played().is_empty() && yard.files().is_empty());
}
