//! The tools over HTTP, diagnostics and metrics.

use procyard_core::Limits;
use procyard_server::http::ServiceOptions;
use serde_json::{Value, json};

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
async fn the_token_of_a_loop_says_whose_tools_an_mcp_client_has() {
    let named_so = |mut options: ServiceOptions| {
        options.mcp.hosts.push("procyard".to_owned());
        options
    };
    let scene = Scene::with(named_so, Limits::default()).await;
    let (token, other) = (scene.session().await, scene.session().await);
    let accepts = [("accept", "application/json, text/event-stream"), ("content-type", "application/json")];
    let post = async |who: Who<'_>, more: &[(&str, &str)], body: Value| {
        let headers: Vec<_> = accepts.iter().chain(more).copied().collect();
        Answer::of(scene.open(who, "POST", "/v1/mcp", &headers, Some(body.to_string())).await).await
    };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    for who in [Who::Nobody, Who::Peer, Who::Bearer("pyt_forged")] {
        let refused = post(who.clone(), &[], hello.clone()).await;
        assert_eq!((refused.status, &*refused.code()), (401, "unauthenticated"), "{who:?}");
    }
    let opened = post((&token).into(), &[], hello.clone()).await;
    assert_eq!(opened.status, 200, "{}", opened.text());
    assert!(opened.text().contains("procyard"), "{}", opened.text());
    let session = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let named = [("mcp-session-id", &*session), ("mcp-protocol-version", "2025-06-18")];
    assert_eq!(post((&token).into(), &named, ready).await.status, 202);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let listed = post((&token).into(), &named, list.clone()).await;
    assert!(listed.text().contains("ProcessOutput"), "{}", listed.text());
    assert_eq!(
        post((&other).into(), &named, list.clone()).await.status,
        404,
        "another loop has no such session"
    );
    // What has names of its own below it is reached as before.
    assert_eq!(scene.get(&token, "/v1/mcp/capabilities").await.status, 200);
    let path = format!("/v1/sessions/{}/loops/{}", token.owner.session, token.owner.loop_id);
    assert_eq!(scene.delete(scene.admin(), &path).await.status, 204);
    assert_eq!(post((&token).into(), &named, list).await.status, 401, "its token is revoked");
    scene.end().await;
}
