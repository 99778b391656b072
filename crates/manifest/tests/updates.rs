//! Which manifests may follow which: edits against what each of them is allowed, one at a time and in long lives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use common::{admitted, at, ids, owner, running, sample};
use procyard_core::{
    EffectiveLimits, Enforcement, ExecutionId, Handle, LoopId, Origin, Outcome, Owner, Reason, SessionId,
    State,
};
use procyard_manifest::{
    AccessRecord, CommandRecord, Durability, Manifest, ManifestError, ManifestStore, StdinRecord, StopRecord,
    TRANSFERS_MAX, TerminalRecord, Transfer,
};
use procyard_store::FsDir;
use proptest::prelude::*;
use proptest::sample::select;

#[derive(Debug, Clone, Copy)]
enum Edit {
    Nothing,
    Go(State),
    Version,
    Handle,
    OwnerWithoutTrail,
    Transfer(u8),
    RewriteTrail,
    Origin,
    Command,
    Access,
    Tier,
    Resize,
    InitialTerminal,
    DropTerminal,
    Stdin,
    Background,
    HandOver(bool),
    HandOverAt,
    Evicted(bool),
    Degraded(bool),
    Completion(bool),
    Notification(bool),
    CreatedAt,
    StartedAt,
    FinishedAt,
    DeadlineAt,
    LastOutputAt,
    Stop(Reason),
    OtherReason,
    OtherWaitStatus,
    Ids,
    Total(i64),
    RetainedFrom(i64),
    DiskBytes(u64),
    Ceiling,
    Teardown,
    Limits,
    MemoryKills(i32),
}

/// How a process of any state becomes one of `state`, apart from whether it may.
fn go(manifest: &mut Manifest, state: State) {
    if manifest.state == state {
        return;
    }
    manifest.state = state;
    let reason = match state {
        State::Starting | State::Running => {
            manifest.started_at = (state == State::Running).then(|| manifest.started_at.unwrap_or(at(1)));
            (manifest.outcome, manifest.finished_at) = (None, None);
            return;
        }
        State::Exited => Reason::Exited,
        State::Failed => Reason::Failed,
        State::TimedOut => Reason::TimedOut,
        State::Interrupted => Reason::Interrupted,
        State::Terminated => Reason::Terminated,
        State::Killed => Reason::Killed,
        State::LostOnRestore => Reason::LostOnRestore,
    };
    if matches!(state, State::Exited | State::TimedOut | State::Interrupted) {
        manifest.started_at = manifest.started_at.or(Some(at(1)));
    }
    let exit_code = (state == State::Exited).then_some(0);
    let outcome = Outcome { exit_code, diagnostic: None, ..Outcome::diagnosed(reason, "") };
    manifest.finish(state, outcome, at(5));
}

