//! That a process of somebody else and one that never was are the same.
//!
//! Not for who may do what: that is the owner, and nobody else ever.

use std::fmt::Debug;
use std::panic::Location;
use std::time::Duration;

use procyard_core::{Handle, Owner, StopKind};
use procyard_runner::TerminalSize;
use procyard_supervisor::{
    InputRequest, ReadFrom, ReadRequest, StopRequest, StreamFilter, Supervisor, SupervisorError, Target,
    Until, WaitMode,
};
use tokio::time::Instant;

use super::{Verdict, hold};

/// How long the calls that wait may wait.
const WITHIN: Duration = Duration::from_secs(5);

/// The most by which two answers may differ in time: far more than a busy machine's moods, far less than a wait.
const NOTICEABLE: Duration = Duration::from_secs(2);

/// Every call by `stranger` about this process of `owner` gets the answer that it gets about a process that never was, in
/// the same time, and changes nothing of what the owner sees. The process must be at rest: nothing is printed and nothing
/// ends meanwhile.
///
/// # Panics
///
/// When it does not hold, or `owner` has no such process.
#[track_caller]
pub fn assert_same_for_stranger(
    supervisor: &Supervisor,
    owner: Owner,
    stranger: Owner,
    process: Handle,
) -> impl Future<Output = ()> + '_ {
    let asked = Location::caller();
    async move { hold(asked, same(supervisor, owner, stranger, process).await) }
}

async fn same(supervisor: &Supervisor, owner: Owner, stranger: Owner, process: Handle) -> Verdict {
    let missing = Handle::from_bytes(rand::random());
    let before = view(supervisor, owner, process)?;
    for call in Call::ALL {
        let began = Instant::now();
        let of_missing = call.answer(supervisor, stranger, missing).await;
        let time_of_missing = began.elapsed();
        let began = Instant::now();
        let of_foreign = call.answer(supervisor, stranger, process).await;
        let time_of_foreign = began.elapsed();
        if of_foreign != of_missing {
            return Err(format!(
                "expected {call:?} to say of a foreign process what it says of a missing one, {of_missing}; \
                 it said {of_foreign}"
            ));
        }
        if time_of_foreign.abs_diff(time_of_missing) > NOTICEABLE {
            return Err(format!(
                "expected {call:?} to take {time_of_missing:?}, as of a missing process; it took {time_of_foreign:?}"
            ));
        }
        let after = view(supervisor, owner, process)?;
        if after != before {
            return Err(format!(
                "expected {call:?} to change nothing; its owner saw {before} and then {after}"
            ));
        }
    }
    Ok(())
}

/// What its owner sees of it.
fn view(supervisor: &Supervisor, owner: Owner, process: Handle) -> Verdict<String> {
    let seen = supervisor.snapshot(owner, &process);
    let snapshot = seen.map_err(|error| format!("expected a process of its owner; seen was: {error}"))?;
    Ok(format!("{snapshot:?} and the notices {:?}", supervisor.notices(owner)))
}

/// Everything that can be asked about a handle.
#[derive(Debug, Clone, Copy)]
enum Call {
    Snapshot,
    Read,
    ReadTail,
    Head,
    Wait(Until),
    Quiet,
    Input,
    EndOfFile,
    Resize,
    Room,
    Stop(StopKind),
    HandOver,
    Abandon,
    Attend,
    Learnt,
    List,
    Notices,
}

impl Call {
    const ALL: [Self; 20] = [
        Self::Snapshot,
        Self::Read,
        Self::ReadTail,
        Self::Head,
        Self::Wait(Until::Exit),
        Self::Wait(Until::Probe),
        Self::Quiet,
        Self::Input,
        Self::EndOfFile,
        Self::Resize,
        Self::Room,
        Self::Stop(StopKind::Interrupt),
        Self::Stop(StopKind::Terminate),
        Self::Stop(StopKind::Kill),
        Self::HandOver,
        Self::Abandon,
        Self::Attend,
        Self::Learnt,
        Self::List,
        Self::Notices,
    ];

    async fn answer(self, supervisor: &Supervisor, who: Owner, handle: Handle) -> String {
        let read = |from| ReadRequest { from, max_bytes: 64, streams: StreamFilter::Both };
        match self {
            Self::Snapshot => said(supervisor.snapshot(who, &handle)),
            Self::Read => said(supervisor.read(who, &handle, read(ReadFrom::Cursor(0))).await),
            Self::ReadTail => said(supervisor.read(who, &handle, read(ReadFrom::TailLines(3))).await),
            Self::Head => said(supervisor.head(who, &handle).await),
            Self::Wait(until) => {
                let targets = vec![Target { handle, cursor: 0, probe: None }];
                let waited = supervisor.wait(who, WaitMode::All, until, targets, WITHIN).await;
                said(
                    waited.map(|all| {
                        all.into_iter().map(|one| (one.satisfied, one.snapshot)).collect::<Vec<_>>()
                    }),
                )
            }
            Self::Quiet => said(supervisor.quiet(who, &handle, WITHIN, WITHIN).await),
            Self::Input => {
                let request = InputRequest { data: b"in".to_vec(), ..InputRequest::default() };
                said(supervisor.input(who, &handle, request).await)
            }
            Self::EndOfFile => {
                let request = InputRequest { eof: true, ..InputRequest::default() };
                said(supervisor.input(who, &handle, request).await)
            }
            Self::Resize => {
                let size = Some(TerminalSize { rows: 5, cols: 5 });
                said(supervisor.input(who, &handle, InputRequest { size, ..InputRequest::default() }).await)
            }
            Self::Room => said(supervisor.input_room(who, &handle).await),
            Self::Stop(kind) => {
                said(supervisor.stop(who, &handle, StopRequest { kind, grace: Some(WITHIN) }).await)
            }
            Self::HandOver => said(supervisor.hand_over(who, &handle, true).await),
            Self::Abandon => {
                supervisor.abandon(who, &handle);
                String::new()
            }
            Self::Attend => {
                drop(supervisor.attend(who, handle));
                String::new()
            }
            Self::Learnt => {
                supervisor.learnt(who, &[handle]);
                String::new()
            }
            Self::List => format!("{:?}", supervisor.list(who)),
            Self::Notices => format!("{:?} {}", supervisor.notices(who), supervisor.has_pending(who)),
        }
    }
}

/// Everything that a caller can see of an answer.
fn said<T: Debug>(result: Result<T, SupervisorError>) -> String {
    match result {
        Ok(value) => format!("ok {value:?}"),
        Err(error) => format!("{} {:?} {error:?}", error.code(), error.public()),
    }
}
