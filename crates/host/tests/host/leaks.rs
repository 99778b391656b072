//! What many starts of every kind leave behind: nothing, in the supervisor, its guardian, and the machine.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::Signal as Number;
use procyard_host::HostRunner;
use procyard_runner::{
    CommandSpec, Process, ProcessRequest, Runner, RunnerErrorKind, Signal, SpawnFailure, StdinMode,
    TerminalSize, Tier, TreeProof,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::scene::{Recorded, Scene, eventually, on_each_tier, request, runner, start, tier_named, within};

/// Starts on each tier.
const STARTS: usize = 2000;
/// Starts at the same time.
const LANES: usize = 4;
/// How often the guardian is killed meanwhile.
const DEATHS: usize = 4;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = on_each_tier("two_thousand_starts_of_every_kind_leave_nothing", many_starts);
    trials.extend(on_each_tier("a_shim_has_less_than_a_mebibyte_of_its_own", shim_memory));
    trials
}

/// In a process of its own, where nobody else opens descriptors.
#[expect(clippy::disallowed_methods, reason = "this program again, alone")]
async fn many_starts(tier: Tier) {
    let status =
        Command::new(std::env::current_exe().unwrap()).args(["as-starter", tier.as_str()]).status().unwrap();
    assert!(status.success());
}

/// The children of all threads of a process, dead ones that nobody reaped included.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let lists = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| {
        // A thread of a runtime may end meanwhile; its children then are another's.
        std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()
    });
    lists.collect::<String>().split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// What the descriptors of a process are.
fn descriptors(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    // The one that reads the folder is gone when it is looked at.
    let target = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
    entries.filter_map(|entry| Some(target(entry)?.to_str()?.to_owned())).collect()
}

/// What is counted. Other programs of the machine are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Count {
    descriptors: usize,
    terminals: usize,
    children: usize,
    of_guardian: usize,
    leaves: usize,
}

/// The guardian and the cgroup directory that it holds.
struct Guardian {
    process: Recorded,
    base: Option<String>,
}

impl Guardian {
    fn of(own: i32) -> Self {
        let found = || children(own).into_iter().filter_map(Recorded::of).find(Recorded::is_alive);
        let process = eventually("there is a guardian", found);
        // Deleted ones are those of its predecessor, of which it has none.
        let base = descriptors(process.pid).into_iter().find(|target| target.contains("/procyard-"));
        Self { process, base }
    }

    fn leaves(&self) -> usize {
        let Some(base) = &self.base else { return 0 };
        let entries = std::fs::read_dir(base).unwrap().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).count()
    }

    fn count(&self, own: i32) -> Count {
        let descriptors_of_own = descriptors(own);
        let is_terminal = |target: &&String| target.contains("/ptmx") || target.contains("/pts/");
        Count {
            terminals: descriptors_of_own.iter().filter(is_terminal).count(),
            descriptors: descriptors_of_own.len(),
            children: children(own).len(),
            of_guardian: descriptors(self.process.pid).len(),
            leaves: self.leaves(),
        }
    }
}

/// In a process of its own: so many starts, and then what was there before.
pub(crate) fn be_starter(tier: &str) {
    let tier = tier_named(tier);
    // Threads that block are kept for a while after their work; there is one at most.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().max_blocking_threads(1).build().unwrap().block_on(async {
        let began = Instant::now();
        let own = i32::try_from(std::process::id()).unwrap();
        let runner = runner(&tier).await;
        let scene = Arc::new(Scene::new());
        // Whatever is made once and kept is made by now.
        starts(&runner, &scene, 2 * KINDS).await;
        let before = settled(own, &scene, None).await;
        for _ in 0..DEATHS {
            starts(&runner, &scene, STARTS / (DEATHS + 1)).await;
            settled(own, &scene, Some(&before)).await;
            kill_guardian(&runner, &scene, own).await;
        }
        starts(&runner, &scene, STARTS - STARTS / (DEATHS + 1) * DEATHS).await;
        let after = settled(own, &scene, Some(&before)).await;
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        assert!(threads <= 2, "{threads} threads");
        eprintln!("{tier}: {STARTS} starts in {:.1?}; before and after: {after:?}", began.elapsed());
        let base = Guardian::of(own).base;
        within(runner.shutdown()).await;
        assert_eq!(children(own), [0; 0], "the guardian is reaped");
        assert!(base.is_none_or(|base| !std::path::Path::new(&base).exists()), "its cgroup is removed");
    });
}

