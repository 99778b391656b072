//! `procyard mcp` driven by the official MCP SDKs: clients that others wrote.
//!
//! `cargo xtask test` makes environments that have the SDKs and names them. Without one its test is reported as ignored,
//! which the default test harness cannot do; in CI the one with Python fails then. Not for what raw lines can test: that is
//! `cli`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};

/// Names the Python that has the SDK.
const PYTHON: &str = "PROCYARD_TEST_PYTHON";

/// Names the folder that has the SDK for TypeScript.
const NODE: &str = "PROCYARD_TEST_NODE";

/// Each session has 120 s in its script; this is for a script that hangs.
const DEADLINE: Duration = Duration::from_secs(300);

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk");

fn main() {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let (python, node) = (named(PYTHON), named(NODE));
    let without_python = python.is_none() && !in_ci();
    let of_python = Trial::test("the_official_sdk_is_served", move || match python {
        Some(python) => served(Command::new(python).arg(script("client.py"))),
        None => Err(format!("{PYTHON} names no Python with the MCP SDK; use `cargo xtask test`").into()),
    });
    // CI has Node or has not, so that it is asked for by the variable alone.
    let without_node = node.is_none();
    let of_node = Trial::test("the_official_sdk_for_typescript_is_served", move || match node {
        Some(modules) => served(Command::new("node").arg(script("client.mjs")).arg(modules)),
        None => Err(format!("{NODE} names no folder with the MCP SDK; use `cargo xtask test`").into()),
    });
    let trials = vec![of_python.with_ignored_flag(without_python), of_node.with_ignored_flag(without_node)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn script(name: &str) -> PathBuf {
    Path::new(SCRIPTS).join(name)
}

/// Whether this runs in CI, by the variable that CI services set.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// Runs a client, which is given the program and a directory to work in.
#[expect(clippy::disallowed_methods, reason = "the client is a program of its own, which starts the server")]
fn served(client: &mut Command) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let mut script =
        client.arg(env!("CARGO_BIN_EXE_procyard")).arg(directory.path()).stdin(Stdio::null()).spawn()?;
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
