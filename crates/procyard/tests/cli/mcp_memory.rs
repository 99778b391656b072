//! What a long session costs: memory and descriptors stay what they were.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use crate::client::{Client, meta};
use crate::running::{Running, within};
use crate::scene::Scene;
use crate::served::Service;

/// As many processes as are retained, so that each further one takes the place of another.
const WARM_UP: usize = 110;

/// Four calls each.
const ROUNDS: usize = 250;

const GROWTH_MAX: u64 = 4 << 20;

/// Descriptors that come and go with what happens at the moment.
const IN_PASSING: usize = 4;

/// A server whose calls are made one after the other leaves no more behind than before.
#[track_caller]
fn stays_flat<S>(scene: &mut S, server: impl Fn(&S) -> &Running, mut round: impl FnMut(&mut S)) {
    for _ in 0..WARM_UP {
        round(scene);
    }
    let before = (server(scene).resident_memory(), server(scene).descriptors());
    for _ in 0..ROUNDS {
        round(scene);
    }
    let grown = server(scene).resident_memory().saturating_sub(before.0);
    assert!(grown < GROWTH_MAX, "{} KiB", grown >> 10);
    let descriptors = server(scene).descriptors();
    assert!(descriptors <= before.1 + IN_PASSING, "{} and then {descriptors} descriptors", before.1);
}

#[test]
fn a_thousand_calls_leave_memory_flat() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    stays_flat(
        &mut client,
        |client| &client.server,
        |client| {
            let ended = client.call("Bash", json!({"command": "seq 1 2000"}));
            client.call("ProcessOutput", json!({"process_id": ended["process_id"], "tail_lines": 10}));
            client.call("ProcessList", json!({"limit": 10}));
            let uri = format!("procyard://process/{}/output", ended["process_id"].as_str().unwrap());
            client.ask("resources/read", json!({"uri": uri}));
        },
    );
}

#[test]
fn a_thousand_lines_that_are_refused_leave_memory_flat() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &[]);
    stays_flat(
        &mut client,
        |client| &client.server,
        |client| {
            client.write("this is not JSON");
            client.write("[]");
            client.refused("tools/call", json!([]));
            let wait = json!({"process_id": "AAAAAAAAAAAAAAAAAAAAAA", "wait": "any"});
            let id = client.begin("ProcessOutput", wait);
            client.notify("notifications/cancelled", json!({"requestId": id}));
            client.unasked();
            client.take_unasked();
        },
    );
}

#[test]
fn a_thousand_calls_over_http_leave_memory_flat() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (created, _) = service.session();
    let socket = scene.data_dir().join("procyard.sock");
    let mut caller = Caller { service, socket: socket.to_str().unwrap().to_owned(), token: created.token };
    stays_flat(
        &mut caller,
        |caller| &caller.service.running,
        |caller| {
            let ended = caller.call("Bash", &json!({"command": "seq 1 2000"}));
            caller.call("ProcessOutput", &json!({"process_id": ended["process_id"], "tail_lines": 10}));
            caller.call("ProcessList", &json!({"limit": 10}));
            caller.call("ProcessOutput", &json!({"process_id": "AAAAAAAAAAAAAAAAAAAAAA"}));
        },
    );
}

struct Caller {
    service: Service,
    socket: String,
    token: String,
}

impl Caller {
    /// A call of the newest revision over a connection of its own, and its structured result.
    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta(&json!({}))});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let head = [
            "POST /v1/mcp HTTP/1.1".to_owned(),
            "host: localhost".to_owned(),
            format!("authorization: Bearer {}", self.token),
            "accept: application/json, text/event-stream".to_owned(),
            "content-type: application/json".to_owned(),
            "mcp-protocol-version: 2026-07-28".to_owned(),
            "mcp-method: tools/call".to_owned(),
            format!("mcp-name: {tool}"),
            "connection: close".to_owned(),
            format!("content-length: {}", body.len()),
        ];
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        write!(stream, "{}\r\n\r\n{body}", head.join("\r\n")).unwrap();
        within(move || {
            let mut answer = BufReader::new(stream);
            let mut line = String::new();
            while !line.starts_with("data:") {
                line.clear();
                assert!(answer.read_line(&mut line).unwrap() > 0, "an event");
            }
            let message: Value = serde_json::from_str(&line["data:".len()..]).unwrap();
            answer.read_to_end(&mut Vec::new()).unwrap();
            message["result"]["structuredContent"].clone()
        })
    }
}
