//! The life of one process: how it starts, ends, and what is recorded and announced.

use std::time::Duration;

use crate::common::{Yard, code, on_terminal, options, with_stdin};
use procyard_core::{ErrorCode, EventKind, LeftoverAction, Leftovers, Limits, Reason, State, StopKind};
use procyard_runner::Signal;
use procyard_supervisor::{InputRequest, LeftoverPolicy, NoticeKind, StartOptions, StdinStatus};
use procyard_testkit::{DEADLINE, Leftover, Reaction, Script, SignalFault, StartFault};

const GRACE: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn a_process_that_exits_has_its_code_its_output_and_its_events() {
    let yard = Yard::new(Script::new().stdout("out\n").stderr("err\n").exit(3)).await;
    let handle = yard.start(options()).await;
    let end = yard.end(handle).await;
    assert_eq!(end.state, State::Exited);
    let outcome = end.outcome.unwrap();
    assert_eq!((outcome.exit_code, outcome.reason, outcome.leftovers), (Some(3), Reason::Exited, None));
    assert_eq!(end.total_bytes, 8);
    let text = yard.text(handle).await;
    assert!(text == "out\nerr\n" || text == "err\nout\n", "{text}");
    assert_eq!(
        yard.events(handle, 2).await,
        [(EventKind::Started, State::Running), (EventKind::Completed, State::Exited)]
    );
}

