//! One example of each tool: a call that is carried out, and what came back.

use std::time::Duration;

use procyard_testkit::Script;
use serde_json::{Value, json};

use crate::common::{Yard, call, id};

/// What stands for the handles of a run.
const HANDLE: &str = "q5mX3kQ0T6C1rJ8vYwZ2Nw";

/// What stands for the times of a run.
const TIME: &str = "2026-01-02T03:04:05.678Z";

/// What stands for the length of a run.
const DURATION: u64 = 1204;

/// A call and its result, as a client sees them.
pub(crate) struct Example {
    pub(crate) about: &'static str,
    pub(crate) arguments: Value,
    pub(crate) result: Value,
    pub(crate) text: String,
}

/// Carries the example of a tool out.
pub(crate) async fn carried_out(tool: &str) -> Example {
    match tool {
        "Bash" => bash().await,
        "ProcessOutput" => process_output().await,
        "ProcessInput" => process_input().await,
        "ProcessStop" => process_stop().await,
        "ProcessList" => process_list().await,
        other => panic!("there is no example of {other}"),
    }
}

async fn bash() -> Example {
    let script =
        Script::new().stdout("running 3 tests\n").stderr("warning: unused\n").pause(ms(DURATION)).exit(101);
    let yard = Yard::new(script).await;
    let arguments = json!({"command": "cargo test", "timeout": 300, "description": "unit tests"});
    finish(&yard, "A command that fails is a normal result:", "Bash", arguments).await
}

async fn process_output() -> Example {
    let script = Script::new().stdout("compiling\n").pause(ms(500)).stdout("listening on port 8080\n");
    let yard = Yard::new(script).await;
    let process = yard.background().await;
    let arguments = json!({
        "process_id": process, "cursor": 0, "wait": "any", "until": "match", "pattern": r"port (\d+)", "timeout_ms": 60_000
    });
    finish(&yard, "Waiting until a server listens:", "ProcessOutput", arguments).await
}

async fn process_input() -> Example {
    let menu = "\x1b[?1049h\x1b[2J\x1b[H\x1b]2;Setup\x07Keyboard layout\r\n\r\n";
    let before = format!("{menu}  \x1b[7mEnglish\x1b[m\r\n  German\x1b[3;3H");
    let yard = Yard::new(Script::new().stdout(before).echo_input()).await;
    let started = yard.bash(json!({"background": true, "tty": true, "rows": 8, "cols": 40})).await;
    let arguments = json!({
        "process_id": id(&started), "keys": ["down"], "view": "screen", "yield_time_ms": 2000, "quiet_ms": 200
    });
    finish(
        &yard,
        "A key in a full-screen program, and what the screen shows then:",
        "ProcessInput",
        arguments,
    )
    .await
}

async fn process_stop() -> Example {
    let yard = Yard::new(Script::new()).await;
    let process = yard.background().await;
    finish(&yard, "Ending a server and everything it started:", "ProcessStop", json!({"process_id": process}))
        .await
}

async fn process_list() -> Example {
    let yard = Yard::new(Script::new().stdout("listening\n")).await;
    let started = yard.bash(json!({"background": true, "description": "dev server"})).await;
    yard.output(&id(&started), json!({"wait": "any"})).await;
    finish(&yard, "Finding a process again:", "ProcessList", json!({"state": "running"})).await
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Carries a call out, holds its result against the schema, and gives what differs from run to run fixed values.
async fn finish(yard: &Yard, about: &'static str, tool: &str, mut arguments: Value) -> Example {
    let reply = call(&yard.tools, tool, arguments.clone()).await;
    assert!(!reply.is_error, "{}", reply.structured);
    reply.handed_to_transport();
    let process = match &reply.structured["processes"] {
        Value::Array(entries) => id(&entries[0]),
        _ => id(&reply.structured),
    };
    let text =
        times(&reply.structured).into_iter().fold(reply.text.clone(), |text, time| text.replace(&time, TIME));
    let mut result = reply.structured.clone();
    fix(&mut arguments, &process);
    fix(&mut result, &process);
    let text = text.replace(&process, HANDLE);
    Example { about, arguments, result, text: lasted(&text) }
}

fn times(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value {
                Value::String(time) if name.ends_with("_at") => vec![time.clone()],
                other => times(other),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(times).collect(),
        _ => Vec::new(),
    }
}

fn fix(value: &mut Value, process: &str) {
    match value {
        Value::String(text) => *text = text.replace(process, HANDLE),
        Value::Array(items) => items.iter_mut().for_each(|item| fix(item, process)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(time) if name.ends_with("_at") => TIME.clone_into(time),
                    Value::Number(_) if name == "duration_ms" => *value = json!(DURATION),
                    other => fix(other, process),
                }
            }
        }
        _ => {}
    }
}

/// The text with the length of the run as it is in the result.
fn lasted(text: &str) -> String {
    match text.split_once(" after ").and_then(|(before, rest)| Some((before, rest.split_once(';')?))) {
        Some((before, (_, rest))) => format!("{before} after 1.2 s;{rest}"),
        None => text.to_owned(),
    }
}
