//! The tier of PID namespaces: what is particular to it. Everything else of it is tried with the other tiers.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use libtest_mimic::Trial;
use nix::sys::signal::Signal as Number;
use procyard_core::{LeaderEnd, SIGKILL, WaitStatus};
use procyard_host::{HostOptions, HostRunner, TierChoice};
use procyard_runner::{
    CommandSpec, Process, ProcessRequest, Runner, RunnerErrorKind, Signal, SpawnFailure, Tier, TreeProof,
};
use tokio::io::AsyncReadExt;

use crate::leaks::children;
use crate::scene::{
    Recorded, Scene, assert_emptied, block_on, eventually, on_each_tier, on_tier, request, runner, start,
    within,
};

/// What a shim or an init may have to itself.
const PRIVATE_MAX: u64 = 1024 * 1024;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_tier(&Tier::PIDNS, "a_tree_is_alone_in_a_namespace_of_its_own", alone));
    trials.extend(on_tier(&Tier::PIDNS, "ids_niceness_and_scores_are_those_that_were_asked_for", limits));
    trials.extend(on_tier(
        &Tier::PIDNS,
        "a_command_that_kills_everybody_reaches_its_own_tree_only",
        kill_everybody,
    ));
    trials.extend(on_tier(&Tier::PIDNS, "signals_from_inside_do_nothing_to_the_init", signals_to_init));
    trials.extend(on_tier(&Tier::PIDNS, "a_stopped_init_goes_on", stopped_init));
    trials.extend(on_tier(&Tier::PIDNS, "a_killed_inits_tree_is_gone_and_proven_so", killed_init));
    trials.extend(on_tier(&Tier::PIDNS, "who_entered_from_outside_ends_with_the_tree", entered));
    trials.extend(on_tier(&Tier::PIDNS, "mounts_of_a_command_end_with_it_and_are_seen_nowhere_else", mounts));
    trials.push(Trial::test("a_namespace_that_is_refused_is_refused_in_words", || {
        refusals();
        Ok(())
    }));
    trials.push(Trial::test("a_report_tells_of_namespaces_only_when_asked", || {
        block_on(reports());
        Ok(())
    }));
    trials.extend(on_each_tier("what_watches_a_tree_is_small", small));
    trials
}

fn own_number() -> i32 {
    nix::unistd::getpid().as_raw()
}

fn link(pid: i32, namespace: &str) -> String {
    std::fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap().to_str().unwrap().to_owned()
}

/// The numbers of a process, ours first.
fn numbers(pid: i32) -> Vec<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
    numbers.split_ascii_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// The one that a shim is the parent of, below a guardian of ours.
fn leader_of(recorded: &[Recorded]) -> Recorded {
    let own = nix::unistd::getpid().as_raw();
    *recorded.iter().find(|one| one.parent_now().parent_now().parent == own).expect("a leader")
}

/// The init beside a leader.
fn init_beside(leader: &Recorded) -> Recorded {
    let siblings = children(leader.parent_now().pid);
    let [init] = siblings.iter().filter(|pid| **pid != leader.pid).collect::<Vec<_>>()[..] else {
        panic!("a shim has two children: {siblings:?}")
    };
    assert_eq!(numbers(*init)[1..], [1]);
    Recorded::of(*init).unwrap()
}

async fn begin(line: &str, records: usize) -> (HostRunner, Scene, Box<dyn Process>, Vec<Recorded>) {
    let runner = runner(&Tier::PIDNS).await;
    let scene = Scene::new();
    let process = start(&runner, scene.request(line)).await.unwrap();
    let recorded = scene.wait_for_records(records);
    (runner, scene, process, recorded)
}

async fn output(mut process: Box<dyn Process>) -> String {
    let mut text = String::new();
    within(process.take_stdout().unwrap().read_to_string(&mut text)).await.unwrap();
    text
}

