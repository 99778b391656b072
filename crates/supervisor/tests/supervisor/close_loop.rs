//! The end of one loop among others.

use std::time::Duration;

use crate::common::{Yard, code, options, owner, read_from, target};
use procyard_core::{ErrorCode, EventKind, Limits, State, StopKind};
use procyard_supervisor::{InputRequest, LiveEvent, StopRequest, Until, WaitMode};
use procyard_testkit::{DEADLINE, Reaction, Script, StartFault};

#[tokio::test(start_paused = true)]
async fn it_ends_what_the_loop_runs_and_leaves_other_loops_alone() {
    let yard = Yard::new(Script::new().on_terminate(Reaction::Ignore)).await;
    let stubborn = yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    let other = yard.try_start_as(owner(2), options()).await.unwrap();
    assert_eq!(yard.supervisor.close_loop(owner(1)).await.unwrap(), 0);
    assert_eq!(played.survivors(), 0);
    assert_eq!(yard.supervisor.snapshot(owner(2), &other).unwrap().state, State::Running);
    // What it ran can still be given to a loop that is open.
    let moved = yard.supervisor.transfer(owner(1), owner(2)).await.unwrap().moved;
    assert_eq!(moved, [stubborn]);
    assert_eq!(yard.supervisor.snapshot(owner(2), &stubborn).unwrap().state, State::Killed);
}

