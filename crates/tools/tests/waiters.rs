//! A call that is to wait has its place before it does anything: refused, it has done nothing.

mod common;

use common::{Yard, call, code, id, with};
use procyard_supervisor::WaitPlace;
use procyard_testkit::Script;
use serde_json::{Value, json};

/// Every place of the session.
fn all_places(yard: &Yard) -> Vec<WaitPlace> {
    let places: Vec<_> = std::iter::from_fn(|| yard.supervisor.reserve_wait().ok()).collect();
    assert_eq!(places.len(), 64);
    places
}

fn refused(result: &Value) {
    assert_eq!(code(result), "output_quota_exceeded");
    assert_eq!(
        (&result["error"]["effects"], &result["error"]["retryable"]),
        (&json!("none"), &json!(true)),
        "{result}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_command_that_nobody_could_wait_for_is_not_started() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let places = all_places(&yard);
    for how in [json!({}), json!({"yield_time_ms": 50}), json!({"background": true, "yield_time_ms": 50})] {
        refused(&yard.bash(how).await);
    }
    assert!(yard.runner.requests().is_empty());
    assert_eq!(yard.call("ProcessList", json!({})).await, json!({"processes": []}));
    // Where nobody waits, no place is needed, and none is taken by the calls that were refused.
    let started = yard.bash(json!({"background": true, "idempotency_key": "k"})).await;
    assert_eq!(started["status"], "running");
    yard.output(&id(&started), json!({})).await;
    let again = yard.bash(json!({"background": true, "idempotency_key": "k"})).await;
    assert_eq!(again["process_id"], started["process_id"]);
    drop(places);
    assert_eq!(yard.bash(json!({})).await["status"], "exited");
    assert_eq!(all_places(&yard).len(), 64);
}

#[tokio::test(start_paused = true)]
async fn input_whose_answer_could_not_be_waited_for_is_not_written() {
    let yard = Yard::new(Script::new().echo_input()).await;
    let process = id(&yard.bash(json!({"background": true, "stdin": true})).await);
    let write = |arguments| {
        let arguments = with(json!({"process_id": process, "data": "x"}), arguments);
        async { call(&yard.tools, "ProcessInput", arguments).await.structured }
    };
    let places = all_places(&yard);
    refused(&write(json!({"yield_time_ms": 50})).await);
    refused(&write(json!({"yield_time_ms": 50, "quiet_ms": 10})).await);
    assert_eq!(write(json!({})).await["accepted_bytes"], 1);
    drop(places);
    let answer = write(json!({"yield_time_ms": 5000, "quiet_ms": 100, "cursor": 0})).await;
    assert_eq!(answer["output"], "xx", "what was refused was not written");
}
