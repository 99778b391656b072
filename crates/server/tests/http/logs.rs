//! The authoritative bytes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::BodyExt as _;
use procyard_core::Limits;
use serde_json::json;

use crate::client::{Answer, PATIENCE};
use crate::scene::{Scene, Token};

async fn logs(scene: &Scene, token: &Token, process: &str, rest: &str) -> Answer {
    let answer = scene.get(token, &format!("/v1/processes/{process}/logs{rest}")).await;
    assert!(answer.whole);
    answer
}

async fn ended(scene: &Scene, token: &Token, command: &str) -> String {
    let process = scene.start(token, command).await;
    scene.ended(token, &process).await;
    process
}

#[tokio::test(flavor = "multi_thread")]
async fn any_bytes_come_as_they_were_printed() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = ended(&scene, &token, "binary").await;
    let answer = logs(&scene, &token, &process, "").await;
    assert_eq!(&*answer.body, [0xff, 0, b'\n', 0x1b, b'x']);
    for (name, value) in [
        ("procyard-start-cursor", "0"),
        ("procyard-total-bytes", "5"),
        ("procyard-status", "exited"),
        ("accept-ranges", "bytes"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_heads_and_tails_are_parts_of_the_whole() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let both = ended(&scene, &token, "both").await;
    let whole = logs(&scene, &token, &both, "").await.text();
    assert_eq!(whole.len(), 24);
    for (rest, expect) in [
        ("?stream=stdout", "out 1\nout 2\nout 3\n"),
        ("?stream=stderr", "err 1\n"),
        ("?stream=stdout&head_lines=1", "out 1\n"),
        ("?stream=stdout&tail_lines=1", "out 3\n"),
        ("?cursor=18", &whole[18..]),
    ] {
        assert_eq!(logs(&scene, &token, &both, rest).await.text(), expect, "{rest}");
    }
    let lines = ended(&scene, &token, "lines").await;
    let whole = logs(&scene, &token, &lines, "").await.text();
    assert_eq!(whole.lines().count(), 5000);
    assert_eq!(logs(&scene, &token, &lines, "?head_lines=3").await.text(), "line 0\nline 1\nline 2\n");
    assert_eq!(logs(&scene, &token, &lines, "?tail_lines=2").await.text(), "line 4998\nline 4999\n");
    assert_eq!(logs(&scene, &token, &lines, "?head_lines=9999").await.text(), whole);
    assert_eq!(logs(&scene, &token, &lines, "?tail_lines=9999").await.text(), whole);
    let ahead = scene.get(&token, &format!("/v1/processes/{lines}/logs?cursor=9999999")).await;
    assert_eq!((ahead.status, &*ahead.code()), (416, "cursor_ahead"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_a_part_and_says_which() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = ended(&scene, &token, "lines").await;
    let path = format!("/v1/processes/{process}/logs");
    let whole = logs(&scene, &token, &process, "").await.body;
    let total = whole.len();
    for (range, from, until) in [
        ("bytes=0-0".to_owned(), 0, 1),
        ("bytes=100-199".to_owned(), 100, 200),
        (format!("bytes={}-", total - 7), total - 7, total),
        ("bytes=-5".to_owned(), total - 5, total),
        ("bytes=10-999999999".to_owned(), 10, total),
        ("bytes=10-99999999999999999999999999".to_owned(), 10, total),
        ("bytes=-99999999999999999999999999".to_owned(), 0, total),
    ] {
        let answer = scene.call(&token, "GET", &path, &[("range", &range)], None).await;
        assert_eq!((answer.status, answer.whole), (206, true), "{range}");
        assert_eq!(answer.body, whole[from..until], "{range}");
        let content = format!("bytes {from}-{}/{total}", until - 1);
        assert_eq!(answer.header("content-range"), Some(&*content));
        assert_eq!(answer.header("content-length"), Some(&*(until - from).to_string()));
    }
    for range in
        [format!("bytes={total}-"), "bytes=99999999999999999999999999-".to_owned(), "bytes=-0".to_owned()]
    {
        let behind = scene.call(&token, "GET", &path, &[("range", &range)], None).await;
        assert_eq!((behind.status, &*behind.code()), (416, "cursor_ahead"), "{range}");
        assert_eq!(behind.header("content-range"), Some(&*format!("bytes */{total}")));
    }
    let with_query = format!("{path}?stream=stdout");
    assert_eq!(scene.call(&token, "GET", &with_query, &[("range", "bytes=0-1")], None).await.status, 400);
    for several in ["bytes=0-1,4-5", "lines=0-1"] {
        let answer = scene.call(&token, "GET", &path, &[("range", several)], None).await;
        assert_eq!((answer.status, answer.body.len()), (200, total), "{several} is passed over");
    }
    for unreadable in ["nonsense", "bytes=5-2", "bytes=x-", "bytes=", "bytes=0-1,x"] {
        let answer = scene.call(&token, "GET", &path, &[("range", unreadable)], None).await;
        assert_eq!((answer.status, &*answer.code()), (416, "invalid_arguments"), "{unreadable}");
        assert_eq!(answer.json()["error"]["field"], json!("Range"), "{unreadable}");
    }
    let twice = [("range", "bytes=0-1"), ("range", "bytes=4-5")];
    assert_eq!(scene.call(&token, "GET", &path, &twice, None).await.status, 416);
    let conditional = [("range", "bytes=0-1"), ("if-range", "\"x\"")];
    assert_eq!(scene.call(&token, "GET", &path, &conditional, None).await.status, 200);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn following_gives_each_byte_once_and_ends_with_the_process() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let played = scene.host.runner.last().unwrap();
    played.stdout("before\n").await;
    let path = format!("/v1/processes/{process}/logs?follow=true");
    let following = scene.get(&token, &path);
    let printing = async {
        for line in 0..500 {
            played.stdout(format!("{line}\n")).await;
            if line % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        played.exit(0).await;
    };
    let (answer, ()) = tokio::join!(following, printing);
    let lines: Vec<_> = (0..500).map(|line| format!("{line}\n")).collect();
    assert_eq!((answer.text(), answer.whole), (format!("before\n{}", lines.concat()), true));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_printed_shows_at_once() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let path = format!("/v1/processes/{process}/logs?follow=true");
    let mut body = scene.open(&token, "GET", &path, &[], None).await.into_body();
    scene.host.runner.last().unwrap().stdout("now").await;
    let frame = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
    assert_eq!(&**frame.data_ref().unwrap(), b"now");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_retained_is_stated_and_never_missing_unnoticed() {
    let limits = Limits { window_bytes: 64 * 1024, spool_bytes: 256 * 1024, ..Limits::default() };
    let scene = Scene::with(|options| options, limits).await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let played = scene.host.runner.last().unwrap();
    let printed: Vec<u8> = (0..1_000_000_u32).map(|byte| u8::try_from(byte % 251).unwrap()).collect();
    for chunk in printed.chunks(50_000) {
        played.stdout(chunk).await;
    }
    played.exit(0).await;
    scene.ended(&token, &process).await;
    let answer = logs(&scene, &token, &process, "").await;
    let start: usize = answer.header("procyard-start-cursor").unwrap().parse().unwrap();
    assert!(start > 0);
    assert_eq!(answer.body, printed[start..]);
    let path = format!("/v1/processes/{process}/logs");
    for range in ["bytes=0-9", "bytes=5-5"] {
        let gone = scene.call(&token, "GET", &path, &[("range", range)], None).await;
        assert_eq!((gone.status, &*gone.code()), (416, "cursor_gap"), "it is not ahead, it is gone");
        assert_eq!(gone.header("content-range"), Some("bytes */1000000"));
        assert!(gone.text().contains(&format!("retained from {start}")), "{}", gone.text());
    }
    let range = format!("bytes=0-{}", start + 9);
    let partly = scene.call(&token, "GET", &path, &[("range", &range)], None).await;
    assert_eq!((partly.status, &partly.body[..]), (206, &printed[start..start + 10]));
    assert_eq!(partly.header("content-range"), Some(&*format!("bytes {start}-{}/1000000", start + 9)));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_are_as_many_as_there_are_places_to_wait() {
    let limits = Limits { waiters: 2, ..Limits::default() };
    let scene = Scene::with(|options| options, limits).await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let path = format!("/v1/processes/{process}/logs?follow=true");
    let one = scene.open(&token, "GET", &path, &[], None).await;
    let two = scene.open(&token, "GET", &path, &[], None).await;
    assert_eq!((one.status().as_u16(), two.status().as_u16()), (200, 200));
    let refused = scene.get(&token, &path).await;
    assert_eq!((refused.status, &*refused.code()), (429, "output_quota_exceeded"));
    assert_eq!(scene.post(&token, &format!("/v1/processes/{process}/kill"), &json!({})).await.status, 200);
    scene.end().await;
}

/// What is done to the segments of a spool while no service runs.
type Damage = fn(&[PathBuf]);

fn cut(path: &Path, by: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - by).unwrap();
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_disk_lost_while_no_service_ran_is_never_served_as_a_shorter_whole_output() {
    let cases: [(&str, Damage); 6] = [
        ("the spool", |segments| std::fs::remove_dir_all(segments[0].parent().unwrap()).unwrap()),
        ("the first segment", |segments| std::fs::remove_file(&segments[0]).unwrap()),
        ("one in the middle", |segments| std::fs::remove_file(&segments[1]).unwrap()),
        ("the last segment", |segments| std::fs::remove_file(segments.last().unwrap()).unwrap()),
        ("the end", |segments| cut(segments.last().unwrap(), 1)),
        ("a byte", |segments| flip(&segments[1])),
    ];
    for (what, damage) in cases {
        let limits = Limits { window_bytes: 64 * 1024, spool_bytes: 512 * 1024, ..Limits::default() };
        let scene = Scene::with(|options| options, limits.clone()).await;
        let token = scene.session().await;
        let process = scene.start(&token, "wait").await;
        let played = scene.host.runner.last().unwrap();
        let printed: Vec<u8> =
            (0..300_000_u32).map(|byte| b'a' + u8::try_from(byte / 12_000).unwrap()).collect();
        for chunk in printed.chunks(20_000) {
            played.stdout(chunk).await;
        }
        played.exit(0).await;
        scene.ended(&token, &process).await;
        let spool = scene.host.spool(token.owner.session, &process);
        let place = scene.end().await;
        let mut segments: Vec<_> =
            std::fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.sort();
        assert!(segments.len() > 3);
        damage(&segments);

        let scene = Scene::on(place, |options| options, limits).await;
        let path = format!("/v1/processes/{process}");
        let logs = format!("{path}/logs");
        for headers in [vec![], vec![("te", "trailers")], vec![("range", "bytes=0-")]] {
            let broken = scene.call(&token, "GET", &logs, &headers, None).await;
            if matches!(what, "the spool" | "the first segment") {
                assert_eq!(
                    (broken.status, &*broken.code()),
                    (500, "spool_corrupt"),
                    "{what}: nothing of it is there"
                );
                continue;
            }
            assert!(broken.body.len() < printed.len() && printed.starts_with(&broken.body), "{what}");
            assert!(!broken.body.is_empty(), "{what}: what is there is sent");
            let told = headers.first().is_some_and(|(name, _)| *name == "te");
            assert_eq!(broken.trailer("procyard-end"), told.then_some("gap"), "{what}");
            assert_eq!(broken.whole, told, "{what}");
        }

        let (mut cursor, mut missing) = (0, false);
        while cursor < 300_000 {
            let page = scene.get(&token, &format!("{path}/output?cursor={cursor}&limit_bytes=1048576")).await;
            if page.status == 500 {
                assert_eq!(page.code(), "spool_corrupt", "{what}");
                let message = page.json()["error"]["message"].as_str().unwrap().to_owned();
                let numbers: Vec<u64> =
                    message.split(|of: char| !of.is_ascii_digit()).filter_map(|of| of.parse().ok()).collect();
                (cursor, missing) = (numbers.into_iter().max().unwrap(), true);
                continue;
            }
            let page = page.json();
            assert_eq!(page["total_bytes"], json!(300_000), "{what}: {page}");
            missing |= page["gap"] == json!(true);
            assert!(page["next_cursor"].as_u64().unwrap() > cursor, "{what}: {page}");
            cursor = page["next_cursor"].as_u64().unwrap();
        }
        assert!(missing, "{what}");
        assert_eq!(scene.get(&token, &path).await.json()["storage_degraded"], json!(true), "{what}");
        scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_trailers_is_told_why_a_response_ends() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = ended(&scene, &token, "lines").await;
    let path = format!("/v1/processes/{process}/logs");
    for te in ["trailers", "gzip;q=0.5, Trailers"] {
        for rest in ["", "?head_lines=3", "?follow=true"] {
            let answer = scene.call(&token, "GET", &format!("{path}{rest}"), &[("te", te)], None).await;
            assert_eq!((answer.header("trailer"), answer.whole), (Some("procyard-end"), true));
            assert_eq!(answer.trailer("procyard-end"), Some("complete"), "{te} {rest}");
        }
    }
    let without = scene.get(&token, &path).await;
    assert_eq!((without.header("trailer"), without.trailer("procyard-end")), (None, None));

    let other = scene.another_loop(&token).await;
    let running = scene.start(&other, "wait").await;
    let path = format!("/v1/processes/{running}/logs?follow=true");
    let closed = scene.open(&other, "GET", &path, &[("te", "trailers")], None).await;
    let path = format!("/v1/sessions/{}/loops/{}", token.owner.session, other.owner.loop_id);
    assert_eq!(scene.delete(scene.admin(), &path).await.status, 204);
    assert_eq!(Answer::of(closed).await.trailer("procyard-end"), Some("loop_closed"));

    let running = scene.start(&token, "wait").await;
    let path = format!("/v1/processes/{running}/logs?follow=true");
    let follow = async || scene.open(&token, "GET", &path, &[("te", "trailers")], None).await;
    let removed = follow().await;
    let session = format!("/v1/sessions/{}", token.owner.session);
    assert_eq!(scene.delete(scene.admin(), &session).await.status, 204);
    let end = Answer::of(removed).await;
    assert!(matches!(end.trailer("procyard-end"), Some("complete" | "session_closed")), "{end:?}");
    scene.end().await;
}
