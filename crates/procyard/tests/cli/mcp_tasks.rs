//! Commands that take too long to be waited for, as tasks of `procyard mcp`.

use serde_json::{Value, json};

use crate::client::{Client, WITH_INITIALIZE, meta};
use crate::scene::{Scene, eventually};

const SESSION: &str = "7c1b7f0e-3f4c-4b0f-9a52-40a1d34f6c10";
const LOOP: &str = "2b9f3ad4-06a6-4f6e-8f43-51cf0b6ce1d7";

/// Hands a foreground call over after a second.
const SOON: [&str; 2] = ["--auto-yield", "1"];
const SAME: [&str; 6] = ["--auto-yield", "1", "--session", SESSION, "--loop", LOOP];

fn offering_tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn connect(scene: &Scene, arguments: &[&str]) -> Client {
    let mut client = Client::silent(scene, arguments);
    let opened = client.initialize_offering(WITH_INITIALIZE, offering_tasks());
    let extensions = &opened["capabilities"]["extensions"];
    assert!(extensions["io.modelcontextprotocol/tasks"].is_object(), "{opened}");
    client
}

/// A call of Bash, as it is answered.
fn bash(client: &mut Client, arguments: Value) -> Value {
    client.ask("tools/call", json!({"name": "Bash", "arguments": arguments}))
}

/// A call that becomes a task; runs until the file `wait` is gone, then fails.
fn long_call(scene: &Scene, client: &mut Client) -> Value {
    std::fs::write(scene.path().join("wait"), "").unwrap();
    let line =
        "eval \"$RECORD\"; echo begun; while [ -e wait ]; do read -t 0.05 <> <(:); done; echo done; exit 3";
    let task = bash(client, json!({"command": line}));
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    assert!(task.get("content").is_none() && task["createdAt"].is_string(), "{task}");
    task["taskId"].clone()
}

fn go_on(scene: &Scene) {
    std::fs::remove_file(scene.path().join("wait")).unwrap();
}

fn get(client: &mut Client, task: &Value) -> Value {
    client.ask("tasks/get", json!({"taskId": task}))
}

/// Asks until the task has ended.
fn ended(client: &mut Client, task: &Value) -> Value {
    eventually("the task ends", || Some(get(client, task)).filter(|got| got["status"] != "working"))
}

fn notices(client: &mut Client) -> Value {
    let list = client.ask("tools/call", json!({"name": "ProcessList", "arguments": {}}));
    list["structuredContent"]["notifications"].clone()
}

#[test]
fn a_foreground_call_that_takes_long_becomes_a_task_and_gives_its_result_once() {
    let scene = Scene::new();
    let mut client = connect(&scene, &SOON);
    let task = long_call(&scene, &mut client);
    let working = get(&mut client, &task);
    assert_eq!((&working["status"], &working["taskId"]), (&json!("working"), &task), "{working}");
    assert!(working["pollIntervalMs"].as_u64().is_some_and(|pause| pause >= 100), "{working}");
    // The id is the handle: the tools know it, too.
    let look = json!({"name": "ProcessOutput", "arguments": {"process_id": task}});
    assert_eq!(client.ask("tools/call", look)["structuredContent"]["output"], "begun\n");
    go_on(&scene);
    let done = ended(&mut client, &task);
    // A command that fails is a task that completed.
    assert_eq!(done["status"], "completed", "{done}");
    let result = &done["result"]["structuredContent"];
    assert_eq!((&result["exit_code"], &result["output"]), (&json!(3), &json!("begun\ndone\n")), "{done}");
    assert_ne!(done["result"]["isError"], true);
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("done"));
    assert_eq!(notices(&mut client), Value::Null, "the outcome was told");
    assert_eq!(get(&mut client, &task)["result"], done["result"], "and can be asked for again");
}

#[test]
fn the_newest_revision_offers_tasks_with_each_request() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &SOON);
    let offering = meta(&offering_tasks());
    let call = json!({"name": "Bash", "arguments": {"command": "sleep 1000"}, "_meta": offering});
    let task = client.ask("tools/call", call);
    assert_eq!(task["resultType"], "task", "{task}");
    let got = client.ask("tasks/get", json!({"taskId": task["taskId"], "_meta": offering}));
    assert_eq!((&got["status"], &got["resultType"]), (&json!("working"), &json!("complete")), "{got}");
    // One that does not say so gets the handle, and may not ask for tasks.
    let silent = meta(&json!({}));
    let call = json!({"name": "Bash", "arguments": {"command": "sleep 1000"}, "_meta": silent});
    let handed_over = client.ask("tools/call", call);
    assert_eq!(handed_over["structuredContent"]["backgrounded"], true, "{handed_over}");
    let refused = client.refused("tasks/get", json!({"taskId": task["taskId"], "_meta": silent}));
    assert_eq!(refused["code"], -32021, "{refused}");
}

