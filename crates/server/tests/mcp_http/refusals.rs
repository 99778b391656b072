//! What is refused, and in which form: a message by an error of JSON-RPC, the rest of a request as the service tells errors.

use procyard_core::State;
use serde_json::{Value, json};

use crate::client::{Session, initialize, post, request, send};
use crate::scene::{Scene, eventually};

/// A refusal whose body is JSON, and says so.
async fn refused(scene: &Scene, method: &str, headers: &[(&str, &str)], body: &str, status: u16) -> Value {
    let answer = send(scene, method, headers, body).await;
    assert_eq!(answer.status, status, "{method} {headers:?} {body}");
    assert_eq!(answer.headers["content-type"], "application/json", "{method} {headers:?} {body}");
    let text = answer.text().await;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn a_message_that_is_none_is_an_error_of_the_protocol() {
    let scene = Scene::new().await;
    let session = Session::open(&scene, "alice").await;
    let in_session = session.headers();
    for headers in [&[][..], &in_session] {
        for (body, id, code) in [
            ("", Value::Null, -32700),
            ("  ", Value::Null, -32700),
            ("{", Value::Null, -32700),
            ("this is not JSON", Value::Null, -32700),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\ud800"}}"#, json!(7), -32700),
            ("[]", Value::Null, -32600),
            (r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#, Value::Null, -32600),
            ("42", Value::Null, -32600),
            ("{}", Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"1.0","id":"seven","method":"ping"}"#, json!("seven"), -32600),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#, json!(7), -32602),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":5}}"#, json!(7), -32602),
        ] {
            let error = refused(&scene, "POST", headers, body, 400).await;
            assert_eq!((&error["id"], &error["error"]["code"]), (&id, &json!(code)), "{body}: {error}");
            assert_eq!(error["jsonrpc"], "2.0");
            assert!(!error["error"]["message"].as_str().unwrap().is_empty(), "{error}");
        }
    }
    // The session goes on.
    assert!(session.ask("tools/list", json!({})).await["result"].is_object());
}

#[tokio::test]
async fn parameters_that_do_not_fit_are_refused_by_the_name_of_the_field() {
    let scene = Scene::new().await;
    let session = Session::open(&scene, "alice").await;
    let response = session.ask("tools/call", json!({"name": "Bash", "arguments": []})).await;
    assert_eq!(response["error"]["code"], -32602, "{response}");
    assert!(response["error"]["message"].as_str().unwrap().contains("params.arguments"), "{response}");
    for list in ["tools/list", "resources/list", "resources/templates/list"] {
        let response = session.ask(list, json!({"cursor": "forged"})).await;
        assert_eq!(response["error"]["code"], -32602, "{list}: {response}");
    }
    // Before there is a session, too.
    let hello = request("initialize", json!({"protocolVersion": 5})).to_string();
    let error = refused(&scene, "POST", &[], &hello, 400).await;
    assert!(error["error"]["message"].as_str().unwrap().contains("params.protocolVersion"), "{error}");
}

#[tokio::test]
async fn what_asks_for_nothing_is_taken_however_wrong_it_is() {
    let scene = Scene::new().await;
    let session = Session::open(&scene, "alice").await;
    for body in [
        json!({"jsonrpc": "2.0", "id": 99, "result": {}}),
        json!({"jsonrpc": "2.0", "error": 5}),
        json!({"jsonrpc": "2.0", "method": "notifications/unheard-of"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 7}),
    ] {
        let answer = session.post(&body).await;
        assert_eq!(answer.status, 202, "{body}");
        assert_eq!(answer.text().await, "");
    }
}

