//! A service and the verbs that talk to it, over the real socket.

use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;
use procyard_api::BashArguments;
use procyard_api::http::CreateSession;
use procyard_core::Handle;
use serde_json::Value;

use crate::running::{Running, read_until};
use crate::scene::{Scene, eventually};
use crate::served::{Service, block, start, start_as, verb};

#[track_caller]
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

fn conversation() -> BashArguments {
    BashArguments {
        command: Some("eval \"$RECORD\"; exec cat".to_owned()),
        stdin: true,
        ..BashArguments::default()
    }
}

#[test]
fn a_process_is_listed_followed_written_to_stopped_and_waited_for() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, conversation());
    scene.wait_for_records(1);

    let listed = Running::spawn(&mut scene.procyard(["ps"])).wait();
    assert_eq!(listed.code(), 0, "{listed:?}");
    assert!(
        listed.stdout().contains(handle.reveal().as_str()) && listed.stdout().contains("running"),
        "{listed:?}"
    );
    assert!(!listed.stdout().contains('\u{1b}'), "colour is for terminals");
    let listed =
        json(&Running::spawn(&mut scene.procyard(["ps", "--json", "--state", "running"])).wait().stdout());
    assert_eq!(listed["processes"][0]["process_id"], handle.reveal().as_str());

    let mut logs = scene.procyard(["logs", "-f"]);
    let mut logs = Running::spawn(logs.arg(handle.reveal()));
    let stdout = logs.take_stdout();
    assert_eq!(verb(&scene, "send", &handle, &["--newline", "hello there"]).code(), 0);
    let stdout = read_until(stdout, "hello there\n");

    let stopped = verb(&scene, "stop", &handle, &["--json"]);
    assert_eq!(stopped.code(), 0, "{stopped:?}");
    assert_eq!(json(&stopped.stdout())["tree_exited"], true);
    assert_eq!(logs.end().code(), Some(0), "logs end with the process");
    drop(stdout);
    scene.assert_no_survivor();

    let waited = verb(&scene, "wait", &handle, &[]);
    assert_eq!(waited.code(), 128 + Signal::SIGTERM as i32, "{waited:?}");
    let none = verb(&scene, "logs", &handle, &["--tail", "0"]);
    assert_eq!((none.code(), none.stdout().as_str()), (0, ""));
    let tail = verb(&scene, "logs", &handle, &["--tail", "1"]);
    assert_eq!(tail.stdout(), "hello there\n");
    let events = verb(&scene, "events", &handle, &[]).stdout();
    for word in ["backgrounded", "stop_requested", "completed terminated"] {
        assert!(events.contains(word), "{events}");
    }
    let followed = verb(&scene, "events", &handle, &["-f", "--json"]).stdout();
    let last = json(followed.lines().last().unwrap());
    assert_eq!(last["kind"], "completed", "the stream of one process ends with it");
}

#[test]
fn waiting_gives_the_exit_code_and_gives_up_in_time() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    for (line, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 128 + 9)] {
        let handle = start(&client, line);
        assert_eq!(verb(&scene, "wait", &handle, &["--timeout", "60"]).code(), code, "{line}");
    }
    let handle = start(&client, "exec sleep 1000");
    assert_eq!(verb(&scene, "wait", &handle, &["--timeout", "0"]).code(), 124);
    let waited = verb(&scene, "wait", &handle, &["--timeout", "0.1"]);
    assert_eq!((waited.code(), &*waited.stderr()), (124, "procyard: still running when the wait was over\n"));
    assert_eq!(verb(&scene, "stop", &handle, &["--mode", "kill"]).code(), 0);
}

#[test]
fn a_handle_that_nobody_has_and_a_service_that_is_not_there_are_told() {
    let scene = Scene::new();
    let unknown = Handle::from_bytes([7; 16]);
    let absent = verb(&scene, "stop", &unknown, &[]);
    assert_eq!(absent.code(), 125);
    assert!(absent.stderr().contains("procyard serve"), "{absent:?}");
    assert!(!absent.stderr().contains("os error"), "{absent:?}");
    let _service = Service::start(&scene, &[]);
    for name in ["stop", "wait", "logs", "events", "send"] {
        let arguments: &[&str] = if name == "send" { &["x"] } else { &[] };
        let refused = verb(&scene, name, &unknown, arguments);
        assert_eq!(refused.code(), 125, "{name}");
        // A person has verbs, and no tools.
        assert!(refused.stderr().contains("`procyard ps` shows yours"), "{refused:?}");
        assert!(!refused.stderr().contains("Process"), "{refused:?}");
    }
    let refused = verb(&scene, "stop", &unknown, &["--json"]);
    assert_eq!(json(&refused.stderr())["error"]["code"], "not_found");
}

