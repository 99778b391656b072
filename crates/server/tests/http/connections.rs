//! Limits on connections.

use std::time::{Duration, Instant};

use procyard_core::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{At, PATIENCE};
use crate::scene::{Scene, Who};

async fn connect(scene: &Scene) -> TcpStream {
    let At::Tcp(address) = scene.tcp else { panic!("over tcp") };
    TcpStream::connect(address).await.unwrap()
}

/// Everything that comes until the service closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(read.is_ok(), "the connection is closed after {text:?}");
    text
}

async fn impatient() -> Scene {
    let idle_timeout = Duration::from_millis(300);
    Scene::with(
        |options| procyard_server::http::ServiceOptions { idle_timeout, ..options },
        Limits::default(),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_is_closed() {
    let scene = impatient().await;
    for said in ["", "GET /health HT", "GET /health HTTP/1.1\r\nhost: x\r\nhalf: "] {
        let mut stream = connect(&scene).await;
        stream.write_all(said.as_bytes()).await.unwrap();
        let begun = Instant::now();
        rest(&mut stream).await;
        assert!(begun.elapsed() < PATIENCE, "{said:?}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_has_nothing_more_to_say_is_closed() {
    let scene = impatient().await;
    let mut stream = connect(&scene).await;
    let request =
        format!("GET /v1/sessions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n", scene.admin);
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_does_not_say_who_it_is_ends_with_its_answer() {
    let scene = Scene::begin().await;
    for path in ["/health", "/v1/sessions", "/no/such/path"] {
        let mut stream = connect(&scene).await;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 ") && answer.contains("connection: close\r\n"), "{answer}");
    }
    // Whoever has said it goes on, also with what anybody may ask.
    let mut stream = connect(&scene).await;
    let known = format!("authorization: Bearer {}\r\n", scene.admin);
    for (path, header) in
        [("/v1/sessions", known.as_str()), ("/health", ""), ("/health", "connection: close\r\n")]
    {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
    }
    assert_eq!(rest(&mut stream).await.matches("HTTP/1.1 200 OK").count(), 3);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_refused() {
    let scene = impatient().await;
    let token = scene.session().await;
    let mut stream = connect(&scene).await;
    let head = format!(
        "POST /v1/processes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 100\r\n\r\n{{",
        token.text
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("in time"), "{answer}");
    let mut stream = connect(&scene).await;
    let head = head.replace("/v1/processes", "/v1/mcp").replace("host: x", "host: localhost");
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("in time"), "{answer}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_read_as_a_request_is_answered_without_a_body() {
    let scene = Scene::begin().await;
    for head in ["nonsense\r\n\r\n", "GET /health HTTP/9\r\n\r\n", "GET /health HTTP/1.1\r\nno field\r\n\r\n"]
    {
        let mut stream = connect(&scene).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("\r\n\r\n"), "{head}: {answer}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_long_is_refused() {
    let scene = Scene::begin().await;
    for head in [
        format!("GET /health HTTP/1.1\r\nhost: x\r\nlong: {}\r\n\r\n", "x".repeat(100_000)),
        format!("GET /health HTTP/1.1\r\nhost: x\r\n{}\r\n", "many: x\r\n".repeat(200)),
        format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100_000)),
    ] {
        let mut stream = connect(&scene).await;
        // It may be refused before all of it was sent.
        let _ = stream.write_all(head.as_bytes()).await;
        let answer = rest(&mut stream).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431") || answer.starts_with("HTTP/1.1 414"),
            "{answer}"
        );
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_http_is_refused() {
    let scene = Scene::begin().await;
    let mut stream = connect(&scene).await;
    stream.write_all(b"\x16\x03\x01 this is something else\r\n\r\n").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_allowed_wait_for_their_turn() {
    let few = |options| procyard_server::http::ServiceOptions { max_connections: 1, ..options };
    let scene = Scene::with(few, Limits::default()).await;
    let held = connect(&scene).await;
    // The one place of this listener is taken as soon as the connection is accepted.
    let mut waiting = connect(&scene).await;
    waiting.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut byte = [0];
    let early = tokio::time::timeout(Duration::from_millis(200), waiting.read(&mut byte)).await;
    assert!(early.is_err(), "it is not served yet");
    assert_eq!(
        scene.get(Who::Peer, "/v1/sessions").await.status,
        200,
        "the other listener has its own places"
    );
    drop(held);
    assert!(rest(&mut waiting).await.starts_with("HTTP/1.1 200"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_is_noticed_behind_requests_that_it_sent_on() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let asking = |path: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n", token.text)
    };
    // Each goes on for ever, and the second waits for the first.
    let logs = asking(&format!("/v1/processes/{process}/logs?follow=true"));
    let events = asking("/v1/events/stream");
    for (first, second) in [(&logs, &events), (&events, &logs)] {
        let mut stream = connect(&scene).await;
        stream.write_all(format!("{first}{second}").as_bytes()).await.unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        stream.shutdown().await.unwrap();
        assert!(rest(&mut stream).await.starts_with("TTP/1.1 200"));
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_any_kind_are_served_and_need_a_token() {
    let place = tempfile::tempdir().unwrap();
    let host = std::sync::Arc::new(crate::host::Host::new(place.path().join("sessions"), Limits::default()));
    let (listener, connector) = procyard_server::http::Listener::handed();
    assert_eq!(listener.address().unwrap_err().kind(), std::io::ErrorKind::Unsupported);
    let options = procyard_server::http::ServiceOptions::in_directory(place.path());
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(procyard_server::http::serve(vec![listener], host, options, stop.clone()));
    for (path, status) in [("/health", "HTTP/1.1 200"), ("/v1/sessions", "HTTP/1.1 401")] {
        let (mut client, server) = tokio::io::duplex(64);
        connector.connect(server).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, client.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with(status), "{answer}");
    }
    stop.cancel();
    tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
    let refused = connector.connect(tokio::io::duplex(64).0).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_has_places_of_its_own() {
    let few = |options| procyard_server::http::ServiceOptions { max_connections: 1, ..options };
    let scene = Scene::with(few, Limits::default()).await;
    let _held = connect(&scene).await;
    let _waiting = connect(&scene).await;
    for _ in 0..3 {
        assert_eq!(scene.get(Who::Peer, "/v1/sessions").await.status, 200);
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_come_at_once_are_not_turned_away() {
    let few = |options| procyard_server::http::ServiceOptions { max_connections: 1, ..options };
    let scene = Scene::with(few, Limits::default()).await;
    let At::Socket(path) = &scene.socket else { panic!("a socket") };
    let mut waiting = Vec::new();
    for _ in 0..500 {
        waiting.push(tokio::net::UnixStream::connect(path).await.unwrap());
    }
    drop(waiting);
    assert_eq!(scene.get(Who::Peer, "/v1/sessions").await.status, 200);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_leave_a_place_for_calls() {
    let few = |options| procyard_server::http::ServiceOptions { max_connections: 4, ..options };
    let scene = Scene::with(few, Limits::default()).await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let streams = ["/events/stream", "/logs?follow=true", "/events/stream"];
    let mut open = Vec::new();
    for stream in streams {
        let path = format!("/v1/processes/{process}{stream}");
        open.push(scene.open(&token, "GET", &path, &[], None).await);
    }
    assert!(open.iter().all(|answer| answer.status() == 200));
    for stream in ["/logs?follow=true", "/events/stream"] {
        let refused = scene.get(&token, &format!("/v1/processes/{process}{stream}")).await;
        assert_eq!((refused.status, &*refused.code()), (429, "output_quota_exceeded"));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    let killed = scene.post(&token, &format!("/v1/processes/{process}/kill"), &json!({})).await;
    assert_eq!(killed.status, 200);
    for answer in open {
        // They end with the process, and their places are free again.
        assert!(crate::client::Answer::of(answer).await.whole);
    }
    assert_eq!(scene.get(&token, &format!("/v1/processes/{process}/events/stream")).await.status, 200);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_nobody_asked_for_does_not_end_the_connection() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let mut stream = connect(&scene).await;
    let head = format!(
        "POST /v1/processes/{process}/kill HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 2\r\n\r\n",
        token.text
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // Many clients send the body on its own, and it may come late.
    let mut byte = [0];
    let early = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut byte)).await;
    assert!(early.is_err(), "it is waited for");
    stream.write_all(b"{}GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    assert_eq!(rest(&mut stream).await.matches("HTTP/1.1 200").count(), 2);
    scene.end().await;
}
