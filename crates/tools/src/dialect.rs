//! Other vocabularies over the same tools: names, arguments, defaults and result texts that a model knows from elsewhere.
//!
//! A dialect translates and no more: what a command is, who owns it and how it ends stays with the supervisor, and what
//! a dialect has no word for cannot be said in it. Its results are text alone. Each is a file of its own; here is what
//! they share. Not for choosing one: that is whoever serves a client.

mod claude;
mod codex;
mod filter;
mod places;
mod unread;

use std::str::FromStr;
use std::sync::Arc;

use procyard_core::{ErrorCode, Handle, PublicError, State};
use procyard_supervisor::Snapshot;
use procyard_text::shorten;
use serde_json::{Map, Value};

pub(crate) use places::Claim;

use crate::bash::{diagnostic, leftovers, unread_input};
use crate::definitions::{ToolAnnotations, ToolDefinition};
use crate::escape;
use crate::limits;
use crate::notices::name_of;
use crate::render;
use crate::reply::Answer;
use crate::surface::Surface;
use crate::toolbox::Toolbox;

/// Characters of a command in a sentence of a result.
const COMMAND_MAX: usize = 200;

/// Processes that an error names.
const NAMED_MAX: usize = 10;

/// The vocabulary in which a model speaks to its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Bash, `ProcessOutput`, `ProcessInput`, `ProcessStop`, `ProcessList`.
    #[default]
    Native,
    /// `exec_command` and `write_stdin`, as the Codex CLI has them.
    Codex,
    /// Bash, `BashOutput`, `KillShell`, `TaskOutput` and `TaskStop`, as Claude Code has them.
    Claude,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 3] = [Self::Native, Self::Codex, Self::Claude];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Codex => "codex",
            Self::Claude => "claude",
        }
    }

    /// The tools of `toolbox` in this vocabulary. What a caller has read of its processes is remembered by the surface, so
    /// make one for each owner and keep it.
    pub fn over(self, toolbox: Arc<Toolbox>) -> Arc<dyn Surface> {
        match self {
            Self::Native => toolbox,
            Self::Codex => Arc::new(codex::Codex::new(toolbox)),
            Self::Claude => Arc::new(claude::Claude::new(toolbox)),
        }
    }
}

/// A name that no dialect has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no dialect `{0}`; there are native, codex and claude")]
pub struct UnknownDialect(String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.as_str() == name);
        found.ok_or_else(|| UnknownDialect(shorten(name, 40)))
    }
}

/// A tool whose results are text alone.
fn tool(
    name: &'static str,
    title: &'static str,
    description: &str,
    input_schema: Value,
    annotations: ToolAnnotations,
) -> ToolDefinition {
    let description = description.to_owned();
    ToolDefinition { name, title, description, input_schema, output_schema: None, annotations }
}

/// Runs whatever it is given.
const STARTS: ToolAnnotations =
    ToolAnnotations { read_only: false, destructive: true, idempotent: false, open_world: true };

/// Only looks, but what it has shown it does not show again.
const LOOKS: ToolAnnotations =
    ToolAnnotations { read_only: true, destructive: false, idempotent: false, open_world: false };

/// Ends something.
const STOPS: ToolAnnotations =
    ToolAnnotations { read_only: false, destructive: true, idempotent: true, open_world: false };

/// An answer that is text alone.
fn text_only(text: String, told: Vec<Handle>) -> Answer {
    Answer {
        structured: Value::Object(Map::new()),
        text,
        told,
        attendance: None,
        left_running: None,
        read: None,
    }
}

/// Takes arguments out of a schema, and with them the possibility to give them.
fn without(mut schema: Value, names: &[&str]) -> Value {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !names.contains(&name.as_str()));
    }
    schema
}

/// An error under the names that its arguments have in a dialect.
fn renamed(error: PublicError, names: &[(&str, &str)]) -> PublicError {
    let own = error.field.as_deref().and_then(|field| names.iter().find(|(native, _)| *native == field));
    match own {
        Some((_, own)) => error.field(*own),
        None => error,
    }
}

/// That there is no such process, and which of the owner's own are running: these vocabularies have no list of them, and a
/// model that has lost a name finds it here.
fn no_such_process(toolbox: &Toolbox, field: &str, naming: fn(&Handle) -> String) -> PublicError {
    let mut running = toolbox.supervisor().list(toolbox.owner());
    running.retain(|process| !process.state.is_terminal());
    running.sort_by_key(|process| std::cmp::Reverse(process.sequence));
    let named: Vec<String> = running
        .iter()
        .take(NAMED_MAX)
        .map(|process| format!("{} ({})", naming(&process.identity.handle), name_of(process, 60)))
        .collect();
    let yours = if named.is_empty() {
        "none of yours is running".to_owned()
    } else {
        format!("yours that run: {}", named.join(", "))
    };
    PublicError::new(ErrorCode::NotFound, format!("there is no such process; {yours}")).field(field)
}

