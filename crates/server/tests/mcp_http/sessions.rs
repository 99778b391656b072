//! The sessions that the older revisions have.

use std::time::Duration;

use procyard_core::State;
use serde_json::{Value, json};

use crate::client::{Session, initialize, post, request, send};
use crate::scene::{Scene, eventually};

#[tokio::test]
async fn every_revision_with_sessions_is_spoken() {
    let scene = Scene::new().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut answer = post(&scene, &[], &initialize(version)).await;
        assert_eq!(answer.event().await.unwrap()["result"]["protocolVersion"], version);
        let id = answer.headers["mcp-session-id"].clone();
        let headers = [("mcp-session-id", id.as_str()), ("mcp-protocol-version", version)];
        let call = request("tools/call", json!({"name": "Bash", "arguments": {"command": "quick"}}));
        let mut answer = post(&scene, &headers, &call).await;
        assert_eq!(
            answer.event().await.unwrap()["result"]["structuredContent"]["output"],
            "done\n",
            "{version}"
        );
        assert_eq!(answer.event().await, None, "the stream of an answered request ends");
    }
}

#[tokio::test]
async fn a_session_is_worth_nothing_to_another_owner() {
    let scene = Scene::new().await;
    let alice = Session::open(&scene, "alice").await;
    let started = alice.call("Bash", json!({"command": "long", "background": true})).await;
    let uri = format!("procyard://process/{}/output", started["process_id"].as_str().unwrap());
    // The session of another, and one that never was.
    for id in [alice.id.as_str(), "00000000-0000-4000-8000-000000000000"] {
        let headers = [("authorization", "bob"), ("mcp-session-id", id)];
        let call = request("tools/list", json!({}));
        assert_eq!(post(&scene, &headers, &call).await.status, 404, "{id}");
        assert_eq!(send(&scene, "GET", &headers, "").await.status, 404, "{id}");
    }
    let gone = [("authorization", "bob"), ("mcp-session-id", alice.id.as_str())];
    send(&scene, "DELETE", &gone, "").await;
    assert!(alice.ask("tools/list", json!({})).await["result"].is_object(), "it was not bob's to end");
    // Nor are the processes.
    let bob = Session::open(&scene, "bob").await;
    let missing = "procyard://process/AAAAAAAAAAAAAAAAAAAAAA/output";
    for method in ["resources/read", "resources/subscribe"] {
        let answer = |uri: &str, response: Value| {
            response.to_string().replace(uri, "URI").replace(|c: char| c.is_ascii_digit(), "")
        };
        let foreign = answer(&uri, bob.ask(method, json!({"uri": uri})).await);
        let unknown = answer(missing, bob.ask(method, json!({"uri": missing})).await);
        assert_eq!(foreign, unknown);
    }
    assert_eq!(bob.ask("resources/list", json!({})).await["result"]["resources"], json!([]));
}

#[tokio::test]
async fn a_subscriber_is_told_on_the_stream_of_its_session() {
    let scene = Scene::new().await;
    let session = Session::open(&scene, "alice").await;
    let cat = session.call("Bash", json!({"command": "cat", "background": true, "stdin": true})).await;
    let uri = format!("procyard://process/{}/output", cat["process_id"].as_str().unwrap());
    session.ask("resources/subscribe", json!({"uri": uri})).await;
    let mut stream = session.listen(None).await;
    assert_eq!((stream.status, stream.headers["content-type"].as_str()), (200, "text/event-stream"));
    session.call("ProcessInput", json!({"process_id": cat["process_id"], "data": "hello\n"})).await;
    let update = stream.event().await.unwrap();
    assert_eq!(
        (&update["method"], &update["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(uri))
    );
}

#[tokio::test]
async fn a_session_that_its_client_ends_stops_its_foreground_commands() {
    let scene = Scene::new().await;
    let session = Session::open(&scene, "alice").await;
    let call = request("tools/call", json!({"name": "Bash", "arguments": {"command": "long"}}));
    let running = session.post(&call).await;
    eventually("it runs", async || scene.states(1) == [State::Running]).await;
    let mut headers = session.headers();
    headers.push(("content-length", "0"));
    assert_eq!(send(&scene, "DELETE", &headers, "").await.status, 202);
    eventually("it is stopped", async || scene.states(1) == [State::Terminated]).await;
    assert_eq!(session.post(&request("tools/list", json!({}))).await.status, 404);
    drop(running);
}

#[tokio::test]
async fn only_so_many_sessions_are_kept_and_those_in_use_are_not_ended() {
    let scene = Scene::with(|options| options.sessions = 2).await;
    let first = Session::open(&scene, "alice").await;
    let second = Session::open(&scene, "alice").await;
    let _kept = first.listen(None).await;
    // The one without an open stream makes room.
    let third = Session::open(&scene, "alice").await;
    assert_eq!(second.post(&request("tools/list", json!({}))).await.status, 404);
    assert!(first.ask("tools/list", json!({})).await["result"].is_object());
    // With both in use nobody is sent away for another.
    let _kept_too = third.listen(None).await;
    let refused = post(&scene, &[], &initialize("2025-11-25")).await;
    assert_eq!((refused.status, refused.headers["retry-after"].as_str()), (503, "1"));
    // Other owners have sessions of their own.
    Session::open(&scene, "bob").await;
}

#[tokio::test]
async fn a_session_that_nobody_uses_ends() {
    let scene = Scene::with(|options| options.idle = Duration::from_millis(300)).await;
    let used = Session::open(&scene, "alice").await;
    let stream = used.listen(None).await;
    let unused = Session::open(&scene, "alice").await;
    let gone = async |session: &Session<'_>| session.listen(Some("0")).await.status == 404;
    // Asking is using, so this waits for as long as it takes first.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(gone(&unused).await);
    assert!(used.ask("tools/list", json!({})).await["result"].is_object(), "an open stream is use");
    drop(stream);
    tokio::time::sleep(Duration::from_millis(600)).await;
    eventually("it ends", async || {
        let ended = used.post(&request("tools/list", json!({}))).await.status == 404;
        if !ended {
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
        ended
    })
    .await;
}
