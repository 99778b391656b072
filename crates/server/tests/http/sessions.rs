//! Sessions, loops and tokens.

use std::sync::atomic::Ordering;

use procyard_core::Limits;
use serde_json::json;

use crate::scene::{Scene, Who};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_opened_looked_at_and_shut_down() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let path = format!("/v1/sessions/{}", token.owner.session);
    let seen = scene.get(scene.admin(), &path).await.json();
    assert_eq!(seen["loops"][0]["loop_id"], json!(token.owner.loop_id));
    assert_eq!((&seen["loops"][0]["running"], &seen["loops"][0]["tokens"]), (&json!(1), &json!(1)));
    let list = scene.get(Who::Peer, "/v1/sessions").await.json();
    assert_eq!(list["sessions"], json!([seen]));

    let played = scene.host.runner.last().unwrap();
    assert_eq!(scene.delete(scene.admin(), &path).await.status, 204);
    assert_eq!(played.survivors(), 0, "its processes are gone");
    assert_eq!(scene.get(scene.admin(), &path).await.status, 404);
    assert_eq!(scene.delete(scene.admin(), &path).await.status, 404);
    let refused = scene.get(&token, &format!("/v1/processes/{process}")).await;
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));

    // Opened again by name, with what it holds; whose it is has not changed, so another loop does not see it.
    let again = scene.post(scene.admin(), "/v1/sessions", &json!({"session_id": token.owner.session})).await;
    assert_eq!(again.status, 201);
    assert_eq!(again.json()["session_id"], json!(token.owner.session));
    let other = again.json()["token"].as_str().unwrap().to_owned();
    assert_eq!(scene.get(Who::Bearer(&other), "/v1/processes").await.json()["processes"], json!([]));
    // The loop that lost its token gets another one.
    let body = json!({"loop_id": token.owner.loop_id});
    let minted = scene.post(scene.admin(), &format!("{path}/loops"), &body).await.json();
    let minted = minted["token"].as_str().unwrap();
    let seen = scene.get(Who::Bearer(minted), &format!("/v1/processes/{process}")).await.json();
    assert_eq!((&seen["state"], &seen["outcome"]), (&json!("terminated"), &json!("killed")));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_is_closed_and_its_neighbour_goes_on() {
    let scene = Scene::begin().await;
    let (one, session) = (scene.session().await, "/v1/sessions");
    let other = scene.another_loop(&one).await;
    scene.start(&one, "wait").await;
    let closed = scene.host.runner.last().unwrap();
    scene.start(&other, "wait").await;
    let kept = scene.host.runner.last().unwrap();
    let path = format!("{session}/{}/loops/{}", one.owner.session, one.owner.loop_id);
    assert_eq!(scene.delete(scene.admin(), &path).await.status, 204);
    assert_eq!((closed.survivors(), kept.survivors()), (0, 1));
    assert_eq!(scene.get(&one, "/v1/processes").await.status, 401);
    assert_eq!(scene.get(&other, "/v1/processes").await.status, 200);
    let unknown = format!("{session}/{}/loops/{}", one.owner.session, uuid::Uuid::new_v4());
    assert_eq!(scene.delete(scene.admin(), &unknown).await.status, 404);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_what_they_see_outlive_the_service() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "hello").await;
    scene.ended(&token, &process).await;
    let admin = scene.admin.clone();
    let place = scene.end().await;

    let scene = Scene::on(place, |options| options, Limits::default()).await;
    assert_eq!(scene.admin, admin);
    let seen = scene.get(&token, &format!("/v1/processes/{process}/output")).await;
    assert_eq!((seen.status, &seen.json()["output"]), (200, &json!("hello\n")));
    let recovery = scene.get(scene.admin(), "/v1/diagnostics/recovery").await.json();
    assert_eq!(recovery["anomalies"], json!(0));
    assert_eq!(recovery["sessions"][0]["restored"], json!(1));
    let place = scene.end().await;

    // A session that was removed meanwhile takes its tokens along.
    let scene = Scene::on(place, |options| options, Limits::default()).await;
    scene.host.remove(token.owner.session);
    assert_eq!(scene.get(&token, "/v1/processes").await.status, 401);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_not_open_loses_its_tokens_when_it_is_ended() {
    let scene = Scene::begin().await;
    let (token, other) = (scene.session().await, scene.session().await);
    let place = scene.end().await;
    let scene = Scene::on(place, |options| options, Limits::default()).await;
    let session = format!("/v1/sessions/{}", token.owner.session);
    assert_eq!(scene.delete(scene.admin(), &session).await.status, 204);
    assert_eq!(scene.get(&token, "/v1/processes").await.status, 401);
    assert_eq!(scene.delete(scene.admin(), &session).await.status, 404, "there is nothing left of it");
    let path = format!("/v1/sessions/{}/loops/{}", other.owner.session, other.owner.loop_id);
    assert_eq!(scene.delete(scene.admin(), &path).await.status, 204, "a loop likewise");
    assert_eq!(scene.get(&other, "/v1/processes").await.status, 401);
    assert_eq!(scene.delete(scene.admin(), &path).await.status, 404);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_inherits_a_token() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    scene.start(&token, "hello").await;
    let asked = format!("{:?}", scene.host.runner.requests());
    assert!(!asked.contains(&token.text[4..]) && !asked.contains(&scene.admin[4..]));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_processes_cannot_be_proven_gone_says_so() {
    let limits = Limits { proof_bound: std::time::Duration::from_millis(50), ..Limits::default() };
    let scene = Scene::with(|options| options, limits).await;
    let token = scene.session().await;
    scene.start(&token, "stuck").await;
    let path = format!("/v1/sessions/{}/loops/{}", token.owner.session, token.owner.loop_id);
    let refused = scene.delete(scene.admin(), &path).await;
    assert_eq!((refused.status, &*refused.code()), (503, "teardown_failed"));
    assert!(refused.header("retry-after").is_some());
    scene.host.runner.last().unwrap().prove();
    // The attempt goes on: asked again until it says that they are gone. The tokens are gone since the first.
    let closing = scene.host.supervisor(token.owner.session);
    let deadline = tokio::time::Instant::now() + crate::client::PATIENCE;
    while closing.close_loop(token.owner).await.unwrap() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "they are proven gone in the end");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(scene.get(&token, "/v1/processes").await.status, 401);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrator_goes_on_seeing_what_a_closed_loop_has_left() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let ended = scene.start(&token, "hello").await;
    scene.ended(&token, &ended).await;
    let stopped = scene.start(&token, "wait").await;
    let session = format!("/v1/sessions/{}", token.owner.session);
    let path = format!("{session}/loops/{}", token.owner.loop_id);
    assert_eq!(scene.delete(scene.admin(), &path).await.status, 204);
    let looks = async |scene: &Scene| {
        let mut seen = Vec::new();
        for path in [
            "/v1/processes".to_owned(),
            format!("/v1/processes?session_id={}", token.owner.session),
            format!("/v1/processes/{ended}"),
            format!("/v1/processes/{ended}/output"),
            format!("/v1/processes/{ended}/output?wait=any&until=exit"),
            format!("/v1/processes/{ended}/logs"),
            format!("/v1/processes/{ended}/logs?follow=true"),
            format!("/v1/processes/{stopped}/events"),
            "/v1/diagnostics/processes".to_owned(),
        ] {
            let answer = scene.get(scene.admin(), &path).await;
            assert_eq!((answer.status, answer.whole), (200, true), "{path}: {}", answer.text());
            seen.push(answer.text());
        }
        let stop =
            scene.post(scene.admin(), &format!("/v1/processes/{stopped}/stop"), &json!({})).await.json();
        assert_eq!(stop["status"], json!("terminated"));
        let loops = scene.get(scene.admin(), &session).await.json()["loops"].clone();
        let closed = loops.as_array().unwrap().iter().find(|of| of["loop_id"] == json!(token.owner.loop_id));
        assert_eq!(closed.unwrap()["retained"], json!(2), "{loops}");
        seen
    };
    let before = looks(&scene).await;
    assert_eq!(before[5], "hello\n");
    // The loop itself has no token any more, and gets none.
    assert_eq!(scene.get(&token, &format!("/v1/processes/{ended}")).await.status, 401);
    let again = scene
        .post(scene.admin(), &format!("{session}/loops"), &json!({"loop_id": token.owner.loop_id}))
        .await;
    assert_eq!((again.status, &*again.code()), (409, "conflict"));
    let place = scene.end().await;

    let scene = Scene::on(place, |options| options, Limits::default()).await;
    scene.post(scene.admin(), "/v1/sessions", &json!({"session_id": token.owner.session})).await;
    let after = looks(&scene).await;
    assert_eq!(before[2..8], after[2..8], "as after a restart");
    assert_eq!(scene.delete(scene.admin(), &format!("/v1/processes/{ended}")).await.status, 204);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_a_session_can_be_asked_for_until_everything_is_proven_gone() {
    let limits = Limits { proof_bound: std::time::Duration::from_millis(50), ..Limits::default() };
    let scene = Scene::with(|options| options, limits).await;
    let token = scene.session().await;
    scene.start(&token, "stuck").await;
    let path = format!("/v1/sessions/{}", token.owner.session);
    for _ in 0..2 {
        let refused = scene.delete(scene.admin(), &path).await;
        assert_eq!((refused.status, &*refused.code()), (503, "teardown_failed"), "{}", refused.text());
        assert!(refused.header("retry-after").is_some());
    }
    assert_eq!(scene.get(&token, "/v1/processes").await.status, 401);
    scene.host.runner.last().unwrap().prove();
    let deadline = tokio::time::Instant::now() + crate::client::PATIENCE;
    while scene.delete(scene.admin(), &path).await.status != 204 {
        assert!(tokio::time::Instant::now() < deadline, "they are proven gone in the end");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(scene.delete(scene.admin(), &path).await.status, 404);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_too_many_is_refused_until_another_is_ended() {
    let scene = Scene::begin().await;
    let first = scene.session().await;
    scene.host.max_sessions.store(1, Ordering::Relaxed);
    let refused = scene.post(scene.admin(), "/v1/sessions", &json!({})).await;
    assert_eq!((refused.status, &*refused.code()), (429, "process_quota_exceeded"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.text().contains("1 sessions are open"), "{}", refused.text());
    // One that is open is opened again without a place more.
    let again =
        scene.post(scene.admin(), "/v1/sessions", &json!({ "session_id": first.owner.session })).await;
    assert_eq!(again.status, 201);
    assert_eq!(
        scene.delete(scene.admin(), &format!("/v1/sessions/{}", first.owner.session)).await.status,
        204
    );
    let second = scene.session().await;
    assert_eq!(scene.get(&second, "/v1/processes").await.status, 200);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_session_that_has_no_place_is_told_to_come_later() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let place = scene.end().await;
    let scene = Scene::on(place, |options| options, Limits::default()).await;
    scene.host.max_sessions.store(0, Ordering::Relaxed);
    let refused = scene.get(&token, "/v1/processes").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    scene.host.max_sessions.store(1, Ordering::Relaxed);
    assert_eq!(scene.get(&token, "/v1/processes").await.status, 200);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_so_many_tokens_and_a_closed_loop_makes_room() {
    let few = |options| procyard_server::http::ServiceOptions { max_tokens_per_session: 2, ..options };
    let scene = Scene::with(few, Limits::default()).await;
    let first = scene.session().await;
    let second = scene.another_loop(&first).await;
    let path = format!("/v1/sessions/{}/loops", first.owner.session);
    for body in [json!({}), json!({ "loop_id": second.owner.loop_id })] {
        let refused = scene.post(scene.admin(), &path, &body).await;
        assert_eq!((refused.status, &*refused.code()), (429, "process_quota_exceeded"), "{body}");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(scene.delete(scene.admin(), &format!("{path}/{}", second.owner.loop_id)).await.status, 204);
    scene.another_loop(&first).await;
    scene.end().await;
}
