//! `procyard send`: as much as there is, in order, and no faster than it is read.

use std::time::{Duration, Instant};

use procyard_api::BashArguments;
use serde_json::{Value, json};

use crate::running::{Running, read_until};
use crate::scene::Scene;
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
    assert!(error["message"].as_str().unwrap().ends_with("or send a text"), "{error}");
    assert_eq!(verb(&scene, "send", &handle, &["--eof"]).code(), 0);
    assert_eq!(verb(&scene, "wait", &handle, &["--timeout", "60"]).code(), 0);
    assert_eq!(verb(&scene, "logs", &handle, &[]).stdout(), "", "the text was not taken");
}
