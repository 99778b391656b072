//! Terminals: control, size, line discipline, and pastes that neither deadlock nor lose anything.

use libtest_mimic::Trial;
use procyard_core::WaitStatus;
use procyard_host::HostRunner;
use procyard_runner::{
    CommandSpec, Input, Output, Process, Runner, RunnerErrorKind, Signal, StreamMode, TerminalSize, Tier,
    TreeProof,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::scene::{assert_emptied, on_each_tier, request, runner, start, within};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_each_tier("a_terminal_controls_its_session_and_has_its_size", control));
    trials.extend(on_each_tier("the_interrupt_character_reaches_the_foreground", interrupt));
    trials.extend(on_each_tier("a_resize_is_a_signal_and_after_the_end_no_crash", resize));
    trials.extend(on_each_tier("end_of_file_can_be_typed_again_and_again", end_of_file));
    trials.extend(on_each_tier("a_line_that_would_be_cut_is_refused", long_line));
    trials.extend(on_each_tier("a_large_paste_into_a_program_that_prints_arrives_whole", paste));
    trials.extend(on_each_tier("queries_to_the_terminal_are_answered", query));
    trials.extend(on_each_tier("a_killed_terminal_tree_is_proven_empty", killed));
    trials
}

struct Session {
    process: Box<dyn Process>,
    input: Input,
    output: Output,
    seen: String,
}

impl Session {
    async fn begin(runner: &HostRunner, line: &str) -> Self {
        let mut wanted = request(CommandSpec::Shell(line.to_owned()));
        wanted.terminal = Some(TerminalSize { rows: 30, cols: 100 });
        let mut process = start(runner, wanted).await.unwrap();
        assert_eq!(process.stream_mode(), StreamMode::Terminal);
        assert!(process.take_stderr().is_none());
        let (input, output) = (process.take_stdin().unwrap(), process.take_stdout().unwrap());
        Self { process, input, output, seen: String::new() }
    }

    /// Types what the terminal keeps whole.
    async fn type_in(&mut self, bytes: &[u8]) {
        self.process.admit_input(bytes, false).unwrap();
        within(self.input.write_all(bytes)).await.unwrap();
    }

    /// Reads until this was seen.
    async fn expect(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let mut bytes = [0; 4096];
            let read = within(self.output.read(&mut bytes)).await.unwrap();
            assert!(read > 0, "ended before {text:?}: {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }

    /// Reads to the end.
    async fn rest(mut self) -> (Box<dyn Process>, String) {
        let mut rest = Vec::new();
        within(self.output.read_to_end(&mut rest)).await.unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        (self.process, self.seen)
    }
}

async fn control(tier: Tier) {
    let runner = runner(&tier).await;
    assert!(runner.capabilities().terminals);
    let line = "stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; echo over >/dev/tty; \
                read -r _ _ _ _ group session terminal foreground _ </proc/self/stat; \
                [ $group = $session ] && [ $session = $foreground ] && [ $terminal != 0 ] && echo controls; \
                echo $TERM ${NO_COLOR-colours}; for fd in /proc/self/fd/*; do [ -e $fd ] && echo ${fd##*/}; done; exit 0";
    let (process, seen) = Session::begin(&runner, line).await.rest().await;
    let expected = "30 100\r\nall\r\nover\r\ncontrols\r\nxterm-256color colours\r\n0\r\n1\r\n2\r\n";
    assert!(seen.starts_with(expected), "{seen:?}");
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(0)));
    assert_emptied(&*process).await;
}

async fn interrupt(tier: Tier) {
    let runner = runner(&tier).await;
    let line = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.02; done";
    let mut session = Session::begin(&runner, line).await;
    session.expect("ready").await;
    let delivery = within(session.process.signal(Signal::Interrupt)).await.unwrap();
    assert!(delivery.leader_alive);
    let (process, seen) = session.rest().await;
    assert!(seen.contains("caught"), "{seen:?}");
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(7)));
    let delivery = within(process.signal(Signal::Interrupt)).await.unwrap();
    assert_eq!((delivery.leader_alive, delivery.processes), (false, 0));
}

