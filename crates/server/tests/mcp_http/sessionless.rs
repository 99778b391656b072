//! The newest revision, in which every request stands for itself.

use procyard_core::State;
use serde_json::{Value, json};

use crate::client::{Answer, post, request};
use crate::scene::{Scene, eventually};

const REVISION: &str = "2026-07-28";

/// Sends a request as a client of the newest revision does.
async fn ask(scene: &Scene, who: &str, method: &str, name: &str, mut params: Value) -> Answer {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [
        ("authorization", who),
        ("mcp-protocol-version", REVISION),
        ("mcp-method", method),
        ("mcp-name", name),
    ];
    post(scene, &headers, &request(method, params)).await
}

async fn call(scene: &Scene, command: &str, background: bool) -> Answer {
    let arguments = json!({"command": command, "background": background});
    ask(scene, "alice", "tools/call", "Bash", json!({"name": "Bash", "arguments": arguments})).await
}

#[tokio::test]
async fn a_request_needs_no_session() {
    let scene = Scene::new().await;
    let found = ask(&scene, "alice", "server/discover", "", json!({})).await.event().await.unwrap();
    assert!(found["result"].to_string().contains(REVISION), "{found}");
    let mut answer = call(&scene, "quick", false).await;
    assert!(!answer.headers.contains_key("mcp-session-id"));
    let done = answer.event().await.unwrap();
    assert_eq!(done["result"]["structuredContent"]["output"], "done\n", "{done}");
    assert_eq!(answer.event().await, None);
}

#[tokio::test]
async fn a_foreground_command_ends_with_the_connection_of_its_call() {
    let scene = Scene::new().await;
    {
        // Nothing is answered before there is something to say, so this is dropped with its connection.
        let running = std::pin::pin!(call(&scene, "long", false));
        let runs = eventually("it runs", async || scene.states(1) == [State::Running]);
        tokio::select! {
            _ = running => panic!("a command that goes on was answered"),
            () = runs => {}
        }
    }
    eventually("it is stopped", async || scene.states(1) == [State::Terminated]).await;
}

#[tokio::test]
async fn a_background_command_outlives_its_call_and_is_found_again() {
    let scene = Scene::new().await;
    let started = call(&scene, "long", true).await.event().await.unwrap();
    let process = started["result"]["structuredContent"]["process_id"].clone();
    let uri = format!("procyard://process/{}/output", process.as_str().unwrap());
    let mut read = ask(&scene, "alice", "resources/read", &uri, json!({"uri": uri})).await;
    let contents = read.event().await.unwrap()["result"]["contents"][0].clone();
    assert_eq!(
        (&contents["text"], &contents["_meta"]["procyard/status"]),
        (&json!("begun\n"), &json!("running"))
    );
    // The same answer for another owner as for what does not exist.
    let foreign =
        ask(&scene, "bob", "resources/read", &uri, json!({"uri": uri})).await.event().await.unwrap();
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    assert_eq!(scene.states(1), [State::Running]);
}

#[tokio::test]
async fn changes_are_told_on_the_stream_of_the_request_that_listens() {
    let scene = Scene::new().await;
    let arguments = json!({"command": "cat", "background": true, "stdin": true});
    let params = json!({"name": "Bash", "arguments": arguments});
    let started = ask(&scene, "alice", "tools/call", "Bash", params).await.event().await.unwrap();
    let process = started["result"]["structuredContent"]["process_id"].clone();
    let uri = format!("procyard://process/{}/output", process.as_str().unwrap());
    let wanted = json!({"notifications": {"resourceSubscriptions": [uri]}});
    let mut listening = ask(&scene, "alice", "subscriptions/listen", "", wanted).await;
    let accepted = listening.event().await.unwrap();
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    let input = json!({"name": "ProcessInput", "arguments": {"process_id": process, "data": "x\n"}});
    ask(&scene, "alice", "tools/call", "ProcessInput", input).await.event().await.unwrap();
    let update = listening.event().await.unwrap();
    assert_eq!(
        (&update["method"], &update["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(uri))
    );
    // The end of the service is said.
    scene.stop.cancel();
    while listening.event().await.is_some() {}
}
