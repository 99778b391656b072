//! Input: accepted whole or refused whole, in order, within its limit, and ended as pipes and terminals are.

use std::time::Duration;

use crate::common::{Yard, code, eventually, on_terminal, with_stdin};
use procyard_core::{Effects, ErrorCode, Handle, Limits, State, StopKind};
use procyard_runner::TerminalSize;
use procyard_supervisor::{InputAccepted, InputRequest, StartOptions, StdinClosed, SupervisorError};
use procyard_testkit::strategies::interleavings;
use procyard_testkit::{Reaction, Script, SignalFault};
use proptest::prelude::*;
use tokio::time::Instant;

/// What a pipe of a scripted process holds.
const PIPE: usize = 64 << 10;
/// The pending input that these sessions allow.
const LIMIT: usize = 10 << 10;
/// How long the process of [`full`] reads nothing.
const ASLEEP: Duration = Duration::from_secs(10);

async fn give(yard: &Yard, handle: Handle, data: &[u8], eof: bool) -> Result<InputAccepted, SupervisorError> {
    let request = InputRequest { data: data.to_vec(), eof, ..InputRequest::default() };
    yard.supervisor.input(yard.owner, &handle, request).await
}

fn pending(yard: &Yard, handle: Handle) -> u64 {
    yard.supervisor.snapshot(yard.owner, &handle).unwrap().pending_input
}

/// A process that sleeps, then copies its input, whose pipe is full.
async fn full() -> (Yard, Handle) {
    full_of(with_stdin()).await
}

async fn full_of(options: StartOptions) -> (Yard, Handle) {
    let limits = Limits { pending_input_bytes: LIMIT as u64, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().pause(ASLEEP).echo_input(), limits).await;
    let handle = yard.start(options).await;
    for _ in 0..8 {
        give(&yard, handle, &[b'p'; PIPE / 8], false).await.unwrap();
        eventually("the pipe takes it", || pending(&yard, handle) == 0).await;
    }
    (yard, handle)
}

#[tokio::test(start_paused = true)]
async fn what_is_not_taken_is_counted_and_what_does_not_fit_is_refused_whole() {
    let (yard, handle) = full().await;
    let first = give(&yard, handle, &[b'a'; 6 << 10], false).await.unwrap();
    assert_eq!((first.accepted_bytes, first.pending_bytes), (6 << 10, 6 << 10));
    match give(&yard, handle, &[b'b'; (4 << 10) + 1], false).await.unwrap_err() {
        SupervisorError::Backpressure { pending, free } => assert_eq!((pending, free), (6 << 10, 4 << 10)),
        other => panic!("{other:?}"),
    }
    let second = give(&yard, handle, &[b'c'; 4 << 10], false).await.unwrap();
    assert_eq!(second.pending_bytes, LIMIT as u64, "what fits exactly is taken");
    assert_eq!(code(give(&yard, handle, b"d", false).await), ErrorCode::InputBackpressure);
    assert_eq!(pending(&yard, handle), LIMIT as u64);
    // It wakes up and reads everything; after that there is room again.
    yard.output_to(handle, (PIPE + LIMIT) as u64).await;
    assert_eq!(pending(&yard, handle), 0);
    let whole = [vec![b'p'; PIPE], vec![b'a'; 6 << 10], vec![b'c'; 4 << 10]].concat();
    assert!(yard.text(handle).await.into_bytes() == whole);
}

#[tokio::test(start_paused = true)]
async fn there_is_room_when_half_is_free() {
    let (yard, handle) = full().await;
    let room = || yard.supervisor.input_room(yard.owner, &handle);
    let began = Instant::now();
    assert_eq!(room().await.unwrap(), LIMIT as u64);
    give(&yard, handle, &[b'a'; LIMIT / 2], false).await.unwrap();
    assert_eq!(room().await.unwrap(), LIMIT as u64 / 2);
    assert!(began.elapsed() < ASLEEP / 2);
    give(&yard, handle, b"b", false).await.unwrap();
    let free = room().await.unwrap();
    assert!(free >= LIMIT as u64 / 2 && began.elapsed() > ASLEEP / 2, "{free} after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_room_learns_of_the_end() {
    let (yard, handle) = full().await;
    give(&yard, handle, &[b'a'; LIMIT], false).await.unwrap();
    let began = Instant::now();
    let stop = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        yard.stop(handle, StopKind::Kill, Duration::ZERO).await.unwrap()
    };
    let (room, end) = tokio::join!(yard.supervisor.input_room(yard.owner, &handle), stop);
    assert_eq!(code(room), ErrorCode::StdinClosed);
    assert!(began.elapsed() < ASLEEP / 2);
    assert_eq!(end.outcome.unwrap().unread_input, LIMIT as u64);
    let next = yard.restarted().await;
    let again = next.supervisor.snapshot(next.owner, &handle).unwrap();
    assert_eq!((end.unread_input, again.unread_input), (LIMIT as u64, LIMIT as u64));
}

