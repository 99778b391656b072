//! The `Host` field of a request.

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use crate::client::{At, PATIENCE};
use crate::scene::Scene;

/// Sends a head that ends its connection, over TCP and over the socket; each answer's status, and its body as JSON.
async fn said(scene: &Scene, head: &str) -> [(u16, Value); 2] {
    let (At::Tcp(address), At::Socket(path)) = (&scene.tcp, &scene.socket) else { panic!("two listeners") };
    [
        exchange(TcpStream::connect(address).await.unwrap(), head).await,
        exchange(UnixStream::connect(path).await.unwrap(), head).await,
    ]
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, head: &str) -> (u16, Value) {
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    read.expect("an answer, and the end of the connection").unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_say_once_for_which_host_it_is_is_refused_on_every_listener() {
    let scene = Scene::begin().await;
    for (host, word) in [
        ("", "missing"),
        ("host: x\r\nhost: x\r\n", "twice"),
        ("host: x y\r\n", "name"),
        ("host: user@x\r\n", "name"),
    ] {
        for path in ["/health", "/v1/sessions", "/v1/mcp", "/no/such/path"] {
            for method in ["GET", "POST"] {
                let head = format!("{method} {path} HTTP/1.1\r\n{host}connection: close\r\n\r\n");
                for (status, body) in said(&scene, &head).await {
                    let error = &body["error"];
                    assert_eq!((status, error["code"].as_str()), (400, Some("invalid_arguments")), "{head}");
                    assert_eq!(error["field"], "Host", "{head}");
                    assert!(error["message"].as_str().unwrap().contains(word), "{body}");
                }
            }
        }
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_may_be_empty_and_a_client_of_before_it_may_go_without() {
    let scene = Scene::begin().await;
    for head in [
        "GET /health HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n",
        "GET /health HTTP/1.1\r\nhost: [::1]:80\r\nconnection: close\r\n\r\n",
        "GET /health HTTP/1.0\r\n\r\n",
        "GET /health HTTP/1.0\r\nhost: x\r\n\r\n",
    ] {
        for (status, body) in said(&scene, head).await {
            assert_eq!(status, 200, "{head}: {body}");
        }
    }
    scene.end().await;
}
