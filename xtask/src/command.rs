//! Running other programs at the root of the workspace: the one place of xtask that spawns.
//!
//! Every program gets an empty standard input, so nothing can wait for a person who is not there.
//! Output goes straight to the terminal unless it is the answer to a question.
//!
//! It does not supervise: these are short-lived tools that a person or CI is looking at.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`; the binary started by hand falls back on where it was built.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut root = PathBuf::from(xtask);
    root.pop();
    root
}

/// A cargo command at the root of the workspace, by the same cargo that runs xtask.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(args).current_dir(root());
    cargo
}

/// Any other program, at the root of the workspace.
pub(crate) fn program(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Shows the command, runs it with its output passed through, and fails where it fails.
#[expect(clippy::disallowed_methods, reason = "xtask runs build tools; nothing that it starts is supervised")]
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = line(command);
    eprintln!("$ {line}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("`{line}` did not start"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// What the command writes to its standard output, trimmed; an error where it fails or does not start.
#[expect(clippy::disallowed_methods, reason = "xtask runs build tools; nothing that it starts is supervised")]
pub(crate) fn answer(command: &mut Command) -> anyhow::Result<String> {
    let line = line(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("`{line}` did not start"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed ({}): {}", output.status, stderr.lines().next().unwrap_or_default());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The command as a person would type it; for reading, not for a shell.
fn line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    command.get_args().fold(name, |line, arg| format!("{line} {}", arg.to_string_lossy()))
}
