//! Caps on what a command may take, and what is told of them. Those that need a controller of cgroups are ignored where none
//! can be used.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use libtest_mimic::Trial;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::Signal as Number;
use procyard_core::{EffectiveLimits, Enforcement, ErrorCode, LeaderEnd, SIGKILL, WaitStatus};
use procyard_host::{CgroupVersion, ContainmentReport, HostOptions, HostRunner, OomScoreRaise, TierChoice};
use procyard_runner::{
    Process, ProcessRequest, ResourceLimits, Runner, RunnerErrorKind, Signal, Tier, TreeProof,
};
use tokio::io::AsyncReadExt;

use crate::deaths::kill_at_once;
use crate::scene::{
    Recorded, Scene, assert_emptied, block_on, eventually, on_each_tier, request_at, runner, start,
    tier_named, within,
};

/// What commands may take where memory is limited; the test program needs a few.
const MEMORY_MAX: u64 = 48 << 20;

static REPORT: LazyLock<ContainmentReport> = LazyLock::new(|| {
    block_on(async {
        let runner = HostRunner::start(HostOptions::default()).await.unwrap();
        let report = runner.report();
        runner.shutdown().await;
        report
    })
});

/// Trials that say that they were ignored where something cannot be tried.
pub(crate) fn where_possible(possible: bool, trials: Vec<Trial>) -> Vec<Trial> {
    trials.into_iter().map(|trial| trial.with_ignored_flag(!possible)).collect()
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let memory = REPORT.memory_limit.is_ok();
    let mut limited = Vec::new();
    limited.extend(on_each_tier("a_leader_over_its_memory_limit_is_killed_and_it_is_told", leader_eats));
    limited.extend(on_each_tier("a_descendant_over_the_memory_limit_is_counted", descendant_eats));
    limited.extend(on_each_tier("a_tree_within_its_memory_limit_goes_on", within_limit));
    limited.extend(on_each_tier("all_of_a_tree_shares_one_memory_limit", shared_limit));
    trials.extend(where_possible(memory, limited));
    let one = REPORT.memory_limit == Ok(CgroupVersion::One) && REPORT.process_limit == Ok(CgroupVersion::One);
    let mut version_1 = Vec::new();
    version_1.extend(on_each_tier("cgroups_of_version_1_go_with_their_tree", groups_go));
    version_1
        .extend(on_each_tier("cgroups_of_version_1_go_with_a_killed_shims_tree", groups_go_without_shim));
    version_1.extend(on_each_tier(
        "cgroups_of_version_1_are_swept_when_guardian_and_shim_are_killed_at_once",
        groups_go_without_guardian,
    ));
    version_1
        .extend(on_each_tier("abandoned_cgroups_of_version_1_are_swept_by_the_next_start", groups_are_swept));
    version_1.extend(on_each_tier("what_leaves_its_cgroup_of_version_1_is_still_contained", mover));
    trials.extend(where_possible(one, version_1));
    let processes = on_each_tier("forks_over_the_process_limit_fail", forks);
    trials.extend(where_possible(REPORT.process_limit.is_ok(), processes));
    let refused = on_each_tier("what_cannot_be_limited_runs_and_says_so", not_enforced);
    trials.extend(where_possible(REPORT.memory_limit.is_err(), refused));
    trials.extend(on_each_tier("a_command_without_limits_is_in_no_cgroup_for_them", unlimited));
    trials.extend(on_each_tier("a_command_is_ended_before_its_supervisor_when_memory_runs_out", oom_score));
    trials.extend(on_each_tier("core_dumps_are_off_unless_they_are_kept", core_dumps));
    trials.extend(on_each_tier("niceness_is_set_or_refused_in_words", niceness));
    trials
}

fn limits(memory_max: Option<u64>, pids_max: Option<u32>) -> ResourceLimits {
    ResourceLimits { memory_max, pids_max, ..ResourceLimits::default() }
}

fn limited(scene: &Scene, line: &str, limits: ResourceLimits) -> ProcessRequest {
    ProcessRequest { limits, ..scene.request(line) }
}

async fn printed(process: &mut dyn Process) -> String {
    let mut text = String::new();
    let mut stdout = process.take_stdout().unwrap();
    within(stdout.read_to_string(&mut text)).await.unwrap();
    text
}

async fn code_of(process: &dyn Process) -> LeaderEnd {
    within(process.wait()).await.status.unwrap().end()
}

/// Takes so many MiB for real, and says so.
pub(crate) fn be_eater(mebibytes: &str) {
    let taken = vec![1_u8; mebibytes.parse::<usize>().unwrap() << 20];
    println!("took {}", std::hint::black_box(&taken).len() >> 20);
}

