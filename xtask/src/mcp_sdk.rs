//! `mcp-sdk`: the official MCP SDKs: a Python environment in `target/mcp-sdk`, and where there is Node, the one of
//! `mcp_node`.
//!
//! The MCP transport is tested with a client that others wrote. The SDK's version is pinned, and an
//! environment that has that version already is left as it is.
//!
//! It is not needed to build or to use procyard.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::{command, mcp_node};

/// The SDK under test. Its major version 2 speaks both the stateless protocol and the older
/// `initialize` handshake.
const SDK_VERSION: &str = "2.3.0";

/// Prints the installed version as Python's own package metadata has it.
const ASK_VERSION: &str = "import importlib.metadata as m, mcp; print(m.version('mcp'))";

pub(crate) fn run() -> anyhow::Result<()> {
    let python = ensure()?;
    println!("MCP SDK {SDK_VERSION}: {}", python.display());
    match mcp_node::node() {
        Ok(()) => println!("MCP SDK for TypeScript: {}", mcp_node::ensure()?.display()),
        Err(why) => command::warn("the MCP SDK for TypeScript is not installed", &why),
    }
    Ok(())
}

/// Makes the environment unless it is there, and gives the path of its Python.
///
/// A half-made environment or another version is replaced. Needs `python3` with `venv`, and network
/// access when there is something to install.
pub(crate) fn ensure() -> anyhow::Result<PathBuf> {
    let environment = command::root().join("target").join("mcp-sdk");
    let python = environment.join("bin").join("python");
    if has_sdk(&python) {
        return Ok(python);
    }
    command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))
        .context("the MCP SDK test needs python3 with its venv module; install both")?;
    command::run(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .arg(format!("mcp=={SDK_VERSION}")),
    )
    .context("the MCP SDK could not be installed; it comes from the Python package index")?;
    Ok(python)
}

fn has_sdk(python: &Path) -> bool {
    command::answer(Command::new(python).args(["-c", ASK_VERSION]))
        .is_ok_and(|version| version == SDK_VERSION)
}
