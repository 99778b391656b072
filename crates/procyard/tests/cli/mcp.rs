//! `procyard mcp` as a client sees it: revisions, tools, calls, cancellation, and lines that are none of the protocol's.

use serde_json::{Value, json};

use crate::client::{Client, WITH_INITIALIZE, meta};
use crate::recorded::ESCAPE;
use crate::scene::{Scene, eventually};

const MIB: usize = 1024 * 1024;

#[test]
fn every_revision_with_a_handshake_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let scene = Scene::new();
        let mut client = Client::silent(&scene, &[]);
        let opened = client.initialize(version);
        assert_eq!(opened["protocolVersion"], version);
        assert_eq!(opened["serverInfo"]["name"], "procyard");
        assert!(opened["capabilities"]["tools"].is_object(), "{opened}");
        assert!(opened["instructions"].as_str().is_some_and(|text| text.contains("ProcessOutput")));
        client.learn_tools();
        assert_eq!(client.call("Bash", json!({"command": "echo hello"}))["output"], "hello\n", "{version}");
        let listed = client.ask("resources/list", json!({}));
        let read = client.ask("resources/read", json!({"uri": listed["resources"][0]["uri"]}));
        assert_eq!(read["contents"][0]["text"], "hello\n", "{version}");
        assert_eq!(client.leave_and_wait().0.code(), Some(0));
    }
}

#[test]
fn a_revision_that_nobody_knows_is_answered_with_one_that_is_spoken() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    assert_eq!(client.initialize("1999-12-31")["protocolVersion"], WITH_INITIALIZE);
}

#[test]
fn the_newest_revision_is_spoken_without_a_handshake() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    let meta = meta(&json!({}));
    let found = client.ask("server/discover", json!({"_meta": meta}));
    assert!(found.to_string().contains("2026-07-28"), "{found}");
    let tools = client.ask("tools/list", json!({"_meta": meta}));
    assert_eq!(tools["tools"].as_array().unwrap().len(), 5);
    let call = json!({"name": "Bash", "arguments": {"command": "echo hello"}, "_meta": meta});
    assert_eq!(client.ask("tools/call", call)["structuredContent"]["output"], "hello\n");
    assert_eq!(client.leave_and_wait().0.code(), Some(0));
}

#[test]
fn there_are_five_tools_with_schemas_both_ways_and_annotations() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    client.initialize(WITH_INITIALIZE);
    let tools = client.learn_tools();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Bash", "ProcessOutput", "ProcessInput", "ProcessStop", "ProcessList"]);
    for tool in &tools {
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{tool}");
            jsonschema::meta::validate(&tool[schema]).unwrap();
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        let looks_only = matches!(tool["name"].as_str(), Some("ProcessOutput" | "ProcessList"));
        assert_eq!(tool["annotations"]["readOnlyHint"], looks_only, "{tool}");
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 40), "{tool}");
    }
    let stop = &tools[3]["annotations"];
    assert_eq!((&stop["destructiveHint"], &stop["idempotentHint"]), (&json!(true), &json!(true)));
}

#[test]
fn a_command_that_fails_is_a_result_and_a_call_that_cannot_be_carried_out_is_an_error() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let failed = client.call("Bash", json!({"command": "echo no >&2; exit 3"}));
    assert_eq!((&failed["exit_code"], &failed["output"]), (&json!(3), &json!("no\n")));
    for (tool, arguments) in [
        ("Bash", json!({})),
        ("Bash", json!({"command": "true", "comand": "true"})),
        ("Bash", json!({"command": "true", "workdir": "/nonexistent"})),
        ("ProcessOutput", json!({"process_id": "AAAAAAAAAAAAAAAAAAAAAA"})),
        ("ProcessStop", json!({"process_id": "not a handle"})),
    ] {
        let result = client.call_whole(tool, arguments.clone());
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
        assert!(result["structuredContent"]["error"]["code"].is_string(), "{result}");
        assert!(!result["content"][0]["text"].as_str().unwrap().is_empty());
    }
}

#[test]
fn commands_run_in_the_workspace_and_see_none_of_the_protocol() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &["--workspace", "/"]);
    assert_eq!(client.call("Bash", json!({"command": "pwd"}))["output"], "/\n");
    // Its input is empty, and its output goes nowhere near the client's.
    let output = client.call("Bash", json!({"command": "cat; echo {not json; ls /proc/$$/fd"}));
    assert!(output["output"].as_str().unwrap().starts_with("{not json\n0\n1\n2\n"), "{output}");
}

#[test]
fn a_cancelled_foreground_command_is_stopped_gets_no_response_and_is_told_of_later() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let line = format!("{ESCAPE}; eval \"$RECORD\"; echo begun; exec sleep 1000");
    let call = json!({"name": "Bash", "arguments": {"command": line}, "_meta": {"progressToken": 1}});
    let id = client.request("tools/call", call);
    scene.wait_for_records(2);
    // From the first progress on, the call waits for the command.
    client.message("progress", |message| message["method"] == "notifications/progress");
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    eventually("the tree ends", || scene.survivors().is_empty().then_some(()));
    let notice = eventually("the outcome is told", || {
        let result = client.call("ProcessList", json!({}));
        result["notifications"].get(0).cloned()
    });
    assert_eq!(notice["status"], "terminated", "{notice}");
    assert!(!client.unasked().iter().any(|message| message["id"] == id));
    assert!(client.call("ProcessList", json!({})).get("notifications").is_none(), "once");
}

