//! What each error means, and which tool answers it.

use procyard_core::ErrorCode;
use procyard_core::ErrorCode as Code;
use std::fmt::Write as _;

/// Errors that any call can have.
const ANY: [Code; 3] = [Code::InvalidArguments, Code::SupervisorShuttingDown, Code::Internal];

/// Errors of everything that reads output.
const READING: [Code; 4] = [Code::NotFound, Code::CursorAhead, Code::SpoolCorrupt, Code::StorageUnavailable];

/// The codes that a tool answers, in words.
pub(crate) fn of(tool: &str) -> String {
    let own: &[Code] = match tool {
        "Bash" => &[
            Code::ProcessQuotaExceeded,
            Code::OutputQuotaExceeded,
            Code::LifetimeEnforcementUnavailable,
            Code::ProcessNotificationsUnsupported,
            Code::SpawnFailed,
            Code::ProcessSetupFailed,
            Code::PtyUnavailable,
            Code::StorageUnavailable,
            Code::WorkspaceBusy,
            Code::Conflict,
        ],
        "ProcessOutput" => &[Code::OutputQuotaExceeded, Code::PtyUnavailable],
        "ProcessInput" => {
            &[Code::OutputQuotaExceeded, Code::PtyUnavailable, Code::StdinClosed, Code::InputBackpressure]
        }
        "ProcessStop" => &[Code::NotFound, Code::TeardownFailed],
        _ => &[],
    };
    let reading: &[Code] = if matches!(tool, "ProcessOutput" | "ProcessInput") { &READING } else { &[] };
    let all = ANY[..1].iter().chain(own).chain(reading).chain(&ANY[1..]);
    all.map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", ")
}

/// Every code with its meaning.
pub(crate) fn table() -> String {
    let mut table = "An error has a `code`, a `message`, the `field` at fault where there is one, `retryable`, and `effects`: \
                     `none`, `started` or `unknown`.\n\n| code | meaning |\n|---|---|\n"
        .to_owned();
    for code in ErrorCode::ALL {
        let _ = writeln!(table, "| `{code}` | {} |", meaning(*code));
    }
    table
}

fn meaning(code: Code) -> &'static str {
    match code {
        Code::InvalidArguments => "An argument is missing, unknown, of the wrong type or out of range.",
        Code::InvalidSettings => "A configured value cannot be. No tool answers it.",
        Code::ProcessQuotaExceeded => "Too many processes run. Stop one, or wait for the end of one.",
        Code::OutputQuotaExceeded => "Too much output is kept, or too many calls wait.",
        Code::LifetimeEnforcementUnavailable => {
            "Not everything that the command starts could be ended; nothing was started."
        }
        Code::ProcessNotificationsUnsupported => "Nothing may outlive its call here.",
        Code::SpawnFailed => {
            "The command could not be executed: not found, not executable, no permission, no such directory."
        }
        Code::ProcessSetupFailed => "Something around the command could not be set up.",
        Code::PtyUnavailable => "There is no terminal to be had, or the process has none.",
        Code::NotFound => "There is no such process, or it is somebody else's.",
        Code::StdinClosed => "The process takes no input, or no more.",
        Code::InputBackpressure => {
            "The process has not read what was written before; nothing of this was taken."
        }
        Code::CursorGap => "Bytes at the cursor are no longer kept. The tools say `gap` instead.",
        Code::CursorAhead => "The cursor lies beyond the end of the output.",
        Code::TimedOut | Code::Interrupted | Code::Terminated | Code::Killed | Code::LostOnRestore => {
            "Strict form of the state of this name. The tools say `status` instead."
        }
        Code::SupervisorShuttingDown => "The session ends.",
        Code::ManifestCorrupt => "The record of a process does not load.",
        Code::SpoolCorrupt => "The output is damaged where it was to be read.",
        Code::TeardownFailed => "Not everything could be ended yet; it is tried again.",
        Code::StorageUnavailable => "The disk refused something that had to be written.",
        Code::WorkspaceBusy => "Somebody else holds the workspace.",
        Code::Conflict => "The idempotency key was used with other arguments.",
        Code::TooLarge => "A value exceeds its limit.",
        Code::Unauthenticated => "No valid token. No tool answers it.",
        Code::Internal => "A fault of procyard's own.",
        other => panic!("the table says nothing of {other}"),
    }
}
