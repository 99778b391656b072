//! `procyard doctor`, and what it says put to the test for a user without privileges.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::recorded::ESCAPE;
use crate::running::Running;
use crate::scene::{PROCYARD, Scene};

/// `nobody`, by convention.
const UID: u32 = 65534;

#[test]
fn it_says_what_there_is_and_exits_0_where_commands_can_be_contained() {
    let scene = Scene::new();
    let ended = Running::spawn(&mut scene.procyard(["doctor"])).wait();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let text = ended.stdout();
    assert!(tier(&text) == "cgroup" || tier(&text) == "subreaper", "{text}");
    for subject in [
        "procyard",
        "kernel",
        "memory limit",
        "process limit",
        "signal scope",
        "terminals",
        "data directory",
        "limits",
    ] {
        assert!(text.lines().any(|line| line.starts_with(subject)), "{subject} in {text}");
    }
    assert!(
        text.contains("pidns is to be had on request") || text.contains("pidns is not to be had"),
        "{text}"
    );
    assert!(text.contains(&format!("{} (writable)", scene.data_dir().display())), "{text}");
    assert!(ended.stderr.is_empty(), "{}", ended.stderr());
    assert!(!scene.data_dir().exists(), "it only looks");
}

#[test]
fn a_data_directory_that_cannot_be_one_is_told() {
    let scene = Scene::new();
    let ended = Running::spawn(&mut scene.procyard(["doctor", "--data-dir", "/etc/passwd/procyard"])).wait();
    assert!(ended.stdout().contains("/etc/passwd is not a directory"), "{}", ended.stdout());
    assert_eq!(ended.code(), 1, "no session can be kept there");
}