#[test]
fn the_places_of_the_service_are_private_and_one_service_has_them() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let mode =
        |name: &str| std::fs::metadata(scene.data_dir().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("procyard.sock"), mode("admin.token")), (0o700, 0o600, 0o600));
    let second = Running::spawn(&mut scene.procyard(["serve"])).wait();
    assert_eq!(second.code(), 125);
    assert!(second.stderr().contains("a service runs on"), "{second:?}");
    assert_eq!(block(service.admin().health()).unwrap().status, "ok");
}

#[test]
fn over_tcp_nobody_is_known_without_a_token() {
    let scene = Scene::new();
    let service = Service::start(&scene, &["--listen", "127.0.0.1:0"]);
    let address = service.ready.rsplit("http://").next().unwrap().to_owned();
    let ps = |token: &str| {
        let mut command = scene.procyard(["ps", "--connect", &address]);
        Running::spawn(command.env("PROCYARD_TOKEN", token)).wait()
    };
    let nobody = ps("");
    assert!(nobody.code() == 125 && nobody.stderr().contains("PROCYARD_TOKEN"), "{nobody:?}");
    assert_eq!(ps("pya_wrong").code(), 125);
    let admin = std::fs::read_to_string(scene.data_dir().join("admin.token")).unwrap();
    assert_eq!(ps(admin.trim()).code(), 0);
    let (_, client) = service.session();
    let handle = start(&client, "true");
    let listed = ps(admin.trim());
    assert!(listed.stdout().contains(handle.reveal().as_str()), "{listed:?}");
}

#[test]
fn an_event_is_told_with_its_own_time() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, conversation());
    scene.wait_for_records(1);
    let milliseconds = |at: &Value| {
        let at: procyard_api::Time = serde_json::from_value(at.clone()).unwrap();
        procyard_core::Timestamp::from(at).as_unix_micros() / 1000
    };
    let now =
        || procyard_core::Timestamp::from_system_time(std::time::SystemTime::now()).as_unix_micros() / 1000;
    let begun = eventually("the start is in the journal", || {
        let said = verb(&scene, "events", &handle, &["--json"]).stdout();
        (!said.is_empty()).then(|| json(&said))
    });
    // The stop comes measurably later than the start.
    eventually("time goes by", || (now() > milliseconds(&begun["started_at"]) + 20).then_some(()));
    let asked = now();
    assert_eq!(verb(&scene, "stop", &handle, &[]).code(), 0);
    let events = eventually("the end is in the journal", || {
        let said = verb(&scene, "events", &handle, &["--json"]).stdout();
        Some(said.lines().map(json).collect::<Vec<_>>()).filter(|events| events.len() == 3)
    });
    let kinds: Vec<_> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["backgrounded", "stop_requested", "completed"]);
    let at: Vec<_> = events.iter().map(|event| milliseconds(&event["at"])).collect();
    assert_eq!(at[0], milliseconds(&events[0]["started_at"]));
    assert!(at[1] >= asked && at[1] <= at[2], "{at:?} after {asked}");
    assert_eq!(at[2], milliseconds(&events[2]["finished_at"]));
    let text = verb(&scene, "events", &handle, &[]).stdout();
    for (line, event) in text.lines().zip(&events) {
        assert!(line.contains(event["at"].as_str().unwrap()), "{line}");
    }
}

#[test]
fn attaching_to_what_has_ended_shows_what_it_printed_and_gives_its_code() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let command =
        BashArguments { command: Some("echo kept; exit 7".to_owned()), tty: true, ..conversation() };
    let handle = start_as(&client, BashArguments { stdin: false, ..command });
    assert_eq!(verb(&scene, "wait", &handle, &[]).code(), 7);
    // Standard input is at its end at once, as in a script.
    let shown = verb(&scene, "attach", &handle, &[]);
    assert_eq!((shown.code(), shown.stdout().as_str()), (7, "kept\r\n"), "{shown:?}");
    assert_eq!(shown.stderr(), "procyard: exited 7\n");
}