#[tokio::test(start_paused = true)]
async fn every_further_call_of_it_is_refused_and_says_why() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(options()).await;
    yard.supervisor.close_loop(owner(1)).await.unwrap();
    let supervisor = &yard.supervisor;
    let closed = ErrorCode::SupervisorShuttingDown;
    assert_eq!(code(yard.try_start(options()).await), closed);
    assert_eq!(code(supervisor.snapshot(owner(1), &handle)), closed);
    assert_eq!(code(supervisor.read(owner(1), &handle, read_from(0)).await), closed);
    assert_eq!(code(supervisor.head(owner(1), &handle).await), closed);
    assert_eq!(code(supervisor.input(owner(1), &handle, InputRequest::default()).await), closed);
    let wait = supervisor.wait(owner(1), WaitMode::All, Until::Exit, vec![target(handle, 0)], Duration::ZERO);
    assert_eq!(code(wait.await.map(|waited| waited.len())), closed);
    assert!(code(supervisor.subscribe(owner(1))) == closed && supervisor.list(owner(1)).is_empty());
    let message = supervisor.snapshot(owner(1), &handle).unwrap_err().public().message;
    assert!(message.contains("loop"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_view_shows_the_ends_that_the_closing_made_and_then_ends() {
    let yard = Yard::new(Script::new()).await;
    let mut view = yard.supervisor.subscribe(owner(1)).unwrap();
    yard.start(options()).await;
    let mut shown = Vec::new();
    let (closed, ()) = tokio::join!(yard.supervisor.close_loop(owner(1)), async {
        while let Some(event) = tokio::time::timeout(DEADLINE, view.next()).await.expect("it ends") {
            if let LiveEvent::Lifecycle(event) = event {
                shown.push(event.kind);
            }
        }
    });
    assert_eq!(closed.unwrap(), 0);
    assert_eq!(shown, [EventKind::Started, EventKind::StopRequested, EventKind::Completed]);
}

#[tokio::test(start_paused = true)]
async fn its_view_ends_though_the_journal_takes_nothing() {
    let yard = Yard::new(Script::new()).await;
    yard.journal.fail_events(u32::MAX);
    let mut view = yard.supervisor.subscribe(owner(1)).unwrap();
    yard.start(options()).await;
    let closing = tokio::time::timeout(DEADLINE, yard.supervisor.close_loop(owner(1)));
    assert_eq!(closing.await.expect("a journal delays nobody").unwrap(), 0);
    assert_eq!(tokio::time::timeout(DEADLINE, view.next()).await.expect("it ends"), None);
}

#[tokio::test(start_paused = true)]
async fn a_start_under_way_is_ended_too() {
    let yard = Yard::new(Script::new().start_fault(StartFault::Slow(Duration::from_secs(5)))).await;
    let starting = tokio::spawn({
        let prepared = yard.runner.clone();
        let supervisor = yard.supervisor.clone();
        async move {
            use procyard_runner::{CommandSpec, ProcessRequest, Runner as _};
            let request =
                ProcessRequest::new(CommandSpec::Shell("play".into()), "/", crate::common::origin());
            let prepared = prepared.prepare(request).await.unwrap();
            let lease = procyard_supervisor::Lease::none();
            supervisor.start(owner(1), crate::common::origin(), prepared, lease, options()).await
        }
    });
    crate::common::eventually("it is starting", || !yard.supervisor.list(owner(1)).is_empty()).await;
    assert_eq!(yard.supervisor.close_loop(owner(1)).await.unwrap(), 0);
    assert!(starting.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_does_not_end_is_counted_until_it_has() {
    let yard = Yard::new(Script::new().unprovable()).await;
    yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    assert_eq!(yard.supervisor.close_loop(owner(1)).await.unwrap(), 1);
    played.prove();
    let again = async {
        while yard.supervisor.close_loop(owner(1)).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, again).await.expect("it is zero once the tree has gone");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_cancels_no_stop() {
    let yard = Yard::new(Script::new().on_terminate(Reaction::Ignore)).await;
    yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    let mut view = yard.supervisor.subscribe(owner(1)).unwrap();
    let closing = yard.supervisor.close_loop(owner(1));
    assert!(tokio::time::timeout(Duration::from_millis(1), closing).await.is_err());
    let shown = async { while view.next().await.is_some() {} };
    tokio::time::timeout(DEADLINE, shown).await.expect("its view ends all the same");
    tokio::time::timeout(DEADLINE, played.ended()).await.expect("it is killed after its grace");
}

#[tokio::test(start_paused = true)]
async fn it_is_told_nothing_more_not_even_of_what_was_evicted() {
    let yard =
        Yard::with_limits(Script::new(), Limits { retained_per_session: 1, ..Limits::default() }).await;
    for _ in 0..2 {
        let handle = yard.background().await;
        yard.runner.last().unwrap().exit(0).await;
        yard.end(handle).await;
    }
    assert_eq!(yard.supervisor.notices(yard.owner).len(), 2);
    yard.supervisor.close_loop(yard.owner).await.unwrap();
    assert!(yard.supervisor.notices(yard.owner).is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_hosts_the_session_goes_on_seeing_what_it_has_left() {
    let yard = Yard::new(Script::new().stdout("kept")).await;
    let handle = yard.start(options()).await;
    yard.output_to(handle, 4).await;
    yard.supervisor.close_loop(owner(1)).await.unwrap();
    assert!(yard.supervisor.is_closed(owner(1)) && !yard.supervisor.is_closed(owner(2)));
    let host = yard.supervisor.overseeing();
    assert_eq!(host.snapshot(owner(1), &handle).unwrap().state, State::Terminated);
    assert_eq!(host.list(owner(1)).len(), 1);
    assert_eq!(host.read(owner(1), &handle, read_from(0)).await.unwrap().0.bytes, b"kept");
    assert_eq!(host.head(owner(1), &handle).await.unwrap().0.bytes, b"kept");
    let mut place = host.reserve_wait().unwrap();
    let waited = place.wait(owner(1), WaitMode::All, Until::Exit, vec![target(handle, 0)], DEADLINE).await;
    assert!(waited.unwrap()[0].satisfied);
    place.quiet(owner(1), &handle, DEADLINE, DEADLINE).await.unwrap();
    let kill = StopRequest { kind: StopKind::Kill, grace: None };
    assert_eq!(host.stop(owner(1), &handle, kill).await.unwrap().state, State::Terminated);
    let input = host.input(owner(1), &handle, InputRequest { eof: true, ..InputRequest::default() }).await;
    assert_eq!(code(input), ErrorCode::StdinClosed);
    // It starts nothing for the loop, and lets nobody else see it.
    assert!(yard.try_start(options()).await.is_err());
    assert_eq!(code(host.snapshot(owner(2), &handle)), ErrorCode::NotFound);
    host.remove(owner(1), &handle).await.unwrap();
    assert_eq!(code(host.snapshot(owner(1), &handle)), ErrorCode::NotFound);
}
