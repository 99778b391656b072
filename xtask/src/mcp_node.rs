//! `mcp-sdk`, the other half: the official MCP SDK for TypeScript and the conformance suite, in `target/mcp-node`.
//!
//! Everything in it is pinned by the lock file in `xtask/mcp-node`. An environment that was made from the same files is
//! left as it is. No script of a package is run.
//!
//! A machine without Node is no failure: what needs it is then reported as ignored, loudly.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::command;

/// What the environment is made from.
const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// The oldest Node that both packages run on.
const NODE_MAJOR: u32 = 20;

/// Says that an environment is complete.
const COMPLETE: &str = "complete";

/// Whether this machine has a Node that will do, and npm; else why not.
pub(crate) fn node() -> Result<(), String> {
    let version =
        command::answer(Command::new("node").arg("--version")).map_err(|error| format!("{error:#}"))?;
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE_MAJOR) {
        return Err(format!("Node {NODE_MAJOR} or later is needed, this is {version}"));
    }
    command::answer(Command::new("npm").arg("--version")).map(|_| ()).map_err(|error| format!("{error:#}"))
}

/// Makes the environment unless it is there, and gives its path. Needs Node, and network access when there is something to
/// install.
pub(crate) fn ensure() -> anyhow::Result<PathBuf> {
    let sources = command::root().join("xtask").join("mcp-node");
    let environment = command::root().join("target").join("mcp-node");
    if is_made_from(&environment, &sources)? {
        return Ok(environment);
    }
    std::fs::create_dir_all(&environment)?;
    // A half-made one must not pass for whole.
    match std::fs::remove_file(environment.join(COMPLETE)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    for file in FILES {
        std::fs::copy(sources.join(file), environment.join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]);
    command::run(npm.current_dir(&environment))
        .context("the MCP SDK for TypeScript could not be installed; it comes from the npm registry")?;
    std::fs::write(environment.join(COMPLETE), "")?;
    Ok(environment)
}

fn is_made_from(environment: &Path, sources: &Path) -> anyhow::Result<bool> {
    if !environment.join(COMPLETE).exists() {
        return Ok(false);
    }
    for file in FILES {
        let wanted = std::fs::read(sources.join(file)).with_context(|| format!("{file} is not there"))?;
        if std::fs::read(environment.join(file)).ok() != Some(wanted) {
            return Ok(false);
        }
    }
    Ok(true)
}
