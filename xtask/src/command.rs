//! Running other programs at the root of the workspace: the one place of xtask that spawns.
//!
//! Every program gets an empty standard input, so nothing can wait for a person who is not there.
//! Output goes straight to the terminal unless it is the answer to a question.
//!
//! It does not supervise: these are short-lived tools that a person or CI is looking at.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

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

/// What the command writes to its standard output, as bytes, while its errors are passed through.
#[expect(clippy::disallowed_methods, reason = "xtask runs build tools; nothing that it starts is supervised")]
pub(crate) fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let line = line(command);
    eprintln!("$ {line}");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("`{line}` did not start"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({})", output.status);
    }
    Ok(output.stdout)
}

/// As [`run`], and tells each line that the command writes to its standard error.
#[expect(clippy::disallowed_methods, reason = "xtask runs build tools; nothing that it starts is supervised")]
pub(crate) fn run_telling(command: &mut Command, mut tell: impl FnMut(&str)) -> anyhow::Result<()> {
    let line = line(command);
    eprintln!("$ {line}");
    let spawned = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.with_context(|| format!("`{line}` did not start"))?;
    if let Some(stderr) = child.stderr.take() {
        for said in BufReader::new(stderr).split(b'\n') {
            let said = said?;
            let said = String::from_utf8_lossy(&said);
            eprintln!("{said}");
            tell(&said);
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Says on standard error that something is left out, so that nobody takes it for done.
pub(crate) fn warn(what: &str, why: &str) {
    let rule = "=".repeat(72);
    eprintln!("{rule}\nwarning: {what}:\n         {why}\n{rule}");
}

/// Whether this runs in CI, by the variable that CI services set.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// A program that runs until this is dropped: it must end when its standard input does.
#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    said: String,
}

impl Serving {
    /// Starts the program and waits for its first line.
    #[expect(clippy::disallowed_methods, reason = "the server under test, which ends with this program")]
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let line = line(command);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.with_context(|| format!("`{line}` did not start"))?;
        let mut said = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut said)?;
        }
        let serving = Self { child, said: said.trim().to_owned() };
        anyhow::ensure!(!serving.said.is_empty(), "`{line}` ended without a word");
        Ok(serving)
    }

    /// Its first line.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // One that does not end would be seen as this program not ending.
        let _ = self.child.wait();
    }
}

/// A program that serves until it is told to end by SIGTERM. What it writes to its standard error is passed on.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    said: String,
    /// Ends with the program.
    passing: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Starts the program and waits for the line that says that it is ready.
    #[expect(clippy::disallowed_methods, reason = "the service under test, which ends with this program")]
    pub(crate) fn start(command: &mut Command, ready: &str) -> anyhow::Result<Self> {
        let line = line(command);
        let spawned = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child = spawned.with_context(|| format!("`{line}` did not start"))?;
        let mut daemon = Self { child, said: String::new(), passing: None };
        let mut lines = daemon.child.stderr.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        for said in lines.by_ref() {
            let said = said?;
            eprintln!("{said}");
            if said.contains(ready) {
                daemon.said = said;
                break;
            }
        }
        anyhow::ensure!(!daemon.said.is_empty(), "`{line}` did not get ready");
        let pass = move || lines.map_while(Result::ok).for_each(|said| eprintln!("{said}"));
        daemon.passing = Some(std::thread::spawn(pass));
        Ok(daemon)
    }

    /// The line that said that it is ready.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    /// Has it end; an error when it does not end well.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        run(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        let status = self.child.wait()?;
        if let Some(passing) = self.passing.take() {
            // It only passes lines on.
            let _ = passing.join();
        }
        anyhow::ensure!(status.success(), "the service ended with {status}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After its end this does nothing; before, something has failed, and that is told.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where cargo builds.
pub(crate) fn target_directory() -> anyhow::Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    Ok(metadata.target_directory.into_std_path_buf())
}

/// The command as a person would type it; for reading, not for a shell.
fn line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    command.get_args().fold(name, |line, arg| format!("{line} {}", arg.to_string_lossy()))
}
