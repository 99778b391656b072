//! The tools over HTTP, diagnostics and metrics.

use axum::routing::get;
use axum::{Extension, Router};
use procyard_core::Limits;
use procyard_server::http::{LoopCaller, ServiceOptions};
use serde_json::json;

use crate::client::Answer;
use crate::scene::{Scene, Who};

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_are_told_and_called() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let tools = scene.get(&token, "/v1/mcp/capabilities").await.json();
    let names: Vec<_> =
        tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"Bash") && names.contains(&"ProcessOutput"), "{names:?}");
    let call = json!({"name": "Bash", "arguments": {"command": "fail"}});
    let reply = scene.post(&token, "/v1/mcp/invoke", &call).await;
    assert_eq!((reply.status, &reply.json()["structured"]["exit_code"]), (200, &json!(3)));
    assert!(reply.json()["text"].as_str().unwrap().contains("no"));
    for (call, status, code) in [
        (json!({"name": "Bsah"}), 400, "invalid_arguments"),
        (json!({"name": "Bash", "arguments": {"command": "x", "argv": []}}), 400, "invalid_arguments"),
        (
            json!({"name": "ProcessOutput", "arguments": {"process_id": "AAECAwQFBgcICQoLDA0ODw"}}),
            404,
            "not_found",
        ),
    ] {
        let refused = scene.post(&token, "/v1/mcp/invoke", &call).await;
        assert_eq!((refused.status, &*refused.code()), (status, code), "{call}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn diagnostics_count_what_the_caller_may_see() {
    let scene = Scene::begin().await;
    let (one, other) = (scene.session().await, scene.session().await);
    scene.start(&one, "wait").await;
    let process = scene.start(&one, "hello").await;
    scene.ended(&one, &process).await;
    let path = "/v1/diagnostics/processes";
    let seen = scene.get(&one, path).await.json();
    assert_eq!((&seen["running"], &seen["retained"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&seen["states"]["running"], &seen["states"]["exited"], &seen["states"]["failed"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!(scene.get(&other, path).await.json()["running"], json!(0));
    scene.start(&other, "wait").await;
    assert_eq!(scene.get(Who::Peer, path).await.json()["running"], json!(2));
    assert_eq!(scene.get(&one, "/v1/diagnostics/containment").await.json()["tier"], json!("scripted"));

    let metrics = scene.get(scene.admin(), "/metrics").await.text();
    for line in [
        "procyard_sessions 2",
        "procyard_processes{state=\"running\"} 2",
        "procyard_processes{state=\"exited\"} 1",
        "procyard_http_responses_total{route=\"diagnose_containment\",status=\"200\"} 1",
        "procyard_output_bytes 6",
        "# TYPE procyard_event_streams gauge",
    ] {
        assert!(metrics.lines().any(|have| have == line), "{line} in {metrics}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_below_mcp_is_given_the_loop_of_its_token() {
    let whose = async |Extension(caller): Extension<LoopCaller>| caller.owner.loop_id.to_string();
    let mcp = move |options| ServiceOptions { mcp: Some(Router::new().route("/", get(whose))), ..options };
    let scene = Scene::with(mcp, Limits::default()).await;
    let token = scene.session().await;
    let ask = async |who: Who<'_>| Answer::of(scene.open(who, "GET", "/v1/mcp", &[], None).await).await;
    let answer = ask((&token).into()).await;
    assert_eq!((answer.status, answer.text()), (200, token.owner.loop_id.to_string()));
    for who in [Who::Nobody, Who::Peer, Who::Bearer("pyt_forged")] {
        let refused = ask(who.clone()).await;
        assert_eq!((refused.status, &*refused.code()), (401, "unauthenticated"), "{who:?}");
    }
    assert_eq!(scene.get(&token, "/v1/mcp/capabilities").await.status, 200);
    scene.end().await;
}
