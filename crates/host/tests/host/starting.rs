//! Spawning: what a command finds, and how a start that cannot be fails.

use std::time::Duration;

use libtest_mimic::Trial;
use procyard_core::{ErrorCode, SignalNumber, WaitStatus};
use procyard_host::{GuardianProgram, HostError, HostOptions, HostRunner, TierChoice};
use procyard_runner::{
    CommandSpec, EnvironmentBase, Process, ResourceLimits, Runner, RunnerErrorKind, SpawnFailure, StdinMode,
    TerminalSize, Tier, TreeProof,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::scene::{Scene, assert_emptied, block_on, on_each_tier, request, runner, start, within};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_each_tier("output_status_and_end_are_those_of_the_command", plain));
    trials
        .extend(on_each_tier("a_command_has_three_descriptors_a_session_and_default_signals", surroundings));
    trials.extend(on_each_tier("a_failed_exec_comes_back_with_its_kind", exec_errors));
    trials.extend(on_each_tier("a_deleted_workdir_fails_that_call_alone", deleted_workdir));
    trials.extend(on_each_tier("stdin_is_at_its_end_unless_asked_for", stdin));
    trials.extend(on_each_tier("a_long_argument_list_and_environment_arrive", long_arguments));
    trials.extend(on_each_tier("a_dropped_start_leaves_no_process", dropped_start));
    trials.push(Trial::test("a_wrong_request_names_its_field", || {
        block_on(wrong_requests());
        Ok(())
    }));
    trials.push(Trial::test("a_missing_tier_is_refused_before_anything_is_spawned", || {
        block_on(missing_tier());
        Ok(())
    }));
    trials
}

async fn output(process: &mut dyn Process) -> String {
    let mut text = String::new();
    let mut stdout = process.take_stdout().unwrap();
    within(stdout.read_to_string(&mut text)).await.unwrap();
    text
}

async fn plain(tier: Tier) {
    let runner = runner(&tier).await;
    assert_eq!(runner.capabilities().tier, Some(tier.clone()));
    let line = "echo out; echo err >&2; exit 3";
    let prepared = within(runner.prepare(request(CommandSpec::Shell(line.to_owned())))).await.unwrap();
    assert_eq!(prepared.tier(), tier);
    let mut process = within(prepared.start()).await.unwrap();
    let mut stderr = process.take_stderr().unwrap();
    assert_eq!(output(&mut *process).await, "out\n");
    assert!(process.take_stdout().is_none());
    let mut text = String::new();
    within(stderr.read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "err\n");
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(3)));
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(3)), "and again");
    assert_emptied(&*process).await;
    assert_eq!(within(process.tree()).await, TreeProof::Empty);
    assert_eq!(within(process.close()).await, TreeProof::Empty);
}

async fn surroundings(tier: Tier) {
    let runner = runner(&tier).await;
    let line = "for fd in /proc/self/fd/*; do [ -e \"$fd\" ] && echo \"${fd##*/}\"; done; \
                read -r _ _ _ _ group session terminal _ </proc/self/stat; \
                [ $$ = $group ] && [ $$ = $session ] && [ $terminal = 0 ] && echo session; \
                grep -E '^Sig(Blk|Ign):' /proc/self/status; \
                echo \"$TERM $PAGER $PWD\"; \
                yes | head -n 1 >/dev/null; echo \"${PIPESTATUS[0]}\"; trap";
    let mut wanted = request(CommandSpec::Shell(line.to_owned()));
    wanted.workdir = "/usr".into();
    let mut process = start(&runner, wanted).await.unwrap();
    let text = output(&mut *process).await;
    let expected =
        "0\n1\n2\nsession\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\ndumb cat /usr\n141\n";
    assert_eq!(text, expected, "three descriptors, own session, nothing blocked or ignored, SIGPIPE ends");
}

