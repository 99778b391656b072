//! What processes have printed, as resources of `procyard mcp`, and how a client hears of changes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, meta};
use crate::scene::{Scene, eventually};

const UPDATED: &str = "notifications/resources/updated";

fn uri(process: &Value) -> String {
    format!("procyard://process/{}/output", process["process_id"].as_str().unwrap())
}

fn read(client: &mut Client, uri: &str) -> Value {
    client.ask("resources/read", json!({"uri": uri}))["contents"][0].clone()
}

fn is_update(message: &Value, uri: &str) -> bool {
    message["method"] == UPDATED && message["params"]["uri"] == uri
}

#[test]
fn every_process_is_a_resource_and_the_newest_comes_first() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    client.call("Bash", json!({"command": "echo one"}));
    client.call("Bash", json!({"command": "exit 3", "description": "fails"}));
    let listed = client.ask("resources/list", json!({}))["resources"].clone();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["title"], "fails");
    assert!(listed[0]["description"].as_str().unwrap().contains("exited with code 3"), "{listed:?}");
    assert_eq!((&listed[1]["size"], &listed[1]["mimeType"]), (&json!(4), &json!("text/plain")));
    assert_eq!(read(&mut client, listed[1]["uri"].as_str().unwrap())["text"], "one\n");
    let templates = client.ask("resources/templates/list", json!({}));
    let template = &templates["resourceTemplates"][0]["uriTemplate"];
    assert_eq!(template, "procyard://process/{process_id}/output");
}

#[test]
fn a_long_list_comes_in_pages() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let started = 53;
    for _ in 0..started {
        client.call("Bash", json!({"argv": ["true"]}));
    }
    let first = client.ask("resources/list", json!({}));
    assert_eq!(first["resources"].as_array().unwrap().len(), 50);
    let second = client.ask("resources/list", json!({"cursor": first["nextCursor"]}));
    assert_eq!(second["resources"].as_array().unwrap().len(), started - 50);
    assert!(second.get("nextCursor").is_none(), "{second}");
    assert_eq!(client.refused("resources/list", json!({"cursor": "nonsense"}))["code"], -32602);
}

#[test]
fn what_is_left_out_of_a_resource_is_said_in_it() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let ended = client.call("Bash", json!({"command": "seq 1 100000"}));
    let contents = read(&mut client, &uri(&ended));
    let text = contents["text"].as_str().unwrap();
    assert!(text.len() < 40_000, "{}", text.len());
    assert!(text.starts_with("1\n2\n") && text.ends_with("\n100000\n"), "{text}");
    let omitted = &contents["_meta"]["procyard/omitted_bytes"];
    assert!(text.contains(&format!("[… {omitted} bytes left out, beginning at cursor ")), "{contents}");
    assert_eq!(contents["_meta"]["procyard/total_bytes"], 588_895);
    assert_eq!(
        (&contents["_meta"]["procyard/status"], &contents["mimeType"]),
        (&json!("exited"), &json!("text/plain"))
    );
}

#[test]
fn a_resource_that_is_not_there_is_missing_however_it_is_written() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    for uri in [
        "procyard://process/AAAAAAAAAAAAAAAAAAAAAA/output",
        "procyard://process/x/output",
        "file:///etc/passwd",
        "",
    ] {
        for method in ["resources/read", "resources/subscribe"] {
            let refused = client.refused(method, json!({"uri": uri}));
            assert_eq!(
                (&refused["code"], &refused["data"]["uri"]),
                (&json!(-32002), &json!(uri)),
                "{method}"
            );
        }
    }
}

#[test]
fn a_subscriber_is_told_of_output_and_of_the_end_a_few_times_a_second_at_most() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    std::fs::write(scene.path().join("wait"), "").unwrap();
    let line = "while [ -e wait ]; do echo more; done; echo last";
    let process = client.call("Bash", json!({"command": line, "background": true, "description": "chatty"}));
    let uri = uri(&process);
    client.ask("resources/subscribe", json!({"uri": uri}));
    let began = Instant::now();
    for _ in 0..4 {
        client.message("an update", |message| is_update(message, &uri));
    }
    // The first may come at once.
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    std::fs::remove_file(scene.path().join("wait")).unwrap();
    let wait =
        json!({"process_id": process["process_id"], "wait": "any", "until": "exit", "timeout_ms": 30_000});
    client.call("ProcessOutput", wait);
    // After the last change comes a message.
    eventually("the end is told", || {
        client.message("an update", |message| is_update(message, &uri));
        let contents = read(&mut client, &uri);
        (contents["_meta"]["procyard/status"] == "exited").then_some(())
    });
}

