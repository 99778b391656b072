//! What a terminal shows, through the tools.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::time::Duration;

use common::{Yard, call, code, id, with};
use procyard_testkit::Script;
use serde_json::{Value, json};

/// An editor that has painted its file.
const EDITOR: &str =
    "\x1b[?1049h\x1b]2;notes.txt\x07\x1b[2J\x1b[Hfirst\r\nsecond\x1b[10;1H-- INSERT --\x1b[2;4H";

async fn on_terminal(yard: &Yard) -> String {
    id(&yard.bash(json!({"background": true, "tty": true, "rows": 10, "cols": 40})).await)
}

async fn screen(yard: &Yard, process: &str, arguments: Value) -> Value {
    yard.output(process, with(json!({"view": "screen"}), arguments)).await
}

#[tokio::test(start_paused = true)]
async fn a_screen_is_what_a_person_would_see_while_it_runs_and_after() {
    let yard =
        Yard::new(Script::new().stdout("$ edit\r\n").stdout(EDITOR).pause(Duration::from_secs(9)).exit(0))
            .await;
    let process = on_terminal(&yard).await;
    let arguments = json!({"process_id": process, "view": "screen", "wait": "any", "quiet_ms": 100});
    let reply = call(&yard.tools, "ProcessOutput", arguments).await;
    let seen = &reply.structured["screen"];
    let rows = json!(["first", "second", "", "", "", "", "", "", "", "-- INSERT --"]);
    assert_eq!((&seen["rows"], &seen["cursor"]), (&rows, &json!({"row": 2, "col": 4, "visible": true})));
    assert_eq!((&seen["size"], &seen["title"]), (&json!({"rows": 10, "cols": 40}), &json!("notes.txt")));
    assert_eq!((&seen["alternate"], seen.get("drawn_from")), (&json!(true), None));
    assert_eq!((&reply.structured["output"], &reply.structured["status"]), (&json!(""), &json!("running")));
    assert_eq!(reply.structured["next_cursor"], reply.structured["total_bytes"]);
    let head =
        "[alternate screen of 10 rows and 40 columns; cursor at row 2, column 4; title: notes.txt]\nfirst\n";
    assert!(reply.text.starts_with(head), "{}", reply.text);
    yard.ended(&process).await;
    let after = screen(&yard, &process, json!({})).await;
    assert_eq!((&after["screen"]["rows"], &after["status"]), (&rows, &json!("exited")));
}

#[tokio::test(start_paused = true)]
async fn what_only_moves_the_cursor_wakes_a_wait_for_the_screen() {
    let pause = Duration::from_secs(3);
    let yard = Yard::new(Script::new().stdout("ab").pause(pause).stdout("\x1b[5;5H").pause(pause)).await;
    let process = on_terminal(&yard).await;
    let first = screen(&yard, &process, json!({"wait": "any"})).await;
    let again = json!({"wait": "any", "cursor": first["next_cursor"], "timeout_ms": 60_000});
    let moved = screen(&yard, &process, again).await;
    assert_eq!(moved["screen"]["cursor"], json!({"row": 5, "col": 5, "visible": true}));
}

#[tokio::test(start_paused = true)]
async fn a_key_and_a_size_show_what_they_did() {
    let yard = Yard::new(Script::new().stdout("one\r\ntwo\r\nthree\r\n").echo_input()).await;
    let process = on_terminal(&yard).await;
    screen(&yard, &process, json!({"wait": "any"})).await;
    let ask = json!({"process_id": process, "view": "screen", "yield_time_ms": 1000, "quiet_ms": 100});
    let key = yard.call("ProcessInput", with(ask.clone(), json!({"keys": ["up", "up"], "data": "x"}))).await;
    assert_eq!(
        (&key["accepted_bytes"], &key["screen"]["rows"]),
        (&json!(7), &json!(["one", "two", "three", "x"]))
    );
    assert_eq!(key["screen"]["cursor"], json!({"row": 2, "col": 2, "visible": true}));
    let sized = yard.call("ProcessInput", with(ask, json!({"rows": 4, "cols": 20}))).await;
    assert_eq!(sized["screen"]["size"], json!({"rows": 4, "cols": 20}));
}

#[tokio::test(start_paused = true)]
async fn a_process_without_a_terminal_has_no_screen_and_fails_by_itself() {
    let yard = Yard::new(Script::new().stdout("x").echo_input()).await;
    let piped = id(&yard.bash(json!({"background": true, "stdin": true})).await);
    let on_terminal = on_terminal(&yard).await;
    let refused = screen(&yard, &piped, json!({})).await;
    assert_eq!((code(&refused), &refused["error"]["field"]), ("pty_unavailable", &json!("view")));
    let input = json!({"process_id": piped, "data": "y", "view": "screen"});
    let refused = yard.call("ProcessInput", input).await;
    assert_eq!((code(&refused), &refused["error"]["effects"]), ("pty_unavailable", &json!("none")));
    let both = json!({"process_ids": [piped, on_terminal], "view": "screen"});
    let results = yard.call("ProcessOutput", both).await;
    assert_eq!(code(&results["results"][0]), "pty_unavailable");
    assert!(results["results"][1]["screen"].is_object(), "{results}");
    let tail = screen(&yard, &on_terminal, json!({"tail_lines": 3})).await;
    assert_eq!((code(&tail), &tail["error"]["field"]), ("invalid_arguments", &json!("tail_lines")));
}

#[tokio::test(start_paused = true)]
async fn cursor_keys_have_the_form_that_the_program_asked_for() {
    let yard = Yard::new(Script::new().stdout("\x1b[?1h").echo_input()).await;
    yard.runner.then(Script::new().stdout("plain").echo_input());
    for exact in ["G1s/MWgbT0EbT0gNG1szfg==", "cGxhaW4bW0EbW0gNG1szfg=="] {
        let process = on_terminal(&yard).await;
        yard.output(&process, json!({"wait": "any", "encoding": "base64"})).await;
        let keys = json!(["up", "home", "enter", "delete"]);
        let ask = json!({"process_id": process, "keys": keys, "yield_time_ms": 1000, "quiet_ms": 100});
        yard.call("ProcessInput", ask).await;
        let all = yard.output(&process, json!({"encoding": "base64"})).await;
        assert_eq!(all["output"], exact);
    }
}
