//! A full file system and a read-only one, for real: small ones in memory, mounted where nobody else sees them.
//!
//! Each case is this program entered again, in a mount namespace of its own. Where a machine allows neither that nor one
//! with a user namespace around it, the cases are reported as ignored, which the default test harness cannot do.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cases;
mod room;

use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

/// Says which case a child is to run.
const CASE: &str = "PROCYARD_TEST_REAL_DISK_CASE";
/// The case that only asks for a room.
const PROBE: &str = "probe";

fn main() {
    if let Some(case) = std::env::var_os(CASE) {
        let case = case.to_str().unwrap();
        if !room::enter() {
            std::process::exit(1);
        }
        let run = cases::ALL.iter().find(|(name, _)| *name == case).map(|(_, run)| *run);
        if let Some(run) = run {
            run();
        }
        return;
    }
    let arguments = Arguments::from_args();
    let possible = child(PROBE).is_ok();
    if !possible {
        eprintln!(
            "IGNORED: this machine lets nobody mount a file system of their own, so no disk can be filled"
        );
    }
    let trials = cases::ALL
        .iter()
        .map(|(name, _)| Trial::test(*name, || child(name)).with_ignored_flag(!possible))
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

/// Runs a case in a process of its own.
#[expect(clippy::disallowed_methods, reason = "a mount namespace is for a process of its own")]
fn child(case: &str) -> Result<(), Failed> {
    let output = Command::new(std::env::current_exe().unwrap())
        .env(CASE, case)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}
