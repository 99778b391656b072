//! `--json`: every verb that has it fails in one shape, on standard error, and says nothing else there.

use procyard_core::Handle;
use serde_json::{Value, json};

use crate::running::{Ended, Running, read_until};
use crate::scene::Scene;
use crate::served::{Service, start, verb};

#[track_caller]
fn ended(scene: &Scene, arguments: &[&str]) -> Ended {
    Running::spawn(&mut scene.procyard(arguments)).wait()
}

/// The error that it says, and nothing else that it says.
#[track_caller]
fn error_of(ended: &Ended) -> Value {
    assert!(ended.stdout.is_empty(), "{ended:?}");
    let said = ended.stderr();
    assert_eq!(said.lines().count(), 1, "{said}");
    let value: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let mut error = value["error"].as_object().unwrap_or_else(|| panic!("{said}")).clone();
    assert_eq!(value.as_object().unwrap().len(), 1, "{said}");
    for (name, is) in [
        ("code", error["code"].is_string()),
        ("message", error["message"].as_str().is_some_and(|message| !message.is_empty())),
        ("retryable", error["retryable"].is_boolean()),
        ("effects", error["effects"].is_string()),
    ] {
        assert!(is, "{name}: {said}");
    }
    let field = error.remove("field").unwrap_or_default();
    assert!(error.len() == 4 && (field.is_null() || field.is_string()), "{said}");
    value["error"].clone()
}

#[test]
fn a_failure_of_every_verb_has_the_one_shape() {
    let scene = Scene::new();
    let unknown = Handle::from_bytes([7; 16]).reveal();
    let handle = unknown.as_str();
    for verb in [
        vec!["ps"],
        vec!["logs", handle],
        vec!["attach", handle],
        vec!["stop", handle],
        vec!["wait", handle],
        vec!["events", handle],
        vec!["send", handle, "x"],
    ] {
        let ended = ended(&scene, &[&verb[..], &["--json"]].concat());
        let error = error_of(&ended);
        assert_eq!(
            (ended.code(), &error["code"], &error["retryable"]),
            (125, &json!("internal"), &json!(true))
        );
        assert!(error["message"].as_str().unwrap().contains("procyard serve"), "{error}");
    }
    let missing = scene.path().join("ProcessListX");
    let ended_there = ended(&scene, &["ps", "--json", "--data-dir", missing.to_str().unwrap()]);
    let message = error_of(&ended_there)["message"].as_str().unwrap().to_owned();
    assert!(message.contains(missing.to_str().unwrap()), "a path is told as it is: {message}");
    for verb in [vec!["run", "true"], vec!["serve"], vec!["doctor"], vec!["gc"], vec!["config"], vec!["ps"]] {
        let ended = ended(&scene, &[&verb[..], &["--json", "--set", "log.level=inof"]].concat());
        let error = error_of(&ended);
        assert_eq!((ended.code(), &error["code"]), (125, &json!("invalid_settings")), "{verb:?}");
        assert!(error["message"].as_str().unwrap().ends_with("did you mean `info`?"), "{error}");
    }
    for (arguments, code, word) in [
        (vec!["run", "--json", "--", "/nowhere/program"], 127, "spawn_failed"),
        (vec!["run", "--json", "--", "/"], 126, "spawn_failed"),
        (vec!["run", "--json", "--workdir", "/nowhere", "true"], 125, "spawn_failed"),
        (vec!["export", "--json", handle], 125, "not_found"),
        (vec!["serve", "--json", "--workspace", "/nowhere"], 125, "invalid_arguments"),
    ] {
        let ended = ended(&scene, &arguments);
        let error = error_of(&ended);
        assert_eq!((ended.code(), error["code"].as_str()), (code, Some(word)), "{arguments:?}");
    }
}

