//! Giving the processes of one loop to another: at one instant, whole or not at all, with everything that belongs to them.

use std::time::Duration;

use crate::common::{Yard, code, eventually, full_disk, options, owner, read_from, target, with_stdin};
use procyard_core::{ErrorCode, Limits, StopKind};
use procyard_supervisor::{
    CommandRecord, IdempotencyRecord, InputRequest, StartOptions, StopRequest, Until, WaitMode,
};
use procyard_testkit::{DEADLINE, Faults, Reaction, Script};

fn keyed(key: &str) -> StartOptions {
    let record = IdempotencyRecord { key: key.to_owned(), digest: "digest".to_owned() };
    StartOptions {
        command: CommandRecord { idempotency: Some(record), ..CommandRecord::line("play", "/") },
        ..options()
    }
}

#[tokio::test(start_paused = true)]
async fn the_new_owner_has_everything_and_the_old_one_nothing() {
    let yard = Yard::new(Script::new().stdout("out")).await;
    let running = yard.start(options()).await;
    yard.output_to(running, 3).await;
    let ended = yard.start(options()).await;
    yard.runner.last().unwrap().exit(0).await;
    yard.end(ended).await;

    let report = yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    assert_eq!((report.moved, report.unsaved), (vec![running, ended], Vec::new()));

    let supervisor = &yard.supervisor;
    assert!(supervisor.list(owner(1)).is_empty());
    for handle in [running, ended] {
        assert_eq!(code(supervisor.snapshot(owner(1), &handle)), ErrorCode::NotFound);
        assert_eq!(code(supervisor.read(owner(1), &handle, read_from(0)).await), ErrorCode::NotFound);
        let (page, snapshot) = supervisor.read(owner(2), &handle, read_from(0)).await.unwrap();
        assert_eq!((page.bytes.as_slice(), snapshot.identity.owner), (&b"out"[..], owner(2)));
    }
    let stop = StopRequest { kind: StopKind::Kill, grace: None };
    assert_eq!(code(supervisor.stop(owner(1), &running, stop).await), ErrorCode::NotFound);
    assert!(supervisor.stop(owner(2), &running, stop).await.unwrap().state.is_terminal());
}