#[test]
fn a_call_that_asks_for_a_handle_never_becomes_a_task() {
    let scene = Scene::new();
    let mut client = connect(&scene, &SOON);
    for arguments in [
        json!({"command": "sleep 1000", "background": true}),
        json!({"command": "sleep 1000", "background": true, "yield_time_ms": 1500}),
        json!({"command": "sleep 1000", "yield_time_ms": 1500}),
    ] {
        let answer = bash(&mut client, arguments.clone());
        assert_eq!(answer["structuredContent"]["status"], "running", "{arguments}: {answer}");
    }
    let quick = bash(&mut client, json!({"command": "echo quick"}));
    assert_eq!(quick["structuredContent"]["output"], "quick\n");
}

#[test]
fn a_client_that_offers_no_tasks_gets_the_handle() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &SOON);
    client.initialize(WITH_INITIALIZE);
    let answer = bash(&mut client, json!({"command": "sleep 1000"}));
    assert_eq!(answer["structuredContent"]["backgrounded"], true, "{answer}");
}

#[test]
fn a_cancelled_task_stops_everything_and_its_end_is_not_told_again() {
    let scene = Scene::new();
    let mut client = connect(&scene, &SOON);
    let task = long_call(&scene, &mut client);
    client.ask("tasks/cancel", json!({"taskId": task}));
    scene.assert_no_survivor();
    assert_eq!(notices(&mut client), Value::Null, "whoever asked for the end was told of it");
    let cancelled = ended(&mut client, &task);
    assert_eq!((&cancelled["status"], cancelled.get("result")), (&json!("cancelled"), None), "{cancelled}");
    // What has ended stays as it is.
    client.ask("tasks/cancel", json!({"taskId": task}));
    assert_eq!(get(&mut client, &task)["status"], "cancelled");
    assert_eq!(notices(&mut client), Value::Null);
}

#[test]
fn the_end_of_a_task_is_told_by_a_notice_where_the_answer_to_its_cancellation_is_lost() {
    let scene = Scene::new();
    let mut client = connect(&scene, &SOON);
    let task = long_call(&scene, &mut client);
    let id = client.request("tasks/cancel", json!({"taskId": task}));
    client.notify("notifications/cancelled", json!({"requestId": id}));
    let told = eventually("the end is told", || Some(notices(&mut client)).filter(|told| !told.is_null()));
    assert_eq!((&told[0]["process_id"], &told[0]["status"]), (&task, &json!("terminated")), "{told}");
    scene.assert_no_survivor();
    assert!(!client.unasked().iter().any(|message| message["id"] == id));
    assert_eq!(notices(&mut client), Value::Null, "once");
}

#[test]
fn the_end_of_a_task_is_told_once_where_its_cancellation_comes_too_late_or_takes_long() {
    let scene = Scene::new();
    let mut client = connect(&scene, &SOON);
    // It has ended by itself: an acknowledgement does not say how.
    let task = long_call(&scene, &mut client);
    go_on(&scene);
    let wait =
        json!({"process_id": task, "wait": "any", "until": "output", "cursor": 6, "timeout_ms": 60_000});
    client.ask("tools/call", json!({"name": "ProcessOutput", "arguments": wait}));
    eventually("it ends", || scene.survivors().is_empty().then_some(()));
    eventually("its end is known", || {
        client.ask("tasks/cancel", json!({"taskId": task}));
        let told = notices(&mut client);
        (told[0]["exit_code"] == 3).then_some(())
    });
    // It does not end when it is asked to: its state tells the end once there is one.
    let line = "trap '' TERM; echo begun; while :; do read -t 0.05 <> <(:); done";
    let task = bash(&mut client, json!({"command": line}))["taskId"].clone();
    client.ask("tasks/cancel", json!({"taskId": task}));
    assert_eq!(get(&mut client, &task)["status"], "working");
    assert_eq!(ended(&mut client, &task)["status"], "cancelled");
    assert_eq!(notices(&mut client), Value::Null);
}

#[test]
fn a_task_that_is_not_there_is_missing_however_it_is_written() {
    let scene = Scene::new();
    let mut client = connect(&scene, &SOON);
    let mut answers = Vec::new();
    for id in ["AAAAAAAAAAAAAAAAAAAAAA", "nonsense", ""] {
        for (method, params) in [
            ("tasks/get", json!({"taskId": id})),
            ("tasks/cancel", json!({"taskId": id})),
            ("tasks/update", json!({"taskId": id, "inputResponses": {}})),
        ] {
            answers.push(client.refused(method, params));
        }
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0]["code"], -32602);
}

#[test]
fn tasks_are_found_again_after_a_restart_of_the_server() {
    let scene = Scene::new();
    let mut client = connect(&scene, &SAME);
    let first = long_call(&scene, &mut client);
    go_on(&scene);
    let done = ended(&mut client, &first);
    let second = long_call(&scene, &mut client);
    assert_eq!(client.leave_and_wait().0.code(), Some(0));
    scene.assert_no_survivor();

    let mut client = connect(&scene, &SAME);
    assert_eq!(get(&mut client, &first)["result"], done["result"]);
    // Nobody has asked for its end, so it was not cancelled: the result says what happened.
    let ended = get(&mut client, &second);
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"]["reason"], "runner_shutdown", "{ended}");
}
