//! The end of the service.

use http_body_util::BodyExt as _;
use procyard_server::http::Listener;
use serde_json::json;

use crate::client::PATIENCE;
use crate::scene::{Scene, Who};

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_streams_with_a_reason_and_everything_that_runs() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let played = scene.host.runner.last().unwrap();
    let mut events = scene.open(&token, "GET", "/v1/events/stream", &[], None).await.into_body();
    let logs = format!("/v1/processes/{process}/logs?follow=true");
    let logs = scene.open(&token, "GET", &logs, &[], None).await;
    let stop = scene.stop.clone();
    let waiting = format!("/v1/processes/{process}/output?wait=any&until=exit&timeout_ms=600000");
    let waiting = scene.open(&token, "GET", &waiting, &[], None);
    let (waited, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        stop.cancel();
    });
    assert_eq!(waited.status().as_u16(), 503);
    let mut text = String::new();
    while let Some(frame) = tokio::time::timeout(PATIENCE, events.frame()).await.unwrap() {
        text.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
    }
    assert!(text.ends_with("event: end\ndata: {\"reason\":\"shutting_down\"}\n\n"), "{text}");
    assert!(
        !crate::client::Answer::of(logs).await.whole,
        "a log that goes on does not look like one that has ended"
    );
    let place = scene.end().await;
    assert_eq!(played.survivors(), 0);
    assert!(!place.path().join("procyard.sock").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_nobody_serves_is_taken_over_and_one_that_is_served_is_not() {
    let scene = Scene::begin().await;
    let crate::client::At::Socket(path) = scene.socket.clone() else { panic!("a path") };
    let taken = Listener::unix(&path).await.unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(scene.get(Who::Peer, "/v1/processes").await.json()["processes"], json!([]));
    let place = scene.end().await;
    // As a sudden death leaves it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Listener::unix(&path).await.unwrap());
    std::fs::write(&path, "not a socket").unwrap();
    assert!(Listener::unix(&path).await.is_err());
    drop(place);
}