impl Edit {
    fn apply(self, to: &Manifest) -> Manifest {
        let mut new = to.clone();
        let add = |value: u64, by: i64| value.saturating_add_signed(by);
        match self {
            Edit::Nothing => {}
            Edit::Go(state) => go(&mut new, state),
            Edit::Version => new.version += 1,
            Edit::Handle => new.identity.handle = Handle::from_bytes([0xee; 16]),
            Edit::OwnerWithoutTrail => new.identity.owner = owner(200),
            Edit::Transfer(loop_id) => new.transfer(owner(loop_id), at(7)),
            Edit::RewriteTrail => match new.transfers.first_mut() {
                Some(first) => first.at = at(-1),
                None => new.transfers.push(Transfer { from: owner(200), to: new.identity.owner, at: at(7) }),
            },
            Edit::Origin => new.identity.origin = Origin { execution: ExecutionId::from_random([0xee; 16]) },
            Edit::Command => new.command = CommandRecord::line("true", "/"),
            Edit::Access => {
                new.access =
                    AccessRecord::ScopedWrite { paths: vec!["/elsewhere".to_owned()], truncated: false };
            }
            Edit::Tier => new.tier.push('+'),
            Edit::Resize => {
                let rows = new.terminal.map_or(1, |size| size.rows % 100 + 1);
                new.terminal = Some(TerminalRecord { rows, cols: 1 });
            }
            Edit::InitialTerminal => new.initial_terminal = Some(TerminalRecord { rows: 3, cols: 4 }),
            Edit::DropTerminal => new.terminal = None,
            Edit::Stdin => {
                new.stdin = match new.stdin {
                    StdinRecord::None => StdinRecord::Open,
                    StdinRecord::Open => StdinRecord::None,
                }
            }
            Edit::Background => new.background = !new.background,
            Edit::HandOver(on) => new.handed_over = on,
            Edit::HandOverAt => new.handed_over_at = Some(at(-1)),
            Edit::Evicted(on) => new.evicted = on,
            Edit::Degraded(on) => new.storage_degraded = on,
            Edit::Completion(on) => new.published.completion = on,
            Edit::Notification(on) => new.published.notification = on,
            Edit::CreatedAt => new.created_at = at(-1),
            Edit::StartedAt => new.started_at = Some(at(-1)),
            Edit::FinishedAt => new.finished_at = Some(at(-1)),
            Edit::DeadlineAt => {
                new.deadline_at = Some(at(if new.deadline_at == Some(at(-2)) { -3 } else { -2 }));
            }
            Edit::LastOutputAt => new.last_output_at = Some(at(-1)),
            Edit::Stop(reason) => {
                new.stop_requested = Some(StopRecord { reason, state: State::Running, at: at(-1) });
            }
            Edit::OtherReason => {
                if let Some(outcome) = &mut new.outcome {
                    outcome.reason = Reason::OutputLimit;
                }
            }
            Edit::OtherWaitStatus => {
                if let Some(outcome) = &mut new.outcome {
                    outcome.unread_input += 1;
                }
            }
            Edit::Ids => new.ids = ids(0xee),
            Edit::Total(by) => new.spool.total_bytes = add(new.spool.total_bytes, by),
            Edit::RetainedFrom(by) => new.spool.retained_from = add(new.spool.retained_from, by),
            Edit::DiskBytes(bytes) => new.spool.disk_bytes = Some(bytes),
            Edit::Ceiling => new.spool.ceiling = Some(new.spool.ceiling.map_or(1, |old| old + 1)),
            Edit::Teardown => new.set_teardown("pid 4711"),
            Edit::Limits => {
                let other =
                    EffectiveLimits { nice: Some(Enforcement::InForce(3)), ..EffectiveLimits::default() };
                new.limits = Some(other);
            }
            Edit::MemoryKills(by) => {
                new.memory_kills = new.memory_kills.saturating_add_signed(by);
            }
        }
        new
    }

    /// What the rules say, in terms of the edit rather than of the values.
    fn allowed(self, on: &Manifest) -> bool {
        let ended = on.state.is_terminal();
        match self {
            Edit::Nothing | Edit::Transfer(_) | Edit::LastOutputAt | Edit::DiskBytes(_) | Edit::Teardown => {
                true
            }
            Edit::Go(to) => {
                let steps: &[State] = match on.state {
                    State::Starting => &[
                        State::Running,
                        State::Failed,
                        State::Terminated,
                        State::Killed,
                        State::LostOnRestore,
                    ],
                    State::Running => &State::ALL[2..],
                    _ => &[],
                };
                to == on.state || steps.contains(&to)
            }
            Edit::Version
            | Edit::Handle
            | Edit::OwnerWithoutTrail
            | Edit::RewriteTrail
            | Edit::Origin
            | Edit::Command
            | Edit::Access
            | Edit::Stdin
            | Edit::Background
            | Edit::CreatedAt
            | Edit::StartedAt
            | Edit::FinishedAt
            | Edit::Limits
            | Edit::Ids => false,
            Edit::MemoryKills(by) => {
                let same = by == 0 || (by < 0 && on.memory_kills == 0);
                same || (by > 0 && on.limits.is_some() && !ended)
            }
            Edit::Ceiling => on.spool.ceiling.is_none(),
            Edit::Tier => on.state == State::Starting,
            Edit::Resize | Edit::InitialTerminal => on.terminal.is_some(),
            Edit::DropTerminal => on.terminal.is_none(),
            Edit::HandOver(to) => to || !on.handed_over,
            Edit::HandOverAt => match on.handed_over_at {
                None => on.handed_over && !ended,
                Some(old) => old == at(-1),
            },
            Edit::Evicted(to) => {
                if to {
                    ended
                } else {
                    !on.evicted
                }
            }
            Edit::Degraded(to) => to || !on.storage_degraded,
            Edit::Completion(to) => {
                if to {
                    ended
                } else {
                    !on.published.completion
                }
            }
            Edit::Notification(to) => {
                if to {
                    ended
                } else {
                    !on.published.notification
                }
            }
            Edit::Stop(reason) => {
                let stop = matches!(reason, Reason::Interrupted | Reason::Terminated | Reason::Killed);
                on.stop_requested.map_or(!ended && stop, |old| old.reason == reason && old.at == at(-1))
            }
            Edit::DeadlineAt | Edit::OtherReason | Edit::OtherWaitStatus => !ended,
            Edit::Total(by) => by >= 0 || on.spool.total_bytes == 0,
            Edit::RetainedFrom(by) => {
                let to = on.spool.retained_from.saturating_add_signed(by);
                to >= on.spool.retained_from && to <= on.spool.total_bytes
            }
        }
    }
}

