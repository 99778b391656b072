//! The exit codes of `procyard`, named and documented.
//!
//! Not for the codes of commands: those are passed through.

use std::process::ExitCode;

use procyard_client::ClientError;
use procyard_core::SignalNumber;
use procyard_runner::{RunnerError, RunnerErrorKind, SpawnFailure};
use procyard_supervisor::SupervisorError;

use crate::say::{print, say};

/// The command's lifetime deadline passed (as `timeout(1)` says it).
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
    say(format_args!("{error:#}"));
    code_of(error).into()
}

/// As [`fault`], as one line of JSON.
pub(crate) fn fault_as_json(error: &anyhow::Error) -> ExitCode {
    // What a service refused is told as it told it.
    let refusal = error.chain().find_map(|cause| cause.downcast_ref::<ClientError>()?.refusal());
    let line = match refusal {
        Some(refusal) => serde_json::json!({"error": refusal}),
        None => serde_json::json!({"error": format!("{error:#}")}),
    };
    print(std::io::stderr(), format_args!("{line}\n"));
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