async fn alone() {
    let (runner, scene, process, recorded) = begin(r#"bash -c "$STAY" & eval "$RECORD"; wait"#, 2).await;
    let leader = leader_of(&recorded);
    let init = init_beside(&leader);
    for one in recorded.iter().chain([&init]) {
        assert_ne!(link(one.pid, "pid"), link(own_number(), "pid"));
        assert_eq!(link(one.pid, "pid"), link(init.pid, "pid"));
    }
    assert_eq!(numbers(leader.pid)[1..], [2]);
    assert_eq!(link(leader.parent, "pid"), link(own_number(), "pid"), "the shim is outside");
    let root = nix::unistd::geteuid().is_root();
    assert_eq!(link(leader.pid, "user") == link(own_number(), "user"), root, "made only where it is needed");
    assert_eq!(std::fs::read_to_string(format!("/proc/{}/comm", init.pid)).unwrap(), "procyard-init\n");
    // No descriptor of the command, of the shim or of the guardian is kept open by it.
    let kept: Vec<_> = std::fs::read_dir(format!("/proc/{}/fd", init.pid)).unwrap().collect();
    assert_eq!(kept.len(), 5, "null three times, the pipe, the signals: {kept:?}");
    assert_eq!(within(process.tree()).await, TreeProof::Survivors(2), "the init is none of them");
    assert_eq!(within(process.close()).await, TreeProof::Empty);
    scene.assert_no_survivor();
    assert!(!init.is_alive());

    // It has its name a moment after its birth.
    let line =
        "until [ $(cat /proc/1/comm) = procyard-init ]; do :; done; cd /proc; echo [0-9]*; echo $$ $PPID";
    let process = start(&runner, request(CommandSpec::Shell(line.to_owned()))).await.unwrap();
    let seen = output(process).await;
    assert_eq!(seen, "1 2\n2 0\n", "nobody of outside");
}

async fn limits() {
    let runner = runner(&Tier::PIDNS).await;
    let line = "id -u; id -g; nice; cat /proc/self/oom_score_adj; touch made; stat -c %u:%g made";
    let scene = Scene::new();
    let mut wanted: ProcessRequest = request(CommandSpec::Shell(line.to_owned()));
    wanted.workdir = scene.directory.path().to_owned();
    wanted.limits.nice = Some(7);
    wanted.limits.oom_score_adj = Some(321);
    let seen = output(start(&runner, wanted).await.unwrap()).await;
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    assert_eq!(seen, format!("{user}\n{group}\n7\n321\n{user}:{group}\n"));
}

/// That it is in a namespace is asked by the command, too: outside it would reach everybody.
#[expect(clippy::disallowed_methods, reason = "somebody outside of every tree")]
async fn kill_everybody() {
    let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
    let line = r#"[ $PPID = 0 ] || exit 99
                  (setsid bash -c "$STAY" &); bash -c "$STAY" & until [ "$(wc -l <"$PIDS")" = 2 ]; do sleep 0.01; done
                  kill -KILL -1; exit 5"#;
    let (runner, scene, process, _) = begin(line, 2).await;
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(5)));
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
    assert_eq!(bystander.try_wait().unwrap(), None, "nobody outside was reached");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    let next = start(&runner, scene.request("exit 0")).await.unwrap();
    assert_emptied(&*next).await;
}

async fn signals_to_init() {
    let line = r#"for signal in TERM INT HUP QUIT SEGV CHLD USR1 RTMIN ABRT STOP TSTP KILL; do kill -s $signal 1; done
                  (bash -c "exit 3" &); eval "$STAY""#;
    let (_runner, scene, process, recorded) = begin(line, 1).await;
    let init = init_beside(&recorded[0]);
    // The orphan ends after the last signal, and is only reaped by an init that goes on.
    eventually("the orphan is reaped", || children(init.pid).is_empty().then_some(()));
    assert!(init.is_alive() && recorded[0].is_alive());
    assert_eq!(within(process.close()).await, TreeProof::Empty);
    scene.assert_no_survivor();
}

