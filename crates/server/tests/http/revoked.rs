//! A token that is revoked while a request with it is under way.

use procyard_server::http::SessionHost as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{At, PATIENCE};
use crate::scene::{Scene, Token};

/// A request whose token was looked at and whose body has not come.
struct Begun(TcpStream);

impl Begun {
    async fn new(scene: &Scene, token: &Token, path: &str, length: usize) -> Self {
        let At::Tcp(address) = scene.tcp else { panic!("over tcp") };
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             content-length: {length}\r\nexpect: 100-continue\r\n\r\n",
            token.text
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut begun = Self(stream);
        // Said when the body is asked for, which is after the token was looked at (RFC 9110, 10.1.1).
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\n") {
            let byte =
                tokio::time::timeout(PATIENCE, begun.0.read_u8()).await.expect("the body is asked for");
            said.push(byte.unwrap());
        }
        assert!(said.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&said));
        begun
    }

    async fn end(mut self, body: &str) -> String {
        self.0.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_to_string(&mut answer)).await;
        read.expect("an answer in time").unwrap();
        answer
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_token_is_revoked_before_its_body_comes_does_nothing() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "wait", "stdin": true})).await;
    let started = scene.host.runner.requests().len();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let call = json!({"name": "Bash", "arguments": {"command": "hello"}});
    let mut begun = Vec::new();
    for (path, body) in [
        ("/v1/processes".to_owned(), json!({"command": "hello"})),
        (format!("/v1/processes/{process}/input"), json!({"data": "x"})),
        (format!("/v1/processes/{process}/stop"), json!({})),
        ("/v1/mcp/invoke".to_owned(), call),
        ("/v1/mcp".to_owned(), hello),
    ] {
        let body = body.to_string();
        begun.push((Begun::new(&scene, &token, &path, body.len()).await, path, body));
    }
    let session = format!("/v1/sessions/{}", token.owner.session);
    assert_eq!(scene.delete(scene.admin(), &session).await.status, 204);
    for (begun, path, body) in begun {
        let answer = begun.end(&body).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
    }
    assert!(scene.host.get(token.owner.session).is_none(), "it is not opened again");
    assert_eq!(scene.host.runner.requests().len(), started, "nothing is started");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_revoked_while_its_session_is_restored_starts_nothing_and_leaves_nothing_open() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let place = scene.end().await;
    let scene = Scene::on(place, |options| options, procyard_core::Limits::default()).await;
    let (restoring, go_on) = scene.host.hold_restoring();
    let body = json!({"command": "hello"});
    let (answer, ()) = tokio::join!(scene.post(&token, "/v1/processes", &body), async {
        tokio::time::timeout(PATIENCE, restoring).await.expect("it is restored").unwrap();
        let session = format!("/v1/sessions/{}", token.owner.session);
        assert_eq!(scene.delete(scene.admin(), &session).await.status, 204);
        go_on.send(()).unwrap();
    });
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert!(scene.host.runner.requests().is_empty());
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while scene.host.get(token.owner.session).is_some() {
        assert!(tokio::time::Instant::now() < deadline, "it is closed again");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    scene.end().await;
}
