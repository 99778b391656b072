//! What is left on disk, and what `procyard export` and `procyard gc` make of it.

use serde_json::{Value, json};

use crate::client::Client;
use crate::running::{Ended, Running};
use crate::scene::Scene;

/// Runs a command to its end in a session that stays; its handle.
fn ran(scene: &Scene, arguments: Value) -> String {
    let mut client = Client::connect(scene, &[]);
    let result = client.call("Bash", arguments);
    assert!(client.leave_and_wait().0.success());
    result["process_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn export(scene: &Scene, format: &str, handle: &str) -> Ended {
    let ended = Running::spawn(&mut scene.procyard(["export", "--format", format, handle])).wait();
    assert!(ended.status.success(), "{}", ended.stderr());
    ended
}

#[test]
fn a_record_is_exported_as_bytes_and_as_safe_text() {
    let scene = Scene::new();
    let line = r"printf '\033[31mred\033[0m \377 caf\303\251\n'";
    let handle = ran(&scene, json!({ "command": line }));
    assert_eq!(export(&scene, "raw", &handle).stdout, b"\x1b[31mred\x1b[0m \xff caf\xc3\xa9\n");
    assert_eq!(export(&scene, "text", &handle).stdout, "red \u{fffd} café\n".as_bytes());
}

#[test]
fn a_record_is_exported_as_lines_of_json_with_streams_and_times() {
    let scene = Scene::new();
    let handle =
        ran(&scene, json!({ "command": "echo out; sleep 0.05; echo err >&2; printf '\\377'; exit 3" }));
    let text = String::from_utf8(export(&scene, "jsonl", &handle).stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["type"], &lines[0]["process_id"]), (&json!("process"), &json!(handle)));
    assert_eq!(
        (&lines[1]["stream"], &lines[1]["text"], &lines[1]["cursor"]),
        (&json!("stdout"), &json!("out\n"), &json!(0))
    );
    assert!(lines.iter().any(|line| line["stream"] == "stderr" && line["text"] == "err\n"), "{text}");
    assert!(lines.iter().any(|line| line["base64"] == "/w=="), "{text}");
    let end = lines.last().unwrap();
    assert_eq!(
        (&end["status"], &end["exit_code"], &end["total_bytes"]),
        (&json!("exited"), &json!(3), &json!(9))
    );
}

#[test]
fn a_terminal_is_exported_as_a_recording() {
    let scene = Scene::new();
    let command = json!({ "command": "echo héllo", "tty": true, "rows": 10, "cols": 40 });
    let handle = ran(&scene, command);
    let text = String::from_utf8(export(&scene, "asciicast", &handle).stdout).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(
        (&header["version"], &header["width"], &header["height"]),
        (&json!(2), &json!(40), &json!(10))
    );
    let shown: String = lines
        .filter(|event| event[1] == "o")
        .map(|event| {
            assert!(event[0].as_f64().unwrap() >= 0.0);
            event[2].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(shown, "héllo\r\n");
}

#[test]
fn a_process_that_is_not_there_is_said_to_be_none() {
    let scene = Scene::new();
    let ended = Running::spawn(&mut scene.procyard(["export", "AAAAAAAAAAAAAAAAAAAAAA"])).wait();
    assert_eq!(ended.status.code(), Some(125));
    assert!(ended.stderr().contains("no process with this handle"), "{}", ended.stderr());
}

#[test]
fn ended_sessions_are_removed_and_living_ones_are_not() {
    let scene = Scene::new();
    ran(&scene, json!({ "command": "echo old" }));
    let mut living = Client::connect(&scene, &[]);
    let running = living.call("Bash", json!({ "command": "sleep 600", "background": true }));
    let sessions = || std::fs::read_dir(scene.data_dir().join("sessions")).unwrap().count();
    assert_eq!(sessions(), 2);

    let young = Running::spawn(&mut scene.procyard(["gc"])).wait();
    assert!(young.stderr().contains("0 sessions removed, 2 kept"), "{}", young.stderr());
    let all = Running::spawn(&mut scene.procyard(["gc", "--older-than", "0"])).wait();
    assert!(all.stderr().contains("1 sessions removed, 1 kept"), "{}", all.stderr());
    assert_eq!(sessions(), 1);

    let process = json!({ "process_id": running["process_id"] });
    assert_eq!(living.call("ProcessOutput", process)["status"], "running");
    assert!(living.leave_and_wait().0.success());
}
