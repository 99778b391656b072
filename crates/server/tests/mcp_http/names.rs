//! Which names and pages may use the endpoint, and who must say who he is.

use serde_json::Value;

use crate::client::{initialize, post};
use crate::scene::Scene;

async fn check(scene: &Scene, headers: &[(&str, &str)], status: u16) {
    let answer = post(scene, headers, &initialize("2025-11-25")).await;
    assert_eq!(answer.status, status, "{headers:?}");
}

#[tokio::test]
async fn names_of_this_machine_are_served_and_no_others() {
    let scene = Scene::new().await;
    for host in ["localhost", "localhost:1234", "127.0.0.1", "[::1]:80"] {
        check(&scene, &[("host", host)], 200).await;
    }
    for host in
        ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1"]
    {
        check(&scene, &[("host", host)], 403).await;
    }
    check(&scene, &[("host", "")], 400).await;
}

#[tokio::test]
async fn pages_of_this_machine_are_served_and_no_others() {
    let scene = Scene::new().await;
    for origin in ["http://localhost", "http://localhost:3000", "http://127.0.0.1:5173", "http://[::1]:80"] {
        check(&scene, &[("origin", origin)], 200).await;
    }
    for origin in [
        "http://evil.example",
        "https://evil.example:443",
        "null",
        "nonsense",
        "file://",
        "http://localhost.evil.example",
    ] {
        check(&scene, &[("origin", origin)], 403).await;
    }
}

#[tokio::test]
async fn configured_names_and_pages_are_served_too() {
    let scene = Scene::with(|options| {
        options.hosts = vec!["yard.example:8443".to_owned()];
        options.origins = vec!["https://app.example:443".to_owned()];
    })
    .await;
    check(&scene, &[("host", "yard.example:8443")], 200).await;
    check(&scene, &[("host", "yard.example:80")], 403).await;
    check(&scene, &[("origin", "https://app.example")], 200).await;
    check(&scene, &[("origin", "http://app.example")], 403).await;
    check(&scene, &[("host", "localhost")], 200).await;
}

#[tokio::test]
async fn nobody_is_served_who_does_not_say_who_he_is() {
    let scene = Scene::new().await;
    for who in ["", "mallory"] {
        check(&scene, &[("authorization", who)], 401).await;
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let scene = Scene::new().await;
    let large = format!("\"{}\"", "x".repeat(9 << 20));
    // The connection may be closed before all of it was sent.
    let answer = tokio::time::timeout(crate::scene::DEADLINE, tokio::spawn({
        let address = scene.address();
        async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let head = format!(
                "POST /v1/mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: alice\r\naccept: application/json, \
                 text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                large.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let _ = stream.write_all(large.as_bytes()).await;
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.map(|_| answer)
        }
    }))
    .await
    .unwrap()
    .unwrap();
    assert_eq!(&answer.unwrap(), b"HTTP/1.1 413");
    // Nothing was opened meanwhile, and the next one is served.
    let text = post(&scene, &[], &initialize("2025-11-25")).await.text().await;
    assert!(text.contains("\"procyard\"") && serde_json::from_str::<Value>(&text).is_err(), "{text}");
}
