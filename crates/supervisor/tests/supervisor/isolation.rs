//! Owners know nothing of each other: for any call, a foreign process is a missing one, in its answer and its effects.

use std::fmt::Debug;
use std::time::Duration;

use crate::common::{Find, Yard, options, owner, read_from, target};
use procyard_core::{Handle, Owner, SessionId, StopKind};
use procyard_runner::TerminalSize;
use procyard_supervisor::{
    IdempotencyRecord, InputRequest, ReadFrom, ReadRequest, StartOptions, StopRequest, StreamFilter,
    SupervisorError, Until, WaitMode,
};
use procyard_testkit::{Played, Script};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Call {
    Snapshot,
    Read,
    ReadTail,
    Head,
    Wait(Until),
    WaitForBytes,
    Quiet,
    Input,
    EndOfFile,
    Resize,
    Room,
    Stop(StopKind),
    HandOver,
    Abandon,
    Learnt,
    Listed,
    Told,
}

const CALLS: [Call; 20] = [
    Call::Snapshot,
    Call::Read,
    Call::ReadTail,
    Call::Head,
    Call::Wait(Until::Exit),
    Call::Wait(Until::Probe),
    Call::WaitForBytes,
    Call::Quiet,
    Call::Input,
    Call::EndOfFile,
    Call::Resize,
    Call::Room,
    Call::Stop(StopKind::Interrupt),
    Call::Stop(StopKind::Terminate),
    Call::Stop(StopKind::Kill),
    Call::HandOver,
    Call::Abandon,
    Call::Learnt,
    Call::Listed,
    Call::Told,
];

#[derive(Debug, Clone, Copy)]
enum Life {
    Running,
    OnTerminal,
    Ended,
    Restored,
}

/// Everything that a caller can see of an answer, without the handle that it gave itself.
fn seen<T: Debug>(result: Result<T, SupervisorError>) -> String {
    match result {
        Ok(value) => format!("ok {value:?}"),
        Err(error) => format!("{} {:?} {error:?}", error.code(), error.public()),
    }
}

async fn answer(yard: &Yard, who: Owner, handle: Handle, call: Call) -> String {
    let supervisor = &yard.supervisor;
    let within = Duration::from_secs(5);
    match call {
        Call::Snapshot => seen(supervisor.snapshot(who, &handle)),
        Call::Read => seen(supervisor.read(who, &handle, read_from(0)).await),
        Call::ReadTail => {
            let from = ReadFrom::TailLines(3);
            let request = ReadRequest { from, max_bytes: 64, streams: StreamFilter::Both };
            seen(supervisor.read(who, &handle, request).await)
        }
        Call::Head => seen(supervisor.head(who, &handle).await),
        Call::Wait(until) => {
            let targets = vec![target(handle, 0)];
            let waited = supervisor.wait(who, WaitMode::All, until, targets, within).await;
            seen(waited.map(|waited| (waited[0].satisfied, waited[0].snapshot.is_some())))
        }
        Call::WaitForBytes => {
            let targets = vec![Find::in_output_of(handle, b"out")];
            let waited = supervisor.wait(who, WaitMode::Any, Until::Probe, targets, within).await.unwrap();
            let waited = waited.into_iter().next().unwrap();
            let (satisfied, known) = (waited.satisfied, waited.snapshot.is_some());
            let probe = crate::common::found(waited);
            format!("{satisfied} {known} {} {} {}", probe.fed, probe.finished, probe.found)
        }
        Call::Quiet => seen(supervisor.quiet(who, &handle, within, within).await),
        Call::Input => {
            let request = InputRequest { data: b"in".to_vec(), ..InputRequest::default() };
            seen(supervisor.input(who, &handle, request).await)
        }
        Call::EndOfFile => {
            let request = InputRequest { eof: true, ..InputRequest::default() };
            seen(supervisor.input(who, &handle, request).await)
        }
        Call::Resize => {
            let size = Some(TerminalSize { rows: 5, cols: 5 });
            seen(supervisor.input(who, &handle, InputRequest { size, ..InputRequest::default() }).await)
        }
        Call::Room => seen(supervisor.input_room(who, &handle).await),
        Call::Stop(kind) => {
            seen(supervisor.stop(who, &handle, StopRequest { kind, grace: Some(within) }).await)
        }
        Call::HandOver => seen(supervisor.hand_over(who, &handle, true).await),
        Call::Abandon => {
            supervisor.abandon(who, &handle);
            String::new()
        }
        Call::Learnt => {
            supervisor.learnt(who, &[handle]);
            String::new()
        }
        Call::Listed => format!("{:?}", supervisor.list(who)),
        Call::Told => {
            // The owner's own ids would be in its own notices: another owner may try them.
            let ids: Vec<_> = supervisor.notices(yard.owner).iter().map(|notice| notice.id).collect();
            supervisor.delivered(who, &ids);
            format!("{:?} {}", supervisor.notices(who), supervisor.has_pending(who))
        }
    }
}

