//! The dialects on a scripted runner: what reaches it, whose names errors use, what is told when, and to whom.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Yard, owner};
use procyard_runner::{CommandSpec, StdinMode};
use procyard_supervisor::Services;
use procyard_testkit::{Reaction, Script, ScriptedRunner};
use procyard_tools::{CallContext, CommandLines, Dialect, Reply, Surface, ToolboxOptions};
use serde_json::{Value, json};
use tokio::time::Instant;

/// A call that is handed over, and its text.
async fn say(surface: &Arc<dyn Surface>, tool: &str, arguments: Value) -> String {
    let reply = ask(surface, tool, arguments).await;
    reply.handed_to_transport();
    assert!(!reply.is_error, "{}", reply.text);
    reply.text.clone()
}

async fn ask(surface: &Arc<dyn Surface>, tool: &str, arguments: Value) -> Reply {
    let reply = surface.call(tool, arguments, CallContext::default()).await;
    assert!(reply.text.ends_with('\n'), "{:?}", reply.text);
    reply
}

fn codex(yard: &Yard) -> Arc<dyn Surface> {
    Dialect::Codex.over(Arc::clone(&yard.tools))
}

fn claude(yard: &Yard) -> Arc<dyn Surface> {
    Dialect::Claude.over(Arc::clone(&yard.tools))
}

/// What follows `Output:`.
fn output(text: &str) -> &str {
    text.split_once("\nOutput:\n").unwrap_or_else(|| panic!("{text}")).1
}

/// The number behind `session ID`.
fn session(text: &str) -> u64 {
    let rest = text.split_once("session ID ").unwrap_or_else(|| panic!("{text}")).1;
    rest.lines().next().unwrap().parse().unwrap()
}

/// The id behind `with ID:`.
fn shell(text: &str) -> String {
    let rest = text.split_once("with ID: ").unwrap_or_else(|| panic!("{text}")).1;
    rest.split('.').next().unwrap().to_owned()
}

async fn refused(surface: &Arc<dyn Surface>, tool: &str, arguments: Value, field: &str) {
    let reply = ask(surface, tool, arguments.clone()).await;
    let error = &reply.structured["error"];
    assert_eq!(
        (&error["code"], &error["field"]),
        (&json!("invalid_arguments"), &json!(field)),
        "{arguments}: {error}"
    );
    assert!(reply.is_error && reply.text.contains(&format!("({field})")), "{}", reply.text);
}