#[test]
fn a_wrong_command_line_is_told_in_the_same_shape() {
    let scene = Scene::new();
    for (arguments, field) in [
        (vec!["ps", "--json", "--state", "runing"], "--state"),
        (vec!["wait", "--json"], "HANDLE"),
        (vec!["logs", "--json", "short"], "HANDLE"),
        (vec!["run", "--json", "--timeout", "0", "true"], "--timeout"),
        (vec!["events", "--json", "--after", "x"], "--after"),
        (vec!["logs", "--json", "--tail", "18446744073709551615", "x"], "--tail"),
        (vec!["serve", "--json", "--listen", "nowhere"], "--listen"),
        (vec!["gc", "--json", "--older-than", "-1"], "-1"),
        (vec!["export", "--json", "--format", "xml", "x"], "--format"),
    ] {
        let ended = ended(&scene, &arguments);
        let error = error_of(&ended);
        assert_eq!((ended.code(), error["code"].as_str()), (125, Some("invalid_arguments")), "{arguments:?}");
        assert_eq!(error["field"], field, "{error}");
    }
    // What comes after the dashes is the command's.
    let command = ended(&scene, &["run", "--", "echo", "--json"]);
    assert_eq!((command.code(), command.stdout().as_str()), (0, "--json\n"));
}

#[test]
fn what_a_service_refuses_is_told_as_it_told_it() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let unknown = Handle::from_bytes([7; 16]);
    for name in ["logs", "attach", "stop", "wait", "events"] {
        let ended = verb(&scene, name, &unknown, &["--json"]);
        assert_eq!((ended.code(), &error_of(&ended)["code"]), (125, &json!("not_found")), "{name}");
    }
    let (_, client) = service.session();
    let done = start(&client, "true");
    assert_eq!(verb(&scene, "wait", &done, &[]).code(), 0);
    let refused = verb(&scene, "attach", &done, &["--json"]);
    assert_eq!(error_of(&refused)["code"], "pty_unavailable");
    assert_eq!(error_of(&verb(&scene, "send", &done, &["--json", "x"]))["code"], "stdin_closed");
    let second = ended(&scene, &["serve", "--json"]);
    assert_eq!((second.code(), &error_of(&second)["code"]), (125, &json!("conflict")));
}

#[test]
fn a_service_says_as_json_where_it_is_ready() {
    let scene = Scene::new();
    let mut command = scene.procyard_heeding_signals(["serve", "--json", "--listen", "127.0.0.1:0"]);
    let mut running = Running::spawn(&mut command);
    let mut line = Vec::new();
    let stderr = crate::running::within({
        let mut stderr = running.take_stderr();
        move || {
            use std::io::Read as _;
            let mut byte = [0];
            while byte != *b"\n" && stderr.read(&mut byte).unwrap() > 0 {
                line.push(byte[0]);
            }
            (stderr, line)
        }
    });
    let ready: Value = serde_json::from_slice(&stderr.1).unwrap();
    let addresses = ready["ready"]["addresses"].as_array().unwrap();
    assert_eq!(addresses.len(), 2, "{ready}");
    running.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(running.end().code(), Some(0));
}

#[test]
fn what_a_run_says_beside_its_end_is_json_too() {
    let scene = Scene::new();
    let mut command = scene.procyard_heeding_signals(["run", "--json", "eval \"$RECORD\"; exec yes"]);
    let mut running = Running::spawn(&mut command);
    drop(read_until(running.take_stdout(), "y\n"));
    let ended = running.wait();
    assert_eq!(ended.code(), 128 + 13, "{ended:?}");
    let said: Vec<Value> = ended.stderr().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(said.last().unwrap()["status"], "terminated", "{said:?}");
    scene.assert_no_survivor();
}

#[test]
fn what_is_logged_of_a_process_stands_in_its_span_and_shows_four_characters_of_its_handle() {
    let scene = Scene::new();
    let ended =
        ended(&scene, &["run", "--json", "--set", "log.level=procyard_supervisor=debug", "echo secret-word"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    let said: Vec<Value> = ended.stderr().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let exit = said.iter().find(|line| line["fields"]["message"] == "the leader has ended");
    let span = &exit.unwrap_or_else(|| panic!("{said:?}"))["span"];
    assert_eq!(span["name"], "process");
    let handle = span["handle"].as_str().unwrap();
    assert!(
        handle.contains('…') && handle.chars().filter(char::is_ascii_alphanumeric).count() < 12,
        "{handle}"
    );
    assert!(!ended.stderr().contains("secret-word"), "{}", ended.stderr());
}
