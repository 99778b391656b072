//! That what has ended has given everything back.
//!
//! Not for leases: whoever lends one counts, with a [`Loan`](crate::Loan).

use std::panic::Location;

use procyard_core::{ExecutionId, Origin, Owner, StopKind};
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _};
use procyard_supervisor::{CommandRecord, Lease, StartOptions, StopRequest, Supervisor};

use super::{Verdict, hold};
use crate::{Script, ScriptedRunner};

/// Bytes on disk that each of the processes which fill the slots asks for, so that nothing has to be evicted for them.
const CEILING: u64 = 4096;

/// Nothing of this owner runs, every waiter's place of the session is free, and so is every slot of this loop: they are all
/// taken, by calls and by scripted processes, and given back. To be asked last, when no other loop runs anything and nobody
/// waits: the processes leave records, and of what is retained the oldest can go for them.
///
/// # Panics
///
/// When it does not hold.
#[track_caller]
pub fn assert_released(supervisor: &Supervisor, owner: Owner) -> impl Future<Output = ()> + '_ {
    let asked = Location::caller();
    async move {
        hold(asked, nothing_runs(supervisor, owner));
        hold(asked, places_are_free(supervisor));
        hold(asked, slots_are_free(supervisor, owner).await);
    }
}

fn nothing_runs(supervisor: &Supervisor, owner: Owner) -> Verdict {
    let running = supervisor.list(owner).into_iter().find(|process| !process.state.is_terminal());
    match running {
        Some(process) => Err(format!(
            "expected everything to have ended; {:?} is {}",
            process.identity.handle, process.state
        )),
        None => Ok(()),
    }
}

fn places_are_free(supervisor: &Supervisor) -> Verdict {
    let all = supervisor.limits().waiters;
    let mut places = Vec::new();
    for free in 0..all {
        let place = supervisor.reserve_wait();
        places.push(place.map_err(|error| {
            format!("expected all {all} waiters' places to be free; {free} were, then: {error}")
        })?);
    }
    match supervisor.reserve_wait() {
        Ok(_) => Err(format!("expected {all} waiters' places; there are more")),
        Err(_) => Ok(()),
    }
}

async fn slots_are_free(supervisor: &Supervisor, owner: Owner) -> Verdict {
    let limits = supervisor.limits();
    let windows = u32::try_from(limits.window_bytes_total / limits.window_bytes).unwrap_or(u32::MAX);
    let all = limits.running_per_loop.min(limits.running_per_session).min(windows);
    let runner = ScriptedRunner::new(Script::new());
    let mut started = Vec::new();
    let mut refused = None;
    while started.len() <= all as usize {
        match start(supervisor, owner, &runner).await {
            Ok(process) => started.push(process),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    for process in &started {
        let request = StopRequest { kind: StopKind::Kill, grace: None };
        let stopped = supervisor.stop(owner, process, request).await;
        stopped.map_err(|error| format!("expected {process:?} to be killed; seen was: {error}"))?;
    }
    match refused {
        Some(error) if started.len() < all as usize => {
            Err(format!("expected all {all} slots to be free; {} were, then: {error}", started.len()))
        }
        Some(_) => Ok(()),
        None => Err(format!("expected {all} slots; there are more")),
    }
}

async fn start(
    supervisor: &Supervisor,
    owner: Owner,
    runner: &ScriptedRunner,
) -> Result<procyard_core::Handle, String> {
    let origin = Origin { execution: ExecutionId::from_random([0xA5; 16]) };
    let request = ProcessRequest::new(CommandSpec::Shell("fill a slot".into()), "/", origin);
    let prepared = runner.prepare(request).await.map_err(|error| error.to_string())?;
    let ceiling = CEILING.min(supervisor.limits().spool_bytes);
    let options = StartOptions {
        spool_ceiling: Some(ceiling),
        ..StartOptions::new(CommandRecord::line("fill a slot", "/"))
    };
    let started = supervisor.start(owner, origin, prepared, Lease::none(), options).await;
    started.map(procyard_supervisor::Started::handle).map_err(|error| error.to_string())
}