async fn exec_errors(tier: Tier) {
    let scene = Scene::new();
    let file =
        |name: &str, content: &str, mode: u32| scene.file(name, content, mode).to_str().unwrap().to_owned();
    let cases = [
        ("no-such-program-anywhere".to_owned(), SpawnFailure::NotFound),
        ("/no/such/program".to_owned(), SpawnFailure::NotFound),
        (String::new(), SpawnFailure::NotFound),
        (file("plain", "echo no interpreter line\n", 0o755), SpawnFailure::NotExecutable),
        (file("orphan", "#!/no/such/interpreter\n", 0o755), SpawnFailure::NotExecutable),
        (file("unmarked", "#!/bin/sh\n", 0o644), SpawnFailure::PermissionDenied),
        ("/usr".to_owned(), SpawnFailure::PermissionDenied),
    ];
    let runner = runner(&tier).await;
    for (program, expect) in cases {
        let error = start(&runner, request(CommandSpec::Argv(vec![program.clone()]))).await.err().unwrap();
        assert_eq!(error.kind(), RunnerErrorKind::Spawn(expect), "{program}");
        let tells_of_interpreters = error.to_string().contains("interpreter");
        assert_eq!(tells_of_interpreters, expect == SpawnFailure::NotExecutable, "{error}");
    }
    let long = vec!["/bin/true".to_owned(), "x".repeat(300_000)];
    let error = start(&runner, request(CommandSpec::Argv(long))).await.err().unwrap();
    assert_eq!(error.kind(), RunnerErrorKind::Spawn(SpawnFailure::TooLong));
    // The search goes on in the child's own PATH.
    let mut found = request(CommandSpec::Argv(vec!["only-here".to_owned()]));
    file("only-here", "#!/bin/sh\nexit 5\n", 0o755);
    let path = format!("/no/such:{}", scene.directory.path().display());
    found.environment.changes.insert("PATH".into(), Some(path.into()));
    let process = start(&runner, found).await.unwrap();
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(5)));
}

async fn deleted_workdir(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let deleted = scene.directory.path().join("deleted");
    let mut wanted = request(CommandSpec::Argv(vec!["true".to_owned()]));
    for workdir in [deleted, scene.pids()] {
        wanted.workdir = workdir;
        let error = start(&runner, wanted.clone()).await.err().unwrap();
        assert_eq!(error.kind(), RunnerErrorKind::Spawn(SpawnFailure::Workdir));
        assert_eq!(error.public().code, ErrorCode::SpawnFailed);
    }
    wanted.workdir = scene.directory.path().to_owned();
    let process = start(&runner, wanted).await.expect("the next call is as good as any");
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(0)));
}

async fn stdin(tier: Tier) {
    let runner = runner(&tier).await;
    let mut wanted = request(CommandSpec::Shell("cat; readlink /proc/self/fd/0".to_owned()));
    let mut process = start(&runner, wanted.clone()).await.unwrap();
    assert!(process.take_stdin().is_none());
    assert_eq!(output(&mut *process).await, "/dev/null\n");
    wanted.command = CommandSpec::Argv(vec!["cat".to_owned()]);
    wanted.stdin = StdinMode::Open;
    let mut process = start(&runner, wanted).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    assert!(process.take_stdin().is_none());
    within(stdin.write_all(b"typed")).await.unwrap();
    within(stdin.shutdown()).await.unwrap();
    assert!(stdin.write_all(b"more").await.is_err());
    assert_eq!(output(&mut *process).await, "typed", "and then end of file");
}

async fn long_arguments(tier: Tier) {
    let runner = runner(&tier).await;
    let mut argv = vec!["sh".to_owned(), "-c".to_owned(), "echo $# ${#LONG}".to_owned(), "sh".to_owned()];
    argv.extend((0..1000).map(|number| format!("{number:0>1000}")));
    let mut wanted = request(CommandSpec::Argv(argv));
    wanted.environment.base = EnvironmentBase::Minimal;
    wanted.environment.changes.insert("LONG".into(), Some("y".repeat(100_000).into()));
    let mut process = start(&runner, wanted).await.unwrap();
    assert_eq!(output(&mut *process).await, "1000 100000\n");
}

