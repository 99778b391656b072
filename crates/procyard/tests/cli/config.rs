//! Configuration as a person meets it: where it comes from, what is wrong with it, and that it has an effect.

use serde_json::{Value, json};

use crate::client::Client;
use crate::running::{Ended, Running};
use crate::scene::Scene;

fn file(scene: &Scene, text: &str) -> String {
    let path = scene.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[track_caller]
fn shown(scene: &Scene, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = scene.procyard(["config", "--json"]);
    Running::spawn(command.args(arguments).envs(variables.iter().copied())).wait()
}

#[test]
fn each_source_overrides_the_one_before_and_is_named() {
    let scene = Scene::new();
    let config =
        file(&scene, "[processes]\nmax_concurrent = 3\ninline_bytes = \"1K\"\n\n[log]\nlevel = \"warn\"\n");
    let arguments = ["--config", &config, "--set", "processes.inline_bytes=3K", "--listen", "127.0.0.1:0"];
    let variables = [("PROCYARD_PROCESSES__INLINE_BYTES", "2K"), ("PROCYARD_LOG__LEVEL", "info")];
    let shown: Value = serde_json::from_str(&shown(&scene, &arguments, &variables).stdout()).unwrap();
    let of =
        |key: &str| (shown["keys"][key]["value"].clone(), shown["keys"][key]["source"].as_str().unwrap());
    assert_eq!(of("processes.max_concurrent"), (json!(3), &*format!("{config}:2")));
    assert_eq!(of("processes.max_concurrent_per_loop"), (json!(3), "default, adjusted to what is set"));
    assert_eq!(of("processes.inline_bytes"), (json!(3072), "--set"));
    assert_eq!(of("log.level"), (json!("info"), "$PROCYARD_LOG__LEVEL"));
    assert_eq!(of("server.listen"), (json!("127.0.0.1:0"), "--listen"));
    assert_eq!(of("retention.log_days"), (json!(14), "default"));
}

#[test]
fn what_is_printed_is_a_file_that_can_be_read_again() {
    let scene = Scene::new();
    let mut command = scene.procyard(["config", "--explain"]);
    let explained = Running::spawn(&mut command).wait();
    let config = file(&scene, &explained.stdout());
    let again = shown(&scene, &["--config", &config], &[]);
    assert_eq!(again.code(), 0, "{again:?}");
}

#[test]
fn every_mistake_is_told_with_its_line_by_every_verb() {
    let scene = Scene::new();
    let config = file(&scene, "[processes]\nmax_concurent = 3\n[containment]\ntier = \"vm\"\n");
    for verb in [
        vec!["run", "--config", &config, "true"],
        vec!["mcp", "--config", &config],
        vec!["serve", "--config", &config],
        vec!["ps", "--config", &config],
        vec!["gc", "--config", &config],
        vec!["doctor", "--config", &config],
    ] {
        let refused = Running::spawn(&mut scene.procyard(&verb)).wait();
        assert_eq!(refused.code(), 125, "{verb:?}");
        let said = refused.stderr();
        assert!(
            said.contains(&format!("{config}:2:")) && said.contains("`processes.max_concurrent`?"),
            "{said}"
        );
        assert!(said.contains(&format!("{config}:4:")) && said.contains("`\"pidns\"`"), "{said}");
    }
    let refused = shown(&scene, &["--set", "proceses.shell=/bin/sh"], &[]);
    assert!(refused.stderr().contains("`processes.shell`?"), "{refused:?}");
}

#[test]
fn a_misspelt_choice_is_refused_with_what_was_meant_wherever_it_is_set() {
    let scene = Scene::new();
    for (setting, meant) in [
        ("log.level=inof", "`info`"),
        ("log.level=warn,procyard=debgu", "`debug`"),
        ("log.format=jsno", "`\"json\"`"),
        ("processes.environment=minimla", "`\"minimal\"`"),
        ("containment.tier=subreeper", "`\"subreaper\"`"),
        ("containment.signal_scope=prefered", "`\"preferred\"`"),
    ] {
        let (key, value) = setting.split_once('=').unwrap();
        let (section, name) = key.split_once('.').unwrap();
        let config = file(&scene, &format!("[{section}]\n{name} = \"{value}\"\n"));
        let variable = format!("PROCYARD_{section}__{name}").to_uppercase();
        for refused in [
            shown(&scene, &["--set", setting], &[]),
            shown(&scene, &[], &[(&variable, value)]),
            shown(&scene, &["--config", &config], &[]),
        ] {
            assert_eq!(refused.code(), 125, "{setting}");
            let said = refused.stderr().replace("\\\"", "\"");
            assert!(said.contains(&format!("did you mean {meant}?")), "{setting}: {said}");
        }
    }
    let once = shown(&scene, &[], &[("PROCYARD_LOG_LEVEL", "info")]);
    assert!(once.code() == 125 && once.stderr().contains("PROCYARD_LOG__LEVEL"), "{once:?}");
}

#[test]
fn a_mistake_names_its_keys_as_data() {
    let scene = Scene::new();
    let one = file(&scene, "[log]\nlevel = \"inof\"\n");
    std::fs::write(scene.path().join("several.toml"), "[servr]\n[log]\nlevel = \"inof\"\n").unwrap();
    std::fs::write(scene.path().join("outside.toml"), "[data]\nx = 1\n").unwrap();
    let concurrent = ["processes.max_concurrent_per_loop", "processes.max_concurrent"];
    for (arguments, variables, keys) in [
        (vec!["--config", &one], vec![], vec!["log.level"]),
        (vec!["--config", "several.toml"], vec![], vec!["servr", "log.level"]),
        (vec!["--set", "log.format=xml"], vec![], vec!["log.format"]),
        (vec!["--set", "log"], vec![], vec!["--set"]),
        (vec!["--config", "outside.toml"], vec![], vec!["data"]),
        (
            vec!["--config", "outside.toml", "--set", "log", "--set", "log.format=xml"],
            vec![("PROCYARD_SERVR__LISTEN", "127.0.0.1:0"), ("PROCYARD_LOG_FORMAT", "json")],
            vec!["data", "log.format", "servr.listen", "--set"],
        ),
        (vec![], vec![("PROCYARD_SERVR__LISTEN", "127.0.0.1:0")], vec!["servr.listen"]),
        (
            vec!["--set", "processes.max_concurrent=2", "--set", "processes.max_concurrent_per_loop=3"],
            vec![],
            concurrent.to_vec(),
        ),
    ] {
        let refused = shown(&scene, &arguments, &variables);
        let error = serde_json::from_str::<Value>(&refused.stderr()).unwrap()["error"].clone();
        assert_eq!((refused.code(), &error["code"]), (125, &json!("invalid_settings")), "{error}");
        assert_eq!(error["field"], keys[0], "{error}");
        let all = if keys.len() > 1 { json!(keys) } else { Value::Null };
        assert_eq!(error["fields"], all, "{error}");
    }
}

#[test]
fn without_a_shell_a_line_is_words_and_nothing_else() {
    let scene = Scene::new();
    let plain = scene.run(["--set", "processes.allow_shell=false", "echo 'a  b' c"]);
    assert_eq!((plain.code(), plain.stdout().as_str()), (0, "a  b c\n"));
    let refused = scene.run(["--set", "processes.allow_shell=false", "echo a > b"]);
    assert_eq!(refused.code(), 125);
    assert!(refused.stderr().contains("`>`") && !scene.path().join("b").exists(), "{refused:?}");
}

#[test]
fn keys_of_commands_reach_them() {
    let scene = Scene::new();
    let filtered = scene.run(["--set", "processes.env_filter=PIDS,RECORD", "echo ${PIDS-none} ${STAY+some}"]);
    assert_eq!(filtered.stdout(), "none some\n");
    let minimal = scene.run(["--set", "processes.environment=minimal", "echo ${STAY-none}"]);
    assert_eq!(minimal.stdout(), "none\n");
    let shell = scene.run(["--set", "processes.shell=/bin/echo", "a line"]);
    assert_eq!(shell.stdout(), "-c a line\n");
    let off = scene.run(["--set", "processes.enabled=false", "true"]);
    assert_eq!(off.code(), 125);
    assert!(off.stderr().contains("processes.enabled"), "{off:?}");
}

#[test]
fn keys_of_tools_reach_them() {
    let scene = Scene::new();
    let arguments = [
        "--set",
        "processes.inline_bytes=100",
        "--set",
        "processes.max_timeout_secs=200",
        "--set",
        "processes.allow_shell=false",
    ];
    let mut client = Client::connect(&scene, &arguments);
    let long = client.call("Bash", json!({"command": "seq 1000"}));
    assert!(long["omitted_bytes"].as_u64().is_some_and(|bytes| bytes > 3000), "{long}");
    for arguments in [json!({"command": "true", "timeout": 201}), json!({"command": "true; true"})] {
        assert_eq!(client.call_whole("Bash", arguments)["isError"], true);
    }
    assert_eq!(client.leave_and_wait().0.code(), Some(0));

    let mut client = Client::connect(&scene, &["--set", "processes.enabled=false"]);
    let tools: Vec<_> = client.learn_tools().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(tools, ["ProcessOutput", "ProcessInput", "ProcessStop", "ProcessList"]);
}