#[tokio::test(start_paused = true)]
async fn callers_that_wait_learn_that_it_is_not_there_any_more() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(options()).await;
    let mut calls = tokio::task::JoinSet::new();
    for until in [Until::Exit, Until::Probe] {
        let supervisor = yard.supervisor.clone();
        calls.spawn(async move {
            let targets = vec![target(handle, 0)];
            let waited = supervisor.wait(owner(1), WaitMode::All, until, targets, DEADLINE).await.unwrap();
            assert!(waited[0].satisfied && waited[0].snapshot.is_none());
        });
    }
    let supervisor = yard.supervisor.clone();
    calls.spawn(async move {
        let quiet = supervisor.quiet(owner(1), &handle, DEADLINE, DEADLINE).await;
        assert_eq!(code(quiet), ErrorCode::NotFound);
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let before = tokio::time::Instant::now();
    yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    assert!(before.elapsed() < Duration::from_secs(1), "they were woken, not left to their time limits");
}

#[tokio::test(start_paused = true)]
async fn a_loop_without_room_takes_nothing() {
    let limits = Limits { running_per_loop: 2, ..Limits::default() };
    let yard = Yard::with_limits(Script::new(), limits).await;
    let mine = [yard.start(options()).await, yard.start(options()).await];
    let theirs = yard.try_start_as(owner(2), options()).await.unwrap();
    let refused = yard.supervisor.transfer(owner(1), owner(2)).await;
    assert_eq!(code(refused), ErrorCode::ProcessQuotaExceeded);
    assert_eq!(yard.supervisor.list(owner(1)).len(), 2);
    // The slots are where they were: this loop is full, the other one is not.
    assert_eq!(code(yard.try_start(options()).await), ErrorCode::ProcessQuotaExceeded);
    yard.try_start_as(owner(2), options()).await.unwrap();

    let moved = yard.supervisor.transfer(owner(1), owner(3)).await.unwrap().moved;
    assert_eq!(moved, mine);
    assert_eq!(code(yard.try_start_as(owner(3), options()).await), ErrorCode::ProcessQuotaExceeded);
    yard.start(options()).await;
    assert!(yard.supervisor.snapshot(owner(2), &theirs).is_ok());
}

#[tokio::test(start_paused = true)]
async fn notices_and_keys_follow_and_survive_a_restart_with_the_trail() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let handle = yard.start(StartOptions { background: true, ..keyed("once") }).await;
    yard.end(handle).await;
    eventually("the notice is pushed", || yard.journal.noticed() == [handle]).await;
    yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    eventually("the notifier learns of the move", || yard.journal.moves() == [(handle, owner(1), owner(2))])
        .await;
    assert!(!yard.supervisor.has_pending(owner(1)));
    assert_eq!(yard.supervisor.notices(owner(2))[0].handle, handle);
    let key = |yard: &Yard, who| {
        let record = IdempotencyRecord { key: "once".to_owned(), digest: "digest".to_owned() };
        yard.supervisor.find_idempotent(who, &record).unwrap()
    };
    assert_eq!((key(&yard, owner(1)), key(&yard, owner(2))), (None, Some(handle)));

    let next = yard.restarted().await;
    assert!(next.supervisor.list(owner(1)).is_empty());
    assert_eq!(next.supervisor.notices(owner(2))[0].handle, handle);
    assert_eq!((key(&next, owner(1)), key(&next, owner(2))), (None, Some(handle)));
    // A notice may have been left with the old owner.
    eventually("the notifier is told again", || next.journal.moves() == [(handle, owner(1), owner(2))]).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_the_other_loop_uses_stays_with_its_own_process() {
    let yard = Yard::new(Script::new()).await;
    let mine = yard.start(keyed("same")).await;
    let theirs = yard.try_start_as(owner(2), keyed("same")).await.unwrap();
    assert_ne!(mine, theirs);
    yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    assert_eq!(yard.try_start_as(owner(2), keyed("same")).await.unwrap(), theirs);
    assert_ne!(yard.start(keyed("same")).await, mine);
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_the_disk_refuses_stands_and_is_recorded_later() {
    let faults = Faults::none();
    let yard = Yard::brittle(Script::new(), &faults).await;
    let handle = yard.start(options()).await;
    faults.fail(full_disk());
    let report = yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    assert_eq!((report.moved, report.unsaved), (vec![handle], vec![handle]));
    assert_eq!(code(yard.supervisor.snapshot(owner(1), &handle)), ErrorCode::NotFound);
    faults.heal();
    let path = yard.place.path().join(procyard_manifest::manifest_name(&handle));
    eventually("the trail is on disk", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.contains("\"transfers\""))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_of_before_neither_stops_nor_writes_to_what_was_given_away() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(crate::common::with_stdin()).await;
    let attendance = yard.supervisor.attend(owner(1), handle);
    yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    drop(attendance);
    let request = InputRequest { data: b"in".to_vec(), ..InputRequest::default() };
    assert_eq!(code(yard.supervisor.input(owner(1), &handle, request).await), ErrorCode::NotFound);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let snapshot = yard.supervisor.snapshot(owner(2), &handle).unwrap();
    assert!(!snapshot.state.is_terminal() && snapshot.pending_input == 0);
}

#[tokio::test(start_paused = true)]
async fn another_session_and_a_closed_loop_take_nothing() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(options()).await;
    let mut elsewhere = owner(2);
    elsewhere.session = procyard_core::SessionId::from_random([8; 16]);
    assert_eq!(code(yard.supervisor.transfer(owner(1), elsewhere).await), ErrorCode::InvalidArguments);
    yard.supervisor.close_loop(owner(2)).await.unwrap();
    let refused = yard.supervisor.transfer(owner(1), owner(2)).await;
    assert_eq!(code(refused), ErrorCode::SupervisorShuttingDown);
    assert!(yard.supervisor.snapshot(owner(1), &handle).is_ok());
    assert!(yard.supervisor.transfer(owner(1), owner(1)).await.unwrap().moved.is_empty());
}

#[tokio::test(start_paused = true)]
async fn notices_of_evicted_processes_follow_and_those_of_other_loops_stay() {
    let limits = Limits { retained_per_session: 1, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().exit(0), limits).await;
    let mut told = Vec::new();
    for of in [1, 3, 4] {
        let background = StartOptions { background: true, ..options() };
        told.push(yard.try_start_as(owner(of), background).await.unwrap());
        eventually("it has ended", || yard.supervisor.has_pending(owner(of))).await;
    }
    let handles =
        |of| -> Vec<_> { yard.supervisor.notices(owner(of)).iter().map(|notice| notice.handle).collect() };
    eventually("two are evicted", || yard.supervisor.list(owner(3)).is_empty()).await;
    yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    assert_eq!([handles(1), handles(2), handles(3)], [vec![], vec![told[0]], vec![told[1]]]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_and_a_wait_for_room_learn_at_once_that_it_was_given_away() {
    let limits = Limits { pending_input_bytes: 80_000, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().on_terminate(Reaction::Ignore), limits).await;
    let handle = yard.start(with_stdin()).await;
    for _ in 0..2 {
        let request = InputRequest { data: vec![0; 60_000], ..InputRequest::default() };
        yard.supervisor.input(owner(1), &handle, request).await.unwrap();
        // The pipe takes what it holds.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = tokio::time::Instant::now();
    let (stopped, room, moved) = tokio::join!(
        yard.stop(handle, StopKind::Terminate, DEADLINE),
        yard.supervisor.input_room(owner(1), &handle),
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            yard.supervisor.transfer(owner(1), owner(2)).await
        }
    );
    assert_eq!(moved.unwrap().moved, [handle]);
    assert_eq!((code(stopped), code(room)), (ErrorCode::NotFound, ErrorCode::NotFound));
    assert!(began.elapsed() < Duration::from_secs(2), "neither waits for the end");
}

#[tokio::test(start_paused = true)]
async fn a_key_names_after_a_restart_what_it_named_before() {
    let yard = Yard::new(Script::new()).await;
    let own = yard.try_start_as(owner(2), keyed("k")).await.unwrap();
    let given = yard.try_start_as(owner(1), keyed("k")).await.unwrap();
    yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    let key = IdempotencyRecord { key: "k".to_owned(), digest: "digest".to_owned() };
    assert_ne!(own, given);
    assert_eq!(yard.supervisor.find_idempotent(owner(2), &key).unwrap(), Some(own));
    let next = yard.restarted().await;
    assert_eq!(next.supervisor.find_idempotent(owner(2), &key).unwrap(), Some(own));
}