/// What its owner sees of a process, and what its runner saw.
fn state_of(yard: &Yard, handle: Handle, played: Option<&Played>) -> String {
    let snapshot = yard.supervisor.snapshot(yard.owner, &handle).unwrap();
    let notices = yard.supervisor.notices(yard.owner);
    let acts = played.map(|played| (played.signals(), played.sizes(), played.survivors()));
    // A draft comes when the process's own end has been published, which nothing here waits for.
    let files: Vec<_> = yard.files().into_iter().filter(|name| !name.contains(".draft.")).collect();
    format!("{snapshot:?} {notices:?} {acts:?} {files:?}")
}

async fn a_process(life: Life) -> (Yard, Handle, Option<Played>) {
    let yard = Yard::new(Script::new().stdout("out")).await;
    let terminal = matches!(life, Life::OnTerminal).then(TerminalSize::default);
    let stdin = procyard_runner::StdinMode::Open;
    let handle = yard.start(StartOptions { background: true, terminal, stdin, ..options() }).await;
    yard.output_to(handle, 3).await;
    let played = yard.runner.last().unwrap();
    match life {
        Life::Running | Life::OnTerminal => {}
        Life::Ended | Life::Restored => {
            played.exit(0).await;
            yard.end(handle).await;
        }
    }
    if let Life::Restored = life {
        return (yard.restarted().await, handle, None);
    }
    (yard, handle, Some(played))
}

fn lives() -> impl Strategy<Value = Life> {
    prop::sample::select(vec![Life::Running, Life::OnTerminal, Life::Ended, Life::Restored])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_foreign_process_is_a_missing_one(
        life in lives(),
        stranger in 2_u8..=255,
        other_session in any::<bool>(),
        missing in any::<[u8; 16]>(),
        calls in prop::collection::vec(prop::sample::select(CALLS.to_vec()), 1..6),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (yard, handle, played) = a_process(life).await;
            let mut stranger = owner(stranger);
            if other_session {
                stranger.session = SessionId::from_random([8; 16]);
                stranger.loop_id = yard.owner.loop_id;
            }
            let missing = Handle::from_bytes(missing);
            let before = state_of(&yard, handle, played.as_ref());
            for call in &calls {
                let began = tokio::time::Instant::now();
                let of_missing = answer(&yard, stranger, missing, *call).await;
                let time_of_missing = began.elapsed();
                let began = tokio::time::Instant::now();
                let of_foreign = answer(&yard, stranger, handle, *call).await;
                assert_eq!(of_foreign, of_missing, "{call:?}");
                assert_eq!(began.elapsed(), time_of_missing, "{call:?} takes as long");
                assert_eq!(state_of(&yard, handle, played.as_ref()), before, "{call:?} has no effect");
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_idempotency_key_belongs_to_its_owner() {
    let yard = Yard::new(Script::new()).await;
    let key = IdempotencyRecord { key: "k".into(), digest: "d".into() };
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
