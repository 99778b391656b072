//! Batches: several messages in one line, in the revisions of the protocol that have them.

use serde_json::{Value, json};

use crate::client::Client;
use crate::scene::Scene;

const INVALID_REQUEST: i64 = -32600;
const WITH_BATCHES: [&str; 2] = ["2024-11-05", "2025-03-26"];

fn greeted(version: &str) -> (Scene, Client) {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    assert_eq!(client.initialize(version)["protocolVersion"], version);
    (scene, client)
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn ping(id: impl Into<Value>) -> Value {
    request(id, "ping", json!({}))
}

fn bash(id: impl Into<Value>, command: &str) -> Value {
    request(id, "tools/call", json!({"name": "Bash", "arguments": {"command": command}}))
}

fn cancel(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}})
}

/// The answers to a batch, in the order of their ids as text, since they come in any.
#[track_caller]
fn answers(client: &mut Client) -> Vec<Value> {
    let message = client.message("the answers to a batch", Value::is_array);
    let mut answers = message.as_array().unwrap().clone();
    answers.sort_by_key(|answer| answer["id"].to_string());
    answers
}

/// A batch is refused as a whole, by one error of nobody's.
#[track_caller]
fn refused(client: &mut Client, batch: &Value, why: &str) {
    client.write(batch.to_string());
    client.unasked();
    let said = client.take_unasked();
    let [answer] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(INVALID_REQUEST)));
    assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
}

#[test]
fn a_batch_is_answered_in_one_line_in_the_revisions_that_have_them() {
    for version in WITH_BATCHES {
        let (_scene, mut client) = greeted(version);
        let batch = json!([
            bash("echo", "echo hello"),
            ping(7),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 99, "result": {}},
            request(8, "no/such/method", json!({})),
            request(9, "tools/call", json!({"name": 5})),
            {"jsonrpc": "1.0", "id": 10, "method": "ping"},
            5,
            [ping(11)],
        ]);
        client.write(batch.to_string());
        let answers = answers(&mut client);
        let codes: Vec<_> = answers.iter().map(|answer| (&answer["id"], &answer["error"]["code"])).collect();
        let (none, invalid) = (Value::Null, json!(INVALID_REQUEST));
        assert_eq!(
            codes,
            [
                (&json!("echo"), &none),
                (&json!(10), &invalid),
                (&json!(7), &none),
                (&json!(8), &json!(-32601)),
                (&json!(9), &json!(-32602)),
                (&none, &invalid),
                (&none, &invalid),
            ],
            "{version}"
        );
        assert_eq!(answers[0]["result"]["structuredContent"]["output"], "hello\n", "{answers:?}");
        assert_eq!(client.unasked(), Vec::<Value>::new(), "nothing is answered twice");
        assert_eq!(client.leave_and_wait().0.code(), Some(0));
    }
}

#[test]
fn a_batch_in_which_nothing_is_asked_is_answered_by_nothing() {
    let (_scene, mut client) = greeted("2025-03-26");
    let batch = json!([
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        cancel(12345),
        {"jsonrpc": "2.0", "method": "no/such/thing", "params": []},
        {"jsonrpc": "2.0", "id": 99, "result": {}},
    ]);
    client.write(batch.to_string());
    assert_eq!(client.unasked(), Vec::<Value>::new());
}

#[test]
fn a_batch_of_nothing_or_of_too_many_messages_is_refused_as_a_whole() {
    let (_scene, mut client) = greeted("2025-03-26");
    refused(&mut client, &json!([]), "at least one message");
    let many = |count: i64| (1000..1000 + count).map(ping).collect::<Value>();
    refused(&mut client, &many(129), "at most 128 messages");
    client.write(many(128).to_string());
    let answers = answers(&mut client);
    assert_eq!(answers.len(), 128);
    assert!(answers.iter().all(|answer| answer["result"] == json!({})), "{answers:?}");
}

