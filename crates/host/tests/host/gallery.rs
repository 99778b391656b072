//! The escape gallery: what programs do to get out of a tree, and that none of it leaves a survivor.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::Signal as Number;
use procyard_runner::{CommandSpec, Signal, Tier, TreeProof};
use tokio::io::AsyncReadExt;

use crate::scene::{
    Recorded, Scene, assert_emptied, environment, eventually, on_each_tier, own_record, request, runner,
    start, within,
};

/// A way out: its name, the command line, how many processes record themselves, and how many of them a kill of the
/// leader's process group does not reach.
pub(crate) struct Escape {
    pub(crate) name: &'static str,
    pub(crate) line: &'static str,
    pub(crate) records: usize,
    pub(crate) escapes: usize,
}

const fn escape(name: &'static str, records: usize, escapes: usize, line: &'static str) -> Escape {
    Escape { name, line, records, escapes }
}

/// Ways out that every machine has.
pub(crate) const GALLERY: [Escape; 15] = [
    escape("a_background_job", 2, 0, r#"bash -c "$STAY" & eval "$STAY""#),
    escape("nohup", 2, 0, r#"nohup bash -c "$STAY" >/dev/null 2>&1 & eval "$STAY""#),
    escape("disown", 2, 0, r#"bash -c "$STAY" & disown; eval "$STAY""#),
    escape("setsid", 2, 1, r#"setsid bash -c "$STAY" & eval "$STAY""#),
    escape("a_double_fork_and_setsid", 2, 1, r#"(setsid bash -c "$STAY" &); eval "$STAY""#),
    escape(
        "a_daemon_with_all_descriptors_closed",
        2,
        1,
        r#"(setsid bash -c 'exec 0<&- 1>&- 2>&-; eval "$STAY"' &); eval "$STAY""#,
    ),
    escape(
        "one_that_ignores_polite_signals",
        2,
        1,
        r#"(setsid bash -c 'trap "" TERM HUP INT QUIT; eval "$STAY"' &); trap "" TERM; eval "$STAY""#,
    ),
    escape(
        "one_that_stops_itself",
        3,
        1,
        r#"stop() { eval "$RECORD"; kill -STOP $BASHPID; sleep 1000; }; export -f stop
           (bash -c stop &); (setsid bash -c stop &); eval "$STAY""#,
    ),
    escape("its_own_subreaper", 3, 2, r#"eval "$RECORD"; exec "$THIS" as-subreaper"#),
    escape("one_whose_first_thread_ends", 2, 1, r#"(setsid "$THIS" as-leaderless &); eval "$STAY""#),
    escape("another_process_group", 2, 1, r#"set -m; bash -c "$STAY" & eval "$STAY""#),
    escape("a_leader_that_exits_at_once", 2, 1, r#"(setsid bash -c "$STAY" &); bash -c "$STAY" & exit 0"#),
    escape(
        "a_grandchild_that_holds_the_output",
        1,
        1,
        r#"(setsid bash -c 'eval "$RECORD"; sleep 1000; echo late' &); exit 0"#,
    ),
    escape(
        "a_chain_of_orphans",
        20,
        0,
        r#"link() { eval "$RECORD"; if [ $1 -gt 0 ]; then (link $(($1 - 1))) & fi; sleep 1000; }; link 19"#,
    ),
    escape(
        "one_that_is_born_when_another_dies",
        2,
        0,
        r#"again() { eval "$RECORD"; trap "again" TERM EXIT; while :; do sleep 0.05; done; }; again & again"#,
    ),
];

/// Of which so many are seen before the kill comes.
pub(crate) const FORK_STORM: Escape = escape(
    "a_fork_storm",
    100,
    500,
    r#"for i in $(seq 500); do (trap "" TERM; setsid bash -c "$STAY" &); done; sleep 1000"#,
);

/// Ways out that need something of the machine; the first word is tried before.
pub(crate) const CONDITIONAL: [(&str, Escape); 3] = [
    (
        "unshare --user --map-root-user --pid --fork true",
        escape(
            "its_own_user_and_pid_namespace",
            2,
            1,
            r#"(setsid unshare --user --map-root-user --pid --fork bash -c "$STAY" &); eval "$STAY""#,
        ),
    ),
    (
        "unshare --pid --fork true",
        escape(
            "its_own_pid_namespace",
            2,
            1,
            r#"(setsid unshare --pid --fork bash -c "$STAY" &); eval "$STAY""#,
        ),
    ),
    (
        "script -qc true /dev/null",
        escape(
            "a_new_terminal",
            2,
            1,
            r#"(script -qc 'trap "" HUP; bash -c "$STAY"' /dev/null &); eval "$STAY""#,
        ),
    ),
];

/// With `FOREIGN`, a cgroup beside that of the tree.
pub(crate) const OTHER_CGROUP: Escape = escape(
    "one_that_moved_itself_to_another_cgroup",
    2,
    2,
    r#"(setsid bash -c 'echo 0 >"$FOREIGN/cgroup.procs" || exit; eval "$STAY"' &)
       (setsid bash -c 'eval "$STAY"' &) ; exit 0"#,
);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for escape in &GALLERY {
        trials.extend(on_each_tier(escape.name, move |tier| kill(tier, escape)));
    }
    trials.extend(on_each_tier(FORK_STORM.name, |tier| kill(tier, &FORK_STORM)));
    for (needs, escape) in &CONDITIONAL {
        trials.extend(on_each_tier(escape.name, move |tier| async move {
            if is_possible(&tier, needs).await {
                kill(tier, escape).await;
            } else {
                eprintln!("{}: this machine cannot `{needs}`", escape.name);
            }
        }));
    }
    trials.extend(on_each_tier(OTHER_CGROUP.name, other_cgroup));
    trials.extend(on_each_tier("a_nested_cgroup_of_the_command_is_removed", nested_cgroup));
    trials.push(Trial::test("the_gallery_escapes_a_plain_process_group", || {
        control();
        Ok(())
    }));
    trials
}

/// Whether a command of this tier can do that here.
pub(crate) async fn is_possible(tier: &Tier, needs: &str) -> bool {
    let runner = runner(tier).await;
    match start(&runner, request(CommandSpec::Shell(needs.to_owned()))).await {
        Ok(process) => within(process.wait()).await.status.is_some_and(|status| status.0 == 0),
        Err(_) => false,
    }
}

async fn kill(tier: Tier, escape: &Escape) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let mut process = start(&runner, scene.request(escape.line)).await.unwrap();
    let recorded = scene.wait_for_records(escape.records);
    assert!(recorded.iter().any(Recorded::is_alive), "something is there to be killed");
    assert!(matches!(within(process.tree()).await, TreeProof::Survivors(_)));
    within(process.signal(Signal::Kill)).await.unwrap();
    assert_emptied(&*process).await;
    // Also those that recorded themselves since.
    scene.assert_no_survivor();
    let mut rest = Vec::new();
    within(process.take_stdout().unwrap().read_to_end(&mut rest)).await.unwrap();
}

/// A cgroup beside ours, if this user can make one.
pub(crate) fn a_foreign_cgroup() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let point = mounts.lines().find_map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        (fields.get(2) == Some(&"cgroup2")).then(|| PathBuf::from(fields[1]))
    })?;
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/").map(str::to_owned))?;
    let path = point.join(own).join(format!("foreign-{:x}", rand::random::<u64>()));
    std::fs::create_dir(&path).ok().map(|()| path)
}

async fn other_cgroup(tier: Tier) {
    let Some(foreign) = a_foreign_cgroup() else {
        eprintln!("this user cannot move itself to another cgroup");
        return;
    };
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let mut wanted = scene.request(OTHER_CGROUP.line);
    wanted.environment.changes.insert("FOREIGN".into(), Some(foreign.clone().into()));
    let process = start(&runner, wanted).await.unwrap();
    within(process.wait()).await;
    scene.wait_for_records(OTHER_CGROUP.records);
    assert_eq!(std::fs::read_to_string(foreign.join("cgroup.procs")).unwrap().lines().count(), 1);
    assert_eq!(within(process.tree()).await, TreeProof::Survivors(2));
    within(process.signal(Signal::Kill)).await.unwrap();
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
    eventually("the foreign cgroup is empty", || std::fs::remove_dir(&foreign).ok());
}

async fn nested_cgroup(tier: Tier) {
    if tier != Tier::CGROUP {
        return;
    }
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#"point=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
                  own=$point$(sed -n 's/^0:://p' /proc/self/cgroup)
                  echo "$own" >"$PIDS.own"; mkdir -p "$own/a/b" || exit 1
                  bash -c 'echo 0 >"$0/a/b/cgroup.procs" || exit; eval "$STAY"' "$own" & eval "$STAY""#;
    let process = start(&runner, scene.request(line)).await.unwrap();
    scene.wait_for_records(2);
    let own = std::fs::read_to_string(scene.pids().with_extension("own")).unwrap();
    assert!(std::path::Path::new(own.trim()).join("a/b").exists());
    let delivery = within(process.signal(Signal::Terminate)).await.unwrap();
    assert_eq!(delivery.processes, 2, "also the one in the nested cgroup");
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
    assert!(!std::path::Path::new(own.trim()).exists(), "its leaf is removed with what is below");
}

/// A gallery that nothing can escape from proves nothing: of each item so many outlive a kill of the leader's process
/// group as it says.
fn control() {
    for escape in GALLERY.iter().chain([&FORK_STORM]) {
        escapes(escape, None);
    }
    for (needs, escape) in &CONDITIONAL {
        if in_a_plain_group(needs, &Scene::new(), None).wait().unwrap().success() {
            escapes(escape, None);
        }
    }
    if let Some(foreign) = a_foreign_cgroup() {
        escapes(&OTHER_CGROUP, Some(&foreign));
        eventually("the foreign cgroup is empty", || std::fs::remove_dir(&foreign).ok());
    }
}

#[expect(clippy::disallowed_methods, reason = "the control is a process without a runner")]
fn in_a_plain_group(line: &str, scene: &Scene, foreign: Option<&Path>) -> std::process::Child {
    use std::os::unix::process::CommandExt;
    std::process::Command::new("bash")
        .args(["-c", line])
        .envs(environment(&scene.pids()))
        .envs(foreign.map(|foreign| ("FOREIGN", foreign)))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

fn escapes(escape: &Escape, foreign: Option<&Path>) {
    let scene = Scene::new();
    let mut leader = in_a_plain_group(escape.line, &scene, foreign);
    let recorded = scene.wait_for_records(escape.records.max(escape.escapes));
    let group = nix::unistd::Pid::from_raw(i32::try_from(leader.id()).unwrap());
    // It is not reaped yet, so the number is its group's; with nobody in it there is nobody to kill.
    let _ = nix::sys::signal::killpg(group, Number::SIGKILL);
    leader.wait().unwrap();
    let alive = || recorded.iter().filter(|process| process.is_alive()).collect::<Vec<_>>();
    eventually(escape.name, || (alive().len() <= escape.escapes).then_some(()));
    assert_eq!(alive().len(), escape.escapes, "{}", escape.name);
    eventually("what escaped is ended by its number", || {
        for process in alive() {
            end_with_its_group(process);
        }
        alive().is_empty().then_some(())
    });
}

/// Its children are in its group, and not all recorded themselves.
fn end_with_its_group(process: &Recorded) {
    let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(process.pid)));
    if let Some(group) = group.ok().filter(|group| *group != nix::unistd::getpgrp()) {
        let _ = nix::sys::signal::killpg(group, Number::SIGKILL);
    }
    process.signal(Number::SIGKILL);
}

/// A process that adopts what its children leave, as init systems and some test tools do.
#[expect(clippy::disallowed_methods, reason = "this is what a command does, inside of the tree")]
pub(crate) fn be_subreaper() {
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    for _ in 0..2 {
        std::process::Command::new("bash").args(["-c", r#"(setsid bash -c "$STAY" &)"#]).status().unwrap();
    }
    std::thread::sleep(Duration::from_secs(1000));
}

/// A process whose first thread ends while another stays: a zombie by its state, and alive.
#[expect(unsafe_code, reason = "no safe call ends the first thread alone")]
pub(crate) fn be_leaderless() -> ! {
    std::thread::spawn(|| {
        let line = eventually("the first thread has ended", || {
            let line = own_record();
            line.contains(") Z ").then_some(line)
        });
        let record = std::fs::File::options().append(true).open(std::env::var_os("PIDS").unwrap());
        record.unwrap().write_all(line.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_secs(1000));
    });
    // SAFETY: no memory is passed; the thread's stack stays, and the other thread uses nothing of it.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("exit(2) does not return")
}
