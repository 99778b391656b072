//! What a caller asks a runner for.
//!
//! Not for policy: quotas, deadlines and retention are a supervisor's; the deadline here only tells the runner what
//! the supervisor will enforce.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use procyard_core::{EffectiveLimits, Enforcement, Origin};
use serde::{Deserialize, Serialize};

/// What is executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandSpec {
    /// A command line, run by a shell.
    Shell(String),
    /// A program and its arguments; no shell sees them. Never empty.
    Argv(Vec<String>),
}

/// What the environment of the command is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentBase {
    /// The runner's own environment.
    #[default]
    Inherit,
    /// `PATH`, `HOME`, `USER`, `LANG`, `LC_*`, `TMPDIR`, `SHELL` and `TZ` of the runner's environment.
    Minimal,
}

/// The environment of the command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// What it starts from.
    pub base: EnvironmentBase,
    /// Variables set (`Some`) or removed (`None`) after that.
    pub changes: BTreeMap<OsString, Option<OsString>>,
}

/// Rows and columns of a terminal, both at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Rows of text.
    pub rows: u16,
    /// Columns of text.
    pub cols: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// What the command's standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    /// `/dev/null`: at end of file from the start.
    #[default]
    Null,
    /// A pipe that [`Process::take_stdin`](crate::Process::take_stdin) writes to. A terminal always has one.
    Open,
}

/// Caps on what the command may take, each optional.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceLimits {
    /// Bytes of memory for the whole tree, swap included where the kernel counts it; at least 1.
    pub memory_max: Option<u64>,
    /// Processes and threads of the whole tree; at least 1.
    pub pids_max: Option<u32>,
    /// CPU niceness, −20 to 19.
    pub nice: Option<i32>,
    /// `oom_score_adj`, −1000 to 1000: higher dies first.
    pub oom_score_adj: Option<i32>,
}

/// Of a cap that was asked for and that the runner says nothing of.
const UNTOLD: &str = "the runner does not say that it enforces this";

impl ResourceLimits {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What a record and a result say of the caps: what the runner says, and that the rest of what was asked for is not
    /// enforced. `None` where nothing was asked for.
    ///
    /// ```
    /// use procyard_core::{EffectiveLimits, Enforcement};
    /// use procyard_runner::ResourceLimits;
    ///
    /// let asked = ResourceLimits { pids_max: Some(64), ..ResourceLimits::default() };
    /// let silent = asked.effective(EffectiveLimits::default()).unwrap();
    /// assert!(matches!(silent.pids_max, Some(Enforcement::NotEnforced(_))));
    /// assert_eq!(ResourceLimits::default().effective(silent), None);
    /// ```
    pub fn effective(&self, said: EffectiveLimits) -> Option<EffectiveLimits> {
        fn told<T: Copy>(said: Option<Enforcement<T>>, asked: Option<T>) -> Option<Enforcement<T>> {
            match said {
                // A runner is foreign code, and its words go into the record.
                Some(Enforcement::NotEnforced(why)) => Some(Enforcement::not(&why)),
                Some(in_force) => Some(in_force),
                None => asked.map(|_| Enforcement::not(UNTOLD)),
            }
        }
        (!self.is_empty()).then(|| EffectiveLimits {
            memory_max: told(said.memory_max, self.memory_max),
            pids_max: told(said.pids_max, self.pids_max),
            nice: told(said.nice, self.nice),
            oom_score_adj: told(said.oom_score_adj, self.oom_score_adj),
            core_max: told(said.core_max, None),
        })
    }
}

/// A request to start one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRequest {
    /// What is executed.
    pub command: CommandSpec,
    /// Where. Absolute.
    pub workdir: PathBuf,
    /// With which environment.
    pub environment: Environment,
    /// `Some` for a terminal of this size, `None` for pipes.
    pub terminal: Option<TerminalSize>,
    /// What standard input is in pipe mode.
    pub stdin: StdinMode,
    /// How long the supervisor will let it run.
    pub deadline: Option<Duration>,
    /// Caps on resources.
    pub limits: ResourceLimits,
    /// Which tool call asked for it.
    pub origin: Origin,
}

impl ProcessRequest {
    /// A request with pipes, an empty standard input, the inherited environment and no limits.
    pub fn new(command: CommandSpec, workdir: impl Into<PathBuf>, origin: Origin) -> Self {
        Self {
            command,
            workdir: workdir.into(),
            environment: Environment::default(),
            terminal: None,
            stdin: StdinMode::Null,
            deadline: None,
            limits: ResourceLimits::default(),
            origin,
        }
    }
}

#[cfg(test)]
mod tests {
    use procyard_core::NOT_ENFORCED_MAX;

    use super::*;

    #[test]
    fn a_runners_reason_is_cut_to_what_a_record_takes() {
        let asked = ResourceLimits { memory_max: Some(1), ..ResourceLimits::default() };
        let long = Enforcement::NotEnforced("why ".repeat(NOT_ENFORCED_MAX));
        let said = EffectiveLimits {
            memory_max: Some(long),
            pids_max: Some(Enforcement::InForce(3)),
            ..EffectiveLimits::default()
        };
        let effective = asked.effective(said).unwrap();
        assert!(effective.is_bounded() && effective.memory_max.unwrap().why_not().is_some());
        assert_eq!(effective.pids_max, Some(Enforcement::InForce(3)), "what the runner sets by itself");
    }
}