#[test]
fn followed_events_end_when_nobody_reads_them() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (created, client) = service.session();
    let line = "\"$PROCYARD\" events -f --session \"$0\" | head -n 1; echo ${PIPESTATUS[*]}";
    let mut command = scene.command("bash");
    let mut following = Running::spawn(command.args(["-c", line, &created.session_id.to_string()]));
    eventually("the pipeline is over", || {
        let done = start(&client, "true");
        assert_eq!(verb(&scene, "wait", &done, &[]).code(), 0);
        following.has_ended().then_some(())
    });
    let ended = following.wait();
    assert!(ended.stdout().ends_with("\n141 0\n"), "{ended:?}");
}

#[test]
fn a_token_that_none_can_be_is_told_before_anything_is_asked_and_never_shown() {
    let scene = Scene::new();
    for token in ["two words", "line\nbreak", "pyt_ä"] {
        let mut command = scene.procyard(["ps"]);
        let refused = Running::spawn(command.env("PROCYARD_TOKEN", token)).wait();
        assert_eq!(refused.code(), 125);
        let said = refused.stderr();
        assert!(said.contains("$PROCYARD_TOKEN holds no token") && !said.contains(token), "{said}");
        assert!(!said.contains("procyard serve"), "the service was not looked for: {said}");
    }
}

#[test]
fn a_wrong_token_is_told_before_standard_input_is_read() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, conversation());
    scene.wait_for_records(1);
    let mut command = scene.procyard(["send"]);
    command.args([handle.reveal().as_str(), "-"]).env("PROCYARD_TOKEN", "pyt_of_nobody");
    // Its input stays open: whoever reads it first waits for ever.
    let refused = Running::spawn(&mut command).wait_with_input_open();
    assert_eq!(refused.code(), 125);
    assert!(refused.stderr().contains("token") && refused.stderr().lines().count() == 1, "{refused:?}");
    assert_eq!(verb(&scene, "stop", &handle, &[]).code(), 0);
}

#[test]
fn a_bad_file_of_the_admin_token_is_told_once_and_before_anything_is_opened() {
    let scene = Scene::new();
    std::fs::create_dir(scene.data_dir()).unwrap();
    std::fs::set_permissions(scene.data_dir(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let file = scene.data_dir().join("admin.token");
    for (content, mode, expect) in
        [("x".repeat(64), 0o644, "can be read by others"), ("short\n".to_owned(), 0o600, "holds no token")]
    {
        std::fs::write(&file, &content).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = Running::spawn(&mut scene.procyard(["serve"])).wait();
        let said = refused.stderr();
        assert_eq!((refused.code(), said.matches(expect).count()), (125, 1), "{said}");
        assert!(said.contains(&file.display().to_string()) && !said.contains("ready"), "{said}");
        assert!(!scene.data_dir().join("procyard.sock").exists() && !scene.data_dir().join("open").exists());
    }
}

#[test]
fn commands_of_the_service_inherit_nothing_that_speaks_for_it() {
    let scene = Scene::new();
    let mut command = scene.procyard_heeding_signals(["serve"]);
    command.env("PROCYARD_TOKEN", "secret-of-somebody").env("NOTIFY_SOCKET", "@nobody-is-there");
    let running = Running::spawn(&mut command);
    eventually("it listens", || scene.data_dir().join("procyard.sock").exists().then_some(()));
    let admin = procyard_client::Client::unix(scene.data_dir().join("procyard.sock"));
    let created = eventually("it answers", || block(admin.create_session(&CreateSession::default())).ok());
    let handle = start(&admin.with_token(&created.token), "env; echo end");
    assert_eq!(verb(&scene, "wait", &handle, &[]).code(), 0);
    let said = verb(&scene, "logs", &handle, &[]).stdout();
    assert!(said.ends_with("end\n"), "{said}");
    assert!(!said.contains("secret-of-somebody") && !said.contains("NOTIFY_SOCKET"), "{said}");
    running.signal(Signal::SIGTERM);
}