fn accepted(new: &Manifest, stored: &Manifest) -> bool {
    new.check().and_then(|()| new.check_update(stored)).is_ok()
}

fn single_edits() -> Vec<Edit> {
    let mut edits: Vec<Edit> = State::ALL.into_iter().map(Edit::Go).collect();
    for on in [false, true] {
        edits.extend([Edit::HandOver(on), Edit::Degraded(on), Edit::Completion(on), Edit::Notification(on)]);
        edits.push(Edit::Evicted(on));
    }
    for reason in
        [Reason::Interrupted, Reason::Terminated, Reason::Killed, Reason::Exited, Reason::RunnerShutdown]
    {
        edits.push(Edit::Stop(reason));
    }
    for by in [-1, 0, 1, 1000] {
        edits.extend([Edit::Total(by), Edit::RetainedFrom(by)]);
    }
    edits.extend([
        Edit::Nothing,
        Edit::Version,
        Edit::Handle,
        Edit::OwnerWithoutTrail,
        Edit::Transfer(9),
        Edit::RewriteTrail,
        Edit::Origin,
        Edit::Command,
        Edit::Access,
        Edit::Tier,
        Edit::Resize,
        Edit::InitialTerminal,
        Edit::DropTerminal,
        Edit::HandOverAt,
        Edit::Stdin,
        Edit::Background,
        Edit::CreatedAt,
        Edit::StartedAt,
        Edit::FinishedAt,
        Edit::DeadlineAt,
        Edit::LastOutputAt,
        Edit::OtherReason,
        Edit::OtherWaitStatus,
        Edit::Ids,
        Edit::DiskBytes(0),
        Edit::Ceiling,
        Edit::Teardown,
        Edit::Limits,
        Edit::MemoryKills(1),
        Edit::MemoryKills(-1),
    ]);
    edits
}

#[test]
fn every_single_edit_of_every_state_is_accepted_or_refused_as_the_rules_say() {
    let limited = |state| {
        let mut sample = sample(state);
        sample.limits =
            Some(EffectiveLimits { pids_max: Some(Enforcement::InForce(9)), ..EffectiveLimits::default() });
        sample.memory_kills = 2;
        sample
    };
    for stored in State::ALL.into_iter().flat_map(|state| [sample(state), limited(state)]) {
        let state = stored.state;
        stored.check().unwrap();
        for edit in single_edits() {
            let new = edit.apply(&stored);
            let verdict = new.check().and_then(|()| new.check_update(&stored));
            assert_eq!(verdict.is_ok(), edit.allowed(&stored), "{edit:?} of {state}: {verdict:?}");
        }
    }
}

fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => select(single_edits()),
        1 => (0..10_u8).prop_map(Edit::Transfer),
        2 => (-50..500_i64).prop_map(Edit::Total),
        2 => (-50..300_i64).prop_map(Edit::RetainedFrom),
        1 => select(State::ALL.to_vec()).prop_map(Edit::Go),
    ]
}

