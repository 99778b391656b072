//! `procyard send`: as much as there is, in order, and no faster than it is read.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use procyard_api::BashArguments;
use serde_json::{Value, json};

use crate::running::{Running, read_until};
use crate::scene::{Scene, eventually};
use crate::served::{Service, start_as, verb};

/// More than the service keeps of input that is not read.
const LONG: usize = 3 * 1024 * 1024 + 17;

fn reading(line: &str) -> BashArguments {
    BashArguments { command: Some(line.to_owned()), stdin: true, ..BashArguments::default() }
}

#[test]
fn standard_input_of_any_length_arrives_whole_and_in_order() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    // It begins to read late, and bytes that are no text are passed on as they are.
    let handle = start_as(&client, reading("sleep 0.3; exec cat > taken"));
    let sent: Vec<u8> = (0..LONG).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let mut command = scene.procyard(["send", "--json", "--eof", &handle.reveal(), "-"]);
    let mut sending = Running::spawn(&mut command);
    sending.write(&sent);
    let ended = sending.wait();
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let told: Value = serde_json::from_str(&ended.stdout()).unwrap();
    assert_eq!(told["accepted_bytes"], json!(LONG), "{told}");
    assert_eq!(verb(&scene, "wait", &handle, &["--timeout", "60"]).code(), 0);
    assert!(std::fs::read(scene.path().join("taken")).unwrap() == sent, "every byte, in order");
}

#[test]
fn standard_input_is_passed_on_as_it_comes() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, reading("exec cat"));
    let mut logs = scene.procyard(["logs", "-f"]);
    let mut logs = Running::spawn(logs.arg(handle.reveal()));
    let mut sending = Running::spawn(&mut scene.procyard(["send", &handle.reveal(), "-", "--eof"]));
    sending.write(b"first\n");
    let stdout = read_until(logs.take_stdout(), "first\n");
    assert!(!sending.has_ended(), "its input is still open");
    sending.write(b"second\n");
    let stdout = read_until(stdout, "second\n");
    assert_eq!(sending.wait().code(), 0);
    assert_eq!(logs.end().code(), Some(0));
    drop(stdout);
}

#[test]
fn a_process_that_reads_nothing_is_given_up_and_how_much_it_was_given_is_told() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, reading("exec sleep 1000"));
    let mut command = scene.procyard(["send", "--json", "--timeout", "0.2", &handle.reveal(), "-"]);
    command.stdin(std::process::Stdio::from(std::fs::File::open("/dev/zero").unwrap()));
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ended = Running::spawn_as_is(&mut command).wait();
    let error = serde_json::from_str::<Value>(&ended.stderr()).unwrap()["error"].clone();
    assert_eq!((ended.code(), &error["code"]), (125, &json!("input_backpressure")), "{error}");
    assert_eq!(error["effects"], "started", "some of it was given: {error}");
    let message = error["message"].as_str().unwrap();
    let first =
        message.strip_prefix("only the first ").and_then(|rest| rest.split_once(" bytes were sent: "));
    let given: u64 = first.unwrap_or_else(|| panic!("{message}")).0.parse().unwrap();
    assert!(given >= 1 << 20, "{message}");

    // With no patience at all the first refusal is the answer.
    let began = Instant::now();
    let refused = verb(&scene, "send", &handle, &["--timeout", "0", "x"]);
    assert!(refused.code() == 125 && began.elapsed() < Duration::from_secs(30), "{refused:?}");
    assert!(refused.stderr().contains("nothing was sent: the process has not read "), "{refused:?}");
    assert_eq!(verb(&scene, "stop", &handle, &["--mode", "kill"]).code(), 0);
}

