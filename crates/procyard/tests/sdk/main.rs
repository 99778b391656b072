//! `procyard mcp` driven by the official MCP SDK: a client that others wrote.
//!
//! `cargo xtask test` makes an environment that has the SDK and names its Python. Without that the test is reported as
//! ignored, which the default test harness cannot do, and in CI it fails. Not for what raw lines can test: that is `cli`.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};

/// Names the Python that has the SDK.
const PYTHON: &str = "PROCYARD_TEST_PYTHON";

/// Each of the two ways to open the protocol has 120 s in the script; this is for a script that hangs.
const DEADLINE: Duration = Duration::from_secs(300);

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/client.py");

fn main() {
    let python = std::env::var_os(PYTHON).filter(|python| !python.is_empty());
    let ignored = python.is_none() && !in_ci();
    let trial = Trial::test("the_official_sdk_is_served", move || match python {
        Some(python) => served(&python),
        None => Err(format!("{PYTHON} names no Python with the MCP SDK; use `cargo xtask test`").into()),
    });
    let trials = vec![trial.with_ignored_flag(ignored)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Whether this runs in CI, by the variable that CI services set.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

#[expect(clippy::disallowed_methods, reason = "the client is a program of its own, which starts the server")]
fn served(python: &OsString) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let mut script = Command::new(python)
        .arg(SCRIPT)
        .arg(env!("CARGO_BIN_EXE_procyard"))
        .arg(directory.path())
        .stdin(Stdio::null())
        .spawn()?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = script.try_wait()? {
            break status;
        }
        if began.elapsed() > DEADLINE {
            script.kill()?;
            script.wait()?;
            return Err(format!("not within {DEADLINE:?}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    if status.success() { Ok(()) } else { Err(format!("the client ended with {status}").into()) }
}
