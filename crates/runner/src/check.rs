//! What of a request is wrong for every runner, by the field that it is about.
//!
//! Not for what one runner does not offer: that it refuses itself.

use std::ffi::OsStr;

use crate::{CommandSpec, ProcessRequest, ResourceLimits, RunnerError, RunnerErrorKind, TerminalSize};

impl ProcessRequest {
    /// Whether some runner could start this: an absolute working directory, a program, names of variables that are
    /// names, a terminal with rows and columns, limits in their ranges, and no NUL in what `execve(2)` takes as text.
    /// Touches no file. Every [`prepare`](crate::Runner::prepare) refuses what this refuses.
    pub fn check(&self) -> Result<(), RunnerError> {
        if !self.workdir.is_absolute() {
            return Err(invalid("workdir", "the working directory must be absolute"));
        }
        if has_nul(self.workdir.as_os_str()) {
            return Err(invalid("workdir", "the working directory holds a NUL"));
        }
        let (field, words) = match &self.command {
            CommandSpec::Shell(line) => ("command", std::slice::from_ref(line)),
            CommandSpec::Argv(argv) => ("argv", argv.as_slice()),
        };
        if words.is_empty() {
            return Err(invalid(field, "there is no program"));
        }
        if words.iter().any(|word| has_nul(word.as_ref())) {
            return Err(invalid(field, "the command holds a NUL"));
        }
        for (name, value) in &self.environment.changes {
            if name.is_empty() || has_nul(name) || name.as_encoded_bytes().contains(&b'=') {
                return Err(invalid("env", "a variable's name is empty or holds = or NUL"));
            }
            if value.as_deref().is_some_and(has_nul) {
                return Err(invalid("env", "a variable's value holds a NUL"));
            }
        }
        self.terminal.map_or(Ok(()), TerminalSize::check)?;
        self.limits.check()
    }
}

impl TerminalSize {
    /// Whether there are rows and columns.
    pub fn check(self) -> Result<(), RunnerError> {
        match self {
            TerminalSize { rows: 0, .. } => Err(invalid("rows", "rows and cols are at least 1")),
            TerminalSize { cols: 0, .. } => Err(invalid("cols", "rows and cols are at least 1")),
            _ => Ok(()),
        }
    }
}

impl ResourceLimits {
    /// Whether each is in its range.
    fn check(&self) -> Result<(), RunnerError> {
        if self.nice.is_some_and(|nice| !(-20..=19).contains(&nice)) {
            return Err(invalid("limits", "niceness is from -20 to 19"));
        }
        if self.oom_score_adj.is_some_and(|score| !(-1000..=1000).contains(&score)) {
            return Err(invalid("limits", "oom_score_adj is from -1000 to 1000"));
        }
        Ok(())
    }
}

fn invalid(field: &'static str, message: &str) -> RunnerError {
    RunnerError::new(RunnerErrorKind::InvalidRequest(field), message)
}

fn has_nul(text: &OsStr) -> bool {
    text.as_encoded_bytes().contains(&0)
}
