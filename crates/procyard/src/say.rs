//! What procyard itself says on stderr, in which form, and to whom it no longer can.
//!
//! Not for the output of commands, and not for results: those go to stdout.

use std::fmt::Display;
use std::io::Write;

use anyhow::Context as _;
use serde_json::json;

use crate::config::{Log, LogFormat};

/// The form of what procyard says on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// Lines for people, which begin with `procyard: `.
    Text,
    /// Lines of JSON, as `--json` asks for: a note is `{"note": …}`, a failure is `{"error": …}`, and nothing else
    /// comes between.
    Json,
}

impl Voice {
    /// As the flag `--json` says.
    pub(crate) fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }

    /// Says something that is no failure.
    pub(crate) fn note(self, line: impl Display) {
        match self {
            Self::Text => say(line),
            Self::Json => print_line(&json!({"note": line.to_string()})),
        }
    }

    /// How procyard's own logs are written beside this.
    pub(crate) fn logs(self, log: &Log) -> Log {
        let format = if self == Self::Json { LogFormat::Json } else { log.format };
        Log { format, ..log.clone() }
    }
}

/// Says one line on stderr, as procyard. Nobody may be reading any more, and there is nobody else to tell.
pub(crate) fn say(line: impl Display) {
    let _ = print(std::io::stderr(), format_args!("procyard: {line}\n"));
}

/// Says one line of JSON on stderr.
pub(crate) fn print_line(value: &serde_json::Value) {
    let _ = print(std::io::stderr(), format_args!("{value}\n"));
}

/// Writes a text in one piece, so that the lines of other programs on the same terminal do not come between.
pub(crate) fn print(mut to: impl Write, text: impl Display) -> std::io::Result<()> {
    let text = text.to_string();
    to.write_all(text.as_bytes()).and_then(|()| to.flush())
}

/// Gives a text on stdout; false when nobody reads it any more.
pub(crate) fn give(text: impl Display) -> anyhow::Result<bool> {
    match print(std::io::stdout(), text) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("standard output cannot be written"),
    }
}
