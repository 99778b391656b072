//! `procyard run`: what a person at a shell sees of it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;

use crate::client::Client;
use crate::recorded::ESCAPE;
use crate::running::Running;
use crate::scene::Scene;

#[test]
fn each_stream_goes_to_its_own_descriptor_and_a_line_says_how_it_ended() {
    let scene = Scene::new();
    let ended = scene.run(["echo out; echo err >&2"]);
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, "out\n"));
    let stderr = ended.stderr();
    let summary = stderr.strip_prefix("err\n").expect("what the command said comes first");
    assert!(summary.starts_with("procyard: exited 0 after "), "{summary}");
    assert!(summary.ends_with(" ms, 8 bytes of output\n") || summary.contains(" s, 8 bytes"), "{summary}");
}

#[test]
fn the_exit_code_is_that_of_the_command_or_says_why_there_is_none() {
    let scene = Scene::new();
    for (arguments, code, said) in [
        (&["true"][..], 0, "procyard: exited 0"),
        (&["exit 3"], 3, "procyard: exited 3"),
        (&["exit 255"], 255, "procyard: exited 255"),
        (&["--", "sh", "-c", "exit 7"], 7, "procyard: exited 7"),
        (&["kill -TERM $$"], 143, "SIGTERM"),
        (&["kill -SEGV $$"], 139, "SIGSEGV"),
        (&["kill -KILL $$"], 137, "SIGKILL"),
        (&["--timeout", "1", "--", "sleep", "1000"], 124, "timed out"),
        (&["--timeout", "0.2", "--", "sleep", "1000"], 124, "timed out"),
        (&["--", "/etc/passwd"], 126, "procyard: "),
        (&["--", "/"], 126, "procyard: "),
        (&["--", "/nonexistent/program"], 127, "procyard: "),
        (&["--", "no-such-program"], 127, "procyard: "),
        (&["no-such-program"], 127, "not found"),
        (&["--workdir", "/nonexistent", "true"], 125, "working directory"),
        (&["--data-dir", "/proc/nowhere", "true"], 125, "procyard: "),
    ] {
        let ended = scene.run(arguments);
        assert_eq!(ended.code(), code, "{arguments:?}: {ended:?}");
        assert!(ended.stderr().contains(said), "{arguments:?}: {}", ended.stderr());
    }
}

