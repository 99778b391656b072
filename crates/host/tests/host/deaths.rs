//! The matrix of deaths: whoever of supervisor, guardian and shims is killed, the others end the tree.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::Signal as Number;
use procyard_host::{HostOptions, HostRunner, TierChoice};
use procyard_runner::{Process, Runner, Signal, Tier, TreeProof};

use crate::leaks::children;
use crate::scene::{
    Recorded, Scene, assert_emptied, block_on, eventually, on_each_tier, on_tier, request_at, runner, start,
    tier_named, within,
};

/// Descendants of every kind that is hard to end, and a leader that stays.
const TREE: &str = r#"eval "$RECORD"; (setsid bash -c 'trap "" TERM HUP INT; eval "$STAY"' &)
    (bash -c 'eval "$RECORD"; kill -STOP $$; sleep 1000' &)
    (setsid bash -c 'exec 0<&- 1>&- 2>&-; eval "$STAY"' &)
    (setsid "$THIS" as-leaderless &)
    nohup bash -c "$STAY" >/dev/null 2>&1 & disown; sleep 1000"#;
const TREE_RECORDS: usize = 6;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_each_tier("nothing_survives_a_killed_supervisor", |tier| async move {
        die(&tier, &[Part::Supervisor]);
    }));
    trials.extend(on_each_tier("nothing_survives_supervisor_and_shims_killed_at_once", |tier| async move {
        die(&tier, &[Part::Supervisor, Part::Shim]);
    }));
    trials.extend(on_each_tier(
        "nothing_survives_supervisor_and_guardian_killed_at_once",
        |tier| async move {
            die(&tier, &[Part::Supervisor, Part::Guardian]);
        },
    ));
    trials.extend(on_each_tier("the_next_start_ends_what_is_left_when_all_are_killed_at_once", all_at_once));
    trials.extend(on_tier(&Tier::PIDNS, "a_namespace_ends_by_itself_when_all_are_killed_at_once", by_itself));
    trials.extend(on_each_tier("stopped_guardian_and_shim_do_not_save_their_tree", stopped_parts));
    trials.extend(on_each_tier("a_stopped_shim_goes_on", stopped_shim));
    trials.extend(on_each_tier("a_stopped_guardian_goes_on_when_it_is_needed", stopped_guardian));
    trials.extend(on_each_tier("a_killed_shims_tree_is_ended_and_proven_by_the_guardian", killed_shim));
    trials.extend(on_each_tier(
        "a_killed_guardians_shims_end_their_trees_and_another_takes_over",
        killed_guardian,
    ));
    trials.extend(on_each_tier(
        "a_guardian_that_dies_between_prepare_and_start_is_replaced",
        dead_guardian_between_prepare_and_start,
    ));
    trials.extend(on_each_tier(
        "a_tree_that_nobody_can_vouch_for_is_never_called_empty",
        killed_shim_and_guardian,
    ));
    trials.extend(on_each_tier(
        "a_supervisor_that_adopts_ends_what_guardian_and_shims_killed_at_once_leave",
        adopting_supervisor,
    ));
    trials.extend(on_each_tier("a_held_lock_is_free_only_when_the_trees_are_gone", held_lock));
    trials
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Supervisor,
    Guardian,
    Shim,
}

/// A supervisor in a process of its own, to be killed.
pub(crate) struct Supervisor {
    child: Child,
    pub(crate) scene: Scene,
    lines: BufReader<std::process::ChildStdout>,
}

impl Supervisor {
    fn run(tier: &Tier, command_lines: &[impl AsRef<str>]) -> Self {
        Self::run_as("as-supervisor", tier, command_lines)
    }

    #[expect(clippy::disallowed_methods, reason = "a supervisor to be killed")]
    pub(crate) fn run_as(role: &str, tier: &Tier, command_lines: &[impl AsRef<str>]) -> Self {
        let scene = Scene::new();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([role, tier.as_str()])
            .envs(scene.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for line in command_lines {
            writeln!(stdin, "{}", line.as_ref().replace('\n', " ; ").replace("; ;", ";")).unwrap();
        }
        drop(stdin);
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut supervisor = Self { child, scene, lines };
        supervisor.expect("ready");
        supervisor
    }

    pub(crate) fn expect(&mut self, expected: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected);
    }

