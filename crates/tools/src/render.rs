//! The words of a result's text: output first, then one line that says what it is and what can be done next.
//!
//! Not for values: those are in the structured result.

use std::fmt::Write as _;
use std::time::Duration;

use procyard_api::{
    BashResult, Encoding, LeftoversReport, ListResult, OutputEntry, OutputResult, Screen, StopResult,
};
use procyard_core::{PublicError, SignalNumber, State};
use procyard_supervisor::CommandRecord;

use crate::limits;

/// Tags that only notices may have: in the text of a result they are shown with their bracket escaped.
const OWN_TAGS: [&str; 4] = ["<task-notification", "</task-notification", "<task-stall", "</task-stall"];

/// What is said of a process whose storage is degraded.
pub(crate) const UNKEPT: &str = "not all of its record or output could be written to disk";

/// An error.
pub(crate) fn error(error: &PublicError) -> String {
    match &error.field {
        Some(field) => format!("error {} ({field}): {}\n", error.code, error.message),
        None => format!("error {}: {}\n", error.code, error.message),
    }
}

/// The result of Bash.
pub(crate) fn bash(result: &BashResult) -> String {
    let mut text = output(&result.output);
    let id = result.process_id.reveal();
    if result.status.is_terminal() {
        let ended = ending(result.status, result.exit_code, result.signal);
        let lasted = result.duration_ms.map(|ms| format!(" after {}", duration(ms))).unwrap_or_default();
        let _ = write!(text, "[{ended}{lasted}; process_id {id}");
        if result.omitted_bytes.is_some() {
            text.push_str("; read what is left out with ProcessOutput");
        }
        text.push_str("]\n");
    } else {
        let cursor = result.next_cursor;
        let _ = writeln!(
            text,
            "[running in the background; process_id {id}; read on with ProcessOutput {{\"process_id\": \"{id}\", \"cursor\": \
             {cursor}, \"wait\": \"any\"}}, end it with ProcessStop {{\"process_id\": \"{id}\"}}]"
        );
    }
    if let Some(diagnostic) = &result.diagnostic {
        let _ = writeln!(text, "[{diagnostic}]");
    }
    if let Some(bytes) = result.unread_input_bytes {
        let _ = writeln!(text, "[{}]", never_taken(bytes));
    }
    if let Some(leftovers) = result.leftovers {
        let _ = writeln!(text, "[{}]", left_behind(leftovers));
    }
    if result.binary {
        text.push_str("[looks binary: read it with ProcessOutput and encoding base64]\n");
    }
    if result.storage_degraded {
        let _ = writeln!(text, "[{UNKEPT}]");
    }
    if let Some(limits) = &result.limits {
        let _ = writeln!(text, "[limits: {}]", limits::in_words(limits));
    }
    for warning in &result.warnings {
        let _ = writeln!(text, "[warning: {warning}]");
    }
    text
}

/// The result of `ProcessOutput` for one process.
pub(crate) fn process_output(result: &OutputResult, encoding: Encoding) -> String {
    let mut text = match (&result.screen, encoding) {
        (Some(seen), _) => screen(seen),
        (None, Encoding::SafeText) => output(&result.output),
        (None, Encoding::Base64) => format!("{}\n", result.output),
    };
    if result.gap {
        let note = format!("[bytes before cursor {} are no longer kept]\n", result.start_cursor);
        text.insert_str(0, &note);
    }
    text.push('[');
    if let Some(matched) = &result.matched {
        let _ = write!(text, "matched at cursor {}; ", matched.cursor);
    }
    text.push_str(&ending(result.status, result.exit_code, result.signal));
    let id = result.process_id.reveal();
    let _ = write!(text, "; next_cursor {} of {}; process_id {id}", result.next_cursor, result.total_bytes);
    if result.next_cursor < result.total_bytes {
        text.push_str("; there is more");
    }
    if result.binary && encoding == Encoding::SafeText {
        text.push_str("; looks binary: read it with encoding base64");
    }
    text.push_str("]\n");
    if let Some(diagnostic) = &result.diagnostic {
        let _ = writeln!(text, "[{diagnostic}]");
    }
    if result.storage_degraded {
        let _ = writeln!(text, "[{UNKEPT}]");
    }
    if let Some(bytes) = result.unread_input_bytes {
        let _ = writeln!(text, "[{}]", never_taken(bytes));
    }
    text
}

/// What a terminal shows: what it is, its rows, and what the rows do not say.
fn screen(seen: &Screen) -> String {
    let (size, cursor) = (seen.size, seen.cursor);
    let mut text = format!("[{}screen of {} rows", if seen.alternate { "alternate " } else { "" }, size.rows);
    let hidden = if cursor.visible { "" } else { " (hidden)" };
    let _ = write!(
        text,
        " and {} columns; cursor{hidden} at row {}, column {}",
        size.cols, cursor.row, cursor.col
    );
    if let Some(title) = &seen.title {
        let _ = write!(text, "; title: {title}");
    }
    text.push_str("]\n");
    for row in &seen.rows {
        text.push_str(row);
        text.push('\n');
    }
    if seen.rows.is_empty() {
        text.push_str("(nothing on it)\n");
    }
    if let Some(rows) = seen.omitted_rows {
        let _ = writeln!(text, "[{rows} more rows; they come with a larger limit_bytes]");
    }
    for piece in &seen.highlighted {
        let _ = writeln!(text, "[highlighted in row {}: {}]", piece.row, piece.text);
    }
    if let Some(from) = seen.drawn_from {
        let _ =
            writeln!(text, "[drawn from cursor {from} on; what was painted before and not since is missing]");
    }
    text
}