async fn dropped_start(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    for polls in 0..6 {
        let prepared = runner.prepare(scene.request(r#"eval "$STAY""#)).await.unwrap();
        // Polled so often, then dropped.
        let mut starting = prepared.start();
        for _ in 0..polls {
            if tokio::time::timeout(Duration::from_micros(200), &mut starting).await.is_ok() {
                break;
            }
        }
    }
    // A start after them is served after them, so everything before is known to the guardian.
    let process = start(&runner, scene.request(r#"eval "$STAY""#)).await.unwrap();
    scene.wait_for_records(1);
    within(process.close()).await;
    within(runner.shutdown()).await;
    scene.assert_no_survivor();
}

async fn wrong_requests() {
    let runner = runner(&Tier::SUBREAPER).await;
    let argv = |argv: &[&str]| request(CommandSpec::Argv(argv.iter().map(|a| (*a).to_owned()).collect()));
    let mut cases = vec![
        ("argv", argv(&[])),
        ("argv", argv(&["echo", "a\0b"])),
        ("command", request(CommandSpec::Shell("a\0b".to_owned()))),
    ];
    for workdir in ["relative", "/a\0b"] {
        let mut wrong = argv(&["true"]);
        wrong.workdir = workdir.into();
        cases.push(("workdir", wrong));
    }
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0")] {
        let mut wrong = argv(&["true"]);
        wrong.environment.changes.insert(name.into(), Some(value.into()));
        cases.push(("env", wrong));
    }
    let none = ResourceLimits::default;
    for limits in [
        ResourceLimits { nice: Some(20), ..none() },
        ResourceLimits { nice: Some(-21), ..none() },
        ResourceLimits { oom_score_adj: Some(1001), ..none() },
        ResourceLimits { oom_score_adj: Some(-1001), ..none() },
        ResourceLimits { memory_max: Some(1), ..none() },
        ResourceLimits { pids_max: Some(0), ..none() },
    ] {
        let mut wrong = argv(&["true"]);
        wrong.limits = limits;
        cases.push(("limits", wrong));
    }
    for (field, wrong) in cases {
        let error = runner.prepare(wrong.clone()).await.err().unwrap();
        assert_eq!(error.kind(), RunnerErrorKind::InvalidRequest(field), "{wrong:?}");
    }
    let mut wrong = argv(&["true"]);
    wrong.terminal = Some(TerminalSize { rows: 0, cols: 80 });
    assert_eq!(runner.prepare(wrong).await.err().unwrap().kind(), RunnerErrorKind::InvalidRequest("rows"));
    let mut nice = argv(&["sh", "-c", "kill -s SEGV $$"]);
    nice.limits.nice = Some(10);
    nice.limits.oom_score_adj = Some(500);
    let process = start(&runner, nice).await.unwrap();
    let ended = within(process.wait()).await.status.unwrap().end();
    assert_eq!(ended, procyard_core::LeaderEnd::Signal(SignalNumber::new(11).unwrap()));
}

async fn missing_tier() {
    let options = HostOptions { tier: TierChoice::Require(Tier::named("vault")), ..HostOptions::default() };
    let error = HostRunner::start(options).await.err().unwrap();
    assert!(matches!(error, HostError::LifetimeEnforcementUnavailable(_)), "{error}");
    let options =
        HostOptions { guardian: GuardianProgram::Path("/bin/true".into()), ..HostOptions::default() };
    assert!(matches!(HostRunner::start(options).await.err().unwrap(), HostError::NoAnswer));
    let options =
        HostOptions { guardian: GuardianProgram::Path("/no/such".into()), ..HostOptions::default() };
    assert!(matches!(HostRunner::start(options).await.err().unwrap(), HostError::Guardian(_)));
    let options = HostOptions { umask: Some(0o1000), ..HostOptions::default() };
    assert!(matches!(HostRunner::start(options).await.err().unwrap(), HostError::InvalidSetting("umask")));
}