/// Waits until nothing is left of what was started; the count then is the one from before.
async fn settled(own: i32, scene: &Scene, before: Option<&Count>) -> Count {
    let guardian = Guardian::of(own);
    eventually("shims end and are reaped", || children(guardian.process.pid).is_empty().then_some(()));
    eventually("no descendant lives", || {
        scene.recorded().iter().all(|process| !process.is_alive()).then_some(())
    });
    // Aborted tasks give their sockets back when they are next looked at.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let now = guardian.count(own);
        let is_settled = match before {
            Some(before) => now == *before,
            None => (now.leaves, now.children, now.terminals) == (0, 1, 0),
        };
        if is_settled {
            return now;
        }
        assert!(Instant::now() < deadline, "before {before:?}, now {now:?}: {:?}", descriptors(own));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// With trees that it has to leave; the next start has another.
async fn kill_guardian(runner: &HostRunner, scene: &Scene, own: i32) {
    let recorded = scene.recorded().len();
    let orphan = start(runner, scene.request(r#"(setsid bash -c "$STAY" &); eval "$STAY""#)).await.unwrap();
    scene.wait_for_records(recorded + 2);
    let guardian = Guardian::of(own);
    guardian.process.signal(Number::SIGKILL);
    assert_eq!(within(orphan.emptied()).await, TreeProof::Empty);
    let next = start(runner, argv(&["true"])).await.unwrap();
    assert_eq!(within(next.emptied()).await, TreeProof::Empty);
    if let Some(base) = guardian.base {
        within(async {
            while std::path::Path::new(&base).exists() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
}

async fn starts(runner: &HostRunner, scene: &Arc<Scene>, count: usize) {
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let (runner, scene) = (runner.clone(), Arc::clone(scene));
        lanes.spawn(async move {
            for number in (lane..count).step_by(LANES) {
                one(&runner, &scene, number).await;
            }
        });
    }
    while let Some(ended) = lanes.join_next().await {
        ended.unwrap();
    }
}

fn argv(words: &[&str]) -> ProcessRequest {
    request(CommandSpec::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
}

fn on_terminal(words: &[&str]) -> ProcessRequest {
    ProcessRequest { terminal: Some(TerminalSize::default()), ..argv(words) }
}

async fn living(runner: &HostRunner, wanted: ProcessRequest) -> Box<dyn Process> {
    start(runner, wanted).await.unwrap()
}

async fn fails(runner: &HostRunner, wanted: ProcessRequest, expect: SpawnFailure) {
    let error = start(runner, wanted).await.err().unwrap();
    assert_eq!(error.kind(), RunnerErrorKind::Spawn(expect));
}

const KINDS: usize = 16;

/// One start; the number says of which kind.
async fn one(runner: &HostRunner, scene: &Scene, number: usize) {
    let stay = &["sleep", "1000"][..];
    match number % KINDS {
        0 => {
            let process = living(runner, argv(&["true"])).await;
            within(process.wait()).await;
            assert_eq!(within(process.close()).await, TreeProof::Empty);
        }
        1 => {
            let wanted = ProcessRequest { stdin: StdinMode::Open, ..argv(&["cat"]) };
            let mut process = living(runner, wanted).await;
            let (mut input, mut output) = (process.take_stdin().unwrap(), process.take_stdout().unwrap());
            within(input.write_all(b"typed")).await.unwrap();
            drop(input);
            let mut text = String::new();
            within(output.read_to_string(&mut text)).await.unwrap();
            assert_eq!(text, "typed");
        }
        2 => {
            // Its input is never taken.
            let wanted = ProcessRequest { stdin: StdinMode::Open, ..argv(&["false"]) };
            within(living(runner, wanted).await.wait()).await;
        }
        3 => {
            let mut process = living(runner, on_terminal(&["echo", "shown"])).await;
            let mut output = Vec::new();
            within(process.take_stdout().unwrap().read_to_end(&mut output)).await.unwrap();
            assert_eq!(output, b"shown\r\n");
        }
        4 => {
            let process = living(runner, on_terminal(stay)).await;
            within(process.resize(TerminalSize { rows: 9, cols: 9 })).await.unwrap();
            within(process.signal(Signal::Interrupt)).await.unwrap();
            drop(process);
        }
        5 => {
            let process = living(runner, on_terminal(stay)).await;
            within(process.signal(Signal::Kill)).await.unwrap();
            assert_eq!(within(process.emptied()).await, TreeProof::Empty);
        }
        6 => fails(runner, argv(&["no-such-program-anywhere"]), SpawnFailure::NotFound).await,
        7 => fails(runner, on_terminal(&["/usr"]), SpawnFailure::PermissionDenied).await,
        8 => {
            let workdir = scene.directory.path().join("deleted");
            fails(runner, ProcessRequest { workdir, ..argv(stay) }, SpawnFailure::Workdir).await;
        }
        9 => {
            let wanted = if (number / KINDS).is_multiple_of(2) { argv(stay) } else { on_terminal(stay) };
            let starting = runner.prepare(wanted).await.unwrap().start();
            // Dropped at some point of it, or as a process.
            let point = Duration::from_micros(u64::try_from(number % 23).unwrap() * 100);
            let _ = tokio::time::timeout(point, starting).await;
        }
        10 => drop(runner.prepare(on_terminal(stay)).await.unwrap()),
        11 => {
            let process = living(runner, argv(stay)).await;
            within(process.signal(Signal::Terminate)).await.unwrap();
            within(process.wait()).await;
        }
        12 => {
            let process = living(runner, argv(stay)).await;
            within(process.signal(Signal::Interrupt)).await.unwrap();
            within(process.wait()).await;
        }
        13 => {
            let process = living(runner, argv(stay)).await;
            let ended = tokio::time::timeout(Duration::from_millis(1), process.wait()).await;
            assert!(ended.is_err(), "it is dropped when its time is over");
        }
        14 => {
            let line = r#"(setsid bash -c "$STAY" &); exit 0"#;
            let process = living(runner, scene.request(line)).await;
            within(process.wait()).await;
            drop(process);
        }
        _ => {
            let line = r#"(bash -c "$STAY" &); exit 0"#;
            let mut process = living(runner, scene.request(line)).await;
            drop(process.take_stdout());
            within(process.wait()).await;
            assert_eq!(within(process.close()).await, TreeProof::Empty);
        }
    }
}

/// Bytes that a process shares with nobody.
fn private_memory(process: &Recorded) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)).unwrap();
    let kibibytes = |line: &str| -> u64 { line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap() };
    rollup.lines().filter(|line| line.starts_with("Private_")).map(kibibytes).sum::<u64>() * 1024
}

async fn shim_memory(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    // A guardian that has done much has no more to hand on.
    for _ in 0..30 {
        let process = start(&runner, argv(&["true"])).await.unwrap();
        assert_eq!(within(process.emptied()).await, TreeProof::Empty);
    }
    let mut wanted = scene.request(r#"eval "$RECORD"; bash -c "$STAY" & sleep 1000"#);
    // Long arguments are the shim's only until the leader has them.
    wanted.environment.changes.insert("LONG".into(), Some("x".repeat(100_000).into()));
    let process = start(&runner, wanted).await.unwrap();
    let recorded = scene.wait_for_records(2);
    assert!(matches!(within(process.tree()).await, TreeProof::Survivors(_)), "it has looked through a tree");
    let bytes = private_memory(&recorded[0].parent_now());
    assert!(bytes > 0, "there is something to be measured");
    assert!(bytes <= 1024 * 1024, "{bytes} bytes");
    assert_eq!(within(process.close()).await, TreeProof::Empty);
}
