//! Every error has the same body, also where no route is reached.

use serde_json::{Value, json};

use crate::scene::{Scene, Who};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_malformed_is_400_and_what_does_not_fit_is_422() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let deep = "[".repeat(100_000);
    for (path, body, status, field) in [
        ("/v1/processes".to_owned(), "{", 400, None),
        ("/v1/processes".to_owned(), &*deep, 400, None),
        ("/v1/processes".to_owned(), "[]", 422, None),
        ("/v1/processes".to_owned(), "\"x\"", 422, None),
        ("/v1/processes".to_owned(), "null", 422, None),
        ("/v1/processes".to_owned(), r#"{"command": 7}"#, 422, Some("command")),
        ("/v1/processes".to_owned(), r#"{"comand": "x"}"#, 422, Some("comand")),
        ("/v1/processes".to_owned(), r#"{"command": "x", "timeout": -1}"#, 422, Some("timeout")),
        ("/v1/processes".to_owned(), r#"{"command": "x", "comand": null}"#, 422, Some("comand")),
        (
            "/v1/processes".to_owned(),
            r#"{"command": "x", "max_output_bytes": 1e30}"#,
            422,
            Some("max_output_bytes"),
        ),
        ("/v1/processes".to_owned(), "{}", 400, Some("command")),
        ("/v1/processes".to_owned(), r#"{"command": "x", "argv": ["x"]}"#, 400, None),
        (format!("/v1/processes/{process}/stop"), r#"{"mode": "softly"}"#, 422, Some("mode")),
        (
            format!("/v1/processes/{process}/stop"),
            r#"{"process_id": "AAECAwQFBgcICQoLDA0ODw"}"#,
            422,
            Some("process_id"),
        ),
        (format!("/v1/processes/{process}/input"), r#"{"data": 1}"#, 422, Some("data")),
        ("/v1/mcp/invoke".to_owned(), r#"{"arguments": {}}"#, 422, Some("name")),
    ] {
        let answer = scene.call(&token, "POST", &path, &[], Some(body.to_owned())).await;
        let shown = &body[..body.len().min(60)];
        assert_eq!((answer.status, &*answer.code()), (status, "invalid_arguments"), "{path} {shown}");
        if field.is_some() {
            assert_eq!(answer.json()["error"]["field"].as_str(), field, "{path} {shown}");
        }
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_query_is_refused_by_name() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let about = |rest: &str| format!("/v1/processes/{process}{rest}");
    for (path, field) in [
        ("/v1/processes?limit=0".to_owned(), "limit"),
        ("/v1/processes?limit=101".to_owned(), "limit"),
        ("/v1/processes?limit=x".to_owned(), "limit"),
        ("/v1/processes?state=gone".to_owned(), "state"),
        ("/v1/processes?staet=running".to_owned(), "staet"),
        ("/v1/processes?page=%25%25".to_owned(), "page"),
        ("/v1/processes?limit=1&limit=2".to_owned(), "limit"),
        ("/health?x=1".to_owned(), "x"),
        (about("?x=1"), "x"),
        (about("/output?process_id=AAECAwQFBgcICQoLDA0ODw"), "process_id"),
        (about("/output?collapse=yes"), "collapse"),
        (about("/output?limit_bytes=-1"), "limit_bytes"),
        (about("/logs?follow=maybe"), "follow"),
        (about("/logs?head_lines=1&tail_lines=1"), "tail_lines"),
        (about("/events?after_seq=x"), "after_seq"),
        ("/v1/processes/short".to_owned(), "process_id"),
        ("/v1/processes/AAECAwQFBgcICQoLDA0ODx".to_owned(), "process_id"),
        ("/v1/notifications?wait_ms=600001".to_owned(), "wait_ms"),
    ] {
        let answer = scene.get(&token, &path).await;
        assert_eq!((answer.status, &*answer.code()), (400, "invalid_arguments"), "{path}");
        assert_eq!(answer.json()["error"]["field"], json!(field), "{path}");
    }
    let path = about("/events/stream");
    let answer = scene.call(&token, "GET", &path, &[("last-event-id", "x")], None).await;
    assert_eq!((answer.status, &answer.json()["error"]["field"]), (400, &json!("Last-Event-ID")));
    for path in ["/v1/sessions/x", "/v1/sessions/00000000-0000-0000-0000-000000000000"] {
        assert_eq!(scene.get(scene.admin(), path).await.status, 400);
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_have_bodies_too() {
    let scene = Scene::begin().await;
    for path in ["/", "/v1", "/v1/procesess", "/v1/processes/", "/%ff"] {
        let answer = scene.get(Who::Nobody, path).await;
        assert_eq!((answer.status, &*answer.code()), (404, "not_found"), "{path}");
    }
    for (method, path, allow) in [
        ("PUT", "/v1/processes", "POST,GET,HEAD"),
        ("DELETE", "/v1/sessions", "POST,GET,HEAD"),
        ("POST", "/health", "GET,HEAD"),
        ("TRACE", "/v1/mcp/invoke", "POST"),
    ] {
        let answer = crate::client::Answer::of(scene.open(Who::Nobody, method, path, &[], None).await).await;
        assert_eq!((answer.status, &*answer.code()), (405, "invalid_arguments"), "{method} {path}");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_says_it_is_too_long_is_413_before_any_of_it_comes() {
    let scene = Scene::begin().await;
    let crate::client::At::Tcp(address) = scene.tcp else { panic!("over tcp") };
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/sessions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 9000000\r\n\r\n",
        scene.admin
    );
    tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let read = tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer);
    tokio::time::timeout(crate::client::PATIENCE, read).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_long_is_413() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let body = format!(r#"{{"command": "{}"}}"#, "x".repeat(8 * 1024 * 1024));
    let answer = scene.call(&token, "POST", "/v1/processes", &[], Some(body)).await;
    assert_eq!((answer.status, &*answer.code()), (413, "too_large"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_show_nothing_of_the_host() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let session = token.owner.session;
    // What fails inside is told to the logs alone.
    scene.host.journal(session).close();
    let answer = scene.get(&token, "/v1/events").await;
    assert_eq!(answer.status, 503);
    assert!(!answer.text().contains('/'), "{}", answer.text());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_needs_no_body_refuses_one_that_asks_for_something() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let kill = format!("/v1/processes/{process}/kill");
    let ack = format!("/v1/notifications/{}/ack", uuid::Uuid::new_v4());
    for path in [&kill, &ack] {
        for (body, status, field) in [
            (r#"{"mode": "interrupt"}"#, 422, json!("mode")),
            (r#"{"grace_ms": 5000}"#, 422, json!("grace_ms")),
            (r#"{"grace_ms": null}"#, 422, json!("grace_ms")),
            ("[]", 422, Value::Null),
            ("null", 422, Value::Null),
            ("{", 400, Value::Null),
        ] {
            let answer = scene.call(&token, "POST", path, &[], Some(body.to_owned())).await;
            let given = answer.json()["error"]["field"].clone();
            assert_eq!((answer.status, given), (status, field), "{path} {body}");
        }
    }
    let seen = scene.get(&token, &format!("/v1/processes/{process}")).await.json();
    assert_eq!(seen["state"], json!("running"), "it was not killed");
    for body in [None, Some("{}".to_owned())] {
        let killed = scene.call(&token, "POST", &kill, &[], body).await;
        assert_eq!((killed.status, &killed.json()["status"]), (200, &json!("killed")));
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_given_twice_is_refused_by_name_and_starts_nothing() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    for (path, body, field) in [
        ("/v1/processes", r#"{"command": "hello", "command": "fail"}"#, "command"),
        ("/v1/processes", r#"{"command": "hello", "env": {"A": "1", "A": "2"}}"#, "env.A"),
        (
            "/v1/mcp/invoke",
            r#"{"name": "ProcessList", "arguments": {"limit": 1, "limit": 2}}"#,
            "arguments.limit",
        ),
    ] {
        let answer = scene.call(&token, "POST", path, &[], Some(body.to_owned())).await;
        assert_eq!((answer.status, &*answer.code()), (400, "invalid_arguments"), "{body}");
        assert_eq!(answer.json()["error"]["field"], json!(field), "{body}");
    }
    assert!(scene.host.runner.played().is_empty());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_commands_may_not_be_started_a_start_says_so_and_the_rest_works() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "hello").await;
    scene.ended(&token, &process).await;
    let place = scene.end().await;
    let scene = Scene::on(place, |options| options, procyard_core::Limits::default()).await;
    scene.host.start_nothing();
    let start = json!({"command": "hello"});
    let invoke = json!({"name": "Bash", "arguments": start});
    for (path, body) in [("/v1/processes", &start), ("/v1/mcp/invoke", &invoke)] {
        let refused = scene.post(&token, path, body).await;
        assert_eq!((refused.status, &*refused.code()), (400, "process_setup_failed"), "{path}");
        let error = &refused.json()["error"];
        assert!(error["message"].as_str().unwrap().contains("switched off"), "{error}");
        assert_eq!(error["effects"], json!("none"));
    }
    let tools = scene.get(&token, "/v1/mcp/capabilities").await.text();
    assert!(!tools.contains("\"Bash\"") && tools.contains("\"ProcessOutput\""), "{tools}");
    let seen = scene.get(&token, &format!("/v1/processes/{process}/output")).await.json();
    assert_eq!(seen["output"], json!("hello\n"));
    scene.end().await;
}