#[test]
fn a_tier_that_is_required_is_had_or_nothing_is_started() {
    let scene = Scene::new();
    let report = Running::spawn(&mut scene.procyard(["doctor"])).wait().stdout();
    // In a PID namespace, and only there, the parent of a leader has no number.
    let ended = scene.run(["--tier", "pidns", "echo $PPID"]);
    if report.contains("pidns is to be had on request") {
        assert_eq!((ended.code(), ended.stdout().as_str()), (0, "0\n"), "{ended:?}");
        let mut client = Client::connect(&scene, &["--tier", "pidns"]);
        assert_eq!(client.call("Bash", json!({"command": "echo $PPID"}))["output"], "0\n");
        assert_eq!(client.leave_and_wait().0.code(), Some(0));
    } else {
        assert!(report.contains("pidns is not to be had: "), "{report}");
        assert_eq!((ended.code(), ended.stdout().as_str()), (125, ""), "{ended:?}");
        assert!(ended.stderr().contains("cannot be contained"), "{ended:?}");
    }
    let ended = scene.run(["--tier", "subreaper", "[ $PPID != 0 ]"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn the_token_of_a_service_reaches_no_command() {
    let scene = Scene::new();
    let mut command = scene.procyard(["run", "echo \"<$PROCYARD_TOKEN><$OTHER>\""]);
    let ended = Running::spawn(command.env("PROCYARD_TOKEN", "secret").env("OTHER", "kept")).wait();
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, "<><kept>\n"));
}

#[test]
fn a_usage_error_is_125_and_says_what_to_do() {
    let scene = Scene::new();
    for (arguments, said) in [
        (&["run"][..], "LINE"),
        (&["run", "echo", "hello"], "--"),
        (&["run", "ls", "-la"], "--"),
        (&["run", "--timeout", "0", "true"], "--timeout"),
        (&["run", "--tier", "vault", "true"], "pidns"),
        (&["run", "--timeout", "soon", "true"], "--timeout"),
        (&["run", "true", "--", "true"], "cannot be used with"),
        (&["run", "--timeout", "0.5x", "true"], "such as 90 or 0.5"),
        (
            &["events", "--session", "00000000-0000-4000-8000-000000000001", "AAECAwQFBgcICQoLDA0ODw"],
            "cannot be used with",
        ),
        (&["walk"], "walk"),
        (&[], "Usage"),
    ] {
        let ended = Running::spawn(&mut scene.procyard(arguments)).wait();
        assert_eq!(ended.code(), 125, "{arguments:?}: {ended:?}");
        assert!(ended.stdout.is_empty(), "{arguments:?}: {}", ended.stdout());
        assert!(ended.stderr().contains(said), "{arguments:?}: {}", ended.stderr());
    }
    assert!(scene.sessions().is_empty());
    let said = |arguments: &[&str]| Running::spawn(&mut scene.procyard(arguments)).wait().stderr();
    let unquoted = said(&["run", "ls", "-la"]);
    assert!(unquoted.contains("procyard run -- ls -la") && !unquoted.contains("tip:"), "{unquoted}");
    let misspelt = said(&["run", "--timout", "1", "true"]);
    assert!(misspelt.contains("'--timeout'") && !misspelt.contains("quote it"), "{misspelt}");
    assert!(!misspelt.contains("as a value"), "{misspelt}");
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    let scene = Scene::new();
    for verb in [&["--help"][..], &["run", "-h"], &["-V"], &["man"], &["config"]] {
        let mut command = scene.procyard(verb);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
        let ended = Running::spawn_as_is(&mut command).wait();
        assert_eq!(ended.code(), 125, "{verb:?}");
        assert!(ended.stderr().ends_with("cannot be written: No space left on device\n"), "{ended:?}");
    }
}

#[test]
fn help_and_version_are_no_errors_and_tell_the_exit_codes() {
    let scene = Scene::new();
    for (arguments, said) in [
        (&["--help"][..], "Exit codes"),
        (&["run", "--help"], "124"),
        (&["mcp", "--help"], "mcpServers"),
        (&["doctor", "--help"], "--data-dir"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let ended = Running::spawn(&mut scene.procyard(arguments)).wait();
        assert_eq!(ended.code(), 0, "{arguments:?}: {ended:?}");
        assert!(ended.stdout().contains(said), "{arguments:?}: {}", ended.stdout());
        assert!(ended.stderr.is_empty(), "{arguments:?}: {}", ended.stderr());
    }
}

#[test]
fn arguments_that_are_not_utf8_are_refused_by_name() {
    let scene = Scene::new();
    for arguments in [
        &[OsStr::new("--"), OsStr::new("echo"), OsStr::from_bytes(b"caf\xE9")][..],
        &[OsStr::from_bytes(b"echo \xFF")],
    ] {
        let ended = scene.run(arguments);
        assert_eq!(ended.code(), 125, "{ended:?}");
        assert!(ended.stderr().contains("UTF-8"), "{}", ended.stderr());
    }
}

#[test]
fn odd_arguments_reach_the_command_as_they_are() {
    let scene = Scene::new();
    let odd = ["", "a b", "*", "$HOME", "'\"\\", "--timeout", "日本語", "line\nbreak", "-"];
    let mut arguments = vec!["--", "printf", "<%s>"];
    arguments.extend(odd);
    let ended = scene.run(&arguments);
    let expected = format!("<{}>", odd.join("><"));
    assert_eq!((ended.code(), ended.stdout()), (0, expected));
}

#[test]
fn json_says_how_it_ended_in_one_line_that_parses() {
    let scene = Scene::new();
    let told = |arguments: &[&str]| -> serde_json::Value {
        let ended = scene.run([&["--json"], arguments].concat());
        serde_json::from_str(&ended.summary()).unwrap_or_else(|error| panic!("{error}: {}", ended.stderr()))
    };
    let failed = told(&["printf 12345; exit 3"]);
    assert_eq!(failed["status"], "exited");
    assert_eq!(failed["exit_code"], 3);
    assert_eq!(failed["total_bytes"], 5);
    assert!(failed["duration_ms"].is_u64());
    assert!(failed.get("signal").is_none() && failed.get("leftovers").is_none(), "{failed}");
    let killed = told(&["kill -9 $$"]);
    assert_eq!(killed["signal"], "SIGKILL");
    assert!(killed.get("exit_code").is_none(), "{killed}");
    let late = told(&["--timeout", "1", "sleep 1000"]);
    assert_eq!(late["status"], "timed_out");
    let missing = told(&["--", "no-such-program"]);
    assert!(
        missing["error"]["message"].as_str().is_some_and(|error| error.contains("not found")),
        "{missing}"
    );
    let left = told(&[&format!("{ESCAPE}; while ! [ -s \"$PIDS\" ]; do :; done")]);
    assert_eq!(left["leftovers"], serde_json::json!({"count": 1, "action": "killed"}));
    scene.assert_no_survivor();
}

#[test]
fn what_outlives_the_command_is_ended_and_told() {
    let scene = Scene::new();
    let ended = scene.run([&format!("{ESCAPE}; while ! [ -s \"$PIDS\" ]; do :; done; echo done")]);
    scene.assert_no_survivor();
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, "done\n"));
    assert!(ended.summary().ends_with("; 1 process that outlived it was ended"), "{}", ended.summary());
}

