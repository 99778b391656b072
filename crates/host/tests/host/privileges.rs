//! What commands give up: new privileges, and signals to whom is not of their tree.

use std::process::Command;

use libtest_mimic::Trial;
use nix::sys::signal::Signal as Number;
use procyard_core::{LeaderEnd, SIGTERM};
use procyard_host::{HostError, HostOptions, HostRunner, SignalScope, TierChoice};
use procyard_runner::{Process, Signal, Tier, TreeProof};
use tokio::io::AsyncReadExt;

use crate::limits::where_possible;
use crate::ordinary_user::SETUID_PROGRAM;
use crate::scene::{Recorded, Scene, block_on, on_each_tier, start, within};

pub(crate) fn trials() -> Vec<Trial> {
    let possible = block_on(async {
        let runner = HostRunner::start(HostOptions::default()).await.unwrap();
        let found = runner.report().signal_scope.is_ok();
        runner.shutdown().await;
        found
    });
    let mut trials = Vec::new();
    let mut scoped = Vec::new();
    scoped.extend(on_each_tier("a_scoped_command_reaches_none_of_its_keepers", reaches_nobody));
    scoped.extend(on_each_tier("a_scoped_tree_is_signalled_and_stopped_as_any", stopped));
    scoped.extend(on_each_tier("a_scoped_command_does_not_reach_another", reaches_no_other));
    trials.extend(where_possible(possible, scoped));
    trials.extend(on_each_tier(
        "a_command_without_a_scope_reaches_those_of_its_keepers_that_it_has_numbers_for",
        reaches_keepers,
    ));
    trials.push(Trial::test(
        "a_required_scope_that_the_kernel_has_not_is_refused_and_a_preferred_one_is_told",
        || {
            without_scopes();
            Ok(())
        },
    ));
    trials.extend(on_each_tier("no_new_privs_is_set_only_when_it_is_asked_for", no_new_privs));
    let setuid = on_each_tier("a_setuid_program_gains_nothing_under_no_new_privs", setuid);
    trials.extend(where_possible(std::env::var_os(SETUID_PROGRAM).is_some(), setuid));
    trials
}

async fn runner(tier: &Tier, options: HostOptions) -> HostRunner {
    HostRunner::start(HostOptions { tier: TierChoice::Require(tier.clone()), ..options }).await.unwrap()
}

fn scoped() -> HostOptions {
    HostOptions { signal_scope: SignalScope::Required, ..HostOptions::default() }
}

async fn printed(process: &mut dyn Process) -> String {
    let mut text = String::new();
    let mut stdout = process.take_stdout().unwrap();
    within(stdout.read_to_string(&mut text)).await.unwrap();
    text
}

/// Signals exactly these processes from inside a command, and says of each whether it could.
async fn signal_from_inside(
    runner: &HostRunner,
    signal: &str,
    whom: impl FnOnce(Recorded) -> Vec<Recorded>,
) -> (String, Vec<Recorded>) {
    let scene = Scene::new();
    let line = r#"eval "$RECORD"; until [ -e "$PIDS.whom" ]; do sleep 0.01; done; sleep 1000 & own=$!
        while read -r pid; do kill -$SIGNAL $pid 2>/dev/null && echo reached || echo refused; done <"$PIDS.whom"
        kill -TERM $own; wait $own; echo $?"#;
    let mut wanted = scene.request(line);
    wanted.environment.changes.insert("SIGNAL".into(), Some(signal.into()));
    let mut process = start(runner, wanted).await.unwrap();
    let whom = whom(scene.wait_for_records(1)[0]);
    let numbers: Vec<_> = whom.iter().map(|one| one.pid.to_string()).collect();
    let draft = scene.directory.path().join("draft");
    std::fs::write(&draft, numbers.join("\n") + "\n").unwrap();
    std::fs::rename(draft, scene.pids().with_extension("whom")).unwrap();
    let text = printed(&mut *process).await;
    assert_eq!(within(process.emptied()).await, TreeProof::Empty);
    (text, whom)
}

fn keepers(leader: Recorded) -> Vec<Recorded> {
    let shim = leader.parent_now();
    let guardian = shim.parent_now();
    let own = guardian.parent_now();
    assert_eq!(own.pid, std::process::id().cast_signed());
    vec![shim, guardian, own]
}

async fn reaches_nobody(tier: Tier) {
    let runner = runner(&tier, scoped()).await;
    // What would end them if it came through; this process is only continued.
    let (text, doomed) =
        signal_from_inside(&runner, "KILL", |leader| keepers(leader).into_iter().take(2).collect()).await;
    assert_eq!(text, "refused\nrefused\n143\n", "and its own child it reaches");
    assert!(doomed[1].is_alive(), "the guardian lives");
    let (text, _) = signal_from_inside(&runner, "CONT", keepers).await;
    assert_eq!(text, "refused\nrefused\nrefused\n143\n");
}

async fn reaches_keepers(tier: Tier) {
    let runner = runner(&tier, HostOptions::default()).await;
    let (text, _) = signal_from_inside(&runner, "CONT", keepers).await;
    // In a namespace of its own a command has no numbers for them.
    let each = if tier == Tier::PIDNS { "refused" } else { "reached" };
    assert_eq!(text, format!("{each}\n{each}\n{each}\n143\n"));
}