#[test]
fn a_cancelled_wait_leaves_the_process_running() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let line = "eval \"$RECORD\"; exec sleep 1000";
    let handle = client.call("Bash", json!({"command": line, "background": true}))["process_id"].clone();
    let recorded = scene.wait_for_records(1)[0];
    let wait = json!({"process_id": handle, "wait": "any", "until": "exit", "timeout_ms": 600_000});
    let id = client.begin("ProcessOutput", wait);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    let look = client.call("ProcessOutput", json!({"process_id": handle}));
    assert_eq!(look["status"], "running");
    assert!(recorded.is_alive());
    assert!(!client.unasked().iter().any(|message| message["id"] == id));
    let stopped = client.call("ProcessStop", json!({"process_id": handle, "mode": "terminate"}));
    assert_eq!((&stopped["status"], &stopped["tree_exited"]), (&json!("terminated"), &json!(true)));
    scene.assert_no_survivor();
}

#[test]
fn progress_is_told_where_a_token_asks_for_it_and_never_after_the_result() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    std::fs::write(scene.path().join("wait"), "").unwrap();
    let command = "echo first line; while [ -e wait ]; do read -t 0.05 <> <(:); done; echo done";
    let call = json!({"name": "Bash", "arguments": {"command": command}, "_meta": {"progressToken": "abc"}});
    let id = client.request("tools/call", call);
    let progress = client.message("progress", |message| message["method"] == "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "abc");
    assert_eq!(progress["params"]["progress"].as_f64(), Some(11.0));
    assert_eq!(progress["params"]["message"], "first line");
    std::fs::remove_file(scene.path().join("wait")).unwrap();
    let response = client.response(id);
    assert_eq!(response["result"]["structuredContent"]["output"], "first line\ndone\n");
    client.unasked();
    let before = client.unasked().len();
    assert_eq!(client.unasked().len(), before, "no progress after the result");
    client.call("Bash", json!({"command": "echo without a token"}));
    assert_eq!(client.unasked().len(), before);
}

#[test]
fn lines_that_are_none_of_the_protocols_do_no_harm() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    client.notify("notifications/initialized", json!({}));
    client.write(json!({"jsonrpc": "2.0", "id": 7, "result": {}}).to_string());
    client.write("hello?");
    client.initialize(WITH_INITIALIZE);
    client.learn_tools();
    for junk in [
        &b"this is not JSON"[..],
        b"",
        b"   ",
        b"{",
        b"\xFF\xFE\x00\x01",
        b"[]",
        b"null",
        b"42",
        b"\"text\"",
        br#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#,
        br#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#,
        br#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/unheard-of"}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
    ] {
        client.write(junk);
    }
    let unknown = client.request("no/such/method", json!({}));
    assert_eq!(client.response(unknown)["error"]["code"], -32601);
    for params in [
        json!({}),
        json!({"name": 5}),
        json!({"name": "Bash", "arguments": []}),
        json!({"name": "Bash", "arguments": "true"}),
    ] {
        let refused = client.refused("tools/call", params.clone());
        assert_eq!(refused["code"], -32602, "{params}: {refused}");
        assert!(refused["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    let missing = client.request("tools/call", json!({"name": "NoSuchTool", "arguments": {}}));
    let answer = client.response(missing);
    assert!(answer["error"]["code"].is_i64() || answer["result"]["isError"] == true, "{answer}");
    assert_eq!(client.call("Bash", json!({"command": "echo alive"}))["output"], "alive\n");
    assert_eq!(client.leave_and_wait().0.code(), Some(0));
}

#[test]
fn a_giant_line_is_dropped_without_being_held() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let before = client.server.peak_memory();
    let giant = vec![b'x'; 64 * MIB];
    client.write(&giant);
    client.write([br#"{"jsonrpc":"2.0","id":1,"method":"#, &giant[..]].concat());
    assert_eq!(client.call("Bash", json!({"command": "echo alive"}))["output"], "alive\n");
    let grown = client.server.peak_memory() - before;
    assert!(grown < 40 * MIB as u64, "{} MiB", grown >> 20);
}

#[test]
fn the_largest_arguments_fit_into_a_message() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    // A control character is six characters in JSON.
    let input: String = "\u{1}".repeat(MIB);
    let counted = client.call("Bash", json!({"command": "wc -c", "input": input}));
    assert_eq!(counted["output"].as_str().map(str::trim), Some("1048576"));
}

#[test]
fn many_calls_at_once_are_answered_each() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let ids: Vec<_> =
        (0..8).map(|number| client.begin("Bash", json!({"command": format!("echo {number}")}))).collect();
    for (number, id) in ids.into_iter().enumerate() {
        let response = client.response(id);
        let output: &Value = &response["result"]["structuredContent"]["output"];
        assert_eq!(output, &json!(format!("{number}\n")), "{response}");
    }
}

#[test]
fn inputs_reach_a_process_in_the_order_in_which_they_were_sent() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let cat = client.call("Bash", json!({"command": "cat", "background": true, "stdin": true}));
    let process = cat["process_id"].clone();
    let begun: Vec<i64> = (0..200)
        .map(|number| {
            let input = json!({"process_id": process, "data": format!("{number}\n")});
            client.begin("ProcessInput", input)
        })
        .collect();
    for id in begun {
        client.response(id);
    }
    client.call("ProcessInput", json!({"process_id": process, "eof": true}));
    let wait = json!({"process_id": process, "wait": "any", "until": "exit", "timeout_ms": 30_000});
    let got = client.call("ProcessOutput", wait);
    let numbers: Vec<u32> =
        got["output"].as_str().unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
}
