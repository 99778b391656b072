//! Bash from start to result, on a scripted runner.

mod common;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use common::{Yard, call, call_in, code, id};
use procyard_core::{EffectiveLimits, Enforcement, State};
use procyard_runner::{CommandSpec, ResourceLimits, Signal, StdinMode, TerminalSize};
use procyard_supervisor::Services;
use procyard_testkit::{Leftover, Reaction, Script, ScriptedRunner, StartFault};
use procyard_tools::{CallContext, Progress, Reply};
use serde_json::{Value, json};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_command_runs_and_its_result_is_complete() {
    let yard = Yard::new(Script::new().stdout("hello\n").exit(3)).await;
    let reply = call(&yard.tools, "Bash", json!({"command": "greet"})).await;
    let result = &reply.structured;
    assert_eq!(
        (&result["status"], &result["exit_code"], &result["reason"]),
        (&json!("exited"), &json!(3), &json!("exited"))
    );
    assert_eq!(
        (&result["output"], &result["total_bytes"], &result["next_cursor"]),
        (&json!("hello\n"), &json!(6), &json!(6))
    );
    assert_eq!((&result["backgrounded"], &result["timeout_s"]), (&json!(false), &json!(120)));
    assert!(result["duration_ms"].is_u64() && result["started_at"].is_string() && !reply.is_error);
    let id = id(result);
    assert!(reply.text.starts_with("hello\n[exited 3 after ") && reply.text.contains(&id), "{}", reply.text);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_reaches_the_runner() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let arguments = json!({"argv": ["a", "b c"], "workdir": "sub", "env": {"A": "1"}, "tty": true, "rows": 40, "timeout": 9});
    let result = yard.call("Bash", arguments).await;
    assert_eq!((&result["tty"], &result["timeout_s"]), (&json!(true), &json!(9)));
    let request = yard.runner.requests().remove(0);
    assert_eq!(request.command, CommandSpec::Argv(vec!["a".into(), "b c".into()]));
    assert_eq!(request.workdir.to_str(), Some("/ws/sub"));
    assert_eq!(request.environment.changes.get("A".as_ref() as &std::ffi::OsStr), Some(&Some("1".into())));
    assert_eq!(request.terminal, Some(TerminalSize { rows: 40, cols: 80 }));
    assert_eq!((request.stdin, request.deadline), (StdinMode::Open, Some(Duration::from_secs(9))));
}

#[tokio::test(start_paused = true)]
async fn limits_reach_the_runner_and_what_became_of_them_the_caller() {
    let limits = ResourceLimits { memory_max: Some(3 << 20), nice: Some(4), ..ResourceLimits::default() };
    let said =
        EffectiveLimits { memory_max: Some(Enforcement::InForce(2 << 20)), ..EffectiveLimits::default() };
    let runner = ScriptedRunner::new(Script::new().memory_kills(1).die_of(9)).limiting(said);
    let yard = Yard::limited(runner, limits.clone()).await;
    let reply = call(&yard.tools, "Bash", json!({"command": "eat"})).await;
    assert_eq!(yard.runner.requests().remove(0).limits, limits);
    let result = &reply.structured;
    assert_eq!((&result["status"], &result["signal"]), (&json!("failed"), &json!("SIGKILL")));
    assert_eq!(result["limits"]["memory_max"], json!({"value": 2 << 20}));
    assert!(result["limits"]["nice"]["not_enforced"].is_string(), "{result}");
    assert_eq!(result["limits"]["memory_kills"], 1);
    assert!(
        result["diagnostic"].as_str().unwrap().contains("the memory limit of 2 MiB was reached"),
        "{result}"
    );
    assert!(reply.text.contains("[limits: memory_max 2097152, nice not enforced ("), "{}", reply.text);
    let started = call(&yard.tools, "Bash", json!({"command": "eat", "background": true})).await;
    assert_eq!(started.structured["limits"]["memory_max"], json!({"value": 2 << 20}));
}