async fn resize(tier: Tier) {
    let runner = runner(&tier).await;
    let line = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.02; done";
    let mut session = Session::begin(&runner, line).await;
    session.expect("ready").await;
    within(session.process.resize(TerminalSize { rows: 50, cols: 132 })).await.unwrap();
    session.expect("50 132").await;
    let wrong = within(session.process.resize(TerminalSize { rows: 0, cols: 1 })).await.unwrap_err();
    assert_eq!(wrong.kind(), RunnerErrorKind::InvalidRequest("rows"));
    within(session.process.wait()).await;
    within(session.process.resize(TerminalSize::default())).await.unwrap();
    let pipes = start(&runner, request(CommandSpec::Argv(vec!["true".to_owned()]))).await.unwrap();
    let wrong = within(pipes.resize(TerminalSize::default())).await.unwrap_err();
    assert_eq!(wrong.kind(), RunnerErrorKind::InvalidRequest("rows"));
}

async fn end_of_file(tier: Tier) {
    let runner = runner(&tier).await;
    let mut session = Session::begin(&runner, "cat; echo one; cat; echo two; cat; exit 3").await;
    session.input.write_all(b"typed\n").await.unwrap();
    session.expect("typed\r\ntyped\r\n").await;
    within(session.input.shutdown()).await.unwrap();
    session.expect("one").await;
    within(session.input.shutdown()).await.unwrap();
    session.expect("two").await;
    session.input.write_all(b"\x04").await.unwrap();
    assert_eq!(within(session.process.wait()).await.status, Some(WaitStatus::exited(3)));
}

async fn long_line(tier: Tier) {
    let runner = runner(&tier).await;
    let mut session = Session::begin(&runner, "stty -echo; echo ready; read -r line; echo ${#line}").await;
    session.expect("ready").await;
    let refused = session.process.admit_input(&[b'x'; 5000], false).unwrap_err();
    assert_eq!(refused.kind(), RunnerErrorKind::InvalidRequest("data"));
    let lines = [&b"short\n"[..], &[b'x'; 5000], b"\n"].concat();
    assert!(session.process.admit_input(&lines, false).is_err(), "whole or not at all");
    assert!(session.process.would_admit_input(&[b'y'; 4095], false).is_ok(), "asking is no typing");
    session.type_in(&[b'y'; 4095]).await;
    assert!(session.process.would_admit_input(b"z", false).is_err());
    assert!(session.process.admit_input(b"z", false).is_err(), "also one byte more");
    session.type_in(b"\n").await;
    session.expect("4095").await;
}

async fn paste(tier: Tier) {
    let runner = runner(&tier).await;
    // It prints only once the paste has begun: nothing of that comes along with the word before.
    let line = "stty raw -echo; echo ready; head -c 1 >/dev/null; (yes noise | head -c 500000) & \
                head -c 99999 | wc -c; wait; echo end";
    let mut session = Session::begin(&runner, line).await;
    session.expect("ready").await;
    let pasted = vec![b'p'; 100_000];
    let Session { process, mut input, mut output, .. } = session;
    let mut seen = Vec::new();
    let (written, read) =
        within(async { tokio::join!(input.write_all(&pasted), output.read_to_end(&mut seen)) }).await;
    written.unwrap();
    read.unwrap();
    let text = String::from_utf8_lossy(&seen);
    assert!(text.contains("99999") && text.contains("end"));
    assert!(seen.len() >= 500_000);
    assert_emptied(&*process).await;
}

async fn query(tier: Tier) {
    let runner = runner(&tier).await;
    let line = r"stty raw -echo; printf '\033[6n'; head -c 6 | tail -c 5; echo; printf '\033[c'; head -c 9 | tail -c 8";
    let (_, seen) = Session::begin(&runner, line).await.rest().await;
    assert!(seen.contains("[1;1R") && seen.contains("[?62;22"), "{seen:?}");
}

async fn killed(tier: Tier) {
    let runner = runner(&tier).await;
    let line = "trap '' HUP TERM INT; (setsid sleep 1000 &); echo ready; sleep 1000";
    let mut session = Session::begin(&runner, line).await;
    session.expect("ready").await;
    assert!(matches!(within(session.process.tree()).await, TreeProof::Survivors(_)));
    within(session.process.signal(Signal::Kill)).await.unwrap();
    assert_emptied(&*session.process).await;
    session.rest().await;
}
