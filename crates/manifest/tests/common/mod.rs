//! One manifest for each state, the same for ever: the fixtures on disk are these.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its part; a test that cannot go on stops"
)]

use procyard_core::{
    EffectiveLimits, Enforcement, ExecutionId, Handle, Identity, LeaderEnd, LeftoverAction, Leftovers,
    LoopId, Origin, Outcome, Owner, Reason, SIGINT, SIGKILL, SIGTERM, SUPERVISION_LOST, SessionId, State,
    Timestamp, WaitStatus,
};
use procyard_manifest::{
    AccessRecord, CommandRecord, IdempotencyRecord, Manifest, SpoolBounds, StableIds, StdinRecord,
    StopRecord, TerminalRecord,
};

pub(crate) const BEGIN: i64 = 1_767_225_600_000_000;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_micros(BEGIN + seconds * 1_000_000)
}

pub(crate) fn session() -> SessionId {
    SessionId::from_random([0x51; 16])
}

pub(crate) fn owner(of: u8) -> Owner {
    Owner { session: session(), loop_id: LoopId::from_random([of; 16]) }
}

pub(crate) fn ids(of: u8) -> StableIds {
    let mut next = 0;
    StableIds::generate(|bytes| {
        next += 1;
        *bytes = [of; 16];
        bytes[0] = next;
        true
    })
    .unwrap()
}

/// A manifest in `starting`.
pub(crate) fn admitted(of: u8) -> Manifest {
    let identity = Identity {
        handle: Handle::from_bytes([of; 16]),
        owner: owner(1),
        origin: Origin { execution: ExecutionId::from_random([of; 16]) },
    };
    let command = CommandRecord::line("cargo test --workspace 2>&1 | tail -n 40", "/home/dev/project");
    Manifest::new(identity, command, AccessRecord::BroadWrite, ids(of), at(0))
}

pub(crate) fn running(of: u8) -> Manifest {
    let mut manifest = admitted(of);
    manifest.state = State::Running;
    manifest.started_at = Some(at(1));
    "subreaper".clone_into(&mut manifest.tier);
    manifest
}

fn outcome(reason: Reason, status: WaitStatus) -> Outcome {
    let (exit_code, signal) = match status.end() {
        LeaderEnd::Code(code) => ((reason == Reason::Exited).then_some(code), None),
        LeaderEnd::Signal(signal) => (None, Some(signal)),
        LeaderEnd::Unknown => (None, None),
    };
    Outcome { exit_code, signal, wait_status: Some(status), ..plain(reason) }
}

fn plain(reason: Reason) -> Outcome {
    Outcome {
        reason,
        exit_code: None,
        signal: None,
        diagnostic: None,
        escalated: false,
        leftovers: None,
        unread_input: 0,
        wait_status: None,
    }
}