#[tokio::test(start_paused = true)]
async fn every_tool_of_a_dialect_answers_in_text_alone() {
    let yard = Yard::new(Script::new().exit(0)).await;
    for (surface, names) in [
        (codex(&yard), &["exec_command", "write_stdin"][..]),
        (claude(&yard), &["Bash", "BashOutput", "KillShell", "TaskOutput", "TaskStop"]),
    ] {
        let tools = surface.definitions();
        assert_eq!(tools.iter().map(|tool| tool.name).collect::<Vec<_>>(), names);
        for tool in tools.iter() {
            assert_eq!(tool.output_schema, None, "{}", tool.name);
            jsonschema::meta::validate(&tool.input_schema).unwrap();
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            for (name, property) in tool.input_schema["properties"].as_object().unwrap() {
                assert!(
                    property["description"].is_string() && property["type"].is_string(),
                    "{name}: {property}"
                );
            }
        }
        let reply = ask(&surface, "ProcessList", json!({})).await;
        assert!(reply.is_error && reply.text.contains("there is no tool `ProcessList`"), "{}", reply.text);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_uses_the_names_of_the_dialect() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let surface = codex(&yard);
    for (tool, arguments, field) in [
        ("exec_command", json!({}), "cmd"),
        ("exec_command", json!({"cmd": ""}), "cmd"),
        ("exec_command", json!({"cmd": "a\0b"}), "cmd"),
        ("exec_command", json!({"cmd": "é".repeat(40_000)}), "cmd"),
        ("exec_command", json!({"cmd": "a", "command": "b"}), "command"),
        ("exec_command", json!({"cmd": "a", "sandbox_permissions": "use_default"}), "sandbox_permissions"),
        ("exec_command", json!({"cmd": "a", "max_output_tokens": 0}), "max_output_tokens"),
        ("exec_command", json!({"cmd": "a", "yield_time_ms": -1}), "yield_time_ms"),
        ("write_stdin", json!({}), "session_id"),
        ("write_stdin", json!({"session_id": "x"}), "session_id"),
        ("write_stdin", json!({"session_id": 1, "wait_mode": "for_ever"}), "wait_mode"),
    ] {
        refused(&surface, tool, arguments, field).await;
    }
    let surface = claude(&yard);
    for (tool, arguments, field) in [
        ("Bash", json!({}), "command"),
        ("Bash", json!({"command": "a", "timeout": 0}), "timeout"),
        ("Bash", json!({"command": "a", "timeout": 600_001}), "timeout"),
        ("Bash", json!({"command": "a", "background": true}), "background"),
        ("BashOutput", json!({}), "bash_id"),
        ("BashOutput", json!({"bash_id": "x"}), "bash_id"),
        ("KillShell", json!({"shell_id": 7}), "shell_id"),
        ("TaskOutput", json!({"task_id": "AAECAwQFBgcICQoLDA0ODw", "timeout": 600_001}), "timeout"),
        ("TaskStop", json!({"shell_id": "AAECAwQFBgcICQoLDA0ODw"}), "shell_id"),
    ] {
        refused(&surface, tool, arguments, field).await;
    }
    assert!(yard.runner.requests().is_empty(), "nothing was started");
}

#[tokio::test(start_paused = true)]
async fn what_codex_asks_for_reaches_the_runner() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let surface = codex(&yard);
    say(&surface, "exec_command", json!({"cmd": "make all"})).await;
    let arguments = json!({"cmd": "x", "shell": "/bin/sh", "login": false, "workdir": "sub", "tty": true});
    say(&surface, "exec_command", arguments).await;
    let [first, second] = yard.runner.requests().try_into().unwrap();
    assert_eq!(first.command, CommandSpec::Argv(vec!["bash".into(), "-lc".into(), "make all".into()]));
    assert_eq!((first.stdin, first.deadline, first.terminal), (StdinMode::Null, None, None));
    assert_eq!(second.command, CommandSpec::Argv(vec!["/bin/sh".into(), "-c".into(), "x".into()]));
    assert_eq!((second.workdir.to_str(), second.terminal.is_some()), (Some("/ws/sub"), true));
}