/// What holds between any two manifests of one life, however many saves lie between them.
fn went_forward(early: &Manifest, late: &Manifest) {
    assert_eq!(early.identity.handle, late.identity.handle);
    assert_eq!((early.ids, early.created_at), (late.ids, late.created_at));
    assert!(late.transfers.starts_with(&early.transfers));
    assert!(late.spool.total_bytes >= early.spool.total_bytes);
    assert!(late.spool.retained_from >= early.spool.retained_from);
    assert!(late.handed_over >= early.handed_over && late.storage_degraded >= early.storage_degraded);
    assert!(late.published.completion >= early.published.completion);
    assert!(late.published.notification >= early.published.notification);
    assert!(late.evicted >= early.evicted);
    assert!(early.handed_over_at.is_none() || late.handed_over_at == early.handed_over_at);
    if early.state.is_terminal() {
        assert_eq!((early.state, &early.outcome), (late.state, &late.outcome));
        assert_eq!(early.finished_at, late.finished_at);
    }
}

proptest! {
    #[test]
    fn a_life_of_any_edits_only_goes_forward(edits in prop::collection::vec(any_edit(), 1..60)) {
        let mut life = vec![admitted(1)];
        for edit in edits {
            let last = life.last().unwrap();
            let new = edit.apply(last);
            prop_assert_eq!(accepted(&new, last), edit.allowed(last), "{:?} of {:?}", edit, last);
            if accepted(&new, last) {
                life.push(new);
            }
        }
        let last = life.last().unwrap();
        for early in &life {
            went_forward(early, last);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_store_holds_the_last_accepted_manifest_across_restarts(
        steps in prop::collection::vec((any_edit(), prop::bool::weighted(0.1), prop::bool::weighted(0.2)), 1..25),
    ) {
        let place = tempfile::tempdir().unwrap();
        let restart = || ManifestStore::new(FsDir::open(place.path()).unwrap());
        let (mut store, mut last) = (restart(), admitted(1));
        store.create(&last).unwrap();
        for (edit, synced, restarted) in steps {
            if restarted {
                store = restart();
                last.set_teardown("");
            }
            let new = edit.apply(&last);
            if new.identity.handle != last.identity.handle {
                continue; // that is a save of another process
            }
            let durability = if synced { Durability::Synced } else { Durability::Written };
            let saved = store.save_with(&new, durability);
            prop_assert_eq!(saved.is_ok(), edit.allowed(&last), "{:?}: {:?}", edit, saved);
            if saved.is_ok() {
                last = new;
            }
            let mut found = last.clone();
            found.set_teardown("");
            prop_assert_eq!(restart().load(&last.identity.handle).unwrap(), found);
        }
        last.set_teardown("");
        prop_assert_eq!(restart().scan().unwrap().manifests, vec![last]);
    }
}

#[test]
fn a_restore_may_find_less_output_than_recorded_and_says_so() {
    let mut recorded = running(1);
    recorded.spool.total_bytes = 1000;
    recorded.spool.retained_from = 500;
    let mut lost = recorded.clone();
    lost.finish(State::LostOnRestore, Outcome::diagnosed(Reason::LostOnRestore, "lost"), at(9));
    lost.spool.total_bytes = 400;
    lost.spool.retained_from = 300;
    assert!(matches!(
        lost.check_update(&recorded),
        Err(ManifestError::Backward { field: "spool.total_bytes" })
    ));
    lost.storage_degraded = true;
    lost.check_update(&recorded).unwrap();
    let mut later = lost.clone();
    later.spool.total_bytes = 350;
    assert!(later.check_update(&lost).is_err(), "once, when it is found");
}

fn invalid(change: impl FnOnce(&mut Manifest), field: &str) {
    let mut manifest = sample(State::Exited);
    change(&mut manifest);
    match manifest.check() {
        Err(ManifestError::Invalid { field: at_fault, .. }) => assert_eq!(at_fault, field),
        Err(ManifestError::End(_)) => assert_eq!(field, "end"),
        other => panic!("{field}: {other:?}"),
    }
    assert!(manifest.to_json().is_err(), "what is invalid is not written");
}

#[test]
fn a_manifest_that_contradicts_itself_is_refused_by_field() {
    invalid(|m| m.version = 0, "version");
    invalid(|m| m.command.line = None, "command");
    invalid(|m| m.command.argv = Some(vec!["ls".to_owned()]), "command");
    invalid(|m| (m.command.line, m.command.argv) = (None, Some(Vec::new())), "command");
    invalid(|m| m.command.line = Some("x".repeat(40_000)), "command");
    invalid(|m| m.command.workdir = String::new(), "workdir");
    invalid(|m| m.command.workdir = "/x".repeat(3000), "workdir");
    invalid(|m| m.command.label = Some("x".repeat(2000)), "label");
    invalid(|m| m.tier = "x".repeat(300), "tier");
    invalid(|m| m.terminal = Some(TerminalRecord { rows: 0, cols: 80 }), "terminal");
    invalid(|m| m.started_at = None, "started_at");
    invalid(|m| m.finished_at = None, "finished_at");
    invalid(|m| m.outcome = None, "outcome");
    invalid(|m| m.outcome.as_mut().unwrap().exit_code = None, "end");
    invalid(|m| m.outcome.as_mut().unwrap().reason = Reason::Killed, "end");
    invalid(|m| m.outcome.as_mut().unwrap().diagnostic = Some("why".to_owned()), "end");
    invalid(|m| m.outcome.as_mut().unwrap().diagnostic = Some("x".repeat(513)), "outcome");
    invalid(|m| m.spool.retained_from = u64::MAX, "spool");
    invalid(|m| m.transfers[1].from = owner(9), "transfers");
    invalid(|m| m.identity.owner = owner(9), "transfers");
    invalid(
        |m| {
            m.transfers[0].from =
                Owner { session: SessionId::from_random([9; 16]), loop_id: LoopId::from_random([9; 16]) }
        },
        "transfers",
    );
    invalid(
        |m| {
            let stays = m.identity.owner;
            m.transfers.resize(TRANSFERS_MAX + 1, Transfer { from: stays, to: stays, at: at(8) });
        },
        "transfers",
    );
    for state in [State::Starting, State::Running] {
        let mut early = sample(state);
        early.published.completion = true;
        assert!(matches!(early.check(), Err(ManifestError::Invalid { field: "published", .. })), "{state}");
        let mut early = sample(state);
        early.finished_at = Some(at(9));
        assert!(matches!(early.check(), Err(ManifestError::Invalid { field: "finished_at", .. })), "{state}");
    }
}

#[test]
fn a_clock_that_was_set_back_is_no_contradiction() {
    let mut manifest = sample(State::Exited);
    (manifest.created_at, manifest.started_at, manifest.finished_at) = (at(100), Some(at(50)), Some(at(1)));
    manifest.check().unwrap();
}

#[test]
fn a_long_command_and_many_paths_are_cut_to_what_a_manifest_holds() {
    let line = "é".repeat(1 << 20);
    let argv: Vec<String> = (0..100_000).map(|n| format!("argument {n}")).collect();
    let empty = vec![String::new(); 100_000];
    for command in [
        CommandRecord::line(&line, &line).labelled(&line),
        CommandRecord::argv(&argv, "/"),
        CommandRecord::argv(&empty, "/"),
    ] {
        assert!(command.truncated);
        let paths = argv.iter().map(Into::into).collect();
        let access = AccessRecord::from(&procyard_core::WorkspaceAccess::ScopedWrite { paths });
        let mut manifest = admitted(1);
        (manifest.command, manifest.access) = (command, access);
        Manifest::from_json(&manifest.to_json().unwrap()).unwrap();
    }
    assert!(!CommandRecord::argv(&["ls", "-l"], "/").truncated);
}

#[test]
fn the_longest_manifest_of_the_worst_characters_fits_its_file() {
    let worst = "\u{1}".repeat(1 << 20);
    let mut manifest = admitted(1);
    manifest.command = CommandRecord::line(&worst, &worst).labelled(&worst);
    manifest.access =
        (&procyard_core::WorkspaceAccess::ScopedWrite { paths: vec![worst.clone().into()] }).into();
    for turn in 0..TRANSFERS_MAX {
        manifest.transfer(owner(if turn % 2 == 0 { 2 } else { 1 }), at(7));
    }
    manifest.set_teardown(&worst);
    manifest.finish(State::Failed, Outcome::diagnosed(Reason::Failed, &worst), at(9));
    Manifest::from_json(&manifest.to_json().unwrap()).unwrap();
}

#[test]
fn a_terminal_manifest_announces_its_end_with_its_stable_id() {
    for state in State::ALL {
        let manifest = sample(state);
        let Some(event) = manifest.completion_event() else {
            assert!(!state.is_terminal(), "{state}");
            continue;
        };
        event.check().unwrap();
        let id = if state == State::LostOnRestore { manifest.ids.lost } else { manifest.ids.completed };
        assert_eq!((event.id, event.state), (id, state));
    }
}