/// Starts up to so many children at the same time, and says how many there could be.
#[expect(clippy::disallowed_methods, reason = "forks, to be refused")]
pub(crate) fn be_forker(wanted: &str) {
    let wanted: usize = wanted.parse().unwrap();
    let mut children = Vec::new();
    let refused = loop {
        if children.len() == wanted {
            break None;
        }
        match Command::new("sleep").arg("1000").spawn() {
            Ok(child) => children.push(child),
            Err(error) => break error.raw_os_error(),
        }
    };
    println!("{} {refused:?}", children.len());
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

async fn leader_eats(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    // One byte more than whole pages.
    let wanted = limited(&scene, r#"exec "$THIS" as-eater 128"#, limits(Some(MEMORY_MAX + 1), None));
    let prepared = within(runner.prepare(wanted)).await.unwrap();
    assert_eq!(prepared.effective_limits().memory_max, Some(Enforcement::InForce(MEMORY_MAX)));
    let mut process = within(prepared.start()).await.unwrap();
    assert_eq!(code_of(&*process).await, LeaderEnd::Signal(SIGKILL));
    assert_eq!(process.memory_kills(), 1, "known as soon as the end is");
    assert_emptied(&*process).await;
    assert_eq!(printed(&mut *process).await, "");
}

async fn descendant_eats(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#""$THIS" as-eater 128; echo $?; "$THIS" as-eater 128; exit 9"#;
    let mut process = start(&runner, limited(&scene, line, limits(Some(MEMORY_MAX), None))).await.unwrap();
    assert_eq!(printed(&mut *process).await, "137\n");
    assert_eq!(code_of(&*process).await, LeaderEnd::Code(9));
    assert_emptied(&*process).await;
    assert_eq!(process.memory_kills(), 2);
}

async fn within_limit(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let wanted = limited(&scene, r#""$THIS" as-eater 8; kill -9 $$"#, limits(Some(MEMORY_MAX), None));
    let mut process = start(&runner, wanted).await.unwrap();
    assert_eq!(printed(&mut *process).await, "took 8\n");
    assert_eq!(code_of(&*process).await, LeaderEnd::Signal(SIGKILL));
    assert_emptied(&*process).await;
    assert_eq!(process.memory_kills(), 0, "that was not the limit");
}

async fn shared_limit(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    // Any of them alone fits, and stays.
    let line = r#"for i in 1 2 3 4 5 6 7 8; do bash -c 'x=$(head -c 12000000 /dev/zero | tr "\0" x); sleep 1000; :' & done
        wait -n; echo $?"#;
    let mut process = start(&runner, limited(&scene, line, limits(Some(MEMORY_MAX), None))).await.unwrap();
    let mut text = [0; 4];
    within(process.take_stdout().unwrap().read_exact(&mut text)).await.unwrap();
    assert_eq!(&text, b"137\n");
    assert_eq!(within(process.close()).await, TreeProof::Empty);
    assert!(process.memory_kills() >= 1);
}

async fn forks(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let wanted = limited(&scene, r#"exec "$THIS" as-forker 64"#, limits(None, Some(8)));
    let prepared = within(runner.prepare(wanted)).await.unwrap();
    assert_eq!(prepared.effective_limits().pids_max, Some(Enforcement::InForce(8)));
    let mut process = within(prepared.start()).await.unwrap();
    // The leader is one of them.
    assert_eq!(printed(&mut *process).await, format!("7 Some({})\n", nix::errno::Errno::EAGAIN as i32));
    assert_eq!(code_of(&*process).await, LeaderEnd::Code(0));
    assert_emptied(&*process).await;
    let mut free = start(&runner, scene.request(r#"exec "$THIS" as-forker 12"#)).await.unwrap();
    assert_eq!(printed(&mut *free).await, "12 None\n", "the next command has no limit");
}

async fn not_enforced(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let wanted = limited(&scene, "echo ran", limits(Some(MEMORY_MAX), None));
    let prepared = within(runner.prepare(wanted)).await.unwrap();
    let Some(Enforcement::NotEnforced(why)) = prepared.effective_limits().memory_max else {
        panic!("nothing enforces it")
    };
    assert!(why.contains("memory controller") && !why.contains("/sys"), "{why}");
    let mut process = within(prepared.start()).await.unwrap();
    assert_eq!(printed(&mut *process).await, "ran\n");
    assert_emptied(&*process).await;
    assert_eq!(process.memory_kills(), 0);
}

/// The cgroups of version 1 that were made for the limits of this process.
fn groups(of: Recorded) -> Vec<PathBuf> {
    let cgroups = std::fs::read_to_string(format!("/proc/{}/cgroup", of.pid)).unwrap();
    let found = cgroups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let made = path.contains("/procyard-") && !controllers.is_empty();
        made.then(|| PathBuf::from(format!("/sys/fs/cgroup/{controllers}{path}")))
    });
    found.filter(|path| path.is_dir()).collect()
}

async fn begin(runner: &HostRunner, scene: &Scene) -> (Box<dyn Process>, Vec<PathBuf>) {
    // The leader is the first that records itself.
    let line = r#"eval "$RECORD"; (setsid bash -c "$STAY" &); exec sleep 1000"#;
    let both = limits(Some(MEMORY_MAX), Some(16));
    let process = start(runner, limited(scene, line, both)).await.unwrap();
    let recorded = scene.wait_for_records(2);
    let made = groups(recorded[0]);
    assert_eq!(made.len(), 2, "one for memory, one for processes");
    assert_eq!(groups(recorded[1]), made, "and the whole tree is in them");
    (process, made)
}

fn gone(groups: &[PathBuf]) -> Option<()> {
    groups.iter().all(|group| !group.exists()).then_some(())
}

async fn groups_go(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let (process, made) = begin(&runner, &scene).await;
    let other = Scene::new();
    let (second, of_second) = begin(&runner, &other).await;
    assert!(made.iter().all(|group| !of_second.contains(group)));
    assert_eq!(within(process.close()).await, TreeProof::Empty);
    assert_eq!(gone(&made), Some(()), "before the tree is told to be empty");
    assert_eq!(gone(&of_second), None);
    drop(second);
    eventually("the other's go, too", || gone(&of_second));
    other.assert_no_survivor();
}

async fn groups_go_without_shim(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let (process, made) = begin(&runner, &scene).await;
    scene.recorded()[0].parent_now().signal(Number::SIGKILL);
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
    // The start of another test may be at it, too.
    eventually("the guardian sweeps them", || gone(&made));
}

async fn groups_go_without_guardian(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let (process, made) = begin(&runner, &scene).await;
    let shim = scene.recorded()[0].parent_now();
    kill_at_once(&[shim.parent_now(), shim]);
    within(process.emptied()).await;
    eventually("this process sweeps them", || gone(&made));
    // What was in them was ended, also where nothing else would have.
    scene.assert_no_survivor();
}

/// In a process of its own: a limited tree, until it is killed.
pub(crate) fn be_limited_supervisor(tier: &str) {
    let tier = tier_named(tier);
    let environment = crate::scene::environment(std::env::var_os("PIDS").unwrap().as_ref());
    block_on(async {
        let runner = runner(&tier).await;
        let mut wanted = request_at(r#"eval "$STAY""#, &environment);
        wanted.limits = limits(Some(MEMORY_MAX), Some(16));
        let _process = start(&runner, wanted).await.unwrap();
        println!("ready");
        std::future::pending::<()>().await;
    });
}

#[expect(clippy::disallowed_methods, reason = "a supervisor to be killed")]
async fn groups_are_swept(tier: Tier) {
    let scene = Scene::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["as-limited", tier.as_str()])
        .envs(scene.environment())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    let leader = scene.wait_for_records(1)[0];
    let made = groups(leader);
    assert_eq!(made.len(), 2);
    let shim = leader.parent_now();
    let guardian = shim.parent_now();
    let supervisor = guardian.parent_now();
    let doomed = [supervisor, guardian, shim];
    kill_at_once(&doomed);
    child.wait().unwrap();
    eventually("all are gone", || doomed.iter().all(|part| !part.is_alive()).then_some(()));
    // The start of another test may be at it, too.
    let next = runner(&tier).await;
    eventually("they are swept", || gone(&made));
    scene.assert_no_survivor();
    next.shutdown().await;
}

async fn mover(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#"for d in memory pids; do echo 0 >/sys/fs/cgroup/$d/cgroup.procs; done; (setsid bash -c "$STAY" &); eval "$STAY""#;
    let process = start(&runner, limited(&scene, line, limits(Some(MEMORY_MAX), Some(16)))).await.unwrap();
    let recorded = scene.wait_for_records(2);
    assert!(recorded.iter().all(|one| groups(*one).is_empty()), "out of the limits");
    assert_eq!(within(process.close()).await, TreeProof::Empty);
    scene.assert_no_survivor();
}

async fn unlimited(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let prepared = within(runner.prepare(scene.request(r#"eval "$STAY""#))).await.unwrap();
    let EffectiveLimits { memory_max, pids_max, nice, .. } = prepared.effective_limits();
    assert_eq!((memory_max, pids_max, nice), (None, None, None));
    let process = within(prepared.start()).await.unwrap();
    assert_eq!(groups(scene.wait_for_records(1)[0]), [] as [PathBuf; 0]);
    within(process.close()).await;
}

fn score_of(process: Recorded) -> i32 {
    let score = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", process.pid)).unwrap();
    score.trim().parse().unwrap()
}

async fn oom_score(tier: Tier) {
    let own = score_of(Recorded::of(std::process::id().cast_signed()).unwrap());
    let check = async |raise: OomScoreRaise, asked: Option<i32>, expect: i32| {
        let options = HostOptions {
            tier: TierChoice::Require(tier.clone()),
            oom_score_raise: raise,
            ..HostOptions::default()
        };
        let runner = HostRunner::start(options).await.unwrap();
        let scene = Scene::new();
        let asked = ResourceLimits { oom_score_adj: asked, ..ResourceLimits::default() };
        let prepared = within(runner.prepare(limited(&scene, r#"eval "$STAY""#, asked))).await.unwrap();
        let told = prepared.effective_limits().oom_score_adj.and_then(|told| told.value());
        assert_eq!(told.unwrap_or(own), expect);
        let process = within(prepared.start()).await.unwrap();
        let leader = scene.wait_for_records(1)[0];
        assert_eq!(score_of(leader), expect);
        let shim = leader.parent_now();
        assert_eq!((score_of(shim), score_of(shim.parent_now())), (own, own), "who ends it is not raised");
        within(process.close()).await;
    };
    check(OomScoreRaise::default(), None, (own + 500).min(1000)).await;
    check(OomScoreRaise(2000), None, 1000).await;
    check(OomScoreRaise(0), None, own).await;
    check(OomScoreRaise::default(), Some((own + 1).min(1000)), (own + 1).min(1000)).await;
}

async fn core_dumps(tier: Tier) {
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE).unwrap();
    let in_words = |limit: u64| {
        if limit == nix::sys::resource::RLIM_INFINITY { "unlimited".to_owned() } else { limit.to_string() }
    };
    let scene = Scene::new();
    let line = "grep 'Max core' /proc/self/limits | tr -s ' '";
    let check = async |keep: bool, soft: u64| {
        let options = HostOptions {
            tier: TierChoice::Require(tier.clone()),
            keep_core_dumps: keep,
            ..HostOptions::default()
        };
        let runner = HostRunner::start(options).await.unwrap();
        let prepared = within(runner.prepare(scene.request(line))).await.unwrap();
        let told = prepared.effective_limits().core_max.and_then(|told| told.value());
        assert_eq!(told, (!keep).then_some(0));
        let mut process = within(prepared.start()).await.unwrap();
        let expect = format!("Max core file size {} {} bytes \n", in_words(soft), in_words(hard));
        assert_eq!(printed(&mut *process).await, expect);
    };
    // The soft limit of this process may be 0 already, which would show nothing.
    nix::sys::resource::setrlimit(Resource::RLIMIT_CORE, hard, hard).unwrap();
    check(true, hard).await;
    check(false, 0).await;
}

async fn niceness(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let at = |nice| limited(&scene, "nice", ResourceLimits { nice: Some(nice), ..ResourceLimits::default() });
    let prepared = within(runner.prepare(at(7))).await.unwrap();
    assert_eq!(prepared.effective_limits().nice, Some(Enforcement::InForce(7)));
    let mut process = within(prepared.start()).await.unwrap();
    assert_eq!(printed(&mut *process).await, "7\n");
    match start(&runner, at(-5)).await {
        Ok(mut process) => {
            assert!(nix::unistd::geteuid().is_root());
            assert_eq!(printed(&mut *process).await, "-5\n");
        }
        Err(error) => {
            assert!(!nix::unistd::geteuid().is_root(), "{error}");
            assert_eq!(error.kind(), RunnerErrorKind::Setup);
            assert_eq!(error.public().code, ErrorCode::ProcessSetupFailed);
            assert!(error.to_string().contains("so low a niceness"), "{error}");
        }
    }
    // What can be lowered only with a capability, whoever asks.
    let low = ResourceLimits { oom_score_adj: Some(-1000), ..ResourceLimits::default() };
    if let Err(error) = start(&runner, limited(&scene, "true", low)).await {
        assert_eq!(error.kind(), RunnerErrorKind::Setup);
        assert!(error.to_string().contains("so low an oom_score_adj"), "{error}");
    } else {
        assert!(nix::unistd::geteuid().is_root(), "an ordinary user may not");
    }
    let mut next = start(&runner, scene.request("exit 4")).await.unwrap();
    assert_eq!(within(next.wait()).await.status, Some(WaitStatus::exited(4)), "the next is as good as any");
    drop(next.take_stdout());
    let _ = within(next.signal(Signal::Kill)).await;
}
