//! `procyard run` that is interrupted, terminated, killed: nothing of the command survives it.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::recorded::ESCAPE;
use crate::running::{Running, read_exactly, read_until};
use crate::scene::{Scene, eventually};

/// Says which signal it got, and goes on.
const STUBBORN: &str =
    r#"trap "echo int" INT; trap "echo term" TERM; eval "$RECORD"; echo ready; while :; do sleep 1000; done"#;

#[test]
fn a_first_interrupt_interrupts_a_second_terminates_a_third_kills() {
    let scene = Scene::new();
    let mut running = Running::spawn(&mut scene.procyard_heeding_signals(["run", STUBBORN]));
    let stdout = read_until(running.take_stdout(), "ready\n");
    running.signal(Signal::SIGINT);
    let stdout = read_until(stdout, "int\n");
    running.signal(Signal::SIGINT);
    let stdout = read_until(stdout, "term\n");
    let asked = Instant::now();
    running.signal(Signal::SIGINT);
    let status = running.end();
    assert_eq!(status.code(), Some(128 + 9));
    assert!(asked.elapsed() < Duration::from_secs(4), "a kill waits for no grace");
    scene.assert_no_survivor();
    assert!(scene.sessions().is_empty());
    drop(stdout);
}

#[test]
fn an_interrupt_that_the_command_heeds_is_its_own_end() {
    let scene = Scene::new();
    let line = r#"trap "echo bye; exit 5" INT; echo ready; while :; do sleep 0.1; done"#;
    let mut running = Running::spawn(&mut scene.procyard_heeding_signals(["run", line]));
    let stdout = read_until(running.take_stdout(), "ready\n");
    running.signal(Signal::SIGINT);
    let stdout = read_until(stdout, "bye\n");
    assert_eq!(running.end().code(), Some(5));
    drop(stdout);

    let mut running =
        Running::spawn(&mut scene.procyard_heeding_signals(["run", "echo ready; exec sleep 1000"]));
    let stdout = read_until(running.take_stdout(), "ready\n");
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert_eq!(ended.code(), 128 + 2);
    assert!(ended.summary().starts_with("procyard: interrupted"), "{}", ended.summary());
    drop(stdout);
}

#[test]
fn a_signal_that_asks_it_to_end_ends_the_tree() {
    for (signal, number) in [(Signal::SIGTERM, 15), (Signal::SIGHUP, 15), (Signal::SIGQUIT, 15)] {
        let scene = Scene::new();
        let line = format!(
            "{ESCAPE}; while ! [ -s \"$PIDS\" ]; do :; done; eval \"$RECORD\"; echo ready; exec sleep 1000"
        );
        let mut running = Running::spawn(&mut scene.procyard_heeding_signals(["run", &line]));
        let stdout = read_until(running.take_stdout(), "ready\n");
        running.signal(signal);
        let ended = running.wait();
        scene.assert_no_survivor();
        assert_eq!(ended.code(), 128 + number, "{signal}: {ended:?}");
        assert!(ended.summary().starts_with("procyard: terminated"), "{}", ended.summary());
        assert!(scene.sessions().is_empty());
        drop(stdout);
    }
}

#[test]
fn a_reader_that_hangs_does_not_keep_a_run_that_was_told_to_end() {
    let scene = Scene::new();
    let mut running =
        Running::spawn(&mut scene.procyard_heeding_signals(["run", "eval \"$RECORD\"; exec yes"]));
    let (stdout, _) = read_exactly(running.take_stdout(), 1);
    let command = scene.wait_for_records(1)[0];
    eventually("there is more than a pipe holds", || {
        let counts = std::fs::read_to_string(format!("/proc/{}/io", command.pid)).ok()?;
        let written = counts.lines().find_map(|line| line.strip_prefix("wchar: "))?;
        (written.parse::<u64>().ok()? > 2 * 1024 * 1024).then_some(())
    });
    running.signal(Signal::SIGTERM);
    eventually("the command ends", || (!command.is_alive()).then_some(()));
    let ended = running.wait();
    assert_eq!(ended.code(), 128 + 15, "{ended:?}");
    assert!(ended.stderr().contains("not passed on"), "what is lost is told: {}", ended.stderr());
    drop(stdout);
}

#[test]
fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
    for (signal, code) in [(Signal::SIGHUP, "HUP"), (Signal::SIGINT, "INT"), (Signal::SIGQUIT, "QUIT")] {
        let scene = Scene::new();
        let line = format!("trap '' {code}; exec \"$PROCYARD\" run 'echo ready; read x; echo \"got $x\"'");
        let mut running = Running::spawn(scene.command("bash").args(["-c", &line]));
        let stdout = read_until(running.take_stdout(), "ready\n");
        running.signal(signal);
        running.write(b"input\n");
        let stdout = read_until(stdout, "got input\n");
        assert_eq!(running.end().code(), Some(0), "{signal}");
        drop(stdout);
    }
}

#[test]
fn a_sudden_death_leaves_no_survivor_not_even_one_in_a_session_of_its_own() {
    let scene = Scene::new();
    let line = format!("{ESCAPE}; eval \"$RECORD\"; exec sleep 1000");
    let mut running = Running::spawn(&mut scene.procyard(["run", &line]));
    scene.wait_for_records(2);
    running.signal(Signal::SIGKILL);
    running.end();
    scene.assert_the_lifeline_holds();
}

/// The same without procyard: it shows that the test above tests something.
#[test]
fn without_supervision_the_same_descendant_survives_the_end_of_its_group() {
    let scene = Scene::new();
    let line = format!("{ESCAPE}; eval \"$RECORD\"; exec sleep 1000");
    let mut command = scene.command("bash");
    command.args(["-c", &line]).stdin(Stdio::null()).process_group(0);
    let mut running = Running::spawn_as_is(&mut command);
    let recorded = scene.wait_for_records(2);
    killpg(Pid::from_raw(running.pid()), Signal::SIGKILL).unwrap();
    running.end();
    let survivors = scene.survivors();
    assert_eq!(survivors.len(), 1, "of {recorded:?}");
    survivors[0].signal(Signal::SIGKILL);
    eventually("it ends by its own number", || scene.survivors().is_empty().then_some(()));
}

#[test]
fn a_signal_before_the_command_is_started_leaves_nothing_behind() {
    // The signal meets the program anywhere on its way to the start of the command.
    for delay in (0..40).step_by(4) {
        let scene = Scene::new();
        let mut running = Running::spawn(&mut scene.procyard(["run", "eval \"$RECORD\"; exec sleep 1000"]));
        eventually("the program runs", || {
            let maps = std::fs::read_link(format!("/proc/{}/exe", running.pid())).ok()?;
            maps.ends_with("procyard").then_some(())
        });
        std::thread::sleep(Duration::from_millis(delay));
        if !running.has_ended() {
            running.signal(Signal::SIGTERM);
        }
        let status = running.end();
        assert!(!status.success(), "{status}");
        assert!(scene.recorded().iter().all(|recorded| !recorded.is_alive()));
        // Before its first instruction that catches signals it ends at once, and has made nothing yet.
        assert!(scene.sessions().is_empty(), "{delay} ms: {:?}", scene.sessions());
    }
}