#[tokio::test(start_paused = true)]
async fn input_is_written_and_then_ended() {
    let yard = Yard::new(Script::new().echo_input().exit(0)).await;
    assert_eq!(yard.bash(json!({"input": "héllo"})).await["output"], "héllo");
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_start_nothing() {
    let yard = Yard::new(Script::new().exit(0)).await;
    for bad in [
        json!({}),
        json!({"command": "a", "backgruond": true}),
        json!({"command": "a", "timeout": 0}),
        json!([]),
    ] {
        assert_eq!(code(&yard.call("Bash", bad).await), "invalid_arguments");
    }
    assert!(yard.runner.requests().is_empty());
    assert_eq!(code(&yard.call("Bsh", json!({})).await), "invalid_arguments");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_is_an_error_and_the_next_one_works() {
    let yard = Yard::new(Script::new().start_fault(StartFault::NotFound)).await;
    yard.runner.then(Script::new().exit(0));
    let error = yard.bash(json!({})).await;
    assert_eq!((code(&error), &error["error"]["effects"]), ("spawn_failed", &json!("none")));
    assert_eq!(yard.bash(json!({})).await["status"], "exited");
}

#[tokio::test(start_paused = true)]
async fn a_background_start_answers_running_whatever_happened_since() {
    let yard = Yard::new(Script::new().stdout("quick\n").exit(0)).await;
    let reply = call(&yard.tools, "Bash", json!({"command": "quick", "background": true})).await;
    let result = &reply.structured;
    assert_eq!(
        (&result["status"], &result["backgrounded"], &result["output"]),
        (&json!("running"), &json!(true), &json!(""))
    );
    assert!(result.get("timeout_s").is_none() && result.get("exit_code").is_none());
    for next in ["ProcessOutput", "ProcessStop", &id(result)] {
        assert!(reply.text.contains(next), "{}", reply.text);
    }
    reply.handed_to_transport();
    yard.ended(&id(result)).await;
    let told = yard.call("ProcessList", json!({})).await;
    assert_eq!(
        told["notifications"][0]["process_id"], result["process_id"],
        "an end that was not told is announced"
    );
}

#[tokio::test(start_paused = true)]
async fn a_yielded_command_is_handed_over_and_read_on_at_its_cursor() {
    let script = Script::new().stdout("early\n").pause(Duration::from_secs(5)).stdout("late\n").exit(0);
    let yard = Yard::new(script).await;
    let result = yard.bash(json!({"yield_time_ms": 1000})).await;
    assert_eq!((&result["status"], &result["backgrounded"]), (&json!("running"), &json!(true)));
    assert_eq!((&result["output"], &result["next_cursor"]), (&json!("early\n"), &json!(6)));
    let rest = yard.output(&id(&result), json!({"wait": "any", "until": "exit", "cursor": 6})).await;
    assert_eq!((&rest["output"], &rest["status"]), (&json!("late\n"), &json!("exited")));
}

#[tokio::test(start_paused = true)]
async fn a_yielded_command_that_finishes_in_time_is_a_finished_one() {
    let yard = Yard::new(Script::new().stdout("x").exit(0)).await;
    let result = yard.bash(json!({"yield_time_ms": 60_000})).await;
    assert_eq!((&result["status"], &result["backgrounded"]), (&json!("exited"), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_foreground_command_and_keeps_its_output() {
    let yard = Yard::new(Script::new().stdout("partial\n")).await;
    let began = Instant::now();
    let result = yard.bash(json!({"timeout": 1})).await;
    assert_eq!((&result["status"], &result["output"]), (&json!("timed_out"), &json!("partial\n")));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_foreground_command_is_handed_over_by_itself_and_loses_its_default_deadline() {
    let yard = Yard::auto_yielding(Script::new().stdout("up\n"), Duration::from_secs(50)).await;
    let began = Instant::now();
    let result = yard.bash(json!({})).await;
    assert!(began.elapsed() < Duration::from_secs(52), "{:?}", began.elapsed());
    assert_eq!(
        (&result["status"], &result["backgrounded"], &result["output"]),
        (&json!("running"), &json!(true), &json!("up\n"))
    );
    assert!(result.get("timeout_s").is_none(), "{result}");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(yard.output(&id(&result), json!({})).await["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn an_explicit_deadline_stays_at_a_hand_over() {
    let yard = Yard::auto_yielding(Script::new(), Duration::from_secs(50)).await;
    let result = yard.bash(json!({"timeout": 90})).await;
    assert_eq!((&result["status"], &result["timeout_s"]), (&json!("running"), &json!(90)));
    let end = yard.output(&id(&result), json!({"wait": "any", "until": "exit", "timeout_ms": 100_000})).await;
    assert_eq!(end["status"], "timed_out");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_stops_its_process_and_the_owner_hears_of_it() {
    let yard = Yard::new(Script::new()).await;
    yard.runner.then(Script::new().exit(0));
    let cancelled = tokio::time::timeout(
        Duration::from_secs(5),
        yard.tools.call("Bash", json!({"command": "x"}), CallContext::default()),
    );
    assert!(cancelled.await.is_err());
    let process =
        yard.call("ProcessList", json!({})).await["processes"][0]["process_id"].as_str().unwrap().to_owned();
    yard.ended(&process).await;
    assert_eq!(yard.runner.played()[0].signals()[0], Signal::Terminate);
    let notices = &yard.bash(json!({})).await["notifications"];
    assert_eq!((&notices[0]["process_id"], &notices[0]["status"]), (&json!(process), &json!("terminated")));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_never_reached_its_caller_is_announced() {
    let yard = Yard::new(Script::new().exit(4)).await;
    yard.runner.then(Script::new().exit(0));
    let lost = call(&yard.tools, "Bash", json!({"command": "x"})).await;
    let process = id(&lost.structured);
    drop(lost);
    let notices = &yard.bash(json!({})).await["notifications"];
    assert_eq!((&notices[0]["process_id"], &notices[0]["exit_code"]), (&json!(process), &json!(4)));
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_process_and_other_arguments_a_conflict() {
    let yard = Yard::new(Script::new().stdout("once\n").exit(0)).await;
    let first = yard.bash(json!({"idempotency_key": "k"})).await;
    let again = yard.bash(json!({"idempotency_key": "k"})).await;
    assert_eq!((&again["process_id"], &again["output"]), (&first["process_id"], &json!("once\n")));
    let other = yard.bash(json!({"idempotency_key": "k", "timeout": 5})).await;
    assert_eq!((code(&other), &other["error"]["field"]), ("conflict", &json!("idempotency_key")));
    assert_eq!(yard.runner.played().len(), 1);
    let elsewhere =
        call(&yard.tools_of(common::owner(2)), "Bash", json!({"command": "play", "idempotency_key": "k"}))
            .await;
    assert_ne!(elsewhere.structured["process_id"], first["process_id"], "keys are per owner");
}

/// A call that has begun and waits.
async fn waiting<'t>(yard: &'t Yard, arguments: Value) -> Pin<Box<dyn Future<Output = Reply> + 't>> {
    let mut call: Pin<Box<dyn Future<Output = Reply> + 't>> =
        Box::pin(yard.tools.call("Bash", arguments, CallContext::default()));
    let begun = tokio::time::timeout(Duration::from_secs(1), call.as_mut()).await;
    assert!(begun.is_err(), "it waits");
    call
}

#[tokio::test(start_paused = true)]
async fn a_command_that_two_calls_wait_for_is_stopped_when_the_last_of_them_is_cancelled() {
    let yard = Yard::new(Script::new()).await;
    for keep_first in [false, true] {
        let arguments = json!({"command": "play", "idempotency_key": format!("{keep_first}")});
        let first = waiting(&yard, arguments.clone()).await;
        let played = yard.runner.last().unwrap();
        let second = waiting(&yard, arguments).await;
        let (cancelled, other) = if keep_first { (second, first) } else { (first, second) };
        drop(cancelled);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(played.signals().is_empty(), "the other one still waits");
        drop(other);
        let list = yard.call("ProcessList", json!({})).await;
        yard.ended(list["processes"][0]["process_id"].as_str().unwrap()).await;
        assert_eq!(played.signals()[0], Signal::Terminate);
        let told = yard.call("ProcessList", json!({})).await;
        assert_eq!(told["notifications"].as_array().unwrap().len(), 1, "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_command_that_two_calls_wait_for_reaches_the_one_that_stays() {
    let yard = Yard::new(Script::new()).await;
    let arguments = json!({"command": "play", "idempotency_key": "k"});
    let first = waiting(&yard, arguments.clone()).await;
    let second = waiting(&yard, arguments).await;
    drop(first);
    yard.runner.last().unwrap().exit(5).await;
    let told = second.await;
    assert_eq!(told.structured["exit_code"], 5);
    told.handed_to_transport();
    drop(told);
    assert!(yard.call("ProcessList", json!({})).await.get("notifications").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_joins_a_process_after_its_hand_over_does_not_stop_it() {
    let yard = Yard::new(Script::new()).await;
    let arguments = json!({"command": "play", "idempotency_key": "k", "yield_time_ms": 5000});
    let handed_over = yard.call("Bash", arguments.clone()).await;
    assert_eq!(handed_over["status"], "running");
    drop(waiting(&yard, arguments).await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(yard.output(&id(&handed_over), json!({})).await["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_joined_a_start_which_was_given_up_starts_the_command_itself() {
    let yard = Yard::new(Script::new().start_fault(StartFault::Hang)).await;
    yard.runner.then(Script::new().stdout("done").exit(0));
    let arguments = json!({"command": "play", "idempotency_key": "k"});
    let first = waiting(&yard, arguments.clone()).await;
    let second = waiting(&yard, arguments).await;
    drop(first);
    let told = second.await;
    assert_eq!((&told.structured["status"], &told.structured["output"]), (&json!("exited"), &json!("done")));
    assert_eq!(told.structured["backgrounded"], false);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_joined_has_the_process_when_the_one_that_started_it_goes_before_it_knows() {
    let yard = Yard::new(Script::new()).await;
    let arguments = json!({"command": "play", "idempotency_key": "k"});
    let mut first = Box::pin(yard.tools.call("Bash", arguments.clone(), CallContext::default()));
    // Begun, and not looked at again: the process is on its way to it.
    let begun = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(begun.is_pending());
    let second = waiting(&yard, arguments).await;
    assert_eq!(yard.runner.played().len(), 1);
    drop(first);
    yard.runner.last().unwrap().exit(7).await;
    assert_eq!(second.await.structured["exit_code"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_background_start_tells_how_the_process_is_now() {
    let yard = Yard::new(Script::new().stdout("x").exit(0)).await;
    let arguments = json!({"background": true, "idempotency_key": "k"});
    let first = yard.bash(arguments.clone()).await;
    yard.ended(&id(&first)).await;
    let again = yard.bash(arguments).await;
    assert_eq!(
        (&again["process_id"], &again["status"], &again["output"]),
        (&first["process_id"], &json!("exited"), &json!("x"))
    );
}

#[tokio::test(start_paused = true)]
async fn of_a_flood_the_beginning_and_the_end_come_back() {
    let flood = [b"BEGIN\n".to_vec(), b"x\n".repeat(1 << 20), b"END\n".to_vec()].concat();
    let yard = Yard::new(Script::new().stdout(&flood).exit(0)).await;
    let result = yard.bash(json!({"max_output_bytes": 1 << 20})).await;
    let output = result["output"].as_str().unwrap();
    assert!(
        output.starts_with("BEGIN\n") && output.ends_with("\nEND\n") && output.len() < 34_000,
        "{}",
        output.len()
    );
    assert_eq!(
        (&result["total_bytes"], &result["next_cursor"], &result["gap"]),
        (&json!(flood.len()), &json!(flood.len()), &json!(true))
    );
    let shown = output.len() - output.lines().find(|line| line.starts_with("[…")).unwrap().len() - 1;
    assert_eq!(result["omitted_bytes"], json!(flood.len() - shown));
    assert!(result["next_cursor"] == result["total_bytes"]);
}

#[tokio::test(start_paused = true)]
async fn leftovers_and_attempts_to_leave_are_told() {
    let leftover = Leftover { count: 2, on_terminate: Reaction::Die, end_after: None, hold_output: false };
    let yard = Yard::new(Script::new().leaves(leftover).exit(0)).await;
    let reply = call(&yard.tools, "Bash", json!({"command": "nohup serve &"})).await;
    assert_eq!(reply.structured["leftovers"], json!({"count": 2, "action": "killed"}));
    assert_eq!(reply.structured["warnings"].as_array().unwrap().len(), 2);
    assert!(reply.text.contains("2 processes") && reply.text.contains("background: true"), "{}", reply.text);
}

#[tokio::test(start_paused = true)]
async fn without_containment_or_notification_nothing_outlives_its_call() {
    let script = || Script::new().stdout("ok").exit(0);
    for (yard, expect) in [
        (
            Yard::with(ScriptedRunner::uncontained(script()), Services::discard(), None).await,
            "lifetime_enforcement_unavailable",
        ),
        (
            Yard::with(
                ScriptedRunner::new(script()),
                Services { notifier: None, ..Services::discard() },
                None,
            )
            .await,
            "process_notifications_unsupported",
        ),
    ] {
        let definitions = yard.tools.definitions();
        assert!(definitions[0].input_schema["properties"].get("background").is_none());
        let refused = yard.bash(json!({"background": true})).await;
        assert_eq!((code(&refused), &refused["error"]["field"]), (expect, &json!("background")));
        assert_eq!(code(&yard.bash(json!({"yield_time_ms": 5})).await), expect);
        assert!(yard.runner.requests().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_without_a_runner_has_no_bash_and_keeps_the_rest() {
    let yard = Yard::new(Script::new()).await;
    let process = yard.background().await;
    let tools = yard.tools_without_runner();
    assert!(tools.definitions().iter().all(|tool| tool.name != "Bash"));
    let refused = tools.call("Bash", json!({"command": "x"}), CallContext::default()).await;
    assert!(refused.is_error && refused.text.contains("no runner for this loop"), "{}", refused.text);
    let stopped = call(&tools, "ProcessStop", json!({"process_id": process, "mode": "kill"})).await;
    assert_eq!(stopped.structured["status"], State::Killed.as_str());
}

#[tokio::test(start_paused = true)]
async fn progress_tells_bytes_and_the_last_line() {
    #[derive(Default)]
    struct Seen(Mutex<Vec<(u64, String)>>);
    impl Progress for Seen {
        fn report(&self, bytes: u64, last_line: &str) {
            self.0.lock().unwrap().push((bytes, last_line.to_owned()));
        }
    }
    let script = Script::new()
        .stdout("one\n")
        .pause(Duration::from_secs(3))
        .stdout("\x1b[1mtwo\x1b[0m\n")
        .pause(Duration::from_secs(3))
        .exit(0);
    let yard = Yard::new(script).await;
    let seen = Arc::new(Seen::default());
    let context = CallContext { progress: Some(seen.clone()), ..CallContext::default() };
    call_in(&yard.tools, "Bash", json!({"command": "x"}), context).await.handed_to_transport();
    assert_eq!(*seen.0.lock().unwrap(), [(4, "one".to_owned()), (16, "two".to_owned())]);
}
