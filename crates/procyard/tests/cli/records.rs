//! What is left on disk, and what `procyard export` and `procyard gc` make of it.

use std::path::PathBuf;

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
fn a_recording_begins_with_the_first_size_of_its_terminal_and_has_the_later_one() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let line = "stty size; read x; stty size";
    let started = client
        .call("Bash", json!({ "command": line, "tty": true, "rows": 10, "cols": 40, "background": true }));
    let handle = started["process_id"].as_str().unwrap().to_owned();
    client.call(
        "ProcessOutput",
        json!({ "process_id": handle, "wait": "any", "until": "output", "cursor": 0 }),
    );
    client.call("ProcessInput", json!({ "process_id": handle, "rows": 20, "cols": 100 }));
    client.call("ProcessInput", json!({ "process_id": handle, "data": "\n" }));
    client.call("ProcessOutput", json!({ "process_id": handle, "wait": "any", "until": "exit" }));
    assert!(client.leave_and_wait().0.success());
    let text = String::from_utf8(export(&scene, "asciicast", &handle).stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["width"], &lines[0]["height"]), (&json!(40), &json!(10)), "{text}");
    assert!(lines[0].get("title").is_none(), "what is not known is not there: {text}");
    let said =
        |wanted: &str| lines.iter().position(|event| event[2].as_str().is_some_and(|s| s.contains(wanted)));
    let resized = lines.iter().position(|event| event[1] == "r" && event[2] == "100x20");
    assert!(said("10 40") < resized && resized < said("20 100") && said("20 100").is_some(), "{text}");
}

/// The one spool of the one session.
fn spool(scene: &Scene) -> PathBuf {
    let entries = std::fs::read_dir(&scene.sessions()[0]).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "spool")).unwrap()
}

#[test]
fn what_is_damaged_or_gone_is_stated_in_an_export() {
    let scene = Scene::new();
    let handle = ran(&scene, json!({ "command": "seq 1 30000" }));
    let whole = export(&scene, "raw", &handle).stdout;
    let segment = spool(&scene).join("00000000000000000000.seg");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[20_000] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let lines = |exported: &Ended| -> Vec<Value> {
        let text = std::str::from_utf8(&exported.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let missing = |lines: &[Value]| -> u64 {
        let gaps = lines.iter().filter(|line| line["type"] == "gap");
        gaps.map(|gap| gap["until"].as_u64().unwrap() - gap["from"].as_u64().unwrap()).sum()
    };
    let exported = export(&scene, "jsonl", &handle);
    assert!(exported.stderr().contains("are missing"), "{}", exported.stderr());
    let damaged = missing(&lines(&exported));
    assert!(damaged > 0 && damaged <= 16 << 10);
    let left = export(&scene, "raw", &handle).stdout;
    assert_eq!(left.len() as u64 + damaged, whole.len() as u64);

    std::fs::remove_dir_all(spool(&scene)).unwrap();
    let lines = lines(&export(&scene, "jsonl", &handle));
    assert_eq!(missing(&lines), whole.len() as u64, "all of it");
    assert_eq!(lines.last().unwrap()["total_bytes"], json!(whole.len()));
}

#[test]
fn what_is_printed_in_a_flood_is_exported_as_it_is_at_that_moment() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let flood = json!({ "command": "yes 0123456", "background": true, "max_output_bytes": 200_000 });
    let handle = client.call("Bash", flood)["process_id"].as_str().unwrap().to_owned();
    client.call(
        "ProcessOutput",
        json!({ "process_id": handle, "wait": "any", "until": "output", "cursor": 0 }),
    );
    for _ in 0..8 {
        let bytes = export(&scene, "raw", &handle).stdout;
        // The first line may be cut, and where a gap was one may begin anew.
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.lines().all(|line| line.bytes().all(|byte| (b'0'..=b'6').contains(&byte))), "{text}");
    }
    client.call("ProcessStop", json!({ "process_id": handle, "mode": "kill" }));
    assert!(client.leave_and_wait().0.success());
}

#[test]
fn a_session_that_cannot_be_removed_is_named_with_the_reason() {
    let scene = Scene::new();
    let foreign = scene.data_dir().join("sessions/11111111-1111-4111-9111-111111111111");
    std::fs::create_dir_all(foreign.join("kept")).unwrap();
    let ended = Running::spawn(&mut scene.procyard(["gc", "--older-than", "0"])).wait();
    assert_eq!(ended.status.code(), Some(125));
    let said = ended.stderr();
    assert!(
        said.contains("11111111") && said.contains("no anchor") && said.contains("0 sessions removed"),
        "{said}"
    );
    assert!(foreign.join("kept").exists());
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