#[tokio::test]
async fn what_is_wrong_around_a_message_is_told_as_the_service_tells_errors() {
    let scene = Scene::new().await;
    let hello = initialize("2025-11-25").to_string();
    let unknown = [("mcp-session-id", "00000000-0000-4000-8000-000000000000")];
    let tools = request("tools/list", json!({})).to_string();
    for (method, headers, body, status, field) in [
        ("POST", &[("content-type", "text/plain")][..], &hello, 415, json!("Content-Type")),
        ("POST", &[("content-type", "")], &hello, 415, json!("Content-Type")),
        ("POST", &[("accept", "text/html")], &hello, 406, json!("Accept")),
        ("POST", &[("host", "evil.example")], &hello, 403, json!("Host")),
        ("POST", &[("origin", "http://evil.example")], &hello, 403, json!("Origin")),
        ("POST", &unknown, &tools, 404, Value::Null),
        ("POST", &[], &tools, 400, Value::Null),
        ("PUT", &[], &hello, 405, Value::Null),
    ] {
        let error = refused(&scene, method, headers, body, status).await;
        assert_eq!(error["error"]["field"], field, "{headers:?}: {error}");
        assert!(error["error"]["code"].is_string() && error["error"]["message"].is_string(), "{error}");
    }
    let unknown = send(&scene, "PUT", &[], "").await;
    assert!(unknown.headers["allow"].contains("POST"));
}

#[tokio::test]
async fn who_may_ask_comes_before_what_is_asked() {
    let scene = Scene::new().await;
    for (headers, status) in [
        ([("authorization", "mallory")], 401),
        ([("host", "evil.example")], 403),
        ([("origin", "http://evil.example")], 403),
        ([("accept", "text/html")], 406),
        ([("content-type", "text/plain")], 415),
    ] {
        assert_eq!(send(&scene, "POST", &headers, "{").await.status, status, "{headers:?}");
    }
    assert_eq!(
        send(&scene, "POST", &[("content-type", "Application/JSON; charset=utf-8")], "{").await.status,
        400
    );
}

#[tokio::test]
async fn an_id_that_is_in_use_in_its_session_is_refused_and_the_first_call_goes_on() {
    let scene = Scene::new().await;
    let session = Session::open(&scene, "alice").await;
    let call = |command: &str| {
        let params = json!({"name": "Bash", "arguments": {"command": command, "stdin": true}});
        json!({"jsonrpc": "2.0", "id": "again", "method": "tools/call", "params": params})
    };
    let mut first = session.post(&call("cat")).await;
    eventually("it runs", async || scene.states(1) == [State::Running]).await;
    let error = refused(&scene, "POST", &session.headers(), &call("quick").to_string(), 400).await;
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!("again"), &json!(-32600)), "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("in use"), "{error}");
    // Sessions do not share their ids.
    let other = Session::open(&scene, "alice").await;
    let answered = other.post(&call("quick")).await.event().await.unwrap();
    assert_eq!(answered["result"]["structuredContent"]["output"], "done\n", "{answered}");
    let process = scene.supervisor.list(crate::scene::owner(1)).last().unwrap().identity.handle;
    session.call("ProcessInput", json!({"process_id": process, "data": "x", "eof": true})).await;
    let answered = first.event().await.unwrap();
    assert_eq!(answered["result"]["structuredContent"]["output"], "x", "{answered}");
    // From then on the id is nobody's.
    let answered = session.post(&call("quick")).await.event().await.unwrap();
    assert_eq!(answered["result"]["structuredContent"]["output"], "done\n", "{answered}");
}

#[tokio::test]
async fn one_session_too_many_is_refused_in_the_same_form() {
    let scene = Scene::with(|options| options.sessions = 1).await;
    let only = Session::open(&scene, "alice").await;
    let _kept = only.listen(None).await;
    let error = refused(&scene, "POST", &[], &post_hello(), 503).await;
    assert_eq!((&error["error"]["code"], &error["error"]["retryable"]), (&json!("conflict"), &json!(true)));
    assert!(post(&scene, &[("authorization", "bob")], &initialize("2025-11-25")).await.status == 200);
}

fn post_hello() -> String {
    initialize("2025-11-25").to_string()
}
