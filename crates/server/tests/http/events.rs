//! The journal in pages and as a stream.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use procyard_core::{Limits, Timestamp};
use procyard_journal::EventFilter;
use rand::RngExt as _;
use serde_json::{Value, json};

use crate::client::PATIENCE;
use crate::scene::{Scene, Token, Who};

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    name: String,
    id: Option<u64>,
    data: Value,
}

/// A stream of them.
struct Stream {
    body: Incoming,
    text: String,
    status: u16,
}

impl Stream {
    async fn open(scene: &Scene, who: impl Into<Who<'_>>, path: &str, last: Option<u64>) -> Self {
        let last = last.map(|last| last.to_string());
        let headers: Vec<_> = last.iter().map(|last| ("last-event-id", &**last)).collect();
        let response = scene.open(who, "GET", path, &headers, None).await;
        Self { status: response.status().as_u16(), body: response.into_body(), text: String::new() }
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
                };
                let Some(name) = field("event") else { continue };
                let data = serde_json::from_str(field("data").unwrap()).unwrap();
                let id = field("id").map(|id| id.parse().unwrap());
                return Some(Sent { name: name.to_owned(), id, data });
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("an event in time")?;
            self.text.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
        }
    }

    async fn record(&mut self) -> Option<Sent> {
        loop {
            let sent = self.next().await?;
            if sent.id.is_some() {
                return Some(sent);
            }
        }
    }
}

