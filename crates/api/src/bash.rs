//! Bash: starts a command.
//!
//! Not for the rules between fields (`command` or `argv`, what a timeout may be): the tool checks those.

use std::collections::BTreeMap;

use procyard_core::{Handle, LeftoverAction, Reason, SignalNumber, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Notification, Time, schema};

/// What becomes of descendants that outlive the command itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeftoverChoice {
    /// They are ended.
    #[default]
    Kill,
    /// The process counts as running until they are gone.
    Wait,
}

/// Arguments of Bash.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashArguments {
    /// Command line, run by bash; at most 64 KiB. Give exactly one of `command` and `argv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<String>,
    /// Program and arguments, run without a shell: nothing needs quoting and nothing is expanded. At most 64 KiB
    /// together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub argv: Option<Vec<String>>,
    /// Working directory, absolute or relative to the workspace. Default: the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub workdir: Option<String>,
    /// Environment variables to set for this command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Seconds that the command may run before it is stopped with everything it started. Foreground: default 120,
    /// at most 600, and 0 is invalid: use `background` for what takes longer. Background or yielded: no limit by
    /// default, and 0 means until the session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 31_536_000))]
    pub timeout: Option<u64>,
    /// Return as soon as the command runs, with its `process_id`. For servers, watchers and everything that takes
    /// longer than you want to wait: read it with `ProcessOutput`, end it with `ProcessStop`; you are notified when it ends.
    /// Never use nohup, setsid or a trailing & instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub background: bool,
    /// Wait this many milliseconds; if the command still runs then, go on in the background and return its
    /// `process_id` with the output so far. For commands that are usually quick but may not be. With `background` it
    /// only adds this wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 600_000))]
    pub yield_time_ms: Option<u64>,
    /// Text for the command's standard input, followed by end of file; at most 1 MiB. Not together with `stdin`
    /// or `tty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// A key of your own that makes a repeated call safe: the same key with the same arguments gives the process
    /// that the first call started instead of a second one; with other arguments it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
    /// Run in a real terminal. Only for programs that need one (editors, prompts that read the terminal): output
    /// then has terminal line endings, and stdout and stderr are one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub tty: bool,
    /// Rows of the terminal. Needs `tty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2000))]
    #[schemars(extend("default" = 24))]
    pub rows: Option<u16>,
    /// Columns of the terminal. Needs `tty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2000))]
    #[schemars(extend("default" = 80))]
    pub cols: Option<u16>,
    /// Keep standard input open for `ProcessInput`; without it the command reads end of file at once. A terminal
    /// always has it open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub stdin: bool,
    /// Budget of `output` in this result, in bytes. Of longer output you get the beginning and the end; what is between
    /// stays readable with `ProcessOutput`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub limit_bytes: Option<u64>,
    /// How many bytes of output to keep for reading; the oldest fall out first. Printing more never ends the
    /// command. May only lower the configured amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_output_bytes: Option<u64>,
    /// What becomes of processes that the command leaves behind when it ends: `kill` (default) ends them, `wait`
    /// counts the command as running until they are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "kill"))]
    pub leftovers: Option<LeftoverChoice>,
    /// Notify you once when nothing was printed for this many milliseconds. Never ends the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 86_400_000))]
    pub stall_ms: Option<u64>,
    /// A short label by which you recognise the command in lists and notifications; at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub description: Option<String>,
}

/// Descendants that outlived the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftoversReport {
    /// How many.
    pub count: u32,
    /// What was done with them.
    #[schemars(schema_with = "schema::word")]
    pub action: LeftoverAction,
}

/// What became of one cap: a value in force, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReport {
    /// The value in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
    /// Why none is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_enforced: Option<String>,
}

/// What became of the caps on what the command may take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitsReport {
    /// Bytes of memory of everything that it starts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_max: Option<LimitReport>,
    /// Processes and threads of everything that it starts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids_max: Option<LimitReport>,
    /// CPU niceness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<LimitReport>,
    /// How early it is ended when the machine is out of memory, -1000 to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_score_adj: Option<LimitReport>,
    /// Bytes of a core dump.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_max: Option<LimitReport>,
    /// How many of its processes were killed because its memory limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_kills: Option<u32>,
}

/// Result of Bash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BashResult {
    /// The process, for the other tools.
    #[schemars(schema_with = "schema::handle")]
    pub process_id: Handle,
    /// Its state.
    #[schemars(schema_with = "schema::state")]
    pub status: State,
    /// The exit code, with `exited` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The signal that ended the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::word")]
    pub signal: Option<SignalNumber>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::word")]
    pub reason: Option<Reason>,
    /// More about a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<String>,
    /// Output as text. Of a finished command the beginning and the end, when it exceeds the budget.
    pub output: String,
    /// Where in the stream `output` begins.
    pub start_cursor: u64,
    /// Where to read on.
    pub next_cursor: u64,
    /// Bytes printed so far.
    pub total_bytes: u64,
    /// Bytes left out between the beginning and the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_bytes: Option<u64>,
    /// True when some bytes that `output` lacks can no longer be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gap: bool,
    /// Whether escape sequences, controls or invalid bytes were removed or replaced.
    pub normalized: bool,
    /// Whether the output looks like binary: then read it as base64.
    pub binary: bool,
    /// Bytes of input that were accepted and that it never took: it ended, or closed its input, before. There can be more:
    /// what a pipe or terminal had taken for it, up to 64 KiB, is not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_input_bytes: Option<u64>,
    /// Whether the process lives independently of this call.
    pub backgrounded: bool,
    /// When the command began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// How long it ran, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Descendants that it left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<LeftoversReport>,
    /// True when the disk refused part of its output or record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub storage_degraded: bool,
    /// The deadline in effect, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// True when it has a terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tty: bool,
    /// The caps on what it may take, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsReport>,
    /// What to do better next time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What has happened to other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Notification>,
}