#[test]
fn a_request_that_is_cancelled_does_not_hold_the_answers_to_its_batch() {
    let (_scene, mut client) = greeted("2025-03-26");
    client.write(json!([bash("long", "exec sleep 1000"), ping("short")]).to_string());
    // Meanwhile others are answered, and of the batch nothing is.
    assert_eq!(client.unasked(), Vec::<Value>::new());
    client.write(cancel("long").to_string());
    let said = answers(&mut client);
    assert_eq!(said, [json!({"jsonrpc": "2.0", "id": "short", "result": {}})]);
    // The cancellation may be part of the batch, and where it leaves nobody who waits there is no answer.
    client.write(json!([bash("long", "exec sleep 1000"), cancel("long")]).to_string());
    client.write(json!([bash("long", "exec sleep 1000"), cancel("long"), ping("short")]).to_string());
    assert_eq!(answers(&mut client).len(), 1);
    assert_eq!(client.unasked(), Vec::<Value>::new());
}

#[test]
fn an_id_that_is_in_use_is_refused_among_the_answers() {
    let (_scene, mut client) = greeted("2025-03-26");
    client.write(json!([bash("same", "exec sleep 1000"), ping("same"), cancel("same")]).to_string());
    let answers = answers(&mut client);
    let [answer] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("same"), &json!(INVALID_REQUEST)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("in use"), "{answer}");
}

#[test]
fn inputs_of_one_batch_reach_the_process_in_their_order() {
    let (_scene, mut client) = greeted("2025-03-26");
    let started = client.call("Bash", json!({"command": "cat", "background": true, "stdin": true}));
    let process = &started["process_id"];
    let input = |number: usize| {
        let arguments = json!({"process_id": process, "data": format!("{number}\n")});
        request(
            format!("input {number}"),
            "tools/call",
            json!({"name": "ProcessInput", "arguments": arguments}),
        )
    };
    client.write((0..100).map(input).collect::<Value>().to_string());
    assert_eq!(answers(&mut client).len(), 100);
    client.call("ProcessInput", json!({"process_id": process, "eof": true}));
    let wait = json!({"process_id": process, "wait": "any", "until": "exit", "timeout_ms": 60_000});
    client.call("ProcessOutput", wait);
    let all = client.call("ProcessOutput", json!({"process_id": process}));
    let expected: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(all["output"], format!("{}\n", expected.join("\n")));
}

#[test]
fn what_is_agreed_upon_is_not_agreed_upon_in_a_batch() {
    let (_scene, mut client) = greeted("2025-03-26");
    let client_info = json!({"name": "test", "version": "1"});
    let hello = |id: Value| {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info});
        request(id, "initialize", params)
    };
    client.write(json!([hello(json!("hello")), ping("ping")]).to_string());
    let said = answers(&mut client);
    assert_eq!((&said[0]["id"], &said[0]["error"]["code"]), (&json!("hello"), &json!(INVALID_REQUEST)));
    assert!(said[0]["error"]["message"].as_str().unwrap().contains("initialize"), "{said:?}");
    assert_eq!(said[1]["result"], json!({}));
    // Alone it is taken, and from then on there are no batches.
    client.initialize("2025-06-18");
    client.write(json!([ping("ping")]).to_string());
    let said = client.message("a refusal", |message| message["id"] == "ping");
    assert_eq!(said["error"]["code"], INVALID_REQUEST, "{said}");
    client.initialize("2024-11-05");
    client.write(json!([ping("ping")]).to_string());
    assert_eq!(answers(&mut client).len(), 1);
}

#[test]
fn a_batch_that_the_end_of_the_input_follows_is_answered() {
    let (_scene, mut client) = greeted("2025-03-26");
    client.write(json!([ping("first"), request("second", "tools/list", json!({}))]).to_string());
    client.leave();
    let answers = answers(&mut client);
    assert!(answers.iter().all(|answer| answer["result"].is_object()), "{answers:?}");
    assert_eq!(answers.len(), 2);
    assert_eq!(client.leave_and_wait().0.code(), Some(0));
}
