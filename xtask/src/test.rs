//! `test`: the whole suite in one run of `cargo test`: unit, integration and doc tests of every crate.
//!
//! Cargo builds the `procyard` binary before the integration tests that run it, with the features they
//! were built with, so there is no build of its own before. Benches are compiled by `clippy`, not run here.
//!
//! The output is the test runner's own, from its first line to its last.

use std::ffi::OsString;

use anyhow::Context as _;

use crate::{command, mcp_node, mcp_sdk};

/// Names the Python that has the MCP SDK, for the test that uses it.
const PYTHON_VARIABLE: &str = "PROCYARD_TEST_PYTHON";

/// Names the folder that has the MCP SDK for TypeScript, for the test that uses it.
const NODE_VARIABLE: &str = "PROCYARD_TEST_NODE";

/// What `test` takes.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Handed to the test binaries: a filter, `--nocapture`, `--test-threads 1`
    #[arg(last = true)]
    for_tests: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut cargo = command::cargo(["test", "--workspace", "--no-fail-fast"]);
    if let Some(python) = python()? {
        cargo.env(PYTHON_VARIABLE, python);
    }
    if let Some(modules) = node()? {
        cargo.env(NODE_VARIABLE, modules);
    }
    if !args.for_tests.is_empty() {
        cargo.arg("--").args(&args.for_tests);
    }
    command::run(&mut cargo)
}

/// The Python for the MCP SDK test: the one that the caller names, or the one of `mcp-sdk`.
///
/// Without it a person is told what goes untested; CI, where nobody reads that, fails.
fn python() -> anyhow::Result<Option<OsString>> {
    if let Some(named) = std::env::var_os(PYTHON_VARIABLE) {
        return Ok(Some(named));
    }
    match mcp_sdk::ensure() {
        Ok(python) => Ok(Some(python.into_os_string())),
        Err(error) if command::in_ci() => Err(error).context("in CI the MCP SDK test must run"),
        Err(error) => {
            command::warn(
                "the test with the official MCP SDK will be reported as ignored",
                &format!("{error:#}"),
            );
            Ok(None)
        }
    }
}

/// The folder for the test with the TypeScript SDK: the one that the caller names, or the one of `mcp-sdk`.
///
/// A machine without Node tests without it, CI too, since nothing is installed there by hand; everybody is told. Where Node
/// is, what cannot be installed is a failure in CI.
fn node() -> anyhow::Result<Option<OsString>> {
    let ignored = "the test with the official MCP SDK for TypeScript will be reported as ignored";
    if let Some(named) = std::env::var_os(NODE_VARIABLE) {
        return Ok(Some(named));
    }
    if let Err(why) = mcp_node::node() {
        command::warn(ignored, &why);
        return Ok(None);
    }
    match mcp_node::ensure() {
        Ok(modules) => Ok(Some(modules.into_os_string())),
        Err(error) if command::in_ci() => {
            Err(error).context("in CI the test with Node must run, where Node is")
        }
        Err(error) => {
            command::warn(ignored, &format!("{error:#}"));
            Ok(None)
        }
    }
}