/// The manifest that the fixture of a state holds.
pub(crate) fn sample(state: State) -> Manifest {
    let number = State::ALL.iter().position(|one| *one == state).unwrap();
    let of = 0x10 + u8::try_from(number).unwrap();
    let mut manifest = match state {
        State::Starting => admitted(of),
        _ => running(of),
    };
    let terminated = |state| StopRecord { reason: Reason::Terminated, state, at: at(3) };
    match state {
        State::Starting => {
            manifest.command.idempotency =
                Some(IdempotencyRecord { key: "build-7".to_owned(), digest: "9f86d081".to_owned() });
            manifest.access = AccessRecord::ReadOnly;
            manifest.set_teardown("leaf cgroup example.scope/p-1");
        }
        State::Running => {
            manifest.command =
                CommandRecord::argv(&["python3", "-i"], "/home/dev").labelled("a REPL \u{2713}");
            manifest.access =
                AccessRecord::ScopedWrite { paths: vec!["/home/dev/target".to_owned()], truncated: false };
            manifest.terminal = Some(TerminalRecord { rows: 24, cols: 80 });
            manifest.stdin = StdinRecord::Open;
            manifest.background = true;
            manifest.handed_over = true;
            manifest.deadline_at = Some(at(600));
            manifest.last_output_at = Some(at(2));
            manifest.spool = SpoolBounds {
                total_bytes: 4096,
                retained_from: 0,
                disk_bytes: Some(8192),
                ceiling: Some(64 << 20),
            };
        }
        State::Exited => {
            let ended = Outcome {
                leftovers: Some(Leftovers { count: 2, action: LeftoverAction::Killed }),
                ..outcome(Reason::Exited, WaitStatus::exited(3))
            };
            manifest.finish(state, ended, at(5));
            manifest.spool = SpoolBounds {
                total_bytes: 1 << 40,
                retained_from: (1 << 40) - (64 << 20),
                disk_bytes: None,
                ceiling: Some(64 << 20),
            };
            manifest.published.completion = true;
            manifest.published.notification = true;
            manifest.transfer(owner(2), at(6));
            manifest.transfer(owner(3), at(7));
        }
        State::Failed => {
            let mut ended = Outcome::diagnosed(Reason::Failed, SUPERVISION_LOST);
            ended.unread_input = 17;
            manifest.finish(state, ended, at(5));
            manifest.storage_degraded = true;
        }
        State::TimedOut => {
            manifest.deadline_at = Some(at(4));
            let ended =
                Outcome { escalated: true, ..outcome(Reason::TimedOut, WaitStatus::signalled(SIGKILL)) };
            manifest.finish(state, ended, at(5));
        }
        State::Interrupted => {
            let stop = StopRecord { reason: Reason::Interrupted, ..terminated(State::Running) };
            manifest.stop_requested = Some(stop);
            manifest.finish(state, outcome(Reason::Interrupted, WaitStatus::signalled(SIGINT)), at(5));
        }
        State::Terminated => {
            manifest.stop_requested = Some(terminated(State::Starting));
            manifest.started_at = None;
            manifest.finish(state, plain(Reason::Terminated), at(5));
        }
        State::Killed => {
            manifest.stop_requested = Some(terminated(State::Running));
            let ended = outcome(Reason::RunnerShutdown, WaitStatus::signalled(SIGTERM));
            manifest.finish(state, ended, at(5));
        }
        State::LostOnRestore => {
            let ended = Outcome::diagnosed(Reason::LostOnRestore, "its supervisor ended before it did");
            manifest.finish(state, ended, at(5));
            manifest.command.truncated = true;
        }
    }
    manifest
}

/// A sample of a process with caps on what it may take.
pub(crate) fn sample_limited(state: State) -> Manifest {
    let mut manifest = sample(state);
    manifest.limits = Some(EffectiveLimits {
        memory_max: Some(Enforcement::InForce(64 << 20)),
        pids_max: Some(Enforcement::not("there is no controller for it")),
        nice: Some(Enforcement::InForce(-5)),
        oom_score_adj: Some(Enforcement::InForce(500)),
        core_max: Some(Enforcement::InForce(0)),
    });
    if state.is_terminal() {
        manifest.memory_kills = 2;
    }
    manifest
}

/// What a fixture of a process that was handed over and has given way to others holds.
pub(crate) fn sample_evicted() -> Manifest {
    let mut manifest = running(0x30);
    manifest.handed_over = true;
    manifest.handed_over_at = Some(at(2));
    manifest.terminal = Some(TerminalRecord { rows: 24, cols: 80 });
    manifest.resize(TerminalRecord { rows: 50, cols: 132 });
    manifest.resize(TerminalRecord { rows: 24, cols: 80 });
    manifest.resize(TerminalRecord { rows: 30, cols: 100 });
    manifest.finish(State::Exited, outcome(Reason::Exited, WaitStatus::exited(0)), at(5));
    manifest.published.completion = true;
    manifest.evicted = true;
    manifest
}

/// The first record of the process whose later one is the sample of `running`.
pub(crate) fn sample_before_running() -> Manifest {
    let mut manifest = sample(State::Running);
    manifest.state = State::Starting;
    manifest.started_at = None;
    manifest.last_output_at = None;
    manifest.handed_over = false;
    manifest.tier.clear();
    manifest.spool = SpoolBounds::default();
    manifest
}