#[test]
fn who_has_unsubscribed_is_told_nothing_more() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    let cat = client.call("Bash", json!({"command": "cat", "background": true, "stdin": true}));
    let other = client.call("Bash", json!({"command": "cat", "background": true, "stdin": true}));
    let (uri, id) = (uri(&cat), &cat["process_id"]);
    client.ask("resources/subscribe", json!({"uri": uri}));
    let echoed = |client: &mut Client, id: &Value| {
        let input = json!({"process_id": id, "data": "x\n", "yield_time_ms": 30_000});
        assert_eq!(client.call("ProcessInput", input)["output"], "x\n");
    };
    echoed(&mut client, id);
    client.message("an update", |message| is_update(message, &uri));
    // Only what was subscribed to is told.
    echoed(&mut client, &other["process_id"]);
    client.ask("resources/unsubscribe", json!({"uri": uri}));
    client.unasked();
    let before = client.unasked().len();
    echoed(&mut client, id);
    // Longer than any message waits for the next round.
    let wait = json!({"process_id": id, "wait": "any", "until": "exit", "timeout_ms": 600});
    client.call("ProcessOutput", wait);
    let messages = client.unasked();
    assert_eq!(messages.len(), before, "{messages:?}");
    assert!(messages.iter().all(|message| is_update(message, &uri)), "{messages:?}");
}

#[test]
fn what_was_printed_before_a_lasting_subscription_is_one_change() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    let meta = meta(&json!({}));
    let background = |command: &str| json!({"name": "Bash", "arguments": {"command": command, "background": true}, "_meta": meta});
    let silent = client.ask("tools/call", background("sleep 600"))["structuredContent"].clone();
    let ended = client.ask("tools/call", background("echo x"))["structuredContent"].clone();
    let wait = json!({"process_id": ended["process_id"], "wait": "any", "until": "exit"});
    client.ask("tools/call", json!({"name": "ProcessOutput", "arguments": wait, "_meta": meta}));
    let (silent, ended) = (uri(&silent), uri(&ended));
    let wanted = json!({"resourceSubscriptions": [silent, ended]});
    client.request("subscriptions/listen", json!({"notifications": wanted, "_meta": meta}));
    client.message("a change", |message| is_update(message, &ended));
    // Both would be told in the same round, which is over before this is answered.
    client.ask("tools/call", json!({"name": "ProcessList", "arguments": {}, "_meta": meta}));
    assert!(!client.take_unasked().iter().any(|message| is_update(message, &silent)));
    assert_eq!(client.leave_and_wait().0.code(), Some(0));
}

#[test]
fn the_newest_revision_subscribes_by_a_request_that_lasts() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    let meta = meta(&json!({}));
    let call = json!({
        "name": "Bash",
        "arguments": {"command": "cat", "background": true, "stdin": true},
        "_meta": meta,
    });
    let cat = client.ask("tools/call", call)["structuredContent"].clone();
    let uri = uri(&cat);
    let wanted = json!({"resourceSubscriptions": [uri, "file:///etc/passwd"], "toolsListChanged": true});
    let listening = client.request("subscriptions/listen", json!({"notifications": wanted, "_meta": meta}));
    let accepted = client.message("an acknowledgement", |message| {
        message["method"] == "notifications/subscriptions/acknowledged"
    });
    assert_eq!(accepted["params"]["notifications"], json!({"resourceSubscriptions": [uri]}), "{accepted}");
    let input = json!({
        "name": "ProcessInput",
        "arguments": {"process_id": cat["process_id"], "data": "x\n"},
        "_meta": meta,
    });
    client.ask("tools/call", input);
    let update = client.message("an update", |message| is_update(message, &uri));
    let subscription = &update["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(subscription.to_string().trim_matches('"'), listening.to_string(), "{update}");
    client.notify("notifications/cancelled", json!({"requestId": listening}));
    let refused = client.refused("resources/subscribe", json!({"uri": uri, "_meta": meta}));
    assert_eq!(refused["code"], -32601, "that is how older revisions do it");
    assert_eq!(client.leave_and_wait().0.code(), Some(0));
}