/// What there is to say of a process beyond its output and how it ended, a line each.
fn notes(snapshot: &Snapshot) -> Vec<String> {
    let outcome = snapshot.outcome.as_ref().filter(|_| snapshot.state.is_terminal());
    let mut notes: Vec<String> = outcome.and_then(diagnostic).into_iter().collect();
    notes.extend(unread_input(snapshot).map(render::never_taken));
    if let Some(left) = outcome.and_then(leftovers) {
        notes.push(render::left_behind(left));
    }
    notes.extend(limits::warning(snapshot).filter(|warning| !notes.contains(warning)));
    if snapshot.storage_degraded {
        notes.push(render::UNKEPT.to_owned());
    }
    if snapshot.teardown_failed && !snapshot.state.is_terminal() {
        notes.push("it was stopped, but not everything it started could be ended yet".to_owned());
    }
    notes
}

/// What to tell a model whose command tries to leave supervision.
fn attempts(command: &str, instead: &str) -> Vec<String> {
    escape::attempts(command)
        .into_iter()
        .map(|word| {
            format!(
                "`{word}` does not take a process out of supervision, it ends with the command; {instead}"
            )
        })
        .collect()
}

/// The exit code as a shell has it: its own, else 128 and the signal. `None` where nothing is known.
fn exit_code(snapshot: &Snapshot) -> Option<u16> {
    let outcome = snapshot.outcome.as_ref().filter(|_| snapshot.state.is_terminal())?;
    match (outcome.exit_code, outcome.signal) {
        (Some(code), _) => Some(u16::from(code)),
        (None, Some(signal)) => Some(128 + u16::from(signal.number())),
        (None, None) => None,
    }
}

/// How a process ended, where the exit code does not say it: by a signal, at its deadline, by a stop, in a restart.
fn unusual_end(snapshot: &Snapshot) -> Option<String> {
    let state = snapshot.state;
    if !state.is_terminal() || state == State::Exited {
        return None;
    }
    Some(render::ending(state, None, snapshot.outcome.as_ref().and_then(|outcome| outcome.signal)))
}

/// The command as one line.
fn command_of(snapshot: &Snapshot) -> String {
    shorten(&render::command_line(&snapshot.command), COMMAND_MAX)
}

/// Output inside a tag: the tag's own end is the only thing in it that has to be disarmed.
fn inside(tag: &str, output: &str) -> String {
    output.replace(&format!("</{tag}"), &format!("&lt;/{tag}"))
}

#[cfg(test)]
mod tests {
    use procyard_core::{Outcome, Reason, SignalNumber};

    use super::*;
    use crate::testing;

    #[test]
    fn a_dialect_is_chosen_by_its_name() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.as_str().parse(), Ok(dialect));
        }
        let error = "Codex".parse::<Dialect>().unwrap_err();
        assert!(error.to_string().contains("native, codex and claude"), "{error}");
    }

    #[test]
    fn an_end_by_a_signal_has_the_code_that_a_shell_gives_it() {
        let mut snapshot = testing::snapshot("true", State::Killed);
        snapshot.outcome =
            Some(Outcome { signal: SignalNumber::new(9), ..Outcome::diagnosed(Reason::Killed, "") });
        assert_eq!(exit_code(&snapshot), Some(137));
        assert_eq!(unusual_end(&snapshot).as_deref(), Some("killed (SIGKILL)"));
        snapshot.state = State::Running;
        assert_eq!((exit_code(&snapshot), unusual_end(&snapshot)), (None, None));
    }

    #[test]
    fn output_does_not_close_the_tag_it_is_in() {
        assert_eq!(inside("stdout", "a</stdout>\n<b>"), "a&lt;/stdout>\n<b>");
    }

    #[test]
    fn an_error_names_the_arguments_of_the_dialect() {
        let error = renamed(PublicError::argument("argv", "no"), &[("argv", "cmd")]);
        assert_eq!(error.field.as_deref(), Some("cmd"));
        let error = renamed(PublicError::argument("workdir", "no"), &[("argv", "cmd")]);
        assert_eq!(error.field.as_deref(), Some("workdir"));
    }
}
