//! One process by its handle, for transports that show processes as resources and tasks.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::time::Duration;

use procyard_core::{ErrorCode, Handle};
use procyard_testkit::Script;
use serde_json::{Value, json};

use crate::common::{Yard, call, owner};

/// Prints and ends once its input does.
fn until_told() -> Script {
    Script::new().stdout("begun\n").echo_input().exit(3)
}

fn handle_of(result: &Value) -> Handle {
    result["process_id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_a_call_that_asked_for_no_handle_says_that_it_left_its_process_running() {
    let yard = Yard::auto_yielding(until_told(), Duration::from_secs(1)).await;
    let reply = call(&yard.tools, "Bash", json!({"command": "x", "stdin": true})).await;
    assert_eq!(reply.left_running, Some(handle_of(&reply.structured)));
    for asked in [
        json!({"command": "x", "stdin": true, "background": true}),
        json!({"command": "x", "stdin": true, "yield_time_ms": 10}),
    ] {
        assert_eq!(call(&yard.tools, "Bash", asked).await.left_running, None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_process_is_the_result_that_its_call_would_have_given() {
    let yard = Yard::auto_yielding(until_told(), Duration::from_secs(1)).await;
    let handle = handle_of(&yard.call("Bash", json!({"command": "x", "stdin": true})).await);
    assert!(yard.tools.outcome(&handle).await.unwrap().is_none(), "it runs");
    yard.call("ProcessInput", json!({"process_id": handle, "data": "more\n", "eof": true})).await;
    yard.call("ProcessOutput", json!({"process_id": handle, "wait": "any", "until": "exit"})).await;
    let outcome = yard.tools.outcome(&handle).await.unwrap().unwrap();
    assert_eq!((&outcome.structured["exit_code"], outcome.is_error), (&json!(3), false));
    assert_eq!(outcome.structured["output"], "begun\nmore\n");
    assert!(outcome.text.contains("begun"), "{}", outcome.text);
}

#[tokio::test(start_paused = true)]
async fn what_another_owner_has_is_answered_as_what_does_not_exist() {
    let yard = Yard::new(Script::new().stdout("secret\n").exit(0)).await;
    let handle = handle_of(&yard.call("Bash", json!({"command": "x"})).await);
    let stranger = yard.tools_of(owner(2));
    for handle in [handle, Handle::from_bytes([1; 16])] {
        assert_eq!(stranger.excerpt(&handle).await.unwrap_err().code, ErrorCode::NotFound);
        assert_eq!(stranger.outcome(&handle).await.unwrap_err().code, ErrorCode::NotFound);
    }
    assert_eq!(stranger.processes(None, 10).unwrap().processes.len(), 0);
    assert_eq!(yard.tools.excerpt(&handle).await.unwrap().text, "secret\n");
}