async fn stopped_init() {
    let line = r#"eval "$RECORD"; until [ -e "$PIDS.go" ]; do sleep 0.01; done; (setsid bash -c "$RECORD" &); exit 5"#;
    let (_runner, scene, process, recorded) = begin(line, 1).await;
    init_beside(&recorded[0]).signal(Number::SIGSTOP);
    std::fs::write(scene.pids().with_extension("go"), "").unwrap();
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(5)));
    assert_emptied(&*process).await;

    let (_runner, scene, process, recorded) = begin(r#"eval "$STAY""#, 1).await;
    init_beside(&recorded[0]).signal(Number::SIGSTOP);
    within(process.signal(Signal::Kill)).await.unwrap();
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
}

async fn killed_init() {
    let line = r#"(setsid bash -c "$STAY" &); trap "" TERM; eval "$STAY""#;
    let (_runner, scene, process, recorded) = begin(line, 2).await;
    let leader = leader_of(&recorded);
    init_beside(&leader).signal(Number::SIGKILL);
    assert_emptied(&*process).await;
    assert_eq!(within(process.wait()).await.status.unwrap().end(), LeaderEnd::Signal(SIGKILL));
    scene.assert_no_survivor();
}

/// A process that is none of the tree's and ends with it: its parent stays outside.
#[expect(clippy::disallowed_methods, reason = "somebody who enters a tree from outside")]
fn enter(leader: &Recorded, scene: &Scene) -> Option<Child> {
    let mut entering = Command::new("nsenter");
    entering.args(["--pid", "--target", &leader.pid.to_string()]);
    if !nix::unistd::geteuid().is_root() {
        entering.args(["--user", "--preserve-credentials"]);
    }
    entering.args(["bash", "-c", r#"eval "$STAY""#]).envs(scene.environment()).stdin(Stdio::null());
    entering.spawn().ok()
}

async fn entered() {
    for leader_stays in [true, false] {
        let line = r#"eval "$RECORD"; until [ -e "$PIDS.go" ]; do sleep 0.01; done"#;
        let (_runner, scene, process, recorded) = begin(line, 1).await;
        let stranger_scene = Scene::new();
        let Some(mut nsenter) = enter(&recorded[0], &stranger_scene) else {
            eprintln!("this machine has no nsenter");
            return;
        };
        let stranger = stranger_scene.wait_for_records(1)[0];
        assert_eq!(link(stranger.pid, "pid"), link(recorded[0].pid, "pid"));
        if leader_stays {
            within(process.signal(Signal::Kill)).await.unwrap();
        } else {
            std::fs::write(scene.pids().with_extension("go"), "").unwrap();
        }
        // The kernel proves it gone together with the rest, once its own parent has reaped it.
        nsenter.wait().unwrap();
        assert_emptied(&*process).await;
        scene.assert_no_survivor();
        stranger_scene.assert_no_survivor();
    }
}

async fn mounts() {
    let scene = Scene::new();
    let point = scene.pids().with_extension("at");
    std::fs::create_dir(&point).unwrap();
    let line = r#"mount -t tmpfs none "$PIDS.at" 2>/dev/null && touch "$PIDS.at/inside"; eval "$STAY""#;
    let runner = runner(&Tier::PIDNS).await;
    let process = start(&runner, scene.request(line)).await.unwrap();
    let leader = scene.wait_for_records(1)[0];
    let mounts = |process: &str| std::fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap();
    let is_seen = |process: &str| mounts(process).contains(point.to_str().unwrap());
    assert_eq!(is_seen(&leader.pid.to_string()), nix::unistd::geteuid().is_root());
    assert!(!is_seen("self"));
    assert!(!point.join("inside").exists());
    assert_eq!(within(process.close()).await, TreeProof::Empty);
    // Nothing keeps the directory busy.
    std::fs::remove_dir(&point).unwrap();
}

/// In a user namespace: says why there is no runner of this tier, or that there is one, and what it says when no more
/// namespaces can be made.
pub(crate) fn be_asker() {
    // This namespace's own, or else the machine's.
    let ids = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    assert_eq!(ids.split_ascii_whitespace().nth(2), Some("1"), "what is set here concerns nobody outside");
    let options = HostOptions { tier: TierChoice::Require(Tier::PIDNS), ..HostOptions::default() };
    block_on(async {
        match HostRunner::start(options).await {
            Ok(runner) => {
                let [guardian] = children(own_number())[..] else { panic!("one child: the guardian") };
                assert!(children(guardian).is_empty(), "nothing is left of trying");
                println!("there is one");
                std::fs::write("/proc/sys/user/max_pid_namespaces", "0").unwrap();
                println!("and then: {}", without_more(&runner).await);
            }
            Err(error) => println!("{error}"),
        }
    });
}

/// What a start says when no more namespaces can be made.
async fn without_more(runner: &HostRunner) -> String {
    let scene = Scene::new();
    let error = start(runner, scene.request(r#"eval "$RECORD""#)).await.err().unwrap();
    assert_eq!(error.kind(), RunnerErrorKind::Spawn(SpawnFailure::Exhausted));
    assert!(scene.recorded().is_empty(), "nothing was started");
    error.to_string()
}

/// Machines that refuse, made of user namespaces: what is set there concerns nobody outside.
#[expect(clippy::disallowed_methods, reason = "this program again, where namespaces are refused")]
fn refusals() {
    let surroundings = [
        ("", "there is one\nand then: "),
        (
            "echo 0 >/proc/sys/user/max_pid_namespaces &&",
            "no PID namespace can be made (No space left on device); the sysctls",
        ),
        (
            "mount -t tmpfs none /proc/sys && unshare --user --map-root-user --mount",
            "no /proc can be mounted for a new PID namespace (Operation not permitted); parts of",
        ),
    ];
    for (line, expect) in surroundings {
        let line = format!(r#"{line} "{}" as-asker"#, std::env::current_exe().unwrap().display());
        // Where these cannot be made at all, the tier cannot be tried either.
        let unshared = Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "--pid",
                "--fork",
                "--mount-proc",
                "bash",
                "-c",
                &line,
            ])
            .output();
        let output = unshared.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        if complained.contains("unshare failed") {
            eprintln!("this user may make no user namespace");
            return;
        }
        assert!(said.contains(expect), "{expect:?} in {said:?}, {complained}");
    }
}

async fn reports() {
    let tier = TierChoice::Require(Tier::SUBREAPER);
    let plain = HostRunner::start(HostOptions { tier, ..HostOptions::default() }).await.unwrap().report();
    assert!(plain.on_request.is_empty() && plain.unavailable.is_empty(), "{plain:?}");
    let asked =
        HostRunner::start(HostOptions { try_on_request: true, ..HostOptions::default() }).await.unwrap();
    let report = asked.report();
    assert_ne!(report.tier, Tier::PIDNS, "never chosen");
    let required = TierChoice::Require(Tier::PIDNS);
    match HostRunner::start(HostOptions { tier: required, ..HostOptions::default() }).await {
        Ok(runner) => {
            assert_eq!(report.on_request, [Tier::PIDNS]);
            assert_eq!(runner.report().tier, Tier::PIDNS);
            assert_eq!(runner.capabilities().tier, Some(Tier::PIDNS));
        }
        Err(error) => {
            assert!(report.on_request.is_empty());
            let (_, reason) = report.unavailable.iter().find(|(tier, _)| *tier == Tier::PIDNS).unwrap();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}

async fn small(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let process = start(&runner, scene.request(r#"bash -c "$STAY" & eval "$STAY""#)).await.unwrap();
    let recorded = scene.wait_for_records(2);
    let leader = leader_of(&recorded);
    // What counts work leaves behind counts, too.
    within(process.tree()).await;
    let mut watchers = vec![leader.parent];
    if tier == Tier::PIDNS {
        watchers.push(init_beside(&leader).pid);
    }
    for watcher in watchers {
        let private = private_bytes(watcher);
        assert!(private > 0 && private <= PRIVATE_MAX, "{private} bytes");
    }
    assert_eq!(within(process.close()).await, TreeProof::Empty);
}

fn private_bytes(pid: i32) -> u64 {
    let rollup =
        std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("smaps_rollup")).unwrap();
    let kibibytes = rollup
        .lines()
        .filter(|line| line.starts_with("Private_"))
        .map(|line| line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap());
    kibibytes.sum::<u64>() * 1024
}
