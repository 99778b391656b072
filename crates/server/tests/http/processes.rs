//! Processes as resources.

use procyard_core::Limits;
use serde_json::json;

use crate::scene::{Scene, Who};

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_started_looked_at_and_removed() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "fail", "description": "a test"})).await;
    scene.ended(&token, &process).await;
    let path = format!("/v1/processes/{process}");
    let seen = scene.get(&token, &path).await.json();
    assert_eq!((&seen["state"], &seen["status"]), (&json!("exited"), &json!("exited")));
    assert_eq!((&seen["outcome"], &seen["exit_code"]), (&json!("failed"), &json!(3)));
    assert_eq!((&seen["description"], &seen["total_bytes"]), (&json!("a test"), &json!(3)));
    assert_eq!((&seen["tier"], &seen["tree_exited"]), (&json!("scripted"), &json!(true)));
    assert!(seen.get("session_id").is_none(), "whose it is, its owner knows");
    let seen = scene.get(scene.admin(), &path).await.json();
    assert_eq!(seen["session_id"], json!(token.owner.session));

    assert_eq!(scene.delete(&token, &path).await.status, 204);
    for gone in [scene.get(&token, &path).await, scene.delete(&token, &path).await] {
        assert_eq!((gone.status, &*gone.code()), (404, "not_found"));
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_not_removed() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let refused = scene.delete(&token, &format!("/v1/processes/{process}")).await;
    assert_eq!((refused.status, &*refused.code()), (409, "conflict"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_returns_at_once_unless_it_is_asked_to_wait() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let started = scene.post(&token, "/v1/processes", &json!({"command": "wait"})).await.json();
    assert_eq!(
        (&started["process"]["outcome"], &started["process"]["backgrounded"]),
        (&json!("running"), &json!(true))
    );
    let body = json!({"command": "hello", "background": false});
    let waited = scene.post(&token, "/v1/processes", &body).await.json();
    assert_eq!(
        (&waited["process"]["outcome"], &waited["result"]["output"]),
        (&json!("completed"), &json!("hello\n"))
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_start_gives_the_same_process() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let start = async |key: &str, command: &str| {
        let body = json!({ "command": command }).to_string();
        scene.call(&token, "POST", "/v1/processes", &[("idempotency-key", key)], Some(body)).await
    };
    let first = start("k1", "wait").await.json();
    let again = start("k1", "wait").await.json();
    assert_eq!(first["process"]["process_id"], again["process"]["process_id"]);
    let other = start("k1", "hello").await;
    assert_eq!((other.status, &*other.code()), (409, "conflict"));
    let another = start("k2", "wait").await.json();
    assert_ne!(first["process"]["process_id"], another["process"]["process_id"]);
    assert_eq!(scene.host.runner.played().len(), 2);

    let both = json!({"command": "wait", "idempotency_key": "k3"}).to_string();
    let differs = scene.call(&token, "POST", "/v1/processes", &[("idempotency-key", "k4")], Some(both)).await;
    assert_eq!(differs.status, 400);
    let long = "x".repeat(129);
    assert_eq!(start(&long, "wait").await.status, 400);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_filtered_and_paged() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let mut started = Vec::new();
    for command in ["hello", "wait", "hello", "wait", "hello"] {
        let process = scene.start(&token, command).await;
        if command == "hello" {
            scene.ended(&token, &process).await;
        }
        started.insert(0, process);
    }
    let ids = |page: &serde_json::Value| -> Vec<String> {
        let processes = page["processes"].as_array().unwrap();
        processes.iter().map(|process| process["process_id"].as_str().unwrap().to_owned()).collect()
    };
    let (mut seen, mut path) = (Vec::new(), "/v1/processes?limit=2".to_owned());
    loop {
        let page = scene.get(&token, &path).await.json();
        seen.extend(ids(&page));
        let Some(next) = page["next_page"].as_str() else { break };
        path = format!("/v1/processes?limit=2&page={next}");
    }
    assert_eq!(seen, started);
    let running = scene.get(&token, "/v1/processes?state=running").await.json();
    assert_eq!(ids(&running), [started[1].clone(), started[3].clone()]);

    // The administrator sees everybody's, or those of one session.
    let neighbour = scene.session().await;
    let theirs = scene.start(&neighbour, "wait").await;
    assert_eq!(ids(&scene.get(Who::Peer, "/v1/processes").await.json()).len(), 6);
    let path = format!("/v1/processes?session_id={}", neighbour.owner.session);
    assert_eq!(ids(&scene.get(Who::Peer, &path).await.json()), [theirs]);
    assert_eq!(scene.get(&token, &path).await.status, 400, "a token has its own session");
    let unknown = format!("/v1/processes?session_id={}", uuid::Uuid::new_v4());
    assert_eq!(scene.get(scene.admin(), &unknown).await.status, 404);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_read_and_waited_for() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "wait").await;
    let path = format!("/v1/processes/{process}/output");
    let waiting = format!("{path}?wait=any&until=match&pattern=rea.y&timeout_ms=15000");
    let played = scene.host.runner.last().unwrap();
    let (found, ()) = tokio::join!(scene.get(&token, &waiting), played.stdout("almost\nready\n"));
    assert_eq!(found.json()["matched"]["text"], json!("ready"));
    let page = scene.get(&token, &format!("{path}?cursor=7&encoding=base64&collapse=true")).await;
    assert_eq!((page.status, page.code()), (400, "invalid_arguments".to_owned()), "collapse is for text");
    let page = scene.get(&token, &format!("{path}?cursor=7&encoding=base64")).await.json();
    assert_eq!((&page["output"], &page["next_cursor"]), (&json!("cmVhZHkK"), &json!(13)));
    let ahead = scene.get(&token, &format!("{path}?cursor=99")).await;
    assert_eq!((ahead.status, &*ahead.code()), (416, "cursor_ahead"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_is_written_and_refused_where_there_is_none() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "echo", "stdin": true})).await;
    let path = format!("/v1/processes/{process}/input");
    let body = json!({"data": "ping\n", "yield_time_ms": 15000});
    let said = scene.post(&token, &path, &body).await.json();
    assert_eq!((&said["accepted_bytes"], &said["output"]), (&json!(5), &json!("ping\n")));
    let ended = scene.post(&token, &path, &json!({"eof": true})).await;
    assert_eq!(ended.status, 200);
    scene.ended(&token, &process).await;
    let closed = scene.post(&token, &path, &json!({"data": "more"})).await;
    assert_eq!((closed.status, &*closed.code()), (409, "stdin_closed"));
    let nothing = scene.post(&token, &path, &json!({})).await;
    assert_eq!((nothing.status, &nothing.json()["error"]["field"]), (400, &json!("data")));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_resized_and_a_pipe_is_not() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start_with(&token, &json!({"command": "size", "tty": true})).await;
    let path = format!("/v1/processes/{process}/resize");
    assert_eq!(scene.post(&token, &path, &json!({"rows": 40, "cols": 132})).await.status, 200);
    let seen = scene.get(&token, &format!("/v1/processes/{process}")).await.json();
    assert_eq!((&seen["rows"], &seen["cols"], &seen["tty"]), (&json!(40), &json!(132), &json!(true)));
    for body in [json!({"rows": 40}), json!({"rows": 0, "cols": 1}), json!({"rows": "x", "cols": 1})] {
        assert_eq!(scene.post(&token, &path, &body).await.status, 422, "{body}");
    }
    let pipe = scene.start(&token, "wait").await;
    let refused =
        scene.post(&token, &format!("/v1/processes/{pipe}/resize"), &json!({"rows": 4, "cols": 4})).await;
    assert_eq!((refused.status, &*refused.code()), (409, "pty_unavailable"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_stopped_and_killed() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    for (verb, body, state) in [
        ("stop", json!({"mode": "terminate"}), "terminated"),
        ("stop", json!({}), "terminated"),
        ("stop", json!({"mode": "interrupt"}), "interrupted"),
        ("kill", json!({}), "killed"),
    ] {
        let process = scene.start(&token, "wait").await;
        let stopped = scene.post(&token, &format!("/v1/processes/{process}/{verb}"), &body).await.json();
        assert_eq!(
            (&stopped["status"], &stopped["tree_exited"]),
            (&json!(state), &json!(true)),
            "{verb} {body}"
        );
        let again = scene.post(&token, &format!("/v1/processes/{process}/kill"), &json!({})).await;
        assert_eq!(
            (again.status, &again.json()["status"]),
            (200, &json!(state)),
            "it had ended, and says how"
        );
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_429_and_say_that_waiting_can_help() {
    let limits = Limits { running_per_loop: 1, ..Limits::default() };
    let scene = Scene::with(|options| options, limits).await;
    let token = scene.session().await;
    scene.start(&token, "wait").await;
    let refused = scene.post(&token, "/v1/processes", &json!({"command": "wait"})).await;
    assert_eq!((refused.status, &*refused.code()), (429, "process_quota_exceeded"));
    assert_eq!(refused.json()["error"]["effects"], json!("none"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_executed_is_the_callers_mistake() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let refused = scene.post(&token, "/v1/processes", &json!({"command": "missing"})).await;
    assert_eq!((refused.status, &*refused.code()), (400, "spawn_failed"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_of_the_administrator_tells_the_owner_nothing() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "hello").await;
    scene.ended(&token, &process).await;
    let seen = scene.get(Who::Peer, &format!("/v1/processes/{process}/output")).await.json();
    assert_eq!(seen["status"], json!("exited"));
    let started = scene.post(&token, "/v1/processes", &json!({"command": "wait"})).await.json();
    assert_eq!(started["result"]["notifications"][0]["process_id"], json!(process));
    let again = scene.post(&token, "/v1/processes", &json!({"command": "wait"})).await.json();
    assert!(again["result"].get("notifications").is_none(), "told once");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_failed_is_told_once_and_its_key_gives_the_failed_process() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let start = async |scene: &Scene, command: &str| {
        let body = json!({ "command": command }).to_string();
        scene.call(&token, "POST", "/v1/processes", &[("idempotency-key", "k1")], Some(body)).await
    };
    let first = start(&scene, "missing").await;
    assert_eq!((first.status, &*first.code()), (400, "spawn_failed"));
    let list = scene.get(&token, "/v1/processes").await.json();
    assert_eq!(list["processes"].as_array().unwrap().len(), 1, "{list}");
    let failed = list["processes"][0]["process_id"].clone();
    let check = async |scene: &Scene| {
        let again = start(scene, "missing").await;
        assert_eq!(again.status, 201, "{}", again.text());
        let process = &again.json()["process"];
        assert_eq!((&process["process_id"], &process["state"]), (&failed, &json!("failed")));
        assert!(process["diagnostic"].is_string(), "{process}");
        assert_eq!(start(scene, "hello").await.status, 409);
        let list = scene.get(&token, "/v1/processes").await.json();
        assert_eq!(list["processes"].as_array().unwrap().len(), 1, "{list}");
        // The answer told its end, so nothing else does.
        assert_eq!(scene.get(&token, "/v1/notifications").await.json()["notifications"], json!([]));
        let other = scene.post(&token, "/v1/mcp/invoke", &json!({"name": "ProcessList"})).await.json();
        assert!(other["structured"].get("notifications").is_none(), "{other}");
    };
    check(&scene).await;
    let place = scene.end().await;
    let scene = Scene::on(place, |options| options, Limits::default()).await;
    check(&scene).await;
    scene.end().await;
}
