//! What is made from the definition of the command line: completions, manual pages, help.

use serde_json::Value;

use crate::running::Running;
use crate::scene::Scene;

#[test]
fn completions_and_manual_pages_name_every_verb() {
    let scene = Scene::new();
    let verbs = [
        "run", "mcp", "serve", "ps", "logs", "attach", "send", "stop", "wait", "events", "doctor", "export",
        "gc", "config",
    ];
    for shell in ["bash", "zsh", "fish"] {
        let completions = Running::spawn(&mut scene.procyard(["completions", shell])).wait().stdout();
        assert!(verbs.iter().all(|verb| completions.contains(verb)), "{shell}");
    }
    let page = Running::spawn(&mut scene.procyard(["man"])).wait();
    assert!(page.stdout().starts_with(".ie") && page.stdout().contains("procyard"), "{page:?}");
    let pages = Running::spawn(&mut scene.procyard(["man", "--dir", "man"])).wait();
    assert_eq!(pages.code(), 0, "{pages:?}");
    for verb in verbs {
        assert!(scene.path().join(format!("man/procyard-{verb}.1")).exists(), "{verb}");
        let help = Running::spawn(&mut scene.procyard([verb, "--help"])).wait();
        assert_eq!(help.code(), 0, "{verb}");
    }
}

#[test]
fn what_people_read_programs_can_read() {
    let scene = Scene::new();
    let json = |arguments: &[&str]| -> Value {
        let ended = Running::spawn(&mut scene.procyard(arguments)).wait();
        serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    };
    assert_eq!(json(&["gc", "--json"])["removed"], 0);
    let found = json(&["doctor", "--json"]);
    assert!(found["containment"]["possible"].is_boolean() && found["version"].is_string(), "{found}");
    assert_eq!(json(&["config", "--json"])["keys"]["processes.enabled"]["value"], true);
}

#[test]
fn exit_codes_and_the_shape_of_errors_are_in_the_help_and_in_the_manual_page() {
    let scene = Scene::new();
    for arguments in [["--help"], ["man"]] {
        let page = Running::spawn(&mut scene.procyard(arguments)).wait().stdout();
        // The manual page escapes hyphens.
        let page = page.replace('\\', "");
        for told in ["125", "128+n", "124", "126", "127", "141", "{\"error\": {\"code\""] {
            assert!(page.contains(told), "{arguments:?} does not tell {told}:\n{page}");
        }
    }
    for (verb, told) in [
        ("run", "141"),
        ("doctor", "1 nothing"),
        ("wait", "124"),
        ("stop", "125"),
        ("logs", "141"),
        ("ps", "125"),
        ("send", "125"),
        ("events", "not both"),
        ("config", "125"),
    ] {
        let help = Running::spawn(&mut scene.procyard([verb, "--help"])).wait().stdout();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("Exit codes:") && help.contains(told), "{verb}: {help}");
    }
}
