//! What the client makes of answers, good and bad, from a service that says what a test wants it to.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::unwrap_used, reason = "what a test builds on is there, or the test fails")]

use std::path::Path;
use std::time::Duration;

use procyard_api::http::{EventStreamQuery, LogsQuery, StreamEndReason};
use procyard_client::{Client, ClientError, StreamEvent};
use procyard_core::{ErrorCode, Handle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// A service for one request: it gives `answer` and what it was asked.
fn answering(place: &Path, answer: impl Into<Vec<u8>>) -> (Client, JoinHandle<String>) {
    let socket = place.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = answer.into();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut asked, mut byte) = (Vec::new(), [0]);
        while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap() > 0 {
            asked.push(byte[0]);
        }
        // A client that has read enough leaves.
        let _ = stream.write_all(&answer).await;
        String::from_utf8(asked).unwrap()
    });
    (Client::unix(socket), served)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

#[tokio::test]
async fn where_nobody_answers_the_error_says_how_to_begin() {
    let place = tempfile::tempdir().unwrap();
    let error = Client::unix(place.path().join("nobody")).health().await.unwrap_err();
    assert!(error.is_unreachable() && error.to_string().contains("procyard serve"), "{error}");
}

#[tokio::test]
async fn a_refusal_is_told_in_the_service_s_words() {
    let place = tempfile::tempdir().unwrap();
    let body = r#"{"error":{"code":"process_quota_exceeded","message":"stop one first","retryable":true,"effects":"none"}}"#;
    let (client, _) = answering(place.path(), answer("429 Too Many Requests", "Retry-After: 3\r\n", body));
    match client.health().await.unwrap_err() {
        ClientError::Refused { status, error, retry_after } => {
            assert_eq!((status, error.code), (429, ErrorCode::ProcessQuotaExceeded));
            assert_eq!((&*error.message, retry_after), ("stop one first", Some(Duration::from_secs(3))));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_no_procyard_service_is_said_to_be_none() {
    for (given, expect) in [
        (answer("404 Not Found", "", "<html>"), "status 404"),
        (answer("200 OK", "", "<html>"), "not understood"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_owned(), "broke"),
        (String::new(), "broke"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let (client, _) = answering(place.path(), given.clone());
        let error = client.health().await.unwrap_err().to_string();
        assert!(error.contains(expect), "{given:?}: {error}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_not_taken() {
    let place = tempfile::tempdir().unwrap();
    let mut given = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
    given.resize(17 << 20, b' ');
    let (client, _) = answering(place.path(), given);
    assert!(matches!(client.health().await, Err(ClientError::TooLong { .. })));
}

#[tokio::test]
async fn a_token_goes_in_its_header_and_the_process_in_the_path() {
    let place = tempfile::tempdir().unwrap();
    let (client, asked) = answering(place.path(), answer("200 OK", "", "some\0bytes"));
    let client = client.with_token("pyt_abc");
    assert!(!format!("{client:?}").contains("pyt_abc"));
    let query = LogsQuery { tail_lines: Some(2), ..LogsQuery::default() };
    let mut logs = client.logs(&Handle::from_bytes([1; 16]), &query).await.unwrap();
    let mut got = Vec::new();
    while let Some(bytes) = logs.next().await.unwrap() {
        got.extend(bytes);
    }
    assert_eq!(got, b"some\0bytes");
    assert!(logs.next().await.unwrap().is_none(), "again and again");
    let asked = asked.await.unwrap();
    assert!(
        asked.starts_with("GET /v1/processes/AQEBAQEBAQEBAQEBAQEBAQ/logs?tail_lines=2 HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.to_lowercase().contains("authorization: bearer pyt_abc\r\n"), "{asked}");
}

#[tokio::test]
async fn events_come_in_order_and_the_end_is_told() {
    let place = tempfile::tempdir().unwrap();
    let record = r#"{"seq":7,"event_id":"01010101-0101-4101-8101-010101010101","process_id":"AQEBAQEBAQEBAQEBAQEBAQ","execution_id":"02020202-0202-4202-8202-020202020202","kind":"started","state":"running","at":"2026-01-01T00:00:00.000Z","created_at":"2026-01-01T00:00:00.000Z","started_at":"2026-01-01T00:00:00.000Z"}"#;
    let body = format!(
        ": hello\n\nid: 7\nevent: started\ndata: {record}\n\nevent: of-tomorrow\ndata: {{}}\n\n\
         event: end\ndata: {{\"reason\":\"shutting_down\"}}\n\n"
    );
    let (client, asked) =
        answering(place.path(), answer("200 OK", "Content-Type: text/event-stream\r\n", &body));
    let mut events = client.event_stream(None, &EventStreamQuery::default()).await.unwrap();
    match events.next().await.unwrap() {
        Some(StreamEvent::Record(record)) => assert_eq!(record.seq, 7),
        other => panic!("{other:?}"),
    }
    match events.next().await.unwrap() {
        Some(StreamEvent::End(end)) => assert_eq!(end.reason, StreamEndReason::ShuttingDown),
        other => panic!("{other:?}"),
    }
    assert_eq!(events.next().await.unwrap(), None);
    assert!(asked.await.unwrap().to_lowercase().contains("accept: text/event-stream"));
}

#[tokio::test]
async fn a_stream_that_the_service_ends_early_is_not_taken_for_a_whole_one() {
    for (trailer, expect) in [
        ("procyard-end: complete\r\n", None),
        ("", None),
        ("procyard-end: shutting_down\r\n", Some("the service was stopped")),
        ("procyard-end: session_closed\r\n", Some("the session was closed")),
        ("procyard-end: loop_closed\r\n", Some("the loop was closed")),
        ("procyard-end: removed\r\n", Some("was removed")),
        ("procyard-end: gap\r\n", Some("not retained")),
        ("procyard-end: unavailable\r\n", Some("try again")),
        ("procyard-end: of-tomorrow\r\n", Some("not understood")),
    ] {
        let place = tempfile::tempdir().unwrap();
        let given = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: procyard-end\r\n\r\n4\r\nsome\r\n0\r\n{trailer}\r\n"
        );
        let (client, asked) = answering(place.path(), given);
        let mut logs = client.logs(&Handle::from_bytes([1; 16]), &LogsQuery::default()).await.unwrap();
        assert_eq!(logs.next().await.unwrap().as_deref(), Some(b"some".as_slice()));
        match (logs.next().await, expect) {
            (Ok(None), None) => {}
            (Err(error), Some(expect)) => {
                assert!(error.to_string().contains(expect), "{trailer}: {error}");
                assert_eq!(matches!(error, ClientError::CutOff(_)), expect != "not understood");
            }
            (other, _) => panic!("{trailer}: {other:?}"),
        }
        assert!(logs.next().await.unwrap().is_none(), "again and again");
        assert!(asked.await.unwrap().to_lowercase().contains("te: trailers\r\n"));
    }
}

#[tokio::test]
async fn a_service_that_has_no_room_for_another_connection_is_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("socket");
    let socket = tokio::net::UnixSocket::new_stream().unwrap();
    socket.bind(&path).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut waiting = Vec::new();
    let full = loop {
        match tokio::net::UnixStream::connect(&path).await {
            Ok(stream) => waiting.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock);
    let client = Client::unix(&path);
    let asking = tokio::spawn(async move { client.health().await });
    let before = waiting.len();
    for _ in 0..before {
        drop(listener.accept().await.unwrap());
    }
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(answer("200 OK", "", r#"{"status":"ok"}"#).as_bytes()).await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap().status, "ok");
}

/// Only root can be somebody else for a moment.
#[tokio::test]
async fn another_user_who_listens_is_told_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let socket = place.path().join("socket");
    let bound = socket.clone();
    let stranger = std::thread::spawn(move || {
        // Of this thread alone, and whoever asks for the peer is told who it was that listened (unix(7)).
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        std::os::unix::net::UnixListener::bind(bound).unwrap()
    });
    let listener = stranger.join().unwrap();
    let client = Client::unix(&socket).with_token("pyt_secret");
    let error = client.health().await.unwrap_err();
    assert!(matches!(error, ClientError::Stranger { .. }), "{error}");
    let (mut stream, _) = listener.accept().unwrap();
    let mut said = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut said).unwrap();
    assert_eq!(said, b"");
}