#[test]
fn what_a_service_refuses_is_not_called_fit() {
    let scene = Scene::new();
    std::fs::create_dir(scene.data_dir()).unwrap();
    std::fs::set_permissions(scene.data_dir(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    for verb in ["doctor", "serve"] {
        let ended = Running::spawn(&mut scene.procyard([verb])).wait();
        assert_ne!(ended.code(), 0, "{ended:?}");
        let said = ended.stdout() + &ended.stderr();
        assert!(said.contains("others can write to") && said.contains("chmod go-w"), "{said}");
    }
    let ended = Running::spawn(&mut scene.procyard(["doctor"])).wait();
    assert_eq!(ended.code(), 1, "{ended:?}");
    std::fs::set_permissions(scene.data_dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(Running::spawn(&mut scene.procyard(["doctor"])).wait().code(), 0);
}

#[test]
fn a_data_directory_that_is_a_link_to_nothing_is_not_called_writable() {
    let scene = Scene::new();
    std::os::unix::fs::symlink(scene.path().join("nothing"), scene.data_dir()).unwrap();
    let ended = Running::spawn(&mut scene.procyard(["doctor"])).wait();
    let place = format!("{} is not a directory", scene.data_dir().display());
    assert!(ended.code() == 1 && ended.stdout().contains(&place), "{ended:?}");
    assert_eq!(scene.run(["true"]).code(), 125, "as it said");
}

#[test]
fn a_data_directory_that_takes_no_bytes_is_not_called_writable() {
    let scene = Scene::new();
    std::fs::create_dir(scene.data_dir()).unwrap();
    for (json, expect) in [(false, "ulimit -f"), (true, "\"possible\":false,\"why\":\"not writable")] {
        // A limit that a file is over with its first byte is the full disk that needs no privileges.
        let mut command = scene.command("sh");
        command.args(["-c", "ulimit -f 0; exec \"$PROCYARD\" doctor \"$@\"", "sh"]);
        let ended = Running::spawn(command.args(json.then_some("--json"))).wait();
        assert_eq!(ended.code(), 1, "{ended:?}");
        assert!(ended.stdout().contains("65536 bytes cannot be written"), "{}", ended.stdout());
        assert!(ended.stdout().contains(expect), "{}", ended.stdout());
    }
    assert_eq!(std::fs::read_dir(scene.data_dir()).unwrap().count(), 0, "it leaves nothing");
}

#[test]
fn a_full_disk_and_a_read_only_one_are_told_with_what_to_do_next() {
    let scene = Scene::new();
    std::fs::create_dir(scene.data_dir()).unwrap();
    let apart = |line: &str| {
        let mut command = scene.command("unshare");
        Running::spawn(command.args(["--user", "--map-root-user", "--mount", "sh", "-c", line])).wait()
    };
    if !apart("mount -t tmpfs none \"$PROCYARD_DATA\"").status.success() {
        eprintln!("SKIPPED: this machine lets no test make a mount namespace");
        return;
    }
    let full = "mount -t tmpfs -o size=64k none \"$PROCYARD_DATA\" && echo x > \"$PROCYARD_DATA/ballast\" && exec \"$PROCYARD\" doctor";
    let read_only = "mount -t tmpfs -o ro none \"$PROCYARD_DATA\" && exec \"$PROCYARD\" doctor";
    for (line, why, next) in [
        (full, "(full: 65536 bytes cannot be written in ", "make room, for example with `procyard gc`"),
        (read_only, "(not writable: no file can be made in ", "name another directory with --data-dir"),
    ] {
        let ended = apart(line);
        let text = ended.stdout();
        assert_eq!(ended.code(), 1, "{ended:?}");
        assert!(text.contains(why) && text.contains(next), "{text}");
    }
}

#[test]
fn a_reader_that_is_gone_is_no_reason_to_fall_over() {
    let scene = Scene::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = scene.procyard(["doctor"]);
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    let ended = Running::spawn_as_is(&mut command).wait();
    assert_eq!((ended.code(), ended.stderr().as_str()), (0, ""));
}

#[test]
fn an_ordinary_user_gets_commands_that_cannot_escape() {
    if !nix::unistd::geteuid().is_root() {
        // Then every other test here is that of an ordinary user.
        return;
    }
    let scene = Scene::new();
    // The program may lie where only root can look.
    let program = scene.path().join("procyard");
    std::fs::copy(PROCYARD, &program).unwrap();
    for (path, mode) in [(scene.path(), 0o777), (&program, 0o755), (&scene.path().join("pids"), 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let as_nobody = |arguments: &[&str]| {
        let mut command = as_user(scene.command(&program));
        Running::spawn(command.args(arguments)).wait()
    };
    let ended = as_nobody(&["doctor"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    let text = ended.stdout();
    assert!(tier(&text) == "cgroup" || tier(&text) == "subreaper", "{text}");

    if text.lines().any(|line| line.starts_with("memory limit") && line.contains("not enforced: ")) {
        assert!(text.contains("to limit, run in"), "what would make it better: {text}");
        let ended = as_nobody(&["run", "--memory-max", "64M", "exit 3"]);
        assert_eq!(ended.code(), 3, "{ended:?}");
        assert!(ended.stderr().contains("the memory limit is not enforced: "), "{}", ended.stderr());
    }
    let ended = as_nobody(&["run", "--nice=-5", "true"]);
    assert_eq!(ended.code(), 125, "{ended:?}");
    assert!(ended.stderr().contains("so low a niceness"), "{}", ended.stderr());

    let line = format!("{ESCAPE}; while ! [ -s \"$PIDS\" ]; do :; done; id -u");
    let ended = as_nobody(&["run", &line]);
    scene.assert_no_survivor();
    assert_eq!((ended.code(), ended.stdout()), (0, format!("{UID}\n")), "{}", ended.stderr());
    assert!(ended.summary().ends_with("1 process that outlived it was ended"), "{}", ended.summary());
    assert!(scene.sessions().is_empty());
}

fn as_user(mut command: Command) -> Command {
    command.uid(UID).gid(UID);
    command
}

/// The tier that a report names.
fn tier(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("containment")).unwrap_or_default();
    line.trim_start().split(':').next().unwrap_or_default()
}
