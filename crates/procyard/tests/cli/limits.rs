//! Caps and privileges of commands, from the command line to the record. What a machine cannot enforce must be said; which of
//! both is put to the test is what `doctor` says of it.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Client;
use crate::running::{Ended, Running};
use crate::scene::{PROCYARD, Scene};

/// Becomes a program that takes 200 MB, if it can.
const EATER: &str = "exec tail -c 200000000 < <(head -c 200000000 /dev/zero) >/dev/null";
/// Nobody's by convention or chance: what is signalled by it is the test's own.
const UID: &str = "47811";

fn doctor(scene: &Scene) -> String {
    Running::spawn(&mut scene.procyard(["doctor"])).wait().stdout()
}

fn says(report: &str, subject: &str, words: &str) -> bool {
    report.lines().any(|line| line.starts_with(subject) && line.contains(words))
}

fn json_of(ended: &Ended) -> Value {
    serde_json::from_str(ended.stderr().lines().last().unwrap()).unwrap()
}

#[test]
fn a_command_over_its_memory_limit_is_killed_and_the_summary_says_why() {
    let scene = Scene::new();
    let ended = scene.run(["--memory-max", "48M", EATER]);
    if !says(&doctor(&scene), "memory limit", "can be enforced") {
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert!(ended.stderr().contains("the memory limit is not enforced: "), "{}", ended.stderr());
        return;
    }
    assert_eq!(ended.code(), 137, "{ended:?}");
    let summary = ended.summary();
    assert!(summary.starts_with("failed (SIGKILL)") || summary.contains("failed (SIGKILL)"), "{summary}");
    assert!(summary.contains("the memory limit of 48 MiB was reached"), "{summary}");
    let told = json_of(&scene.run(["--json", "--memory-max", "48M", EATER]));
    assert_eq!((&told["status"], &told["signal"]), (&json!("failed"), &json!("SIGKILL")), "{told}");
    assert_eq!(told["limits"]["memory_max"], json!({"in_force": 48 << 20}), "{told}");
    assert_eq!(told["memory_kills"], 1);
    assert!(told["diagnostic"].as_str().unwrap().contains("memory limit"), "{told}");
}

#[test]
fn a_process_limit_is_kept_or_said_not_to_be() {
    let scene = Scene::new();
    let ended = scene.run(["--json", "--pids-max", "4", "--", "sh", "-c", "exec cat /proc/self/status"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    let told = json_of(&ended)["limits"]["pids_max"].clone();
    if says(&doctor(&scene), "process limit", "can be enforced") {
        assert_eq!(told, json!({"in_force": 4}));
    } else {
        assert!(told["not_enforced"].is_string(), "{told}");
    }
}

#[test]
fn what_is_asked_for_reaches_the_command() {
    let scene = Scene::new();
    let line = "nice; cat /proc/self/oom_score_adj; grep NoNewPrivs /proc/self/status | tr -d '\\t'";
    let ended = scene.run(["--nice", "5", "--oom-score-adj", "900", "--no-new-privs", line]);
    assert_eq!(ended.stdout(), "5\n900\nNoNewPrivs:1\n", "{ended:?}");
    let told = json_of(&scene.run(["--json", "--nice", "5", "true"]));
    let limits = &told["limits"];
    assert_eq!((&limits["nice"], &limits["core_max"]), (&json!({"in_force": 5}), &json!({"in_force": 0})));
    assert!(limits["oom_score_adj"]["in_force"].as_i64().unwrap() > 0, "{told}");
    assert!(
        json_of(&scene.run(["--json", "true"])).get("limits").is_none(),
        "only where they were asked for"
    );
}

#[test]
fn core_dumps_are_kept_only_when_that_is_asked_for() {
    let scene = Scene::new();
    let run = |keep: &str| {
        let line = format!("ulimit -S -c $(ulimit -H -c); ulimit -c; {PROCYARD} run {keep} 'ulimit -c'");
        Running::spawn(scene.command("bash").args(["-c", &line])).wait().stdout()
    };
    let dropped = run("");
    assert!(dropped.ends_with("\n0\n"), "{dropped}");
    let kept = run("--keep-core-dumps");
    let lines: Vec<_> = kept.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{kept}");
}

#[test]
fn a_limit_that_has_no_meaning_is_a_usage_error() {
    let scene = Scene::new();
    for (arguments, said) in [
        (["--memory-max", "0"], "must be positive"),
        (["--memory-max", "much"], "such as 512M"),
        (["--pids-max", "0"], "--pids-max"),
        (["--nice", "20"], "--nice"),
        (["--oom-score-adj", "-1001"], "--oom-score-adj"),
        (["--signal-scope", "maybe"], "--signal-scope"),
    ] {
        let ended = scene.run(arguments.into_iter().chain(["true"]));
        assert_eq!(ended.code(), 125, "{arguments:?}: {ended:?}");
        assert!(ended.stderr().contains(said), "{arguments:?}: {}", ended.stderr());
    }
    // What only the runner can know.
    let ended = scene.run(["--memory-max", "1", "true"]);
    assert_eq!(ended.code(), 125, "{ended:?}");
    assert!(ended.stderr().contains("at least one page"), "{}", ended.stderr());
}

#[test]
fn a_server_applies_them_to_every_command_and_tells_them_with_each_result() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &["--nice", "6", "--pids-max", "64", "--memory-max", "48M"]);
    for arguments in [json!({"command": "nice"}), json!({"command": "nice", "tty": true})] {
        let result = client.call("Bash", arguments);
        assert_eq!(result["output"].as_str().unwrap().trim(), "6");
        assert_eq!(result["limits"]["nice"], json!({"value": 6}), "{result}");
        assert!(result["limits"]["pids_max"].is_object(), "{result}");
    }
    let started = client.call("Bash", json!({"command": "true", "background": true}));
    assert_eq!(started["limits"]["nice"], json!({"value": 6}), "{started}");
    let result = client.call("Bash", json!({"command": format!("({EATER}); exit 0")}));
    if says(&doctor(&scene), "memory limit", "can be enforced") {
        assert_eq!((&result["status"], &result["limits"]["memory_kills"]), (&json!("exited"), &json!(1)));
        assert!(result["warnings"].to_string().contains("memory limit of 48 MiB was reached"), "{result}");
    } else {
        assert!(result["limits"]["memory_max"]["not_enforced"].is_string(), "{result}");
    }
    let free = Scene::new();
    let mut client = Client::connect(&free, &[]);
    assert!(client.call("Bash", json!({"command": "true"})).get("limits").is_none());
}