    pub(crate) fn recorded(&self) -> Recorded {
        Recorded::of(i32::try_from(self.child.id()).unwrap()).unwrap()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a process of its own: starts the command lines that it reads, says so, and stays.
pub(crate) fn be_supervisor(tier: &str) {
    let tier = tier_named(tier);
    let environment = crate::scene::environment(std::env::var_os("PIDS").unwrap().as_ref());
    let lines: Vec<_> = std::io::stdin().lines().map(Result::unwrap).collect();
    block_on(async {
        let runner = runner(&tier).await;
        let mut processes = Vec::new();
        for line in lines {
            processes.push(start(&runner, request_at(&line, &environment)).await.unwrap());
        }
        println!("ready");
        std::future::pending::<()>().await;
    });
}

/// In a process of its own: starts the command lines that it reads, and says of each when it is proven empty. A child
/// of its own stays.
#[expect(clippy::disallowed_methods, reason = "a child that is none of the runner's")]
pub(crate) fn be_adopter(tier: &str) {
    let tier = tier_named(tier);
    let environment = crate::scene::environment(std::env::var_os("PIDS").unwrap().as_ref());
    let mut own = Command::new("sleep").arg("1000").spawn().unwrap();
    block_on(async {
        let options =
            HostOptions { tier: TierChoice::Require(tier), adopt_orphans: true, ..HostOptions::default() };
        let runner = HostRunner::start(options).await.unwrap();
        let mut processes = Vec::new();
        for line in std::io::stdin().lines() {
            let wanted = request_at(&line.unwrap(), &environment);
            processes.push(start(&runner, wanted).await.unwrap());
        }
        println!("ready");
        for process in &processes {
            println!("{:?}", within(process.emptied()).await);
            within(process.wait()).await;
        }
        let next = start(&runner, request_at("exit 0", &[])).await.unwrap();
        println!("next {:?}", within(next.emptied()).await);
        within(runner.shutdown()).await;
        let living = own.try_wait().unwrap().is_none();
        println!("{}", if living { "own child lives" } else { "own child died" });
        own.kill().unwrap();
        own.wait().unwrap();
        println!("{:?}", children(std::process::id().cast_signed()));
    });
}

/// Kills them in one instant: all are stopped before the first dies. Named from the top: who is above continues what is
/// below.
pub(crate) fn kill_at_once(parts: &[Recorded]) {
    for part in parts {
        part.signal(Number::SIGSTOP);
    }
    for part in parts.iter().rev() {
        part.signal(Number::SIGKILL);
    }
}

/// The leader is the one recorded process whose parent is a shim: the others' parents are in the tree.
fn shim_and_guardian(recorded: &[Recorded]) -> (Recorded, Recorded) {
    let shim = recorded[0].parent_now();
    (shim, shim.parent_now())
}

fn parts_of(supervisor: &Supervisor, recorded: &[Recorded], parts: &[Part]) -> Vec<Recorded> {
    let (shim, guardian) = shim_and_guardian(recorded);
    assert_eq!(guardian.parent_now(), supervisor.recorded(), "supervisor, guardian, shim, leader");
    let part = |part: &Part| match part {
        Part::Supervisor => supervisor.recorded(),
        Part::Guardian => guardian,
        Part::Shim => shim,
    };
    parts.iter().map(part).collect()
}

pub(crate) fn all_gone(scene: &Scene) -> Option<()> {
    scene.recorded().iter().all(|process| !process.is_alive()).then_some(())
}

fn die(tier: &Tier, parts: &[Part]) {
    let supervisor = Supervisor::run(tier, &[TREE]);
    let recorded = supervisor.scene.wait_for_records(TREE_RECORDS);
    let (shim, guardian) = shim_and_guardian(&recorded);
    let doomed = parts_of(&supervisor, &recorded, parts);
    assert!(recorded.iter().all(Recorded::is_alive));
    let began = Instant::now();
    kill_at_once(&doomed);
    eventually("nothing survives", || all_gone(&supervisor.scene));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "within a second on an idle machine, not {took:?}");
    eventually("guardian and shim end, too", || (!shim.is_alive() && !guardian.is_alive()).then_some(()));
}

async fn all_at_once(tier: Tier) {
    if tier != Tier::CGROUP {
        // Without a cgroup nothing remembers whose they were. The leader at least dies with its shim, and a PID
        // namespace ends before anything else can start.
        return;
    }
    let supervisor = Supervisor::run(&tier, &[TREE]);
    let recorded = supervisor.scene.wait_for_records(TREE_RECORDS);
    kill_at_once(&parts_of(&supervisor, &recorded, &[Part::Supervisor, Part::Guardian, Part::Shim]));
    assert!(
        supervisor.scene.recorded().iter().any(Recorded::is_alive),
        "some are left, with nobody to end them"
    );
    // Also a start of another test sweeps.
    let next = runner(&tier).await;
    eventually("the sweep ends them", || all_gone(&supervisor.scene));
    next.shutdown().await;
}

async fn by_itself() {
    let supervisor = Supervisor::run(&Tier::PIDNS, &[TREE, TREE]);
    let recorded = supervisor.scene.wait_for_records(2 * TREE_RECORDS);
    assert!(recorded.iter().all(Recorded::is_alive));
    let (_, guardian) = shim_and_guardian(&recorded);
    let mut doomed = vec![supervisor.recorded(), guardian];
    let shims: Vec<_> = children(guardian.pid).into_iter().map(|shim| Recorded::of(shim).unwrap()).collect();
    doomed.extend(&shims);
    let inits: Vec<_> =
        shims.iter().flat_map(|shim| children(shim.pid)).map(|pid| Recorded::of(pid).unwrap()).collect();
    assert_eq!((shims.len(), inits.len()), (2, 4), "of each tree the init and the leader");
    let began = Instant::now();
    kill_at_once(&doomed);
    eventually("nothing survives", || recorded.iter().all(|one| !one.is_alive()).then_some(()));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    supervisor.scene.assert_no_survivor();
    // An init is gone when who inherited the leader, mostly the machine's init, has reaped it.
    eventually("nor do the inits", || inits.iter().all(|one| !one.is_alive()).then_some(()));
}

async fn stopped_shim(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#"eval "$RECORD"; until [ -e "$PIDS.go" ]; do sleep 0.01; done; exit 5"#;
    let process = start(&runner, scene.request(line)).await.unwrap();
    let (shim, _) = shim_and_guardian(&scene.wait_for_records(1));
    shim.signal(Number::SIGSTOP);
    std::fs::write(scene.pids().with_extension("go"), "").unwrap();
    assert_eq!(within(process.wait()).await.status.map(|status| status.0 >> 8), Some(5));
    assert_emptied(&*process).await;
}

async fn stopped_guardian(tier: Tier) {
    let (runner, scene, process, recorded) = begin(&tier).await;
    let (shim, guardian) = shim_and_guardian(&recorded);
    guardian.signal(Number::SIGSTOP);
    let next = start(&runner, scene.request("exit 0")).await.unwrap();
    assert_emptied(&*next).await;
    guardian.signal(Number::SIGSTOP);
    shim.signal(Number::SIGSTOP);
    assert_eq!(within(process.close()).await, TreeProof::Empty);
    scene.assert_no_survivor();
    guardian.signal(Number::SIGSTOP);
    within(runner.shutdown()).await;
    assert!(!guardian.is_alive());
}

async fn stopped_parts(tier: Tier) {
    let supervisor = Supervisor::run(&tier, &[TREE]);
    let recorded = supervisor.scene.wait_for_records(TREE_RECORDS);
    let (shim, guardian) = shim_and_guardian(&recorded);
    guardian.signal(Number::SIGSTOP);
    shim.signal(Number::SIGSTOP);
    supervisor.recorded().signal(Number::SIGKILL);
    eventually("nothing survives", || all_gone(&supervisor.scene));
    eventually("nor do they", || (!shim.is_alive() && !guardian.is_alive()).then_some(()));
}

async fn begin(tier: &Tier) -> (HostRunner, Scene, Box<dyn Process>, Vec<Recorded>) {
    let runner = runner(tier).await;
    let scene = Scene::new();
    let process = start(&runner, scene.request(TREE)).await.unwrap();
    let recorded = scene.wait_for_records(TREE_RECORDS);
    (runner, scene, process, recorded)
}

async fn killed_shim(tier: Tier) {
    let (runner, scene, process, recorded) = begin(&tier).await;
    let bystander_scene = Scene::new();
    let bystander = start(&runner, bystander_scene.request(TREE)).await.unwrap();
    let bystanders = bystander_scene.wait_for_records(TREE_RECORDS);
    shim_and_guardian(&recorded).0.signal(Number::SIGKILL);
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
    assert_eq!(within(process.wait()).await.status, None, "who should have collected it died");
    assert!(bystanders.iter().all(Recorded::is_alive), "another tree of the same guardian goes on");
    assert!(matches!(within(bystander.tree()).await, TreeProof::Survivors(_)));
    assert_eq!(within(bystander.close()).await, TreeProof::Empty);
    bystander_scene.assert_no_survivor();
}

async fn killed_guardian(tier: Tier) {
    let (runner, scene, process, recorded) = begin(&tier).await;
    shim_and_guardian(&recorded).1.signal(Number::SIGKILL);
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
    assert!(within(process.wait()).await.status.is_some(), "its shim lived and collected it");
    let next = start(&runner, scene.request("exit 0")).await.expect("another guardian takes over");
    assert_emptied(&*next).await;
}

async fn dead_guardian_between_prepare_and_start(tier: Tier) {
    let (runner, scene, process, recorded) = begin(&tier).await;
    let prepared = runner.prepare(scene.request("exit 9")).await.unwrap();
    let guardian = shim_and_guardian(&recorded).1;
    guardian.signal(Number::SIGKILL);
    // Not yet reaped, but dead.
    eventually("the guardian is dead", || (!guardian.is_alive()).then_some(()));
    let next = within(prepared.start()).await.expect("another guardian takes over");
    assert_eq!(within(next.wait()).await.status.map(|status| status.0 >> 8), Some(9));
    assert_emptied(&*process).await;
}

async fn killed_shim_and_guardian(tier: Tier) {
    let (_runner, scene, process, recorded) = begin(&tier).await;
    let (shim, guardian) = shim_and_guardian(&recorded);
    kill_at_once(&[guardian, shim]);
    let proof = within(process.emptied()).await;
    assert_eq!(proof, TreeProof::Unknown);
    assert_eq!(within(process.tree()).await, TreeProof::Unknown);
    assert_eq!(within(process.wait()).await.status, None);
    assert!(within(process.signal(Signal::Kill)).await.is_err());
    if tier == Tier::CGROUP {
        scene.assert_no_survivor();
    }
    if tier == Tier::PIDNS {
        eventually("the namespace ends by itself", || all_gone(&scene));
    }
    for left in scene.recorded() {
        left.signal(Number::SIGKILL);
    }
}

async fn adopting_supervisor(tier: Tier) {
    for doomed_shims in 1..=2 {
        let mut supervisor = Supervisor::run_as("as-adopter", &tier, &[TREE, TREE]);
        let recorded = supervisor.scene.wait_for_records(2 * TREE_RECORDS);
        let (_, guardian) = shim_and_guardian(&recorded);
        let shims = children(guardian.pid);
        assert_eq!(shims.len(), 2);
        let mut doomed = vec![guardian];
        doomed.extend(shims.iter().take(doomed_shims).map(|shim| Recorded::of(*shim).unwrap()));
        kill_at_once(&doomed);
        supervisor.expect("Empty");
        supervisor.expect("Empty");
        supervisor.scene.assert_no_survivor();
        supervisor.expect("next Empty");
        supervisor.expect("own child lives");
        // No zombie either.
        supervisor.expect("[]");
    }
}

async fn held_lock(tier: Tier) {
    let scene = Scene::new();
    let path = scene.directory.path().join("lock");
    let lock = std::fs::File::create(&path).unwrap();
    lock.try_lock().unwrap();
    let options =
        HostOptions { tier: TierChoice::Require(tier), held: vec![lock.into()], ..HostOptions::default() };
    let runner = HostRunner::start(options).await.unwrap();
    let process = start(&runner, scene.request(TREE)).await.unwrap();
    let recorded = scene.wait_for_records(TREE_RECORDS);
    let (_, guardian) = shim_and_guardian(&recorded);
    let probe = std::fs::File::open(&path).unwrap();
    // This process's own descriptor is closed: guardian and shim hold the lock.
    drop(runner);
    assert!(probe.try_lock().is_err(), "the tree lives");
    assert!(recorded.iter().all(Recorded::is_alive));
    // Now the shim alone holds it, until the tree is gone.
    guardian.signal(Number::SIGKILL);
    eventually("the lock is free", || probe.try_lock().ok());
    scene.assert_no_survivor();
    drop(process);
}