#[tokio::test(start_paused = true)]
async fn end_of_file_can_be_typed_again_and_again_and_twice_in_the_middle_of_a_line() {
    let yard = Yard::new(Script::new().echo_input()).await;
    let handle = yard.start(on_terminal()).await;
    let mut expected = String::new();
    for (typed, echoed) in [
        ("", "\x04"),
        ("line\n", "line\n\x04"),
        ("half", "half\x04\x04"),
        ("", "\x04"),
        ("return\r", "return\r\x04"),
    ] {
        give(&yard, handle, typed.as_bytes(), true).await.unwrap();
        expected.push_str(echoed);
        yard.output_to(handle, expected.len() as u64).await;
        eventually("nothing is pending", || pending(&yard, handle) == 0).await;
    }
    assert_eq!(yard.text(handle).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_control_character_on_a_pipe_is_a_byte_and_no_interrupt() {
    let yard = Yard::new(Script::new().on_interrupt(Reaction::Ignore)).await;
    let handle = yard.start(with_stdin()).await;
    give(&yard, handle, b"\x03", false).await.unwrap();
    yard.runner.last().unwrap().exit(7).await;
    assert_eq!(yard.end(handle).await.state, State::Exited);
}

#[tokio::test(start_paused = true)]
async fn input_that_is_refused_has_changed_nothing() {
    let yard = Yard::with_limits(Script::new(), Limits { pending_input_bytes: 4, ..Limits::default() }).await;
    let handle = yard.start(on_terminal()).await;
    let size = Some(TerminalSize { rows: 5, cols: 5 });
    let request = InputRequest { size, data: b"too much".to_vec(), eof: false };
    let refused = yard.supervisor.input(yard.owner, &handle, request).await;
    assert_eq!(code(refused), ErrorCode::InputBackpressure);
    assert!(yard.runner.last().unwrap().sizes().is_empty(), "nor has the terminal another size");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_a_terminal_would_cut_is_refused_before_the_terminal_has_another_size() {
    let yard = Yard::new(Script::new().longest_line(10)).await;
    let handle = yard.start(on_terminal()).await;
    let size = Some(TerminalSize { rows: 5, cols: 5 });
    let request = InputRequest { size, data: b"a line that is too long".to_vec(), eof: false };
    let refused = yard.supervisor.input(yard.owner, &handle, request).await.unwrap_err().public();
    assert_eq!((refused.code, refused.effects), (ErrorCode::InvalidArguments, Effects::None));
    assert!(yard.runner.last().unwrap().sizes().is_empty());
    assert_eq!(
        yard.supervisor.snapshot(yard.owner, &handle).unwrap().terminal,
        Some(TerminalSize::default())
    );
}

#[tokio::test(start_paused = true)]
async fn input_that_is_refused_after_its_size_was_applied_says_so() {
    let (yard, handle) = full_of(on_terminal()).await;
    let size = TerminalSize { rows: 5, cols: 5 };
    let data = vec![b'a'; LIMIT / 2 + 1];
    let request = InputRequest { size: Some(size), data: data.clone(), eof: false };
    // The other one comes in between.
    let resized = yard.supervisor.input(yard.owner, &handle, request);
    let (resized, other) = tokio::join!(resized, give(&yard, handle, &data, false));
    other.unwrap();
    let refused = resized.unwrap_err().public();
    assert_eq!((refused.code, refused.effects), (ErrorCode::InputBackpressure, Effects::Started));
    assert!(refused.retryable && refused.message.ends_with("the terminal has its new size"), "{refused}");
    assert_eq!(yard.runner.last().unwrap().sizes(), [size]);
}

#[tokio::test(start_paused = true)]
async fn an_end_of_file_that_finds_no_room_is_refused_before_the_terminal_has_another_size() {
    let yard = Yard::with_limits(Script::new(), Limits { pending_input_bytes: 0, ..Limits::default() }).await;
    let handle = yard.start(on_terminal()).await;
    let size = Some(TerminalSize { rows: 5, cols: 5 });
    let request = InputRequest { size, data: Vec::new(), eof: true };
    assert_eq!(code(yard.supervisor.input(yard.owner, &handle, request).await), ErrorCode::InputBackpressure);
    assert!(yard.runner.last().unwrap().sizes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_end_of_file_there_is_only_end_of_file() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(with_stdin()).await;
    give(&yard, handle, b"last", true).await.unwrap();
    give(&yard, handle, b"", true).await.unwrap();
    for eof in [false, true] {
        let refused = give(&yard, handle, b"more", eof).await.unwrap_err();
        assert!(matches!(refused, SupervisorError::StdinClosed(StdinClosed::Eof)), "{refused:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whoever writes what: each write is whole, and it is read in the order of acceptance.
    #[test]
    fn input_of_several_callers_is_read_in_the_order_in_which_it_was_accepted(
        writes in interleavings(vec![vec!["one", "two"], vec!["a longer line\n"], vec!["x", "y", "z"]]),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let yard = Yard::new(Script::new().echo_input()).await;
            let handle = yard.start(with_stdin()).await;
            let mut expected = String::new();
            for (_, text) in writes {
                give(&yard, handle, text.as_bytes(), false).await.unwrap();
                expected.push_str(text);
            }
            yard.output_to(handle, expected.len() as u64).await;
            assert_eq!(yard.text(handle).await, expected);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_that_was_typed_owns_the_exit_also_when_both_are_seen_at_once() {
    for _ in 0..20 {
        // While a signal is on its way nothing else is seen.
        let slow = SignalFault::Slow(Duration::from_millis(100));
        let yard = Yard::new(Script::new().on_interrupt(Reaction::Ignore).signal_fault(slow)).await;
        let handle = yard.start(on_terminal()).await;
        let typed = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            give(&yard, handle, b"\x03", false).await.unwrap();
            yard.runner.last().unwrap().exit(130).await;
        };
        let signalled = yard.stop(handle, StopKind::Interrupt, Duration::ZERO);
        let (signalled, ()) = tokio::join!(signalled, typed);
        signalled.unwrap();
        assert_eq!(yard.end(handle).await.state, State::Interrupted);
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_of_file_that_is_typed_takes_room_like_any_character() {
    let yard = Yard::with_limits(Script::new(), Limits { pending_input_bytes: 4, ..Limits::default() }).await;
    let handle = yard.start(on_terminal()).await;
    assert_eq!(code(give(&yard, handle, b"1234", true).await), ErrorCode::InputBackpressure);
    assert_eq!(give(&yard, handle, b"123", true).await.unwrap().pending_bytes, 4);
}
