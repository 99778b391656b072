//! Connections and services that end in the middle of a call.

use std::time::Duration;

use procyard_core::State;
use serde_json::json;

use crate::client::{Session, request};
use crate::scene::{Scene, eventually, owner};

fn long() -> serde_json::Value {
    request("tools/call", json!({"name": "Bash", "arguments": {"command": "long"}}))
}

#[tokio::test]
async fn a_call_whose_connection_is_gone_is_cancelled_and_told_of_later() {
    let scene = Scene::with(|options| options.absence = Duration::from_millis(100)).await;
    let session = Session::open(&scene, "alice").await;
    let running = session.post(&long()).await;
    eventually("it runs", async || scene.states(1) == [State::Running]).await;
    drop(running);
    eventually("it is stopped", async || scene.states(1) == [State::Terminated]).await;
    // The session goes on, and its next result tells the outcome.
    let listed = session.call("ProcessList", json!({})).await;
    assert_eq!(listed["notifications"][0]["status"], "terminated", "{listed}");
}

#[tokio::test]
async fn a_client_that_comes_back_in_time_gets_its_result() {
    let scene = Scene::new().await;
    let session = Session::open(&scene, "alice").await;
    let call = request("tools/call", json!({"name": "Bash", "arguments": {"command": "cat", "stdin": true}}));
    let mut running = session.post(&call).await;
    eventually("it runs", async || scene.states(1) == [State::Running]).await;
    // The id of the stream comes with its first event, which has no message.
    let first = tokio::time::timeout(Duration::from_millis(500), running.event()).await;
    assert!(first.is_err(), "{first:?}");
    let behind = running.last_event.clone().unwrap();
    drop(running);
    // It ends while nobody listens, and the result is kept.
    let process = scene.supervisor.list(owner(1))[0].identity.handle;
    session.call("ProcessInput", json!({"process_id": process, "data": "x", "eof": true})).await;
    eventually("it ends", async || scene.states(1) == [State::Exited]).await;
    let mut resumed = session.listen(Some(&behind)).await;
    let response = resumed.event().await.unwrap();
    assert_eq!(
        (&response["id"], &response["result"]["structuredContent"]["output"]),
        (&call["id"], &json!("x"))
    );
}

#[tokio::test]
async fn a_cancelled_call_gets_no_response_and_its_stream_ends() {
    let scene = Scene::new().await;
    let session = Session::open(&scene, "alice").await;
    let call = long();
    let mut running = session.post(&call).await;
    eventually("it runs", async || scene.states(1) == [State::Running]).await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call["id"]}});
    assert_eq!(session.post(&cancel).await.status, 202);
    assert_eq!(running.event().await, None);
    eventually("it is stopped", async || scene.states(1) == [State::Terminated]).await;
}

#[tokio::test]
async fn a_service_that_stops_ends_streams_and_calls() {
    let scene = Scene::new().await;
    let session = Session::open(&scene, "alice").await;
    let mut listening = session.listen(None).await;
    let mut running = session.post(&long()).await;
    eventually("it runs", async || scene.states(1) == [State::Running]).await;
    scene.stop.cancel();
    while listening.event().await.is_some() {}
    while running.event().await.is_some() {}
    eventually("it is stopped", async || scene.states(1) == [State::Terminated]).await;
}

#[tokio::test]
async fn an_owner_that_is_forgotten_loses_its_sessions() {
    let scene = Scene::new().await;
    let alice = Session::open(&scene, "alice").await;
    let bob = Session::open(&scene, "bob").await;
    let running = alice.post(&long()).await;
    eventually("it runs", async || scene.states(1) == [State::Running]).await;
    scene.endpoint.forget(owner(1));
    drop(running);
    eventually("it is stopped", async || scene.states(1) == [State::Terminated]).await;
    assert_eq!(alice.post(&request("tools/list", json!({}))).await.status, 404);
    assert!(bob.ask("tools/list", json!({})).await["result"].is_object());
}
