//! The same for a user without privileges: what is a matter of course for root may be refused to others.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libtest_mimic::Trial;

/// `nobody`, by convention.
const UID: u32 = 65534;

pub(crate) fn trials() -> Vec<Trial> {
    if nix::unistd::geteuid().is_root() {
        vec![Trial::test("an_ordinary_user_has_it_all", || {
            again();
            Ok(())
        })]
    } else {
        Vec::new()
    }
}

#[expect(clippy::disallowed_methods, reason = "this program again, as another user")]
fn again() {
    // The program may lie where only root can look.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("host-tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&program)
        .args(["--test-threads=2", "--color=never"])
        .env_remove("TMPDIR")
        .current_dir("/")
        .uid(UID)
        .gid(UID)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok"), "{text}");
}