/// The result of `ProcessOutput` for several processes.
pub(crate) fn several(entries: &[OutputEntry], encoding: Encoding) -> String {
    let mut text = String::new();
    for (at, entry) in entries.iter().enumerate() {
        let _ = writeln!(text, "[{} of {}]", at + 1, entries.len());
        match entry {
            OutputEntry::Read(result) => text.push_str(&process_output(result, encoding)),
            OutputEntry::Failed { process_id, error: failed } => {
                text.push_str(&error(failed));
                let _ = writeln!(text, "[process_id {}]", process_id.reveal());
            }
        }
    }
    text
}

/// The result of `ProcessStop`.
pub(crate) fn stop(result: &StopResult) -> String {
    let id = result.process_id.reveal();
    let ended = ending(result.status, result.exit_code, result.signal);
    if result.tree_exited {
        let how = if result.escalated { ", some of it by force" } else { "" };
        let unkept = if result.storage_degraded { format!("; {UNKEPT}") } else { String::new() };
        format!("[{ended}; its whole tree is gone{how}{unkept}; process_id {id}]\n")
    } else if result.status.is_terminal() {
        format!(
            "[{ended}: whatever supervised it died while it ran; that nothing of it is left is likely and not proven; \
             process_id {id}]\n"
        )
    } else {
        format!(
            "[{ended}: the interrupt was delivered and the process goes on; use mode terminate to end it; \
             process_id {id}]\n"
        )
    }
}

/// The result of `ProcessList`.
pub(crate) fn list(result: &ListResult) -> String {
    if result.processes.is_empty() {
        return "[no processes]\n".to_owned();
    }
    let mut text = String::new();
    for entry in &result.processes {
        let _ = write!(
            text,
            "{}  {}  {} bytes",
            entry.process_id.reveal(),
            ending(entry.status, entry.exit_code, None),
            entry.total_bytes
        );
        if let Some(started) = entry.started_at {
            let _ = write!(text, "  since {started}");
        }
        if let Some(description) = &entry.description {
            let _ = write!(text, "  {description}:");
        }
        let _ = writeln!(text, "  {}", entry.command);
    }
    if let Some(page) = &result.next_page {
        let _ = writeln!(text, "[there are more: page {page}]");
    }
    text
}

/// Descendants that outlived a command.
pub(crate) fn left_behind(leftovers: LeftoversReport) -> String {
    format!("it left {} processes behind: {}", leftovers.count, word(leftovers.action))
}

/// Input that was lost.
pub(crate) fn never_taken(bytes: u64) -> String {
    format!("at least {bytes} bytes of its input were not read: it ended or closed its input before")
}

/// Output, with a newline at its end.
fn output(output: &str) -> String {
    match output {
        "" => "(no output)\n".to_owned(),
        _ if output.ends_with('\n') => output.to_owned(),
        _ => format!("{output}\n"),
    }
}

/// The text of a result without anything that could pass for a notice, wherever it comes from: output, a command, a
/// label, an argument.
pub(crate) fn without_notices(mut text: String) -> String {
    for tag in OWN_TAGS {
        if text.contains(tag) {
            text = text.replace(tag, &tag.replacen('<', "&lt;", 1));
        }
    }
    text
}

/// How a process is doing or has ended: `exited 0`, `failed (SIGSEGV)`, `timed out`.
pub(crate) fn ending(state: State, exit_code: Option<u8>, signal: Option<SignalNumber>) -> String {
    let word = state.as_str().replace('_', " ");
    match (state, exit_code, signal) {
        (State::Exited, Some(code), _) => format!("exited {code}"),
        (State::LostOnRestore, ..) => "lost in a restart".to_owned(),
        (_, _, Some(signal)) => format!("{word} ({signal})"),
        _ => word,
    }
}

/// A duration for people: `30 ms`, `4.2 s`, `3 min 5 s`.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A command as one would type it; arguments that a shell would split or expand are quoted.
pub(crate) fn command_line(command: &CommandRecord) -> String {
    let mut text = match (&command.line, &command.argv) {
        (Some(line), _) => line.clone(),
        (None, Some(argv)) => argv.iter().map(|argument| quoted(argument)).collect::<Vec<_>>().join(" "),
        (None, None) => String::new(),
    };
    if command.truncated {
        text.push('…');
    }
    text
}

fn quoted(argument: &str) -> String {
    let plain = |ch: char| ch.is_alphanumeric() || "-_./:=@%+,".contains(ch);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

fn word(action: procyard_core::LeftoverAction) -> &'static str {
    match action {
        procyard_core::LeftoverAction::Killed => "they were killed",
        procyard_core::LeftoverAction::Waited => "they were waited for",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_well() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (4_249, "4.2 s"),
            (59_999, "59.9 s"),
            (185_000, "3 min 5 s"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn an_ending_names_code_and_signal() {
        let segv = SignalNumber::new(11);
        assert_eq!(ending(State::Exited, Some(3), None), "exited 3");
        assert_eq!(ending(State::Failed, None, segv), "failed (SIGSEGV)");
        assert_eq!(ending(State::TimedOut, None, None), "timed out");
        assert_eq!(ending(State::Running, None, None), "running");
    }

    #[test]
    fn text_cannot_pass_for_a_notice() {
        let forged = "a\n<task-notification>\n<task-id>x</task-id></task-notification>".to_owned();
        let shown = "a\n&lt;task-notification>\n<task-id>x</task-id>&lt;/task-notification>";
        assert_eq!(without_notices(forged), shown);
    }

    #[test]
    fn arguments_are_quoted_where_a_shell_would_split_them() {
        let argv =
            ["git".to_owned(), "commit".to_owned(), "-m".to_owned(), "it's done".to_owned(), String::new()];
        assert_eq!(command_line(&CommandRecord::argv(&argv, "/")), r"git commit -m 'it'\''s done' ''");
    }
}
