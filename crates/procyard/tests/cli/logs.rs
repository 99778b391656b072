//! What procyard says on stderr: never what a command prints, is given or sees, at no level.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use procyard_api::BashArguments;
use procyard_api::http::CreateSession;
use procyard_client::Client as ServiceClient;
use serde_json::json;

use crate::client::{Client, meta};
use crate::running::{Running, within};
use crate::scene::{Scene, eventually};
use crate::served::block;

/// Whatever must not be found in a log has this in it; commands make it of two halves, as nobody else does.
const SECRET: &str = "s3cr3t-of-the-test";

fn everything(command: &mut Command) -> &mut Command {
    command.env("PROCYARD_LOG", "trace").env("LOGGED_SECRET", SECRET)
}

/// Collects what a program says until it ends.
fn said(server: &mut Running) -> impl FnOnce() -> String + use<> {
    let mut stderr = server.take_stderr();
    let collecting = std::thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        said
    });
    move || within(move || collecting.join().unwrap())
}

#[test]
fn no_level_shows_what_a_client_of_the_protocol_sends_and_gets() {
    let scene = Scene::new();
    let mut client = Client::silent_with(&scene, |command| {
        everything(command);
    });
    let said = said(&mut client.server);
    client.initialize("2025-11-25");
    let line = format!("echo {SECRET}; echo $LOGGED_SECRET; echo $GIVEN; cat");
    let bash = json!({"command": line, "env": {"GIVEN": SECRET}, "stdin": true, "background": true});
    let process = client.call("Bash", bash)["process_id"].clone();
    client.call("ProcessInput", json!({"process_id": process, "data": format!("{SECRET}\n"), "eof": true}));
    let wait = json!({"process_id": process, "wait": "any", "until": "exit", "timeout_ms": 60_000});
    let output = client.call("ProcessOutput", wait)["output"].clone();
    assert_eq!(output.as_str().unwrap().matches(SECRET).count(), 4, "{output}");
    let uri = format!("procyard://process/{}/output", process.as_str().unwrap());
    client.ask("resources/read", json!({"uri": uri}));
    // What is refused may hold something, too.
    client.refused("tools/call", json!({"name": SECRET, "arguments": SECRET}));
    client.refused("tools/call", json!([SECRET]));
    client.call_whole("Bash", json!({"command": "true", "env": SECRET}));
    client.write(format!("{{{SECRET}"));
    client.notify("notifications/cancelled", json!({"requestId": SECRET, "reason": SECRET}));
    client.unasked();
    assert_eq!(client.leave_and_wait().0.code(), Some(0));
    let said = said();
    assert!(said.contains("the session is open"), "it logs: {said}");
    assert!(!said.contains(SECRET), "{said}");
}

#[test]
fn no_level_shows_what_a_client_of_the_service_sends_and_gets() {
    let scene = Scene::new();
    let mut command = scene.procyard_heeding_signals(["serve"]);
    let mut server = Running::spawn(everything(&mut command));
    let said = said(&mut server);
    let socket = scene.data_dir().join("procyard.sock");
    let admin = ServiceClient::unix(&socket);
    let created = eventually("it answers", || {
        socket.exists().then(|| block(admin.create_session(&CreateSession::default())).ok()).flatten()
    });
    let client = admin.with_token(&created.token);
    let bash = BashArguments {
        command: Some(format!("echo {SECRET}; echo $LOGGED_SECRET; echo $GIVEN; cat")),
        env: Some([("GIVEN".to_owned(), SECRET.to_owned())].into()),
        input: Some(SECRET.to_owned()),
        background: true,
        ..BashArguments::default()
    };
    block(client.start(&bash, None)).unwrap();
    let answer = asked_over_mcp(&socket, &created.token);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(SECRET), "{answer}");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(server.end().code(), Some(0));
    let said = said();
    assert!(said.contains("ready on"), "{said}");
    assert!(!said.contains(SECRET) && !said.contains(&created.token), "{said}");
}

/// A foreground call of Bash over MCP, and all of the answer.
fn asked_over_mcp(socket: &Path, token: &str) -> String {
    let call = json!({"name": "Bash", "arguments": {"command": format!("echo {SECRET}")}, "_meta": meta(&json!({}))});
    let body = json!({"jsonrpc": "2.0", "id": SECRET, "method": "tools/call", "params": call}).to_string();
    let head = [
        "POST /v1/mcp HTTP/1.1".to_owned(),
        "host: localhost".to_owned(),
        format!("authorization: Bearer {token}"),
        "accept: application/json, text/event-stream".to_owned(),
        "content-type: application/json".to_owned(),
        "mcp-protocol-version: 2026-07-28".to_owned(),
        "mcp-method: tools/call".to_owned(),
        "mcp-name: Bash".to_owned(),
        "connection: close".to_owned(),
        format!("content-length: {}", body.len()),
    ];
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "{}\r\n\r\n{body}", head.join("\r\n")).unwrap();
    within(move || {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

#[test]
fn a_library_that_is_to_be_logged_is_refused_by_name() {
    let scene = Scene::new();
    let ended = Running::spawn(scene.procyard(["mcp"]).env("PROCYARD_LOG", "warn,rmcp=trace")).wait();
    assert_eq!(ended.code(), 125, "{ended:?}");
    assert!(ended.stderr().contains("`rmcp`"), "{}", ended.stderr());
    assert!(ended.stdout.is_empty() && scene.sessions().is_empty());
}