fn recorded(scene: &Scene, token: &Token) -> Vec<u64> {
    let journal = scene.host.journal(token.owner.session);
    let page = journal.events_after(0, 1000, &EventFilter::of_owner(token.owner)).unwrap();
    assert!(!page.more);
    page.events.iter().map(|(seq, _)| *seq).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_each_record_once() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    for _ in 0..3 {
        let process = scene.start(&token, "hello").await;
        scene.ended(&token, &process).await;
    }
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let page = scene.get(&token, &format!("/v1/events?after_seq={after}&limit=2")).await.json();
        assert_eq!(page["gap"], json!(false));
        seen.extend(page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
        after = page["next_seq"].as_u64().unwrap();
        if page["more"] == json!(false) {
            break;
        }
    }
    assert_eq!(seen, recorded(&scene, &token));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_outlive_their_process() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "hello").await;
    scene.ended(&token, &process).await;
    assert_eq!(scene.delete(&token, &format!("/v1/processes/{process}")).await.status, 204);
    let page = scene.get(&token, &format!("/v1/processes/{process}/events")).await.json();
    assert_eq!(page["events"].as_array().unwrap().last().unwrap()["kind"], json!("completed"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_process_ends_after_its_end() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let path = format!("/v1/processes/{process}/events/stream");
    let mut stream = Stream::open(&scene, &token, &path, None).await;
    let first = stream.record().await.unwrap();
    assert_eq!((&*first.name, &first.data["process_id"]), ("backgrounded", &json!(process)));
    scene.host.runner.last().unwrap().stdout("almost done\n").await;
    let sample = stream.next().await.unwrap();
    assert_eq!((&*sample.name, sample.id), ("output", None));
    assert_eq!((&sample.data["sample"], &sample.data["text"]), (&json!(true), &json!("almost done\n")));
    scene.host.runner.last().unwrap().exit(0).await;
    let last = stream.record().await.unwrap();
    assert_eq!((&*last.name, &last.data["exit_code"]), ("completed", &json!(0)));
    assert_eq!(stream.next().await, None);
    // Again from the middle, and again behind the end.
    let mut again = Stream::open(&scene, &token, &path, first.id).await;
    assert_eq!(again.record().await, Some(last.clone()));
    assert_eq!(again.next().await, None);
    assert_eq!(Stream::open(&scene, &token, &path, last.id).await.status, 204);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_a_place_begins_now_and_carries_no_samples_on_request() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let before = scene.start(&token, "hello").await;
    scene.ended(&token, &before).await;
    let mut stream = Stream::open(&scene, &token, "/v1/events/stream?output=false", None).await;
    let process = scene.start(&token, "hello").await;
    let first = stream.next().await.unwrap();
    assert_eq!(first.data["process_id"], json!(process));
    let second = stream.next().await.unwrap();
    assert_eq!((&*second.name, &second.data["process_id"]), ("completed", &json!(process)));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_few_however_much_is_printed() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let path = format!("/v1/processes/{process}/events/stream");
    let mut stream = Stream::open(&scene, &token, &path, None).await;
    let played = scene.host.runner.last().unwrap();
    let printing = tokio::spawn(async move {
        for line in 0..2000 {
            played.stdout(format!("line {line}\n")).await;
        }
        played.exit(0).await;
    });
    let mut samples = Vec::new();
    while let Some(sent) = stream.next().await {
        if sent.name == "output" {
            samples.push(sent.data);
        }
    }
    printing.await.unwrap();
    assert!((1..200).contains(&samples.len()), "{}", samples.len());
    assert!(samples.iter().all(|sample| sample["text"].as_str().unwrap().len() <= 2048));
    assert!(
        samples.last().unwrap()["text"].as_str().unwrap().ends_with("line 1999\n"),
        "the last word is shown"
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_reconnections_under_load_give_each_record_once_and_in_order() {
    const RECONNECTIONS: usize = 100;
    // However far ends are behind starts, no start is refused.
    let limits = Limits {
        running_per_loop: 100,
        running_per_session: 200,
        window_bytes_total: 1 << 30,
        spool_bytes_total: 1 << 40,
        ..Limits::default()
    };
    let scene = Scene::with(|options| options, limits).await;
    let token = scene.session().await;
    let neighbour = scene.another_loop(&token).await;
    let load = async {
        for _ in 0..60 {
            let one = scene.start(&token, "hello").await;
            scene.start(&neighbour, "hello").await;
            // The stream meets ends at any distance from starts.
            if rand::rng().random_bool(0.3) {
                scene.ended(&token, &one).await;
            }
        }
    };
    let reading = async {
        let (mut seen, mut last) = (Vec::new(), 0);
        for _ in 0..RECONNECTIONS {
            let mut stream = Stream::open(&scene, &token, "/v1/events/stream", Some(last)).await;
            for _ in 0..rand::rng().random_range(0..4) {
                // There may be no more: the next connection goes on.
                let next = tokio::time::timeout(Duration::from_millis(300), stream.record()).await;
                let Ok(Some(sent)) = next else { break };
                last = sent.id.unwrap();
                seen.push(last);
            }
        }
        (seen, last)
    };
    let ((), (mut seen, last)) = tokio::join!(load, reading);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while recorded(&scene, &token).len() < 2 * 60 {
        assert!(tokio::time::Instant::now() < deadline, "everything is recorded");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let want = recorded(&scene, &token);
    let mut stream = Stream::open(&scene, &token, "/v1/events/stream", Some(last)).await;
    while seen.len() < want.len() {
        seen.push(stream.record().await.unwrap().id.unwrap());
    }
    assert_eq!(seen, want);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_was_away_for_too_long_is_told_what_it_missed() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    for _ in 0..5 {
        let process = scene.start(&token, "hello").await;
        scene.ended(&token, &process).await;
    }
    let journal = scene.host.journal(token.owner.session);
    let pruned = journal.prune(Timestamp::from_unix_micros(i64::MAX), false, 6).unwrap();
    let retained_from = u64::try_from(pruned.events).unwrap() + 1;
    assert!(retained_from > 3);
    let page = scene.get(&token, "/v1/events?after_seq=1").await.json();
    assert_eq!(page["gap"], json!(true));
    let mut stream = Stream::open(&scene, &token, "/v1/events/stream", Some(1)).await;
    let lagged = stream.next().await.unwrap();
    assert_eq!((&*lagged.name, lagged.id), ("lagged", None));
    assert_eq!(lagged.data, json!({"from_seq": 2, "until_seq": retained_from}));
    assert_eq!(stream.record().await.unwrap().id, Some(retained_from));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_of_a_live_stream_is_told_that_it_lagged() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let mut stream = Stream::open(&scene, &token, "/v1/events/stream?output=false", None).await;
    let journal = scene.host.journal(token.owner.session);
    // More than the buffers between hold, of which the reader takes none meanwhile.
    let handle = procyard_core::Handle::from_bytes([7; 16]);
    let template = {
        let process = scene.start(&token, "hello").await;
        scene.ended(&token, &process).await;
        journal.events_after(0, 1, &EventFilter::all()).unwrap().events[0].1.clone()
    };
    let many = 20_000_u32;
    let flooding = tokio::task::spawn_blocking({
        let journal = journal.clone();
        move || {
            std::thread::scope(|scope| {
                for part in 0..32_u32 {
                    let (journal, template) = (journal.clone(), template.clone());
                    scope.spawn(move || {
                        for number in 0..many / 32 {
                            let mut event = template.clone();
                            let mut id = [9; 16];
                            id[..4].copy_from_slice(&(part * many + number).to_be_bytes());
                            event.id = procyard_core::EventId::from_random(id);
                            event.identity.handle = handle;
                            journal.append(&event).unwrap();
                        }
                    });
                }
            });
        }
    });
    flooding.await.unwrap();
    // It begins to send the flood, and is held up by the reader.
    let process = scene.start(&token, "hello").await;
    scene.ended(&token, &process).await;
    loop {
        let before = journal.event_bounds().unwrap();
        let pruned = journal.prune(Timestamp::from_unix_micros(i64::MAX), false, 1000).unwrap();
        if pruned.events == 0 || before.last - before.retained_from < 1500 {
            break;
        }
    }
    let retained_from = journal.event_bounds().unwrap().retained_from;
    let (mut last, mut lagged) = (0, None);
    while last < retained_from {
        let sent = stream.next().await.unwrap();
        if let Some(id) = sent.id {
            assert_eq!(id, last + 1, "nothing is missing unsaid");
            last = id;
        } else {
            assert_eq!(sent.name, "lagged");
            assert_eq!(sent.data["from_seq"], json!(last + 1), "everything before was sent");
            lagged = sent.data["until_seq"].as_u64();
            last = lagged.unwrap() - 1;
        }
    }
    assert_eq!(lagged, Some(retained_from));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrator_follows_a_session_with_all_its_loops() {
    let scene = Scene::begin().await;
    let one = scene.session().await;
    let other = scene.another_loop(&one).await;
    let path = format!("/v1/events/stream?session_id={}&output=false", one.owner.session);
    let mut stream = Stream::open(&scene, Who::Peer, &path, None).await;
    for token in [&one, &other] {
        let process = scene.start(token, "wait").await;
        let seen = stream.next().await.unwrap().data;
        assert_eq!((&seen["process_id"], &seen["loop_id"]), (&json!(process), &json!(token.owner.loop_id)));
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_loop() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let other = scene.another_loop(&token).await;
    let process = scene.start(&token, "wait").await;
    let mut theirs = Stream::open(&scene, &other, "/v1/events/stream", None).await;
    let mut stream = Stream::open(&scene, &token, "/v1/events/stream?after_seq=0&output=false", None).await;
    let mut of_process =
        Stream::open(&scene, &token, &format!("/v1/processes/{process}/events/stream?output=false"), None)
            .await;
    for stream in [&mut stream, &mut of_process] {
        assert_eq!(stream.next().await.unwrap().name, "backgrounded");
    }
    let path = format!("/v1/sessions/{}/loops/{}", token.owner.session, token.owner.loop_id);
    let (closed, ()) = tokio::join!(scene.delete(scene.admin(), &path), async {
        // What the closing has ended is told, and then why nothing more comes.
        for stream in [&mut stream, &mut of_process] {
            assert_eq!(stream.next().await.unwrap().name, "stop_requested");
            let end = stream.next().await.unwrap();
            assert_eq!((&*end.name, &end.data["state"]), ("completed", &json!("terminated")));
        }
        let end = stream.next().await.unwrap();
        assert_eq!((&*end.name, &end.data["reason"]), ("end", &json!("loop_closed")));
        assert_eq!((stream.next().await, of_process.next().await), (None, None));
    });
    assert_eq!(closed.status, 204);
    // Other loops go on, until their session ends.
    scene.start(&other, "wait").await;
    assert_eq!(theirs.next().await.unwrap().name, "backgrounded");
    let session = format!("/v1/sessions/{}", token.owner.session);
    assert_eq!(scene.delete(scene.admin(), &session).await.status, 204);
    let mut rest = Vec::new();
    while let Some(sent) = theirs.next().await {
        rest.push((sent.name, sent.data["reason"].as_str().map(str::to_owned)));
    }
    let rest: Vec<_> = rest.iter().map(|(name, reason)| (name.as_str(), reason.as_deref())).collect();
    // The session may have gone before its last event was read.
    let [.., ("end", Some("session_closed"))] = rest.as_slice() else { panic!("{rest:?}") };
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_ahead_of_the_journal_is_told_so_and_does_not_wait_for_ever() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "hello").await;
    scene.ended(&token, &process).await;
    let running = scene.start(&token, "wait").await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while recorded(&scene, &token).len() < 3 {
        assert!(tokio::time::Instant::now() < deadline, "both starts and the end are recorded");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let last = recorded(&scene, &token).into_iter().max().unwrap();
    let mut paths = vec!["/v1/events".to_owned()];
    paths.extend([&process, &running].map(|process| format!("/v1/processes/{process}/events")));
    for path in paths {
        for after in [last + 1, (1 << 53) - 1] {
            for (path, headers, field) in [
                (format!("{path}?after_seq={after}"), Vec::new(), "after_seq"),
                (format!("{path}/stream?after_seq={after}"), Vec::new(), "after_seq"),
                (format!("{path}/stream"), vec![("last-event-id", after.to_string())], "Last-Event-ID"),
            ] {
                let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
                let answer = scene.call(&token, "GET", &path, &headers, None).await;
                assert_eq!((answer.status, &*answer.code()), (416, "cursor_ahead"), "{path}");
                assert_eq!(answer.json()["error"]["field"], json!(field), "{path}");
            }
        }
        // Behind the last record of all there is nothing yet, and that is no error.
        assert_eq!(scene.get(&token, &format!("{path}?after_seq={last}")).await.status, 200);
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_never_was_has_no_events_for_the_administrator_either() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    for path in ["events", "events/stream"] {
        let path = format!("/v1/processes/AAECAwQFBgcICQoLDA0ODw/{path}?session_id={}", token.owner.session);
        let response = scene.open(scene.admin(), "GET", &path, &[], None).await;
        assert_eq!(response.status().as_u16(), 404, "{path}");
    }
    scene.end().await;
}
