//! A terminal over a WebSocket.

use futures_util::{SinkExt as _, StreamExt as _};
use procyard_core::Owner;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::client::{At, PATIENCE};
use crate::scene::{Scene, Token, Who};

type Socket = WebSocketStream<TcpStream>;

async fn attach(scene: &Scene, token: &Token, process: &str, rest: &str) -> Result<Socket, u16> {
    let At::Tcp(address) = scene.tcp else { panic!("over tcp") };
    let url = format!("ws://{address}/v1/processes/{process}/attach{rest}");
    let mut request = url.into_client_request().unwrap();
    let authorization = format!("Bearer {}", token.text).parse().unwrap();
    request.headers_mut().insert("authorization", authorization);
    match client_async(request, TcpStream::connect(address).await.unwrap()).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

/// What comes next that is not a ping.
async fn next(socket: &mut Socket) -> Message {
    loop {
        let message = tokio::time::timeout(PATIENCE, socket.next()).await.expect("a message in time");
        match message.expect("one more message").unwrap() {
            Message::Ping(_) | Message::Pong(_) => {}
            message => return message,
        }
    }
}

async fn told(socket: &mut Socket) -> Value {
    serde_json::from_str(next(socket).await.to_text().unwrap()).unwrap()
}

/// Reads bytes until there are as many.
async fn bytes(socket: &mut Socket, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        match next(socket).await {
            Message::Binary(more) => bytes.extend_from_slice(&more),
            other => panic!("{other:?}"),
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_both_ways_and_the_end_is_told() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "echo", "tty": true})).await;
    let mut socket = attach(&scene, &token, &process, "").await.unwrap();
    let typed: Vec<u8> = (0..200_000_u32).map(|byte| u8::try_from(byte % 256).unwrap()).collect();
    socket.send(Message::Binary(typed.clone().into())).await.unwrap();
    assert_eq!(bytes(&mut socket, typed.len()).await, typed);
    // An end of file is typed, twice within a line. A real terminal heeds the key, this one shows it.
    socket.send(Message::Text(json!({"type": "eof"}).to_string().into())).await.unwrap();
    assert_eq!(bytes(&mut socket, 2).await, [4, 4]);
    assert_eq!(scene.post(&token, &format!("/v1/processes/{process}/kill"), &json!({})).await.status, 200);
    let ended = told(&mut socket).await;
    assert_eq!(ended, json!({"type": "ended", "state": "killed", "total_bytes": 200_002}));
    match next(&mut socket).await {
        Message::Close(Some(frame)) => assert_eq!(frame.code, CloseCode::Normal),
        other => panic!("{other:?}"),
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_follows_the_size_of_its_client() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "size", "tty": true})).await;
    let mut socket = attach(&scene, &token, &process, "?cursor=0").await.unwrap();
    let resize = json!({"type": "resize", "rows": 50, "cols": 120}).to_string();
    socket.send(Message::Text(resize.into())).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("size 50 120") {
        seen.extend(bytes(&mut socket, 1).await);
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_told_and_the_socket_stays() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "wait", "tty": true})).await;
    let mut socket = attach(&scene, &token, &process, "").await.unwrap();
    for message in [
        "nonsense".to_owned(),
        json!({"type": "resize", "rows": 0, "cols": 1}).to_string(),
        json!({"type": "resize", "rows": 9}).to_string(),
    ] {
        socket.send(Message::Text(message.clone().into())).await.unwrap();
        let refused = told(&mut socket).await;
        let (kind, code) = (&refused["type"], &refused["error"]["code"]);
        assert_eq!((kind, code), (&json!("refused"), &json!("invalid_arguments")), "{message}");
    }
    scene.host.runner.last().unwrap().stdout("still here").await;
    assert_eq!(bytes(&mut socket, 10).await, b"still here");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attachment_begins_where_it_is_asked_to() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "lines", "tty": true})).await;
    scene.ended(&token, &process).await;
    let mut socket = attach(&scene, &token, &process, "?cursor=7").await.unwrap();
    assert!(bytes(&mut socket, 100).await.starts_with(b"line 1\n"));
    let all = scene.start_with(&token, &json!({"command": "hello", "tty": true})).await;
    scene.ended(&token, &all).await;
    let mut socket = attach(&scene, &token, &all, "?cursor=0").await.unwrap();
    assert_eq!(bytes(&mut socket, 6).await, b"hello\n");
    let ended = told(&mut socket).await;
    assert_eq!(ended, json!({"type": "ended", "state": "exited", "exit_code": 0, "total_bytes": 6}));
    assert_eq!(attach(&scene, &token, &process, "?cursor=9999999").await.err(), Some(416));
    assert_eq!(attach(&scene, &token, &process, "?x=1").await.err(), Some(400));
    assert_eq!(attach(&scene, &token, "AAECAwQFBgcICQoLDA0ODw", "").await.err(), Some(404));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_a_terminal_is_refused_before_the_upgrade_and_its_client_told_what_to_use() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    for (command, stdin) in [("wait", false), ("echo", true), ("hello", false)] {
        let process = scene.start_with(&token, &json!({"command": command, "stdin": stdin})).await;
        for rest in ["", "?cursor=0"] {
            assert_eq!(attach(&scene, &token, &process, rest).await.err(), Some(409), "{command}{rest}");
        }
        for who in [Who::from(&token), Who::Peer] {
            let refused = scene.get(who, &format!("/v1/processes/{process}/attach")).await;
            assert_eq!((refused.status, &*refused.code()), (409, "pty_unavailable"), "{}", refused.text());
            let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(
                ["no terminal", "/logs?follow=true", "/input"].iter().all(|said| message.contains(said)),
                "{message}"
            );
        }
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attachment_is_told_whether_its_loop_or_its_session_was_closed() {
    let scene = Scene::begin().await;
    for (of_loop, reason) in [(true, "loop_closed"), (false, "session_closed")] {
        let token = scene.session().await;
        let process = scene.start_with(&token, &json!({"command": "wait", "tty": true})).await;
        let mut socket = attach(&scene, &token, &process, "").await.unwrap();
        let Owner { session, loop_id } = token.owner;
        let rest = if of_loop { format!("/loops/{loop_id}") } else { String::new() };
        let path = format!("/v1/sessions/{session}{rest}");
        assert_eq!(scene.delete(scene.admin(), &path).await.status, 204);
        let said = told(&mut socket).await;
        if said["type"] == "ended" && !of_loop {
            // The end of the process came before the session's.
            continue;
        }
        assert_eq!(said["error"]["code"], json!("supervisor_shutting_down"));
        match next(&mut socket).await {
            Message::Close(Some(frame)) => {
                assert_eq!((frame.code, &*frame.reason), (CloseCode::Away, reason));
            }
            other => panic!("{other:?}"),
        }
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_leaves_the_process_alone() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "echo", "tty": true})).await;
    drop(attach(&scene, &token, &process, "").await.unwrap());
    let seen = scene.get(&token, &format!("/v1/processes/{process}")).await.json();
    assert_eq!(seen["outcome"], json!("running"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_too_long_ends_the_attachment_before_it_comes() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "echo", "tty": true})).await;
    let mut socket = attach(&scene, &token, &process, "").await.unwrap();
    let stream = socket.get_mut();
    // The head of a masked binary frame of 2 MiB (RFC 6455, 5.2), and nothing of what it announces.
    let mut head = vec![0x82, 0x80 | 127];
    head.extend_from_slice(&(2_u64 << 20).to_be_bytes());
    head.extend_from_slice(&[1, 2, 3, 4]);
    stream.write_all(&head).await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "the connection is closed");
    scene.end().await;
}
