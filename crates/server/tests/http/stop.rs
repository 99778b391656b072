//! The end of the service.

use std::time::Duration;

use http_body_util::BodyExt as _;
use procyard_core::Limits;
use procyard_server::http::{Left, Listener, ServiceError};
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
    let path = format!("/v1/processes/{process}/logs?follow=true");
    let logs = scene.open(&token, "GET", &path, &[], None).await;
    let told = scene.open(&token, "GET", &path, &[("te", "trailers")], None).await;
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
    let told = crate::client::Answer::of(told).await;
    assert_eq!((told.trailer("procyard-end"), told.whole), (Some("shutting_down"), true));
    let place = scene.end().await;
    assert_eq!(played.survivors(), 0);
    assert!(!place.path().join("procyard.sock").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stop_could_not_record_is_counted_also_of_sessions_that_were_closed_before() {
    let scene = Scene::begin().await;
    for closed_before in [true, false] {
        let token = scene.session().await;
        scene.start(&token, "wait").await;
        let unrecorded = scene.start(&token, "wait").await;
        // No file can take the place of a directory.
        let record = scene.host.spool(token.owner.session, &unrecorded).with_extension("manifest.json");
        std::fs::remove_file(&record).unwrap();
        std::fs::create_dir(&record).unwrap();
        if closed_before {
            let path = format!("/v1/sessions/{}", token.owner.session);
            assert_eq!(scene.delete(scene.admin(), &path).await.status, 204, "nothing of it runs");
        }
    }
    match scene.served().await.0 {
        Err(ServiceError::Left(left)) => assert_eq!(left, Left { unproven: 0, unsaved: 2 }),
        other => panic!("{other:?}"),
    }
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

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_while_the_service_is_being_shut_down_is_told_so_until_nobody_listens() {
    let grace = Duration::from_secs(2);
    let limits = Limits { graceful_shutdown: grace, ..Limits::default() };
    let scene = Scene::with(|options| options, limits).await;
    let token = scene.session().await;
    // It takes all of its grace to end.
    scene.start(&token, "stubborn").await;
    let played = scene.host.runner.last().unwrap();
    let crate::client::At::Socket(path) = scene.socket.clone() else { panic!("a path") };
    scene.stop.cancel();
    let mut told = 0;
    while played.survivors() > 0 {
        assert!(path.exists(), "the socket is there as long as somebody answers");
        for (who, path) in [
            (Who::from(&token), "/v1/processes"),
            (Who::Peer, "/v1/sessions"),
            (Who::Nobody, "/health"),
            (Who::from(&token), "/v1/mcp/capabilities"),
        ] {
            // It may be the last moment: then nobody listens.
            if played.survivors() == 0 {
                break;
            }
            let answer = crate::client::Answer::of(scene.open(who, "GET", path, &[], None).await).await;
            assert_eq!((answer.status, &*answer.code()), (503, "supervisor_shutting_down"), "{path}");
            assert_eq!(answer.header("connection"), Some("close"), "{path}");
            told += 1;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(told > 4, "it was told all the while: {told}");
    let tcp = scene.tcp.clone();
    scene.end().await;
    let crate::client::At::Tcp(address) = tcp else { panic!("an address") };
    assert!(!path.exists());
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "refused, and not left to wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_whose_service_is_too_busy_to_answer_is_left_alone() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("busy.sock");
    let busy = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&busy, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&busy, 0).unwrap();
    // One that waits to be accepted is as many as there may be.
    let _waiting = std::os::unix::net::UnixStream::connect(&path).unwrap();
    assert_eq!(Listener::unix(&path).await.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    assert!(path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_is_not_put_where_others_can_put_theirs() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    std::fs::create_dir(&directory).unwrap();
    for (mode, taken) in
        [(0o777, false), (0o770, false), (0o702, false), (0o700, true), (0o755, true), (0o1777, true)]
    {
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)).unwrap();
        let listened = Listener::unix(&directory.join("procyard.sock")).await;
        assert_eq!(listened.is_ok(), taken, "{mode:o}: {listened:?}");
        if let Err(error) = listened {
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        }
    }
    // Only root can give a directory away.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&directory, Some(65534), None).unwrap();
        assert!(Listener::unix(&directory.join("procyard.sock")).await.is_err());
    }
}
