//! What differs from revision to revision of the protocol, and what does not.

use serde_json::{Value, json};

use crate::client::{Client, meta};
use crate::scene::Scene;

const WITH_HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn greeted(scene: &Scene, version: &str) -> Client {
    let mut client = Client::silent(scene, &[]);
    assert_eq!(client.initialize(version)["protocolVersion"], version);
    client
}

fn bash(command: &str) -> Value {
    json!({"name": "Bash", "arguments": {"command": command}})
}

/// The parameters of a request of the newest revision.
fn newest(mut params: Value) -> Value {
    params["_meta"] = meta(&json!({}));
    params
}

#[test]
fn a_client_that_knows_no_structure_finds_everything_in_the_text() {
    for version in WITH_HANDSHAKE {
        let scene = Scene::new();
        let mut client = greeted(&scene, version);
        let result = client.ask("tools/call", bash("echo hello; exit 3"));
        let [content] = result["content"].as_array().unwrap().as_slice() else { panic!("{result}") };
        assert_eq!(content["type"], "text");
        let text = content["text"].as_str().unwrap();
        let process = result["structuredContent"]["process_id"].as_str().unwrap();
        assert!(text.contains("hello\n") && text.contains("exited 3") && text.contains(process), "{text}");
        // Of the revisions that name the kinds of results these are none.
        assert!(result.get("resultType").is_none(), "{version}: {result}");
        let refused = client.ask("tools/call", bash(""));
        assert_eq!(refused["isError"], true, "{version}: {refused}");
        assert!(refused["content"][0]["text"].as_str().unwrap().contains("command"), "{refused}");
    }
}

#[test]
fn what_only_the_newest_revision_has_is_unknown_to_the_others_and_the_other_way_round() {
    for version in WITH_HANDSHAKE {
        let scene = Scene::new();
        let mut client = greeted(&scene, version);
        for (method, params) in [
            ("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": []}})),
            ("no/such/method", json!({})),
        ] {
            assert_eq!(client.refused(method, params)["code"], -32601, "{version} {method}");
        }
        assert_eq!(client.ask("ping", json!({})), json!({}), "{version}");
    }
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    let done = client.ask("tools/call", newest(bash("echo hello")));
    assert_eq!(
        (&done["resultType"], &done["structuredContent"]["output"]),
        (&json!("complete"), &json!("hello\n"))
    );
    for (method, params) in [
        ("ping", json!({})),
        ("resources/subscribe", json!({"uri": "procyard://process/AAAAAAAAAAAAAAAAAAAAAA/output"})),
        ("resources/unsubscribe", json!({"uri": "procyard://process/AAAAAAAAAAAAAAAAAAAAAA/output"})),
        ("logging/setLevel", json!({"level": "debug"})),
        ("no/such/method", json!({})),
    ] {
        assert_eq!(client.refused(method, newest(params))["code"], -32601, "{method}");
    }
}

#[test]
fn a_request_of_a_revision_that_nobody_knows_is_told_which_there_are() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    let mut params = newest(json!({}));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    for _ in 0..2 {
        let refused = client.refused("tools/list", params.clone());
        assert_eq!(refused["code"], -32022, "{refused}");
        assert!(refused["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")), "{refused}");
        // Before the session is open, and afterwards.
        client.ask("tools/list", newest(json!({})));
    }
}

#[test]
fn a_request_of_the_newest_revision_says_who_asks_each_time() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    client.ask("tools/list", newest(json!({})));
    let refused = client.refused("tools/call", bash("echo hello"));
    assert_eq!(refused["code"], -32602, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("_meta"), "{refused}");
    assert_eq!(
        client.ask("tools/call", newest(bash("echo hello")))["structuredContent"]["output"],
        "hello\n"
    );
}

#[test]
fn what_a_subscription_tells_names_the_request_as_its_client_did() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    let mut call = bash("cat");
    call["arguments"]["stdin"] = json!(true);
    call["arguments"]["background"] = json!(true);
    let cat = client.ask("tools/call", newest(call))["structuredContent"]["process_id"].clone();
    let uri = format!("procyard://process/{}/output", cat.as_str().unwrap());
    let wanted = newest(json!({"notifications": {"resourceSubscriptions": [uri]}}));
    let listen =
        json!({"jsonrpc": "2.0", "id": "my own", "method": "subscriptions/listen", "params": wanted});
    client.write(listen.to_string());
    let input = json!({"name": "ProcessInput", "arguments": {"process_id": cat, "data": "x\n"}});
    for method in ["notifications/subscriptions/acknowledged", "notifications/resources/updated"] {
        let told = client.message(method, |message| message["method"] == method);
        let id = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(id, "my own", "{told}");
        if method.ends_with("acknowledged") {
            client.ask("tools/call", newest(input.clone()));
        }
    }
    // A request that lasts is one that is under way.
    client.write(listen.to_string());
    let refused = client.message("a refusal", |message| message["id"] == "my own");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    client.notify("notifications/cancelled", json!({"requestId": "my own"}));
    client.ask("tools/list", newest(json!({})));
}
