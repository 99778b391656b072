//! Clients that send all of a body before they read the answer that was there long ago.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use crate::client::{At, PATIENCE};
use crate::scene::Scene;

/// More than any buffer on the way, and than a body may have.
const LONG: usize = 9 * 1024 * 1024;

/// Sends a head and, after a while, a body; then reads the answer until the connection ends.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, head: &str, body: &[u8]) -> String {
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    stream.write_all(body).await.unwrap_or_else(|error| panic!("{error}: {head}"));
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    read.expect("an answer, and the end of the connection").unwrap();
    answer
}

/// The same over TCP and over the socket.
async fn said(scene: &Scene, head: &str, body: &[u8]) -> [String; 2] {
    let (At::Tcp(address), At::Socket(path)) = (&scene.tcp, &scene.socket) else { panic!("two listeners") };
    [
        exchange(TcpStream::connect(address).await.unwrap(), head, body).await,
        exchange(UnixStream::connect(path).await.unwrap(), head, body).await,
    ]
}

fn begins(answers: &[String], status: &str, head: &str) {
    for answer in answers {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}\n{answer}");
        assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{head}\n{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_before_the_body_is_read_by_whoever_sends_the_body_first() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let bearer = format!("authorization: Bearer {}\r\n", token.text);
    let host = "host: x\r\n";
    for (line, fields, status) in [
        ("POST /v1/processes", [host, &bearer], "413"),
        ("POST /v1/mcp", [host, &bearer], "413"),
        ("POST /v1/processes", [host, "authorization: Bearer x\r\n"], "401"),
        ("POST /no/such/path", [host, &bearer], "404"),
        ("PATCH /v1/processes", [host, &bearer], "405"),
        ("POST /v1/processes", ["", &bearer], "400"),
    ] {
        let [first, second] = fields;
        let head = format!("{line} HTTP/1.1\r\n{first}{second}content-length: {LONG}\r\n\r\n");
        begins(&said(&scene, &head, &vec![b' '; LONG]).await, status, &head);
    }
    // Told to go on, and then that it is too long.
    let head = format!(
        "POST /v1/processes HTTP/1.1\r\n{host}{bearer}expect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let mut chunk = format!("{LONG:x}\r\n").into_bytes();
    chunk.resize(chunk.len() + LONG, b' ');
    chunk.extend_from_slice(b"\r\n0\r\n\r\n");
    for answer in said(&scene, &head, &chunk).await {
        assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
        assert!(answer.contains("HTTP/1.1 413 "), "{answer}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_before_it_sends_is_told_that_its_connection_ends() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let head = format!(
        "POST /v1/processes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nexpect: 100-continue\r\ncontent-length: {LONG}\r\n\r\n",
        token.text
    );
    begins(&said(&scene, &head, b"").await, "413", &head);
    scene.end().await;
}
