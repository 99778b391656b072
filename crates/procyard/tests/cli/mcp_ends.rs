//! The end of `procyard mcp`, however it comes, and what a server finds that comes after it.

use std::io::Write as _;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::client::Client;
use crate::recorded::ESCAPE;
use crate::running::{Running, read_until};
use crate::scene::{Scene, eventually};

/// A client is not kept waiting for longer than this.
const SOON: Duration = Duration::from_secs(2);

/// What a command gets between terminate and kill.
const GRACE: Duration = Duration::from_secs(2);

const SESSION: &str = "0f9a1f9e-5d58-4d3b-9c59-7a7d3f0c3a11";
const LOOP: &str = "5c1d0f7e-8f63-4f0e-8a0b-2f6b7f3d9e22";

const SAME: [&str; 4] = ["--session", SESSION, "--loop", LOOP];

fn lasting() -> serde_json::Value {
    let line = format!("{ESCAPE}; eval \"$RECORD\"; exec sleep 1000");
    json!({"command": line})
}

fn background(mut arguments: serde_json::Value) -> serde_json::Value {
    arguments["background"] = json!(true);
    arguments
}

/// Starts a server with a background command, or in the middle of a foreground call, and ends it.
fn ends(in_foreground: bool, end: impl FnOnce(Client) -> (std::process::ExitStatus, Duration)) {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    if in_foreground {
        client.begin("Bash", lasting());
    } else {
        client.call("Bash", background(lasting()));
    }
    scene.wait_for_records(2);
    let (status, took) = end(client);
    scene.assert_no_survivor();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(took < SOON, "{took:?}");
}

#[test]
fn the_end_of_input_ends_the_server_and_everything_it_started() {
    ends(false, Client::leave_and_wait);
}

#[test]
fn the_end_of_input_in_the_middle_of_a_call_does_not_wait_for_the_command() {
    ends(true, Client::leave_and_wait);
}

#[test]
fn a_signal_ends_the_server_in_order() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        ends(false, |client| client.signal_and_wait(signal));
        ends(true, |client| client.signal_and_wait(signal));
    }
}

#[test]
fn a_command_that_ignores_the_end_is_killed_after_its_grace() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let line = "trap '' TERM HUP INT; eval \"$RECORD\"; while :; do sleep 1000; done";
    client.call("Bash", background(json!({"command": line})));
    scene.wait_for_records(1);
    let (status, took) = client.leave_and_wait();
    scene.assert_no_survivor();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(took >= GRACE && took < GRACE + SOON, "{took:?}");
}

#[test]
fn a_client_that_leaves_before_it_says_anything_is_no_error() {
    let scene = Scene::new();
    assert_eq!(Client::silent(&scene, &[]).leave_and_wait().0.code(), Some(0));
    let (status, _) = Client::silent(&scene, &[]).leave_and_wait();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_client_that_is_gone_but_has_left_its_pipe_full_keeps_nobody() {
    for signal in [None, Some(Signal::SIGTERM)] {
        let scene = Scene::new();
        let mut server = Running::spawn(&mut scene.procyard(["mcp"]));
        let _unread = server.take_stdout();
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        server.write(format!("{hello}\n").as_bytes());
        let line = "eval \"$RECORD\"; exec sleep 1000";
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "Bash", "arguments": {"command": line, "background": true}}});
        server.write(format!("{call}\n").as_bytes());
        scene.wait_for_records(1);
        // Far more answers than a pipe holds.
        for id in 2..60 {
            let list = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
            server.write(format!("{list}\n").as_bytes());
        }
        match signal {
            None => drop(server.stdin.take()),
            Some(signal) => server.signal(signal),
        }
        assert_eq!(server.end().code(), Some(0), "{signal:?}");
        scene.assert_no_survivor();
    }
}

/// Some clients give their servers sockets instead of pipes.
#[test]
fn sockets_serve_as_pipes_do() {
    for signal in [None, Some(Signal::SIGTERM)] {
        let scene = Scene::new();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = scene.procyard(["mcp"]);
        command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
        let mut server = Running::spawn_as_is(&mut command);
        drop(command);
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        writeln!(&ours, "{hello}").unwrap();
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "Bash", "arguments": background(lasting())}});
        writeln!(&ours, "{call}").unwrap();
        let ours = read_until(ours, "\"id\":1,\"result\"");
        scene.wait_for_records(2);
        match signal {
            None => ours.shutdown(Shutdown::Write).unwrap(),
            Some(signal) => server.signal(signal),
        }
        let began = Instant::now();
        assert_eq!(server.end().code(), Some(0), "{signal:?}");
        assert!(began.elapsed() < SOON, "{signal:?}: {:?}", began.elapsed());
        scene.assert_no_survivor();
    }
}