async fn reaches_no_other(tier: Tier) {
    let runner = runner(&tier, scoped()).await;
    let scene = Scene::new();
    let other = start(&runner, scene.request(r#"eval "$STAY""#)).await.unwrap();
    let target = scene.wait_for_records(1)[0];
    let (text, _) = signal_from_inside(&runner, "KILL", |_| vec![target]).await;
    assert_eq!(text, "refused\n143\n");
    assert!(target.is_alive());
    within(other.close()).await;
}

async fn stopped(tier: Tier) {
    let runner = runner(&tier, scoped()).await;
    let scene = Scene::new();
    // The leader is the first that records itself.
    let line = r#"eval "$RECORD"; (setsid bash -c 'trap "" TERM; eval "$STAY"' &); exec sleep 1000"#;
    let process = start(&runner, scene.request(line)).await.unwrap();
    scene.wait_for_records(2);
    within(process.signal(Signal::Terminate)).await.unwrap();
    assert_eq!(within(process.wait()).await.status.unwrap().end(), LeaderEnd::Signal(SIGTERM));
    assert_eq!(within(process.close()).await, TreeProof::Empty);
    scene.assert_no_survivor();
    // The death of a shim still ends its leader, and the guardian the rest.
    let scene = Scene::new();
    let process = start(&runner, scene.request(line)).await.unwrap();
    let recorded = scene.wait_for_records(2);
    recorded[0].parent_now().signal(Number::SIGKILL);
    assert_eq!(within(process.emptied()).await, TreeProof::Empty);
    scene.assert_no_survivor();
}

async fn no_new_privs(tier: Tier) {
    let line = "grep NoNewPrivs /proc/self/status | tr -d '\\t'";
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let already = own.lines().any(|line| line == "NoNewPrivs:\t1");
    let check = async |options: HostOptions, expect: bool| {
        let runner = runner(&tier, options).await;
        let scene = Scene::new();
        let mut process = start(&runner, scene.request(line)).await.unwrap();
        assert_eq!(printed(&mut *process).await, format!("NoNewPrivs:{}\n", u8::from(expect || already)));
    };
    check(HostOptions::default(), false).await;
    check(HostOptions { no_new_privs: true, ..HostOptions::default() }, true).await;
    let preferred = HostOptions { signal_scope: SignalScope::Preferred, ..HostOptions::default() };
    let has_scopes = runner(&tier, HostOptions::default()).await.report().signal_scope.is_ok();
    check(preferred, has_scopes).await;
}

/// Says as whom it runs.
pub(crate) fn be_user() {
    println!("{}", nix::unistd::geteuid());
}

async fn setuid(tier: Tier) {
    let line = format!(r#""${SETUID_PROGRAM}" as-user"#);
    let own = nix::unistd::geteuid();
    // For a user who needs a user namespace for it, a PID namespace has no setuid programs at all.
    let gained = if tier == Tier::PIDNS { own } else { nix::unistd::ROOT };
    for (no_new_privs, expect) in [(false, format!("{gained}\n")), (true, format!("{own}\n"))] {
        let runner = runner(&tier, HostOptions { no_new_privs, ..HostOptions::default() }).await;
        let scene = Scene::new();
        let mut process = start(&runner, scene.request(&line)).await.unwrap();
        assert_eq!(printed(&mut *process).await, expect);
    }
}

#[expect(clippy::disallowed_methods, reason = "this program again, under a filter of system calls")]
fn without_scopes() {
    let output = Command::new(std::env::current_exe().unwrap()).arg("as-unscoped").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "refused, told\n");
}

/// In a process of its own: as on a kernel without Landlock.
pub(crate) fn be_without_scopes() {
    forget_landlock();
    block_on(async {
        let refused = HostRunner::start(scoped()).await.err().unwrap();
        let HostError::LifetimeEnforcementUnavailable(why) = refused else { panic!("{refused}") };
        assert!(why.contains("Landlock"), "{why}");
        let preferred = HostOptions { signal_scope: SignalScope::Preferred, ..HostOptions::default() };
        let runner = HostRunner::start(preferred).await.unwrap();
        assert_eq!(runner.report().signal_scope, Err(why));
        let scene = Scene::new();
        let process = start(&runner, scene.request("exit 0")).await.unwrap();
        assert_eq!(within(process.emptied()).await, TreeProof::Empty);
        runner.shutdown().await;
    });
    println!("refused, told");
}

/// Has `landlock_create_ruleset(2)` fail with `ENOSYS` for this process and its descendants, by a seccomp filter
/// (`seccomp(2)`).
#[expect(unsafe_code, reason = "there is no safe wrapper for a filter")]
fn forget_landlock() {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let filter = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let number = u32::try_from(libc::SYS_landlock_create_ruleset).unwrap();
    let refuse = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::ENOSYS).unwrap();
    let mut program = [
        // The number of the call is the first word of `struct seccomp_data`.
        filter(LOAD_WORD, 0, 0, 0),
        filter(JUMP_IF_EQUAL, 0, 1, number),
        filter(RETURN, 0, 0, refuse),
        filter(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    nix::sys::prctl::set_no_new_privs().unwrap();
    // SAFETY: the program has the length it says, and outlives the call, which copies it.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}
