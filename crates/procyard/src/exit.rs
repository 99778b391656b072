//! The exit codes of `procyard`, named and documented, and which of them a failure has.
//!
//! Not for the codes of commands: those are passed through.

use std::process::ExitCode;

use procyard_core::SignalNumber;
use procyard_runner::{RunnerError, RunnerErrorKind, SpawnFailure};
use procyard_supervisor::SupervisorError;
use serde_json::json;

use crate::problem;
use crate::say::{Voice, print_line, say};

/// `procyard doctor`: nothing can contain commands here, or the data directory is not fit for sessions.
pub(crate) const UNFIT: u8 = 1;

/// The command's lifetime deadline passed, or a wait for it did (as `timeout(1)` says it).
pub(crate) const TIMED_OUT: u8 = 124;

/// procyard itself failed, or was called wrongly.
pub(crate) const FAULT: u8 = 125;

/// The command was found and could not be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;

/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// A signal ended the command: this plus its number, as shells say it.
pub(crate) const SIGNALLED: u8 = 128;

/// Nobody read the output any more: what a shell says of SIGPIPE.
pub(crate) const BROKEN_PIPE: u8 = SIGNALLED + 13;

/// Says on stderr why procyard failed, with every cause, and gives the code for it.
pub(crate) fn fault(error: &anyhow::Error) -> ExitCode {
    fault_as(error, Voice::Text)
}

/// As [`fault`], in the form that was asked for. As JSON it is the body that the service and the tools answer with.
pub(crate) fn fault_as(error: &anyhow::Error, voice: Voice) -> ExitCode {
    match voice {
        Voice::Text => say(problem::words(error)),
        Voice::Json => print_line(&json!({"error": problem::as_json(error)})),
    }
    code_of(error).into()
}

/// The code of a signal.
pub(crate) const fn signalled(signal: SignalNumber) -> u8 {
    SIGNALLED + signal.number()
}

fn code_of(error: &anyhow::Error) -> u8 {
    let kind = error.chain().find_map(|cause| {
        let runner = cause.downcast_ref::<RunnerError>();
        runner.or_else(|| match cause.downcast_ref::<SupervisorError>() {
            Some(SupervisorError::Runner(runner)) => Some(runner),
            _ => None,
        })
    });
    match kind.map(RunnerError::kind) {
        Some(RunnerErrorKind::Spawn(SpawnFailure::NotFound)) => NOT_FOUND,
        Some(RunnerErrorKind::Spawn(SpawnFailure::NotExecutable | SpawnFailure::PermissionDenied)) => {
            NOT_EXECUTABLE
        }
        _ => FAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes with their rows in the documentation.
    const CODES: [(u8, &str); 7] = [
        (UNFIT, "`UNFIT`"),
        (TIMED_OUT, "`TIMED_OUT`"),
        (FAULT, "`FAULT`"),
        (NOT_EXECUTABLE, "`NOT_EXECUTABLE`"),
        (NOT_FOUND, "`NOT_FOUND`"),
        (SIGNALLED, "`SIGNALLED`"),
        (BROKEN_PIPE, "`BROKEN_PIPE`"),
    ];

    #[test]
    fn the_page_of_the_documentation_tells_every_code() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md");
        let page = std::fs::read_to_string(page).unwrap();
        for (code, name) in CODES {
            let row = page.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}"));
            assert!(
                row.starts_with(&format!("| {code} ")) || row.starts_with(&format!("| {code}+n ")),
                "{row}"
            );
        }
    }
}
