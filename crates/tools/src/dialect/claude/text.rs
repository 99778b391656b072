//! The words of this vocabulary's results.
//!
//! Not for values: there are none, the text is the whole result.

use std::fmt::Write as _;

use procyard_core::{Handle, State};
use procyard_supervisor::Snapshot;

use crate::dialect::unread::Unread;
use crate::dialect::{exit_code, notes, unusual_end};
use crate::render;

/// That a command runs on, and what can be done with it.
pub(super) fn in_background(handle: Handle) -> String {
    let id = handle.reveal();
    format!(
        "Command running in background with ID: {id}. You will be notified when it ends. Read its output with BashOutput \
         {{\"bash_id\": \"{id}\"}}, end it with KillShell {{\"shell_id\": \"{id}\"}}.\n"
    )
}

/// The result of a command that has ended: how, where it did not end well; then what it printed.
pub(super) fn finished(unread: &Unread, also: &[String]) -> String {
    let snapshot = &unread.snapshot;
    let mut text = match (snapshot.state, exit_code(snapshot)) {
        (State::TimedOut, _) => {
            let after = snapshot.deadline.map_or(0, render::millis);
            format!("Command timed out after {}\n", render::duration(after))
        }
        (State::Exited, Some(0)) | (_, None) => String::new(),
        (_, Some(code)) => format!("Exit code {code}\n"),
    };
    if snapshot.state != State::TimedOut
        && let Some(end) = unusual_end(snapshot)
    {
        let _ = writeln!(text, "Command ended otherwise than by itself: {end}");
    }
    text.push_str(&output(unread));
    text.push_str(&noted(&notes(snapshot)));
    text.push_str(&noted(also));
    text
}

/// Output with a newline at its end, or a line that says that there is none.
fn output(unread: &Unread) -> String {
    match output_or_nothing(unread) {
        text if text.is_empty() => "(Bash completed with no output)\n".to_owned(),
        text => text,
    }
}

pub(super) fn output_or_nothing(unread: &Unread) -> String {
    let mut text = String::new();
    if let Some(missing) = &unread.missing {
        let _ = writeln!(text, "[{missing}]");
    }
    text.push_str(&unread.text(&format!("\n\n... [{} bytes truncated] ...\n\n", unread.omitted)));
    if unread.binary {
        text.push_str("\n[looks binary]");
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

pub(super) fn noted(notes: &[String]) -> String {
    notes.iter().fold(String::new(), |mut text, note| {
        let _ = writeln!(text, "[{note}]");
        text
    })
}

/// Exit code and signal of what has ended.
pub(super) fn end_of(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    if let Some(code) = exit_code(snapshot) {
        let _ = write!(text, "<exit_code>{code}</exit_code>\n\n");
    }
    if let Some(end) = unusual_end(snapshot) {
        let _ = write!(text, "<ended>{end}</ended>\n\n");
    }
    text
}

/// The four words that this vocabulary has for a state.
pub(super) fn status(snapshot: &Snapshot) -> &'static str {
    match (snapshot.state, exit_code(snapshot)) {
        (State::Exited, Some(0)) => "completed",
        (State::Interrupted | State::Terminated | State::Killed, _) => "killed",
        (state, _) if state.is_terminal() => "failed",
        _ => "running",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn every_state_has_one_of_four_words() {
        for (state, word) in [
            (State::Starting, "running"),
            (State::Running, "running"),
            (State::Killed, "killed"),
            (State::Terminated, "killed"),
            (State::TimedOut, "failed"),
            (State::LostOnRestore, "failed"),
        ] {
            assert_eq!(status(&testing::snapshot("true", state)), word, "{state}");
        }
    }
}