#[tokio::test(start_paused = true)]
async fn an_exit_is_seen_at_once_and_not_on_a_tick() {
    let yard = Yard::new(Script::new().pause(Duration::from_millis(10)).exit(0)).await;
    let handle = yard.start(options()).await;
    let began = tokio::time::Instant::now();
    yard.end(handle).await;
    assert!(began.elapsed() < Duration::from_millis(20), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_nobody_here_sent_is_a_failure_with_its_name() {
    let yard = Yard::new(Script::new().die_of(11)).await;
    let handle = yard.start(options()).await;
    let end = yard.end(handle).await;
    assert_eq!(end.state, State::Failed);
    let outcome = end.outcome.unwrap();
    assert_eq!((outcome.exit_code, outcome.signal.unwrap().name()), (None, "SIGSEGV".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_status_is_a_failure_that_says_so() {
    let yard = Yard::new(Script::new().lose_status()).await;
    let handle = yard.start(options()).await;
    let end = yard.end(handle).await;
    assert_eq!(end.state, State::Failed);
    assert_eq!(end.outcome.unwrap().diagnostic.as_deref(), Some("supervision_lost"));
}

#[tokio::test(start_paused = true)]
async fn a_terminate_is_terminated_whatever_code_the_leader_chose() {
    let yard = Yard::new(Script::new().on_terminate(Reaction::Exit(0))).await;
    let handle = yard.background().await;
    let end = yard.stop(handle, StopKind::Terminate, GRACE).await.unwrap();
    assert_eq!((end.state, end.outcome.unwrap().exit_code), (State::Terminated, None));
    assert_eq!(yard.runner.last().unwrap().signals(), [Signal::Terminate]);
    assert_eq!(
        yard.events(handle, 3).await,
        [
            (EventKind::Backgrounded, State::Running),
            (EventKind::StopRequested, State::Running),
            (EventKind::Completed, State::Terminated)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminate_that_is_ignored_escalates_after_its_grace() {
    let yard = Yard::new(Script::new().on_terminate(Reaction::Ignore)).await;
    let handle = yard.background().await;
    let began = tokio::time::Instant::now();
    let end = yard.stop(handle, StopKind::Terminate, GRACE).await.unwrap();
    assert_eq!(end.state, State::Killed);
    assert!(end.outcome.unwrap().escalated);
    assert!(began.elapsed() >= GRACE && began.elapsed() < GRACE * 2, "{:?}", began.elapsed());
    assert_eq!(yard.runner.last().unwrap().signals(), [Signal::Terminate, Signal::Kill]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_went_on_sigterm_is_terminated_though_a_descendant_needed_the_kill() {
    let stubborn = Leftover { count: 2, on_terminate: Reaction::Ignore, end_after: None, hold_output: false };
    let yard = Yard::new(Script::new().leaves(stubborn)).await;
    let handle = yard.background().await;
    let end = yard.stop(handle, StopKind::Terminate, GRACE).await.unwrap();
    let outcome = end.outcome.unwrap();
    assert_eq!((end.state, outcome.escalated), (State::Terminated, true));
}

#[tokio::test(start_paused = true)]
async fn a_kill_is_not_an_escalation() {
    let yard = Yard::new(Script::new().on_terminate(Reaction::Ignore)).await;
    let handle = yard.background().await;
    let end = yard.stop(handle, StopKind::Kill, GRACE).await.unwrap();
    assert_eq!((end.state, end.outcome.unwrap().escalated), (State::Killed, false));
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_owns_the_exit_within_its_grace_and_never_escalates() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    let end = yard.stop(handle, StopKind::Interrupt, GRACE).await.unwrap();
    assert_eq!(end.state, State::Interrupted);

    let yard = Yard::new(Script::new().on_interrupt(Reaction::Ignore)).await;
    let handle = yard.background().await;
    let still = yard.stop(handle, StopKind::Interrupt, GRACE).await.unwrap();
    assert_eq!(still.state, State::Running);
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(yard.runner.last().unwrap().signals(), [Signal::Interrupt]);
    yard.runner.last().unwrap().exit(0).await;
    assert_eq!(yard.end(handle).await.state, State::Exited, "the grace has lapsed");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_stop_gives_the_result_and_sends_nothing() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    yard.stop(handle, StopKind::Terminate, GRACE).await.unwrap();
    let again = yard.stop(handle, StopKind::Kill, GRACE).await.unwrap();
    assert_eq!(again.state, State::Terminated);
    assert_eq!(yard.runner.last().unwrap().signals(), [Signal::Terminate]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_goes_on_when_its_caller_goes_away() {
    let yard = Yard::new(Script::new().on_terminate(Reaction::Ignore)).await;
    let handle = yard.background().await;
    let stop = yard.stop(handle, StopKind::Terminate, GRACE);
    assert!(tokio::time::timeout(GRACE / 2, stop).await.is_err());
    assert_eq!(yard.end(handle).await.state, State::Killed);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_timed_out_and_keeps_the_output() {
    let yard = Yard::new(Script::new().stdout("partial\n").on_terminate(Reaction::Ignore)).await;
    let limit = Duration::from_secs(30);
    let began = tokio::time::Instant::now();
    let handle = yard.start(StartOptions { deadline: Some(limit), ..options() }).await;
    let end = yard.end(handle).await;
    assert_eq!(end.state, State::TimedOut);
    assert_eq!(yard.text(handle).await, "partial\n");
    let grace = Limits::default().graceful_shutdown;
    assert!(began.elapsed() < limit + grace + Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_descendants_that_hold_the_output_too() {
    let deaf = Leftover { count: 2, on_terminate: Reaction::Ignore, end_after: None, hold_output: true };
    for on_terminate in [Reaction::Die, Reaction::Ignore] {
        let script = Script::new().stdout("partial\n").on_terminate(on_terminate).leaves(deaf).accompanied();
        let yard = Yard::new(script).await;
        let limit = Duration::from_secs(30);
        let began = tokio::time::Instant::now();
        let handle = yard.start(StartOptions { deadline: Some(limit), ..options() }).await;
        let end = yard.end(handle).await;
        assert_eq!(end.state, State::TimedOut);
        assert_eq!(yard.text(handle).await, "partial\n");
        assert_eq!(yard.runner.last().unwrap().survivors(), 0);
        let grace = Limits::default().graceful_shutdown;
        assert!(began.elapsed() < limit + grace + Duration::from_secs(1), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_lifts_the_default_deadline() {
    let yard = Yard::new(Script::new()).await;
    let limit = Duration::from_secs(30);
    let handle = yard.start(StartOptions { deadline: Some(limit), ..options() }).await;
    yard.supervisor.hand_over(yard.owner, &handle, true).await.unwrap();
    tokio::time::sleep(limit * 2).await;
    assert_eq!(yard.state(handle), State::Running);
    assert_eq!(yard.supervisor.snapshot(yard.owner, &handle).unwrap().deadline, None);
}

#[tokio::test(start_paused = true)]
async fn leftovers_are_counted_and_ended() {
    let noisy = Leftover { count: 3, on_terminate: Reaction::Ignore, end_after: None, hold_output: true };
    let yard = Yard::new(Script::new().stdout("hi\n").exit(0).leaves(noisy)).await;
    let began = tokio::time::Instant::now();
    let handle = yard.start(options()).await;
    let end = yard.end(handle).await;
    let outcome = end.outcome.unwrap();
    assert_eq!((end.state, outcome.exit_code), (State::Exited, Some(0)));
    assert_eq!(outcome.leftovers, Some(Leftovers { count: 3, action: LeftoverAction::Killed }));
    assert_eq!(yard.runner.last().unwrap().signals(), [Signal::Terminate, Signal::Kill]);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn leftovers_that_end_while_output_settles_are_none() {
    let tee = Leftover {
        count: 1,
        on_terminate: Reaction::Die,
        end_after: Some(Duration::from_millis(50)),
        hold_output: true,
    };
    let yard = Yard::new(Script::new().stdout("logged\n").exit(0).leaves(tee)).await;
    let handle = yard.start(options()).await;
    assert_eq!(yard.end(handle).await.outcome.unwrap().leftovers, None);
    assert!(yard.runner.last().unwrap().signals().is_empty());
}

#[tokio::test(start_paused = true)]
async fn leftovers_can_be_waited_for() {
    let slow = Leftover {
        count: 1,
        on_terminate: Reaction::Die,
        end_after: Some(Duration::from_secs(100)),
        hold_output: true,
    };
    let yard = Yard::new(Script::new().exit(5).leaves(slow)).await;
    let handle = yard.start(StartOptions { leftovers: LeftoverPolicy::Wait, ..options() }).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(yard.state(handle), State::Running);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let end = yard.end(handle).await;
    let outcome = end.outcome.unwrap();
    assert_eq!((end.state, outcome.exit_code), (State::Exited, Some(5)));
    assert_eq!(outcome.leftovers, Some(Leftovers { count: 1, action: LeftoverAction::Waited }));
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_leftovers_are_waited_for_decides_the_state() {
    let left = Leftover { count: 1, on_terminate: Reaction::Die, end_after: None, hold_output: true };
    let yard = Yard::new(Script::new().exit(0).leaves(left)).await;
    let handle = yard.start(StartOptions { leftovers: LeftoverPolicy::Wait, ..options() }).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let end = yard.stop(handle, StopKind::Terminate, GRACE).await.unwrap();
    assert_eq!(end.state, State::Terminated);
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_cannot_be_proven_empty_is_not_reported_as_stopped() {
    let yard =
        Yard::with_limits(Script::new().unprovable(), Limits { running_per_loop: 1, ..Limits::default() })
            .await;
    let handle = yard.background().await;
    assert_eq!(code(yard.stop(handle, StopKind::Kill, GRACE).await), ErrorCode::TeardownFailed);
    let snapshot = yard.supervisor.snapshot(yard.owner, &handle).unwrap();
    assert_eq!((snapshot.state, snapshot.teardown_failed), (State::Running, true));
    assert_eq!(code(yard.try_start(options()).await), ErrorCode::ProcessQuotaExceeded, "its slot is kept");
    yard.runner.last().unwrap().prove();
    assert_eq!(yard.end(handle).await.state, State::Killed, "the proof was retried");
}

#[tokio::test(start_paused = true)]
async fn a_runner_whose_signals_fail_does_not_hang_the_deadline() {
    let yard = Yard::new(Script::new().signal_fault(SignalFault::Fail)).await;
    let handle = yard.start(StartOptions { deadline: Some(Duration::from_secs(1)), ..options() }).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(yard.state(handle), State::Running, "nothing is reported as stopped that is not");
    yard.runner.last().unwrap().exit(0).await;
    assert_eq!(yard.end(handle).await.state, State::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_missing_is_spawn_failed_and_leaves_a_failed_record() {
    let yard = Yard::new(Script::new().start_fault(StartFault::NotFound)).await;
    assert_eq!(code(yard.try_start(options()).await), ErrorCode::SpawnFailed);
    let list = yard.supervisor.list(yard.owner);
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].state, State::Failed);
    assert!(yard.files().iter().all(|name| !name.contains(".spool")), "{:?}", yard.files());
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_panics_is_a_failed_setup() {
    let yard = Yard::with_limits(
        Script::new().start_fault(StartFault::Panic),
        Limits { running_per_loop: 1, ..Limits::default() },
    )
    .await;
    assert_eq!(code(yard.try_start(options()).await), ErrorCode::ProcessSetupFailed);
    yard.runner.then(Script::new().exit(0));
    assert_eq!(code(yard.try_start(options()).await), ErrorCode::ProcessSetupFailed);
    let handle = yard.start(options()).await;
    assert_eq!(yard.end(handle).await.state, State::Exited, "the slot came back");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_start_leaves_no_process_and_no_starting_record() {
    let yard = Yard::with_limits(
        Script::new().start_fault(StartFault::Hang),
        Limits { running_per_loop: 1, ..Limits::default() },
    )
    .await;
    assert!(tokio::time::timeout(Duration::from_secs(1), yard.try_start(options())).await.is_err());
    let ended = async {
        while yard.supervisor.list(yard.owner).iter().any(|process| !process.state.is_terminal()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(DEADLINE, ended).await.expect("the start was undone");
    assert_eq!(yard.supervisor.list(yard.owner)[0].state, State::Failed);
    yard.runner.then(Script::new().exit(0));
    assert!(tokio::time::timeout(Duration::from_secs(1), yard.try_start(options())).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let handle = yard.start(options()).await;
    assert_eq!(yard.end(handle).await.state, State::Exited, "the slot came back");
}

#[tokio::test(start_paused = true)]
async fn input_is_written_in_order_and_ended() {
    let yard = Yard::new(Script::new().echo_input().exit(0)).await;
    let handle = yard.start(with_stdin()).await;
    for word in ["one ", "two ", "three"] {
        let data = word.as_bytes().to_vec();
        let accepted = yard
            .supervisor
            .input(yard.owner, &handle, InputRequest { data, ..InputRequest::default() })
            .await
            .unwrap();
        assert_eq!(accepted.accepted_bytes, word.len() as u64);
    }
    let eof = InputRequest { eof: true, ..InputRequest::default() };
    yard.supervisor.input(yard.owner, &handle, eof.clone()).await.unwrap();
    yard.supervisor.input(yard.owner, &handle, eof.clone()).await.expect("end of file is idempotent");
    assert_eq!(yard.end(handle).await.state, State::Exited);
    assert_eq!(yard.text(handle).await, "one two three");
    let late = yard.supervisor.input(yard.owner, &handle, eof).await.unwrap_err();
    assert_eq!(late.code(), ErrorCode::StdinClosed);
    assert!(late.public().message.contains("exited"), "{}", late.public().message);
}

#[tokio::test(start_paused = true)]
async fn input_is_accepted_whole_or_refused_whole() {
    let limits = Limits { pending_input_bytes: 200_000, ..Limits::default() };
    let yard = Yard::with_limits(Script::new(), limits).await;
    let handle = yard.start(with_stdin()).await;
    let write = |bytes: usize| {
        let request = InputRequest { data: vec![b'x'; bytes], ..InputRequest::default() };
        yard.supervisor.input(yard.owner, &handle, request)
    };
    write(150_000).await.unwrap();
    let refused = write(150_000).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InputBackpressure);
    assert!(refused.public().message.contains("nothing of this write"), "{}", refused.public().message);
    let stopped = yard.stop(handle, StopKind::Kill, GRACE).await.unwrap();
    assert!(stopped.outcome.unwrap().unread_input > 0, "what was never taken is counted");
}

#[tokio::test(start_paused = true)]
async fn input_without_stdin_says_how_to_get_one() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.background().await;
    let request = InputRequest { data: b"x".to_vec(), ..InputRequest::default() };
    let refused = yard.supervisor.input(yard.owner, &handle, request).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::StdinClosed);
    assert!(refused.public().message.contains("stdin: true"));
    let size = procyard_runner::TerminalSize { rows: 2, cols: 2 };
    let request = InputRequest { size: Some(size), ..InputRequest::default() };
    let refused = yard.supervisor.input(yard.owner, &handle, request).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PtyUnavailable);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_typed_into_a_terminal_owns_the_exit_until_more_is_typed() {
    for (then, state) in [(&b""[..], State::Interrupted), (b"more", State::Exited)] {
        let yard = Yard::new(Script::new()).await;
        let handle = yard.start(on_terminal()).await;
        for data in [&[0x03][..], then].into_iter().filter(|data| !data.is_empty()) {
            let request = InputRequest { data: data.to_vec(), ..InputRequest::default() };
            yard.supervisor.input(yard.owner, &handle, request).await.unwrap();
        }
        yard.runner.last().unwrap().exit(0).await;
        assert_eq!(yard.end(handle).await.state, state);
    }
}

#[tokio::test(start_paused = true)]
async fn an_exit_long_after_a_typed_interrupt_is_its_own() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(on_terminal()).await;
    let request = InputRequest { data: vec![0x03], ..InputRequest::default() };
    yard.supervisor.input(yard.owner, &handle, request).await.unwrap();
    tokio::time::sleep(Limits::default().graceful_shutdown + Duration::from_secs(1)).await;
    yard.runner.last().unwrap().exit(4).await;
    let end = yard.end(handle).await;
    assert_eq!((end.state, end.outcome.unwrap().exit_code), (State::Exited, Some(4)));
}

#[tokio::test(start_paused = true)]
async fn the_status_of_stdin_follows_the_process() {
    let yard = Yard::new(Script::new().echo_input()).await;
    let handle = yard.start(with_stdin()).await;
    let status = || yard.supervisor.snapshot(yard.owner, &handle).unwrap().stdin;
    assert_eq!(status(), StdinStatus::Open);
    yard.supervisor
        .input(yard.owner, &handle, InputRequest { eof: true, ..InputRequest::default() })
        .await
        .unwrap();
    assert_eq!(status(), StdinStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_stall_is_told_once_for_each_silence() {
    let yard = Yard::new(Script::new()).await;
    let window = Duration::from_secs(5);
    let handle = yard.start(StartOptions { background: true, stall_window: Some(window), ..options() }).await;
    let told = || {
        let notices = yard.journal.notices();
        notices.iter().filter(|(_, notice)| matches!(notice.kind, NoticeKind::Stalled { .. })).count()
    };
    tokio::time::sleep(window * 4).await;
    assert_eq!(told(), 1);
    yard.runner.last().unwrap().stdout("alive\n").await;
    yard.output_to(handle, 6).await;
    tokio::time::sleep(window * 4).await;
    assert_eq!(told(), 2);
    assert_eq!(yard.state(handle), State::Running, "a stall kills nothing");
}

#[tokio::test(start_paused = true)]
async fn a_failing_publisher_delays_nobody_and_loses_nothing() {
    let yard = Yard::new(Script::new().exit(0)).await;
    yard.journal.fail_events(5);
    let handle = yard.start(options()).await;
    let began = tokio::time::Instant::now();
    yard.end(handle).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(
        yard.events(handle, 2).await,
        [(EventKind::Started, State::Running), (EventKind::Completed, State::Exited)]
    );
}

#[tokio::test(start_paused = true)]
async fn input_that_a_terminal_would_cut_is_refused_and_the_terminal_goes_on() {
    let yard = Yard::new(Script::new().longest_line(10)).await;
    let handle = yard.start(on_terminal()).await;
    let typed = |data: &str| {
        let request = InputRequest { data: data.as_bytes().to_vec(), ..InputRequest::default() };
        yard.supervisor.input(yard.owner, &handle, request)
    };
    let refused = typed("a line that is too long").await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.public().field.as_deref()),
        (ErrorCode::InvalidArguments, Some("data"))
    );
    assert_eq!(typed("short\n").await.unwrap().pending_bytes, 6, "nothing of the refused line is pending");
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_panics_is_asked_again() {
    let yard = Yard::new(Script::new().exit(0)).await;
    yard.journal.panic_at_events(2);
    let handle = yard.background().await;
    yard.end(handle).await;
    let events = yard.events(handle, 2).await;
    assert_eq!(events, [(EventKind::Backgrounded, State::Running), (EventKind::Completed, State::Exited)]);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_room_learns_that_a_process_never_came_up() {
    let limits = Limits { pending_input_bytes: 1000, ..Limits::default() };
    let script = Script::new().start_fault(StartFault::Slow(Duration::from_secs(3)));
    let yard = Yard::with_limits(script, limits).await;
    let wait = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let handle = yard.supervisor.list(yard.owner)[0].identity.handle;
        let request = InputRequest { data: vec![0; 900], ..InputRequest::default() };
        yard.supervisor.input(yard.owner, &handle, request).await.unwrap();
        let room = yard.supervisor.input_room(yard.owner, &handle);
        let (room, stopped) = tokio::join!(room, yard.stop(handle, StopKind::Kill, GRACE));
        assert_eq!((code(room), stopped.unwrap().state), (ErrorCode::StdinClosed, State::Killed));
    };
    let waited = async { tokio::time::timeout(DEADLINE, wait).await.expect("nobody waits for ever") };
    let (started, ()) = tokio::join!(yard.try_start(with_stdin()), waited);
    assert!(started.is_err());
}