#[test]
fn what_a_process_without_a_terminal_cannot_be_given_is_refused_with_the_text_before_it() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, reading("exec cat"));
    let refused = verb(&scene, "send", &handle, &["x", "--key", "enter", "--json"]);
    let error = serde_json::from_str::<Value>(&refused.stderr()).unwrap()["error"].clone();
    assert_eq!((&error["code"], &error["field"]), (&json!("pty_unavailable"), &json!("--key")), "{error}");
    assert!(error["message"].as_str().unwrap().ends_with("; send a text"), "{error}");
    assert_eq!(verb(&scene, "send", &handle, &["--eof"]).code(), 0);
    assert_eq!(verb(&scene, "wait", &handle, &["--timeout", "60"]).code(), 0);
    assert_eq!(verb(&scene, "logs", &handle, &[]).stdout(), "", "the text was not taken");
}

#[test]
fn a_process_that_takes_no_input_is_refused_before_any_is_read() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let without = start_as(&client, BashArguments { stdin: false, ..reading("exec sleep 1000") });
    let closed = start_as(&client, reading("exec sleep 1000"));
    assert_eq!(verb(&scene, "send", &closed, &["--eof"]).code(), 0);
    for (handle, why) in [(&without, "started without standard input"), (&closed, "end of file was sent")] {
        let mut command = scene.procyard(["send", "--json", &handle.reveal(), "-"]);
        // Its input stays open, and nothing comes.
        let refused = Running::spawn(&mut command).wait_with_input_open();
        let error = serde_json::from_str::<Value>(&refused.stderr()).unwrap()["error"].clone();
        assert_eq!((refused.code(), &error["code"]), (125, &json!("stdin_closed")), "{error}");
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
        assert_eq!(verb(&scene, "send", handle, &["-"]).code(), 125, "also when nothing comes");
        assert_eq!(verb(&scene, "stop", handle, &["--mode", "kill"]).code(), 0);
    }
}

#[test]
fn when_an_answer_is_lost_the_least_and_the_most_that_was_sent_are_told() {
    const PIECE: usize = 64 * 1024;
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, reading("exec cat > taken"));
    let between = scene.path().join("between.sock");
    lose_answer(&between, &scene.data_dir().join("procyard.sock"), 3);
    std::fs::write(scene.path().join("given"), vec![b'x'; 4 * PIECE]).unwrap();
    let socket = between.to_str().unwrap();
    let mut command = scene.procyard(["send", "--json", "--socket", socket, &handle.reveal(), "-"]);
    command.stdin(std::fs::File::open(scene.path().join("given")).unwrap());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ended = Running::spawn_as_is(&mut command).wait();
    let error = serde_json::from_str::<Value>(&ended.stderr()).unwrap()["error"].clone();
    assert_eq!((ended.code(), &error["effects"]), (125, &json!("unknown")), "{error}");
    let expect = "at least the first 131072 bytes were sent, and at most 196608: ";
    assert!(error["message"].as_str().unwrap().starts_with(expect), "{error}");
    eventually("the process has the piece whose answer was lost", || {
        let taken = std::fs::metadata(scene.path().join("taken")).ok()?;
        (taken.len() == 3 * PIECE as u64).then_some(())
    });
    assert_eq!(verb(&scene, "stop", &handle, &["--mode", "kill"]).code(), 0);
}

/// Passes requests on from one socket to the other, and drops the answer to this input, counted from 1.
fn lose_answer(from: &Path, to: &Path, lost: u64) {
    let (listener, to) = (UnixListener::bind(from).unwrap(), to.to_owned());
    let inputs = Arc::new(AtomicU64::new(0));
    // It ends with the test program.
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), UnixStream::connect(&to).unwrap());
            let (near_end, far_end) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let counted = Arc::clone(&inputs);
            std::thread::spawn(move || {
                pass(near, far, |piece| {
                    let input = piece.starts_with(b"POST ") && piece.windows(6).any(|part| part == b"/input");
                    counted.fetch_add(input.into(), Ordering::SeqCst);
                    true
                });
            });
            let counted = Arc::clone(&inputs);
            std::thread::spawn(move || {
                pass(far_end, near_end, |_| counted.load(Ordering::SeqCst) < lost);
            });
        }
    });
}

/// Passes on what comes, until its end or until it is not wanted; then nothing goes either way.
fn pass(mut from: UnixStream, mut to: UnixStream, mut wanted: impl FnMut(&[u8]) -> bool) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        if !wanted(&piece[..read]) || to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