#[test]
fn nothing_stays_in_the_data_directory() {
    let scene = Scene::new();
    for arguments in [
        &["echo hello"][..],
        &["exit 3"],
        &["--", "no-such-program"],
        &["--timeout", "1", "sleep 1000"],
        &["--workdir", "/nonexistent", "true"],
    ] {
        scene.run(arguments);
        assert!(scene.sessions().is_empty(), "{arguments:?} left {:?}", scene.sessions());
    }
    let mode = std::fs::metadata(scene.data_dir().join("sessions")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn a_command_runs_where_it_is_told_or_where_procyard_was_started() {
    let scene = Scene::new();
    let here = scene.path().canonicalize().unwrap();
    assert_eq!(scene.run(["pwd -P"]).stdout(), format!("{}\n", here.display()));
    std::fs::create_dir(scene.path().join("below")).unwrap();
    assert_eq!(scene.run(["--workdir", "below", "pwd -P"]).stdout(), format!("{}/below\n", here.display()));
}

#[test]
fn a_deleted_working_directory_is_an_error_of_its_own_and_naming_one_helps() {
    let scene = Scene::new();
    let gone = scene.path().join("gone");
    let in_a_deleted_directory = |arguments: &str| {
        std::fs::create_dir(&gone).unwrap();
        let line = format!("rmdir \"$PWD\" && exec \"$PROCYARD\" run {arguments}");
        Running::spawn(scene.command("bash").args(["-c", &line]).current_dir(&gone)).wait()
    };
    let refused = in_a_deleted_directory("pwd");
    assert_eq!(refused.code(), 125, "{refused:?}");
    assert!(refused.stderr().contains("--workdir"), "{}", refused.stderr());
    let named = in_a_deleted_directory("--workdir / pwd");
    assert_eq!((named.code(), named.stdout().as_str()), (0, "/\n"), "{named:?}");
}

#[test]
fn closed_descriptors_are_no_reason_to_fall_over() {
    let scene = Scene::new();
    for (redirection, arguments, code) in [
        (">&-", "'echo out; echo err >&2; exit 3'", 3),
        ("2>&-", "'echo out; echo err >&2; exit 3'", 3),
        ("<&-", "cat", 0),
        ("<&- >&- 2>&-", "'echo out; exit 3'", 3),
        ("2>&-", "-- no-such-program", 127),
        ("2>/dev/full", "-- no-such-program", 127),
        ("2>/dev/full", "'exit 3'", 3),
    ] {
        let line = format!("exec \"$PROCYARD\" run {arguments} {redirection}");
        let ended = Running::spawn(scene.command("bash").args(["-c", &line])).wait();
        assert_eq!(ended.code(), code, "{redirection}: {ended:?}");
        assert!(!ended.stderr().contains("panicked"), "{redirection}: {}", ended.stderr());
    }
}

#[test]
fn a_reader_of_stderr_that_is_gone_is_no_reason_to_fall_over() {
    let scene = Scene::new();
    for (arguments, code) in
        [(&["run", "exit 3"][..], 3), (&["run", "--", "no-such-program"], 127), (&["run"], 125)]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = scene.procyard(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(writer);
        let mut running = Running::spawn_as_is(&mut command);
        assert_eq!(running.end().code(), Some(code), "{arguments:?}");
    }
}