#[test]
fn a_workspace_that_is_none_is_refused_at_once() {
    let scene = Scene::new();
    let ended = Running::spawn(&mut scene.procyard(["mcp", "--workspace", "/nonexistent"])).wait();
    assert_eq!(ended.code(), 125, "{ended:?}");
    assert!(ended.stderr().contains("/nonexistent is not a directory"), "{}", ended.stderr());
    assert!(ended.stdout.is_empty() && scene.sessions().is_empty());
}

#[test]
fn a_sudden_death_leaves_nothing_alive() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    client.call("Bash", background(lasting()));
    client.begin("Bash", lasting());
    scene.wait_for_records(4);
    client.server.signal(Signal::SIGKILL);
    client.server.end();
    scene.assert_the_lifeline_holds();
}

#[test]
fn a_second_server_on_a_session_is_refused_and_says_why() {
    let scene = Scene::new();
    let mut first = Client::connect(&scene, &SAME);
    let second = Running::spawn(scene.procyard(["mcp"]).args(SAME)).wait_with_input_open();
    assert_eq!(second.code(), 125, "{second:?}");
    assert!(second.stdout.is_empty());
    let stderr = second.stderr();
    assert!(stderr.contains(SESSION) && stderr.contains("in use"), "{stderr}");
    assert_eq!(first.call("Bash", json!({"command": "echo alive"}))["output"], "alive\n");
}

#[test]
fn a_server_that_waits_for_a_session_ends_at_a_signal() {
    let scene = Scene::new();
    let _first = Client::connect(&scene, &SAME);
    let second = Client::silent(&scene, &SAME);
    eventually("it waits for the lock", || {
        let mut directory = std::fs::read_dir(format!("/proc/{}/fd", second.server.pid())).ok()?;
        let lock = |entry: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_link(entry.ok()?.path()).ok().filter(|path| path.ends_with("lock"))
        };
        directory.find_map(lock)
    });
    let (status, took) = second.signal_and_wait(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(took < SOON, "{took:?}");
}

#[test]
fn a_restarted_session_has_its_finished_output_and_its_lost_commands() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &SAME);
    let done = client.call("Bash", json!({"command": "echo kept; exit 3"}))["process_id"].clone();
    let lost =
        client.call("Bash", background(json!({"command": "echo before; eval \"$RECORD\"; exec sleep 1000"})));
    let lost = lost["process_id"].clone();
    let wait = json!({"process_id": lost, "wait": "any", "until": "output", "timeout_ms": 60_000});
    assert_eq!(client.call("ProcessOutput", wait)["output"], "before\n");
    scene.wait_for_records(1);
    client.server.signal(Signal::SIGKILL);
    client.server.end();

    // At once: the new server waits until the old one's trees are gone.
    let mut client = Client::connect(&scene, &SAME);
    scene.assert_no_survivor();
    let output = client.call("ProcessOutput", json!({"process_id": done}));
    assert_eq!((&output["output"], &output["exit_code"]), (&json!("kept\n"), &json!(3)));
    let output = client.call("ProcessOutput", json!({"process_id": lost}));
    assert_eq!((&output["status"], &output["output"]), (&json!("lost_on_restore"), &json!("before\n")));
    let listed = client.call("ProcessList", json!({}));
    assert_eq!(listed["processes"].as_array().unwrap().len(), 2, "{listed}");
    drop(client);

    let mut stranger = Client::connect(&scene, &["--session", SESSION]);
    let listed = stranger.call("ProcessList", json!({}));
    assert_eq!(listed["processes"], json!([]), "another loop is another owner");
}

#[test]
fn what_an_orderly_end_stopped_is_told_as_stopped_afterwards() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &SAME);
    let handle = client.call("Bash", background(lasting()))["process_id"].clone();
    scene.wait_for_records(2);
    assert_eq!(client.leave_and_wait().0.code(), Some(0));
    let mut client = Client::connect(&scene, &SAME);
    let output = client.call("ProcessOutput", json!({"process_id": handle}));
    assert_eq!(output["status"], "terminated", "{output}");
}

#[test]
fn a_session_is_nobody_elses_business() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &SAME);
    client.call("Bash", json!({"command": "echo secret"}));
    let session = scene.data_dir().join("sessions").join(SESSION);
    assert!(session.is_dir());
    let seen = assert_private(&session);
    assert!(seen > 3, "{seen} files and directories");
}

fn assert_private(path: &Path) -> usize {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    let mode = metadata.permissions().mode() & 0o7777;
    let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(mode, expected, "{}: {mode:o}", path.display());
    if !metadata.is_dir() {
        return 1;
    }
    1 + std::fs::read_dir(path).unwrap().map(|entry| assert_private(&entry.unwrap().path())).sum::<usize>()
}