#[tokio::test(start_paused = true)]
async fn a_codex_command_line_is_for_the_shell_that_is_configured_or_for_none() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let configured = ToolboxOptions { shell: Some("dash".to_owned()), ..ToolboxOptions::default() };
    let surface = Dialect::Codex.over(yard.tools_as(configured));
    say(&surface, "exec_command", json!({"cmd": "make all"})).await;
    let none = ToolboxOptions { command_lines: CommandLines::Words, ..ToolboxOptions::default() };
    let surface = Dialect::Codex.over(yard.tools_as(none));
    say(&surface, "exec_command", json!({"cmd": "make 'a b'"})).await;
    refused(&surface, "exec_command", json!({"cmd": "make", "shell": "sh"}), "shell").await;
    refused(&surface, "exec_command", json!({"cmd": "make", "login": false}), "login").await;
    refused(&surface, "exec_command", json!({"cmd": "make; rm x"}), "cmd").await;
    let [first, second] = yard.runner.requests().try_into().unwrap();
    assert_eq!(first.command, CommandSpec::Argv(vec!["dash".into(), "-lc".into(), "make all".into()]));
    assert_eq!(second.command, CommandSpec::Argv(vec!["make".into(), "a b".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_codex_session_goes_on_where_the_last_result_ended() {
    let script = Script::new()
        .stdout("one\n")
        .pause(Duration::from_secs(15))
        .stdout("two\n")
        .pause(Duration::from_secs(60))
        .stdout("three\n")
        .exit(3);
    let yard = Yard::new(script).await;
    let surface = codex(&yard);
    let text = say(&surface, "exec_command", json!({"cmd": "play"})).await;
    assert_eq!(output(&text), "one\n");
    let session = session(&text);
    // Output ends a wait for output, and not one for completion.
    let arguments = json!({"session_id": session, "yield_time_ms": 30_000, "wait_mode": "output"});
    let text = say(&surface, "write_stdin", arguments).await;
    assert_eq!(output(&text), "two\n");
    assert!(text.contains("\nWall time: 5."), "{text}");
    let text = say(&surface, "write_stdin", json!({"session_id": session})).await;
    assert!(text.contains("\nWall time: 5.0") && text.contains("running with session ID"), "{text}");
    assert_eq!(output(&text), "");
    let text = say(&surface, "write_stdin", json!({"session_id": session, "yield_time_ms": 300_000})).await;
    assert!(text.contains("\nProcess exited with code 3\n") && !text.contains("task-notification"), "{text}");
    assert_eq!(output(&text), "three\n");
    // Asked again, it says the same, without the output.
    let text = say(&surface, "write_stdin", json!({"session_id": session})).await;
    assert!(text.contains("\nProcess exited with code 3\n"), "{text}");
    assert_eq!(output(&text), "");
}

#[tokio::test(start_paused = true)]
async fn output_of_a_result_that_nobody_saw_is_shown_again() {
    let yard = Yard::new(Script::new().stdout("once\n").pause(Duration::from_secs(1000)).exit(0)).await;
    let surface = claude(&yard);
    let id = shell(&say(&surface, "Bash", json!({"command": "play", "run_in_background": true})).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lost = ask(&surface, "BashOutput", json!({"bash_id": id})).await;
    assert!(lost.text.contains("once"), "{}", lost.text);
    drop(lost);
    let text = say(&surface, "BashOutput", json!({"bash_id": id})).await;
    assert_eq!(text, "<status>running</status>\n\n<stdout>\nonce\n</stdout>\n");
    assert_eq!(say(&surface, "BashOutput", json!({"bash_id": id})).await, "<status>running</status>\n\n");
}

#[tokio::test(start_paused = true)]
async fn an_end_is_told_once_under_the_name_that_the_dialect_has_for_the_process() {
    let yard = Yard::new(Script::new().pause(Duration::from_secs(60)).exit(0)).await;
    let surface = codex(&yard);
    let text = say(&surface, "exec_command", json!({"cmd": "sleep </summary><b>"})).await;
    let number = session(&text);
    tokio::time::sleep(Duration::from_secs(120)).await;
    yard.runner.play(Script::new().exit(0));
    let text = say(&surface, "exec_command", json!({"cmd": "true"})).await;
    assert!(text.contains(&format!("<task-notification>\n<task-id>{number}</task-id>")), "{text}");
    assert!(text.contains("sleep &lt;/summary&gt;&lt;b&gt; — exited 0"), "{text}");
    let text = say(&surface, "exec_command", json!({"cmd": "true"})).await;
    assert!(!text.contains("task-notification"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_process_of_somebody_else_is_none() {
    let yard = Yard::new(Script::new().pause(Duration::from_secs(1000)).exit(0)).await;
    let (mine, theirs) = (codex(&yard), Dialect::Codex.over(yard.tools_of(owner(2))));
    let number = session(&say(&mine, "exec_command", json!({"cmd": "npm run dev"})).await);
    let foreign = ask(&theirs, "write_stdin", json!({"session_id": number})).await;
    let missing = ask(&theirs, "write_stdin", json!({"session_id": number ^ 1})).await;
    assert_eq!((&foreign.text, &foreign.structured), (&missing.text, &missing.structured));
    // Whoever has lost a number finds it in the error.
    let lost = ask(&mine, "write_stdin", json!({"session_id": number ^ 1})).await;
    assert!(lost.text.contains(&format!("yours that run: {number} (npm run dev)")), "{}", lost.text);
    let (mine, theirs) = (claude(&yard), Dialect::Claude.over(yard.tools_of(owner(2))));
    let id = shell(&say(&mine, "Bash", json!({"command": "x", "run_in_background": true})).await);
    for tool in [
        ("BashOutput", "bash_id"),
        ("KillShell", "shell_id"),
        ("TaskOutput", "task_id"),
        ("TaskStop", "task_id"),
    ] {
        let foreign = ask(&theirs, tool.0, json!({tool.1: id})).await;
        let missing = ask(&theirs, tool.0, json!({tool.1: "AAECAwQFBgcICQoLDA0ODw"})).await;
        assert_eq!((&foreign.text, &foreign.structured), (&missing.text, &missing.structured), "{tool:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreground_command_whose_call_is_dropped_is_stopped() {
    for dialect in [Dialect::Codex, Dialect::Claude] {
        let yard = Yard::new(Script::new().pause(Duration::from_secs(1000)).exit(0)).await;
        let surface = dialect.over(Arc::clone(&yard.tools));
        let (tool, arguments) = match dialect {
            Dialect::Codex => ("exec_command", json!({"cmd": "x"})),
            _ => ("Bash", json!({"command": "x"})),
        };
        let call = surface.call(tool, arguments, CallContext::default());
        assert!(tokio::time::timeout(Duration::from_secs(2), call).await.is_err());
        let handle = yard.supervisor.list(owner(1)).remove(0).identity.handle;
        yard.ended(&handle.reveal()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_codex_command_without_a_terminal_is_interrupted_and_not_written_to() {
    let yard = Yard::new(Script::new().stdout("up\n").pause(Duration::from_secs(1000)).exit(0)).await;
    let surface = codex(&yard);
    let session = session(&say(&surface, "exec_command", json!({"cmd": "serve"})).await);
    let reply = ask(&surface, "write_stdin", json!({"session_id": session, "chars": "yes\n"})).await;
    let error = &reply.structured["error"];
    assert_eq!((&error["code"], &error["field"]), (&json!("stdin_closed"), &json!("chars")));
    assert!(reply.text.contains("tty: true"), "{}", reply.text);
    let text = say(&surface, "write_stdin", json!({"session_id": session, "chars": "\u{3}"})).await;
    assert!(text.contains("Process exited with code 130\n"), "{text}");
    assert!(text.contains("interrupted (SIGINT)"), "{text}");
    // ^C to what has ended says how it had ended.
    let again = say(&surface, "write_stdin", json!({"session_id": session, "chars": "\u{3}"})).await;
    assert!(again.contains("Process exited with code 130\n"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_codex_interrupt_owns_an_exit_that_takes_longer_than_its_call_waits() {
    // It goes 400 ms after the interrupt, which comes when its start has yielded.
    let cleaning = Script::new().on_interrupt(Reaction::Ignore).stdout("up\n");
    let yard = Yard::new(cleaning.pause(Duration::from_millis(10_400)).exit(0)).await;
    let surface = codex(&yard);
    let session = session(&say(&surface, "exec_command", json!({"cmd": "serve"})).await);
    let began = Instant::now();
    let text = say(&surface, "write_stdin", json!({"session_id": session, "chars": "\u{3}"})).await;
    assert!(text.contains("Process running"), "{text}");
    assert_eq!(began.elapsed(), Duration::from_millis(250), "it waits once");
    let text = say(&surface, "write_stdin", json!({"session_id": session})).await;
    assert!(text.contains("otherwise than by itself: interrupted"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn input_is_accepted_before_its_answer_is_there() {
    let yard = Yard::new(Script::new().echo_input().exit(0)).await;
    let surface = codex(&yard);
    assert!(surface.gives_input("write_stdin") && !surface.gives_input("exec_command"));
    let session = session(&say(&surface, "exec_command", json!({"cmd": "cat", "tty": true})).await);
    let context = CallContext::default();
    let accepted = context.accepted.clone();
    let arguments = json!({"session_id": session, "chars": "hi", "yield_time_ms": 20_000});
    let write = tokio::spawn({
        let surface = Arc::clone(&surface);
        async move { surface.call("write_stdin", arguments, context).await.text.clone() }
    });
    let began = tokio::time::Instant::now();
    accepted.cancelled().await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let text = write.await.unwrap();
    assert!(text.contains("\nWall time: 20."), "a wait for completion: {text}");
    assert_eq!(output(&text), "hi\n");
    // A look gives nothing, so nothing waits for it.
    let context = CallContext::default();
    let accepted = context.accepted.clone();
    surface.call("write_stdin", json!({"session_id": session}), context).await.handed_to_transport();
    assert!(accepted.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_claude_deadline_is_in_milliseconds_and_told_in_its_words() {
    let yard = Yard::new(Script::new().stdout("part\n").pause(Duration::from_secs(1000)).exit(0)).await;
    let surface = claude(&yard);
    let text = say(&surface, "Bash", json!({"command": "x", "timeout": 1500})).await;
    assert_eq!(text, "Command timed out after 2.0 s\npart\n");
    assert_eq!(yard.runner.requests().remove(0).deadline, Some(Duration::from_secs(2)));
}

#[tokio::test(start_paused = true)]
async fn a_claude_command_that_fails_is_a_result_with_its_code_first() {
    for (script, expect) in [
        (Script::new().exit(0), "(Bash completed with no output)\n"),
        (Script::new().stdout("ok").exit(0), "ok\n"),
        (Script::new().stderr("no\n").exit(2), "Exit code 2\nno\n"),
        (
            Script::new().die_of(11),
            "Exit code 139\nCommand ended otherwise than by itself: failed (SIGSEGV)\n(Bash completed with no output)\n",
        ),
    ] {
        let yard = Yard::new(script).await;
        assert_eq!(say(&claude(&yard), "Bash", json!({"command": "x"})).await, expect);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claude_command_that_runs_is_not_said_to_have_completed() {
    let yard =
        Yard::auto_yielding(Script::new().pause(Duration::from_secs(1000)).exit(0), Duration::from_secs(50))
            .await;
    let text = say(&claude(&yard), "Bash", json!({"command": "x"})).await;
    assert!(text.ends_with("It still runs, and has printed nothing yet.\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_claude_command_that_is_handed_over_shows_its_output_once() {
    let script = Script::new().stdout("up\n").pause(Duration::from_secs(1000)).stdout("down\n").exit(0);
    let yard = Yard::auto_yielding(script, Duration::from_secs(50)).await;
    let surface = claude(&yard);
    let text = say(&surface, "Bash", json!({"command": "x"})).await;
    assert!(text.starts_with("Command running in background with ID: "), "{text}");
    assert!(text.ends_with("It still runs. Output so far:\nup\n"), "{text}");
    let id = shell(&text);
    let text = say(&surface, "TaskOutput", json!({"task_id": id, "timeout": 1000})).await;
    assert!(text.starts_with("<retrieval_status>timeout</retrieval_status>\n"), "{text}");
    assert!(!text.contains("<output>"), "{text}");
    let text = say(&surface, "TaskOutput", json!({"task_id": id, "block": false})).await;
    assert!(text.starts_with("<retrieval_status>not_ready</retrieval_status>\n"), "{text}");
    let text = say(&surface, "TaskOutput", json!({"task_id": id, "timeout": 600_000})).await;
    assert!(text.contains("timeout"), "it runs for longer: {text}");
    let text = say(&surface, "TaskOutput", json!({"task_id": id, "timeout": 600_000})).await;
    let expect = format!(
        "<retrieval_status>success</retrieval_status>\n\n<task_id>{id}</task_id>\n\n<task_type>local_bash</task_type>\n\n\
         <status>completed</status>\n\n<exit_code>0</exit_code>\n\n<output>\ndown\n</output>\n"
    );
    assert_eq!(text, expect);
}

#[tokio::test(start_paused = true)]
async fn a_claude_stop_says_what_it_stopped_and_what_had_ended_already() {
    let yard =
        Yard::new(Script::new().on_terminate(Reaction::Die).pause(Duration::from_secs(1000)).exit(0)).await;
    let surface = claude(&yard);
    for (tool, field) in [("KillShell", "shell_id"), ("TaskStop", "task_id")] {
        let id =
            shell(&say(&surface, "Bash", json!({"command": "serve \"x\"", "run_in_background": true})).await);
        let said: Value = serde_json::from_str(&say(&surface, tool, json!({field: id})).await).unwrap();
        let message = said["message"].as_str().unwrap();
        assert!(
            message.starts_with("Successfully ") && message.ends_with(&format!("{id} (serve \"x\")")),
            "{message}"
        );
        assert_eq!(said[field], id);
        let said: Value = serde_json::from_str(&say(&surface, tool, json!({field: id})).await).unwrap();
        assert!(said["message"].as_str().unwrap().contains("had ended already: terminated"), "{said}");
        let text = say(&surface, "BashOutput", json!({"bash_id": id})).await;
        assert!(text.starts_with("<status>killed</status>\n"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_the_budget_keeps_both_ends() {
    let flood = (0..20_000).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
    let yard = Yard::new(Script::new().stdout(&flood).exit(0)).await;
    let text = say(&claude(&yard), "Bash", json!({"command": "x"})).await;
    assert!(text.starts_with("line 0\n") && text.ends_with("line 19999\n"), "{}", text.len());
    assert!(text.len() < 30_200 && text.contains(" bytes truncated] ..."), "{}", text.len());
    let text = say(&codex(&yard), "exec_command", json!({"cmd": "x", "max_output_tokens": 100})).await;
    assert!(text.contains(&format!("Original token count: {}\n", flood.len().div_ceil(4))), "{text}");
    assert!(output(&text).starts_with("line 0\n") && text.ends_with("line 19999\n"), "{text}");
    assert!(text.contains(" tokens truncated…\n") && output(&text).len() < 450, "{text}");
}

#[tokio::test(start_paused = true)]
async fn where_nothing_can_outlive_its_call_nothing_is_offered_that_would() {
    let runner = ScriptedRunner::uncontained(Script::new().stdout("x\n").exit(0));
    let yard = Yard::with(runner, Services::discard(), None).await;
    assert!(!yard.tools.instructions().contains("background"), "{}", yard.tools.instructions());
    for (surface, tool, lasting) in [
        (codex(&yard), "exec_command", json!({"cmd": "x", "yield_time_ms": 1000})),
        (claude(&yard), "Bash", json!({"command": "x", "run_in_background": true})),
    ] {
        assert!(!surface.instructions().contains("background") && !surface.instructions().contains("yield"));
        let field = if tool == "Bash" { "run_in_background" } else { "yield_time_ms" };
        refused(&surface, tool, lasting.clone(), field).await;
        let mut plain = lasting;
        plain.as_object_mut().unwrap().remove(field);
        assert!(say(&surface, tool, plain).await.contains("x\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_to_leave_supervision_are_answered_in_the_words_of_the_dialect() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let text = say(&claude(&yard), "Bash", json!({"command": "nohup x"})).await;
    assert!(text.contains("`nohup`") && text.contains("run_in_background: true"), "{text}");
    let text = say(&codex(&yard), "exec_command", json!({"cmd": "nohup x"})).await;
    assert!(text.contains("Note: `nohup`") && !text.contains("background: true"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_filter_shows_matching_lines_and_passes_over_the_others() {
    let script =
        Script::new().stdout("GET /\nERROR a\nERR").pause(Duration::from_secs(60)).stdout("OR b\n").exit(0);
    let yard = Yard::new(script).await;
    let surface = claude(&yard);
    let id = shell(&say(&surface, "Bash", json!({"command": "x", "run_in_background": true})).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    refused(&surface, "BashOutput", json!({"bash_id": id, "filter": "("}), "filter").await;
    let text = say(&surface, "BashOutput", json!({"bash_id": id, "filter": "^ERROR"})).await;
    assert_eq!(text, "<status>running</status>\n\n<stdout>\nERROR a\n</stdout>\n");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let text = say(&surface, "BashOutput", json!({"bash_id": id, "filter": "^ERROR"})).await;
    assert_eq!(
        text,
        "<status>completed</status>\n\n<exit_code>0</exit_code>\n\n<stdout>\nERROR b\n</stdout>\n"
    );
}