#[test]
fn a_scoped_command_cannot_signal_its_keeper() {
    let scene = Scene::new();
    let line = "kill -CONT $PPID 2>/dev/null && echo reached || echo refused";
    assert_eq!(scene.run([line]).stdout(), "reached\n");
    let ended = scene.run(["--signal-scope", "required", line]);
    let preferred = scene.run(["--signal-scope", "preferred", line]);
    if says(&doctor(&scene), "signal scope", "can be had") {
        assert_eq!((ended.stdout().as_str(), preferred.stdout().as_str()), ("refused\n", "refused\n"));
    } else {
        assert_eq!(ended.code(), 125, "{ended:?}");
        assert!(ended.stderr().contains("signals cannot be scoped"), "{}", ended.stderr());
        assert!(preferred.stderr().contains("the signal scope is not enforced"), "{}", preferred.stderr());
        assert_eq!(preferred.stdout(), "reached\n");
    }
}

/// In a PID namespace of its own, which bounds whom `kill -9 -1` reaches, as a user of its own: the shell that is the
/// namespace's first process is root's.
fn kill_everybody(scene: &Scene, scope: &str) -> Ended {
    let program = scene.path().join("procyard");
    let line = format!(
        "setpriv --reuid {UID} --regid {UID} --clear-groups {} run --signal-scope {scope} \
         'sleep 1000 & kill -9 -1; exit 7'; echo $?",
        program.display()
    );
    let mut command: Command = scene.command("unshare");
    Running::spawn(command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", &line])).wait()
}

#[test]
fn a_scope_saves_procyard_from_a_command_that_kills_all_of_its_users_processes() {
    let scene = Scene::new();
    if !nix::unistd::geteuid().is_root() || !says(&doctor(&scene), "signal scope", "can be had") {
        // A user of its own takes root.
        return;
    }
    std::fs::copy(PROCYARD, scene.path().join("procyard")).unwrap();
    for (path, mode) in [(scene.path().to_owned(), 0o777), (scene.path().join("procyard"), 0o755)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let unscoped = kill_everybody(&scene, "off");
    assert_eq!(unscoped.stdout(), "137\n", "it reaches procyard: {unscoped:?}");
    let scoped = kill_everybody(&scene, "required");
    assert_eq!(scoped.stdout(), "7\n", "{scoped:?}");
    assert!(scoped.stderr().contains("exited 7"), "{}", scoped.stderr());
}
