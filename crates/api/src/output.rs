//! `ProcessOutput`: reads what a process has printed, and waits for more.
//!
//! Not for the rules between fields: the tool checks those.

use std::collections::BTreeMap;

use procyard_core::{Handle, PublicError, Reason, SignalNumber, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Notification, Screen, Time, schema};

/// The form of output in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Text without escape sequences and controls.
    #[default]
    SafeText,
    /// The exact bytes.
    Base64,
}

/// Which stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamChoice {
    /// Everything, in the order it was printed.
    #[default]
    Both,
    /// Standard output alone.
    Stdout,
    /// Standard error alone.
    Stderr,
}

/// Whether a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitChoice {
    /// It does not.
    #[default]
    Poll,
    /// Until one of the processes satisfies it.
    Any,
    /// Until each of them does.
    All,
}

/// What a waiting call waits for. The end of a process always satisfies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UntilChoice {
    /// Output beyond the cursor.
    #[default]
    Output,
    /// The end of the process.
    Exit,
    /// Output beyond the cursor that matches a pattern.
    Match,
}

/// The way output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// What was printed, in order.
    #[default]
    Stream,
    /// What a person would see in the terminal now.
    Screen,
}

/// Arguments of `ProcessOutput`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputArguments {
    /// The process to read. Give exactly one of `process_id` and `process_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::handle")]
    pub process_id: Option<Handle>,
    /// Up to 64 different processes to read, or to wait for, in one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::handles")]
    pub process_ids: Option<Vec<Handle>>,
    /// Where to begin: the `next_cursor` of the last result, so that nothing is repeated and nothing is missed.
    /// 0 is the beginning. With `process_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub cursor: Option<u64>,
    /// Where to begin, by process: an object from `process_id` to cursor, 0 for those it does not name. With
    /// `process_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::cursors")]
    pub cursors: Option<BTreeMap<Handle, u64>>,
    /// Instead of a cursor: the last so many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tail_bytes: Option<u64>,
    /// Instead of a cursor: the last so many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tail_lines: Option<u64>,
    /// Budget of `output` in bytes, for each process: of rendered text, or with base64 of raw bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub limit_bytes: Option<u64>,
    /// `safe_text` (default) or `base64` for the exact bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "safe_text"))]
    pub encoding: Option<Encoding>,
    /// `both` (default), `stdout` or `stderr`. Cursors always count both streams together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "both"))]
    pub stream: Option<StreamChoice>,
    /// Show what a progress line ended as instead of each of its repaints. With `safe_text` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub collapse: Option<bool>,
    /// `poll` (default) returns at once; `any` waits until one process satisfies `until`, `all` until each does.
    /// Waiting costs nothing: never poll in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "poll"))]
    pub wait: Option<WaitChoice>,
    /// What to wait for: `output` beyond the cursor (default), the `exit` of the process, or a `match` of
    /// `pattern`. The end of the process ends the wait in any case. Needs `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "output"))]
    pub until: Option<UntilChoice>,
    /// Regular expression (Rust syntax, linear time, no look-around; `^` and `$` match at lines) that is searched in
    /// the text beyond the cursor. Needs `until: match`. A match spans at most 64 KiB of text: what is longer is none.
    /// While the process runs, `$` matches only before a line end that was printed. A prompt has none behind it: wait for it
    /// without `$` (`\$ ` and not `\$ $`), or for `output` with `quiet_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub pattern: Option<String>,
    /// Longest wait in milliseconds. It never ends the process. Needs `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 600_000))]
    #[schemars(extend("default" = 10_000))]
    pub timeout_ms: Option<u64>,
    /// After output came, wait until it has been quiet for this many milliseconds, so that you get whole answers
    /// instead of first bytes; within `timeout_ms`. Needs `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    #[schemars(extend("default" = 0))]
    pub quiet_ms: Option<u64>,
    /// `stream` (default): what was printed, in order. `screen`: what a person would see in the terminal now, in
    /// `screen` instead of `output`: for editors, pagers and other full-screen programs, never for logs. Needs a process
    /// that was started with `tty: true`; `cursor` then only says where a wait begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "stream"))]
    pub view: Option<View>,
}

/// How to get the exact bytes of a process's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// The process to read.
    #[schemars(schema_with = "schema::handle")]
    pub id: Handle,
    /// The encoding to ask for.
    pub encoding: Encoding,
}

/// What a pattern matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Matched {
    /// Where the match begins in the stream.
    pub cursor: u64,
    /// The matched text, as much of it as `limit_bytes` allows.
    pub text: String,
    /// True when that is not all of it: the rest is in the output behind `cursor`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Whether a process takes input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StdinState {
    /// It does.
    Open,
    /// It did.
    Closed,
    /// It never did.
    None,
}

/// What was read of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputResult {
    /// The process.
    #[schemars(schema_with = "schema::handle")]
    pub process_id: Handle,
    /// Its state.
    #[schemars(schema_with = "schema::state")]
    pub status: State,
    /// What was read, in the encoding that was asked for. Empty where the screen was asked for.
    pub output: String,
    /// What the terminal shows, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<Screen>,
    /// Where `output` begins in the stream.
    pub start_cursor: u64,
    /// Where to read on.
    pub next_cursor: u64,
    /// Bytes printed so far.
    pub total_bytes: u64,
    /// The oldest byte that can still be read.
    pub retained_from: u64,
    /// Whether bytes from the cursor on are missing, because they are no longer retained or never reached the disk.
    pub gap: bool,
    /// Whether escape sequences, controls or invalid bytes were removed or replaced.
    pub normalized: bool,
    /// Whether it looks like binary: then read it as base64.
    pub binary: bool,
    /// How to get the exact bytes.
    pub artifact: Artifact,
    /// Whether it takes input.
    pub stdin: StdinState,
    /// Bytes of input that were accepted and that it never took: it ended, or closed its input, before. There can be more:
    /// what a pipe or terminal had taken for it, up to 64 KiB, is not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_input_bytes: Option<u64>,
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
    /// When the command began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// When it last printed something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<Time>,
    /// True when the disk refused part of its output or record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub storage_degraded: bool,
    /// What the pattern matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<Matched>,
    /// What has happened to other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Notification>,
}

/// One of several processes: what was read, or why it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OutputEntry {
    /// What was read.
    Read(Box<OutputResult>),
    /// Why it could not be read.
    Failed {
        /// The process.
        #[schemars(schema_with = "schema::handle")]
        process_id: Handle,
        /// The error of this entry alone.
        #[schemars(schema_with = "schema::error")]
        error: PublicError,
    },
}

/// What was read of several processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputResults {
    /// One entry for each process, in the order of `process_ids`.
    pub results: Vec<OutputEntry>,
    /// What has happened to other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Notification>,
}

/// Result of `ProcessOutput`: of `process_id` the object itself, of `process_ids` a list of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OutputReply {
    /// Of `process_ids`.
    Several(OutputResults),
    /// Of `process_id`.
    One(Box<OutputResult>),
}
