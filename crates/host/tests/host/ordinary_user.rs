//! The same for a user without privileges: what is a matter of course for root may be refused to others.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use procyard_core::{LeaderEnd, SIGKILL};
use procyard_runner::{Signal, Tier, TreeProof};

use crate::scene::{Scene, assert_emptied, eventually, on_each_tier, own_record, runner, start, within};

/// `nobody`, by convention.
const UID: u32 = 65534;
/// Names a copy of this program that is root whoever executes it.
pub(crate) const SETUID_PROGRAM: &str = "PROCYARD_TEST_SETUID_PROGRAM";

pub(crate) fn trials() -> Vec<Trial> {
    if nix::unistd::geteuid().is_root() {
        vec![Trial::test("an_ordinary_user_has_it_all", || {
            again();
            Ok(())
        })]
    } else if std::env::var_os(SETUID_PROGRAM).is_some() {
        on_each_tier("a_descendant_that_may_not_be_signalled_is_a_survivor_and_not_silence", setuid)
    } else {
        Vec::new()
    }
}

async fn setuid(tier: Tier) {
    if tier != Tier::SUBREAPER {
        // A cgroup ends whatever is in it.
        return;
    }
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = format!(r#"eval "$RECORD"; "${SETUID_PROGRAM}" as-root "$PIDS.release" & wait; sleep 1000"#);
    let process = start(&runner, scene.request(&line)).await.unwrap();
    scene.wait_for_records(2);
    within(process.signal(Signal::Kill)).await.unwrap();
    assert_eq!(within(process.wait()).await.status.unwrap().end(), LeaderEnd::Signal(SIGKILL));
    within(async { while process.tree().await != TreeProof::Survivors(1) {} }).await;
    let early = tokio::time::timeout(Duration::from_millis(300), process.emptied()).await;
    assert!(early.is_err(), "never empty with a survivor");
    assert_eq!(within(process.tree()).await, TreeProof::Survivors(1));
    std::fs::write(scene.pids().with_extension("release"), "").unwrap();
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
}

/// With all user ids root's, which an ordinary user may not signal: records itself, and stays until it is released.
pub(crate) fn be_root(release: &str) {
    let root = nix::unistd::Uid::from_raw(0);
    nix::unistd::setresuid(root, root, root).expect("the file system admits setuid programs");
    let own = own_record();
    let record = std::fs::File::options().append(true).open(std::env::var_os("PIDS").unwrap());
    record.unwrap().write_all(own.as_bytes()).unwrap();
    eventually("it is released", || std::path::Path::new(release).exists().then_some(()));
}

#[expect(clippy::disallowed_methods, reason = "this program again, as another user")]
fn again() {
    // The program may lie where only root can look.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("host-tests");
    let setuid_program = directory.path().join("setuid-program");
    for (copy, mode) in [(&program, 0o755), (&setuid_program, 0o4755)] {
        // By a process of its own: what this one has open for writing may be inherited by whatever another test forks
        // meanwhile, and then it is not executed.
        let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(copy).status();
        assert!(copied.unwrap().success());
        std::fs::set_permissions(copy, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let output = Command::new(&program)
        .args(["--test-threads=2", "--color=never"])
        .env_remove("TMPDIR")
        .env(SETUID_PROGRAM, &setuid_program)
        .current_dir("/")
        .uid(UID)
        .gid(UID)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok"), "{text}");
    let needing_it = ["may_not_be_signalled", "gains_nothing_under_no_new_privs"];
    for name in needing_it {
        let passed = text.lines().any(|line| line.contains(name) && line.ends_with(" ok"));
        assert!(passed, "the setuid program was tried by {name}: {text}");
    }
}
