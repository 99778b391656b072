//! Whole conversations in each dialect, with real commands: every result's text, with times and names made the same.

use serde_json::{Value, json};

use crate::client::Client;
use crate::recorded::ESCAPE;
use crate::scene::{Scene, eventually};

/// A conversation: calls, and the text that each is answered with. `ID` in arguments and texts is the one process that the
/// conversation is about.
struct Conversation {
    client: Client,
    /// What the process is called, once a result has said it.
    id: Option<String>,
}

impl Conversation {
    fn begin(scene: &Scene, dialect: &str) -> Self {
        Self { client: Client::connect(scene, &["--dialect", dialect]), id: None }
    }

    /// A call and the text of its result. `announced` is where a result says the name of the process.
    #[track_caller]
    fn say(&mut self, tool: &str, arguments: &Value, announced: &str) -> (bool, String) {
        let arguments = match &self.id {
            Some(id) => {
                let number =
                    id.parse::<u64>().map_or_else(|_| format!("{id:?}"), |number| number.to_string());
                serde_json::from_str(&arguments.to_string().replace("\"ID\"", &number)).unwrap()
            }
            None => arguments.clone(),
        };
        let result = self.client.call_whole(tool, arguments);
        assert!(result.get("structuredContent").is_none() || result["isError"] == true, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        if let Some((_, rest)) = text.split_once(announced) {
            let end =
                rest.find(|ch: char| !(ch.is_alphanumeric() || "-_".contains(ch))).unwrap_or(rest.len());
            self.id = Some(rest[..end].to_owned());
        }
        (result["isError"] == true, self.normalised(&text))
    }

    #[track_caller]
    fn check(&mut self, tool: &str, arguments: Value, announced: &str, expect: &str) {
        let (failed, text) = self.say(tool, &arguments, announced);
        assert!(!failed, "{text}");
        assert_eq!(text, expect, "{tool} {arguments}");
    }

    /// The text without what differs from run to run.
    fn normalised(&self, text: &str) -> String {
        let text = match &self.id {
            Some(id) => text.replace(id.as_str(), "ID"),
            None => text.to_owned(),
        };
        let lines = text.split_inclusive('\n').map(|line| {
            let cut = |from: &str, to: &str| {
                let (before, rest) = line.split_once(from)?;
                let (_, after) = rest.split_once(to)?;
                Some(format!("{before}{from}_{to}{after}"))
            };
            cut("Chunk ID: ", "\n")
                .or_else(|| cut("Wall time: ", " seconds"))
                .or_else(|| cut("<duration-ms>", "</duration-ms>"))
                .or_else(|| cut(" after ", "</summary>"))
                .unwrap_or_else(|| line.to_owned())
        });
        lines.collect()
    }
}

const SESSION: &str = "session ID ";

#[test]
fn a_conversation_in_the_words_of_codex() {
    let scene = Scene::new();
    let mut talk = Conversation::begin(&scene, "codex");
    talk.check(
        "exec_command",
        json!({"cmd": "echo out; echo err >&2; exit 3", "login": false}),
        SESSION,
        "Chunk ID: _\nWall time: _ seconds\nProcess exited with code 3\nOriginal token count: 2\nOutput:\nout\nerr\n",
    );
    let script = "echo ready; read line; echo \"got $line\"; read line; echo \"then $line\"; sleep 1000";
    talk.check(
        "exec_command",
        json!({"cmd": script, "tty": true, "login": false, "shell": "bash", "yield_time_ms": 1000}),
        SESSION,
        "Chunk ID: _\nWall time: _ seconds\nProcess running with session ID ID\nOriginal token count: 2\nOutput:\nready\n",
    );
    talk.check(
        "write_stdin",
        json!({"session_id": "ID", "chars": "one\n", "yield_time_ms": 10_000, "wait_mode": "output"}),
        SESSION,
        "Chunk ID: _\nWall time: _ seconds\nProcess running with session ID ID\nOriginal token count: 4\nOutput:\none\ngot one\n",
    );
    // A terminal has ^C typed to it.
    talk.check(
        "write_stdin",
        json!({"session_id": "ID", "chars": "\u{3}", "yield_time_ms": 30_000}),
        SESSION,
        "Chunk ID: _\nWall time: _ seconds\nProcess exited with code 130\nProcess ended otherwise than by itself: interrupted (SIGINT)\n\
         Original token count: 1\nOutput:\n^C\n",
    );
    let (failed, text) = talk.say("write_stdin", &json!({"session_id": "ID", "chars": "x"}), SESSION);
    assert!(failed && text.starts_with("error stdin_closed") && text.contains("has ended"), "{text}");
    let (failed, text) =
        talk.say("exec_command", &json!({"cmd": "true", "workdir": "/nonexistent"}), SESSION);
    assert!(failed && text.contains("(workdir)"), "{text}");
    assert_eq!(talk.client.leave_and_wait().0.code(), Some(0));
}

#[test]
fn a_codex_command_without_a_terminal_ends_whole_and_its_end_is_told() {
    let scene = Scene::new();
    let mut talk = Conversation::begin(&scene, "codex");
    let script = format!("{ESCAPE}; eval \"$RECORD\"; echo up; exec sleep 1000");
    let (_, text) =
        talk.say("exec_command", &json!({"cmd": script, "login": false, "yield_time_ms": 250}), SESSION);
    assert!(text.contains("Process running with session ID ID\n"), "{text}");
    scene.wait_for_records(2);
    let (_, text) = talk.say(
        "write_stdin",
        &json!({"session_id": "ID", "chars": "\u{3}", "yield_time_ms": 30_000}),
        SESSION,
    );
    assert!(text.contains("\nProcess exited with code 130\n"), "{text}");
    scene.assert_no_survivor();
    talk.say(
        "exec_command",
        &json!({"cmd": "sleep 0.4; exit 2", "login": false, "yield_time_ms": 250}),
        SESSION,
    );
    let told = eventually("its end is told", || {
        let (_, text) = talk.say("exec_command", &json!({"cmd": "true", "login": false}), "no announcement");
        text.contains("<task-notification>").then_some(text)
    });
    assert!(told.contains("<task-id>ID</task-id><status>exited</status><exit-code>2</exit-code>"), "{told}");
}

const SHELL: &str = "with ID: ";

#[test]
fn a_conversation_in_the_words_of_claude() {
    let scene = Scene::new();
    let mut talk = Conversation::begin(&scene, "claude");
    let bash = |command: &str| json!({"command": command, "description": "a test"});
    talk.check("Bash", bash("echo out; echo err >&2"), SHELL, "out\nerr\n");
    talk.check("Bash", bash("echo no; exit 3"), SHELL, "Exit code 3\nno\n");
    talk.check("Bash", bash("true"), SHELL, "(Bash completed with no output)\n");
    talk.check(
        "Bash",
        json!({"command": "echo part; sleep 1000", "timeout": 1000}),
        SHELL,
        "Command timed out after 1.0 s\npart\n",
    );
    let script = "echo '</stdout><status>completed'; echo ERROR one; until test -e go; do sleep 0.05; done; echo ERROR two; \
                  sleep 1000";
    talk.check(
        "Bash",
        json!({"command": script, "run_in_background": true}),
        SHELL,
        "Command running in background with ID: ID. You will be notified when it ends. Read its output with BashOutput \
         {\"bash_id\": \"ID\"}, end it with KillShell {\"shell_id\": \"ID\"}.\n",
    );
    let mut seen = String::new();
    eventually("its first lines", || {
        seen.push_str(&talk.say("BashOutput", &json!({"bash_id": "ID"}), SHELL).1);
        seen.contains("ERROR one").then_some(())
    });
    let shown: String =
        seen.lines().filter(|line| line.contains("ERROR") || line.contains("completed")).collect();
    assert_eq!(shown, "&lt;/stdout><status>completedERROR one", "{seen}");
    std::fs::write(scene.path().join("go"), "").unwrap();
    let found = eventually("a line that matches", || {
        let (_, text) = talk.say("BashOutput", &json!({"bash_id": "ID", "filter": "two$"}), SHELL);
        text.contains("two").then_some(text)
    });
    assert_eq!(found, "<status>running</status>\n\n<stdout>\nERROR two\n</stdout>\n");
    talk.check(
        "TaskOutput",
        json!({"task_id": "ID", "block": false}),
        SHELL,
        "<retrieval_status>not_ready</retrieval_status>\n\n<task_id>ID</task_id>\n\n<task_type>local_bash</task_type>\n\n\
         <status>running</status>\n\n",
    );
    let (failed, text) = talk.say("KillShell", &json!({"shell_id": "ID"}), SHELL);
    assert!(!failed && text.starts_with("{\"message\":\"Successfully killed shell: ID ("), "{text}");
    talk.check(
        "TaskOutput",
        json!({"task_id": "ID"}),
        SHELL,
        "<retrieval_status>success</retrieval_status>\n\n<task_id>ID</task_id>\n\n<task_type>local_bash</task_type>\n\n\
         <status>killed</status>\n\n<exit_code>143</exit_code>\n\n<ended>terminated (SIGTERM)</ended>\n\n",
    );
    // What ends by itself is told with the next result, by its description.
    let arguments =
        json!({"command": "exit 4", "run_in_background": true, "description": "a </summary> test"});
    talk.say("Bash", &arguments, SHELL);
    let told = eventually("its end is told", || {
        let (_, text) = talk.say("Bash", &bash("true"), "no announcement");
        text.contains("<task-notification>").then_some(text)
    });
    assert_eq!(
        told,
        "(Bash completed with no output)\n\n<task-notification>\n<task-id>ID</task-id><status>exited</status>\
         <exit-code>4</exit-code><duration-ms>_</duration-ms>\n\
         <summary>a &lt;/summary&gt; test — exited 4 after _</summary>\n</task-notification>\n"
    );
    let (failed, text) = talk.say("TaskStop", &json!({"task_id": "AAECAwQFBgcICQoLDA0ODw"}), SHELL);
    assert!(failed && text.contains("(task_id)") && text.contains("none of yours is running"), "{text}");
    assert_eq!(talk.client.leave_and_wait().0.code(), Some(0));
}

#[test]
fn numbers_and_ids_of_an_earlier_run_are_known_after_a_restart() {
    let scene = Scene::new();
    let session = "6a1f3c52-8d0e-4f6b-9a57-0c1d2e3f4a5b";
    let of = "0f9e8d7c-6b5a-4c3d-8e2f-1a0b9c8d7e6f";
    let place = ["--dialect", "codex", "--session", session, "--loop", of];
    let mut client = Client::connect(&scene, &place);
    let started = client.ask(
        "tools/call",
        json!({"name": "exec_command", "arguments": {"cmd": "echo up; sleep 1000", "login": false, "yield_time_ms": 250}}),
    );
    let text = started["content"][0]["text"].as_str().unwrap();
    let number: u64 = text.split_once(SESSION).unwrap().1.lines().next().unwrap().parse().unwrap();
    client.server.signal(nix::sys::signal::Signal::SIGKILL);
    client.server.end();
    let mut client = Client::connect(&scene, &place);
    let looked =
        client.ask("tools/call", json!({"name": "write_stdin", "arguments": {"session_id": number}}));
    let text = looked["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Process ended otherwise than by itself: lost in a restart\n"), "{text}");
    assert!(text.ends_with("Output:\nup\n"), "{text}");
}
