//! Processes as resources: what a list and a single look show.
//!
//! Not for output: that is read by cursor or as bytes.

use procyard_core::{LoopId, Reason, SessionId, SignalNumber, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BashResult, LeftoversReport, LimitsReport, ListEntry, Time, schema};

/// What became of a process, in the words of job systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessOutcome {
    /// It is starting or running.
    Running,
    /// It exited with code 0.
    Completed,
    /// It exited with another code, failed, or was lost.
    Failed,
    /// Its deadline passed.
    TimedOut,
    /// It was interrupted, terminated or killed.
    Killed,
}

impl ProcessOutcome {
    /// The outcome of a process in this state, with this exit code.
    ///
    /// ```
    /// use procyard_api::http::ProcessOutcome;
    /// use procyard_core::State;
    ///
    /// assert_eq!(ProcessOutcome::of(State::Exited, Some(0)), ProcessOutcome::Completed);
    /// assert_eq!(ProcessOutcome::of(State::Exited, Some(1)), ProcessOutcome::Failed);
    /// assert_eq!(ProcessOutcome::of(State::Terminated, None), ProcessOutcome::Killed);
    /// ```
    pub fn of(state: State, exit_code: Option<u8>) -> Self {
        match state {
            State::Starting | State::Running => Self::Running,
            State::Exited if exit_code == Some(0) => Self::Completed,
            State::Exited | State::Failed | State::LostOnRestore => Self::Failed,
            State::TimedOut => Self::TimedOut,
            State::Interrupted | State::Terminated | State::Killed => Self::Killed,
        }
    }
}

/// Everything that is known of a process but its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessDetails {
    /// What a list of the tools shows of it.
    #[serde(flatten)]
    pub entry: ListEntry,
    /// Its state; the same as `status`.
    #[schemars(schema_with = "schema::state")]
    pub state: State,
    /// What became of it.
    pub outcome: ProcessOutcome,
    /// When it was admitted.
    pub created_at: Time,
    /// How long it ran, in milliseconds, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The lifetime deadline in force, in seconds from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// Whether it lives independently of the call that started it.
    pub backgrounded: bool,
    /// The oldest byte of output that can still be read.
    pub retained_from: u64,
    /// Bytes of input accepted and not yet taken by the process; what its pipe or terminal holds for it counts as taken.
    pub pending_input_bytes: u64,
    /// The signal that ended it.
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
    /// Whether a terminate had to kill some of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escalated: bool,
    /// Descendants that it left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<LeftoversReport>,
    /// Rows of its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Columns of its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// What contains it.
    pub tier: String,
    /// The caps on what it may take, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsReport>,
    /// Whether the process and every descendant are proven to be gone.
    pub tree_exited: bool,
    /// True when its tree could not be proven empty within the bound; the proof goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub teardown_failed: bool,
    /// True when the disk refused part of its output or record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub storage_degraded: bool,
    /// Its session; for the administrator alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub session_id: Option<SessionId>,
    /// Its loop; for the administrator alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub loop_id: Option<LoopId>,
}

/// A page of processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessPage {
    /// Newest first.
    pub processes: Vec<ProcessDetails>,
    /// Give this as `page` to get the rest; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page: Option<String>,
}

/// A process that was started, or that the key had started before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartReply {
    /// The process.
    pub process: ProcessDetails,
    /// What Bash answers, with the output so far, warnings and news of other processes.
    pub result: BashResult,
}

/// A new size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeBody {
    /// Rows.
    #[schemars(range(min = 1, max = 2000))]
    pub rows: u16,
    /// Columns.
    #[schemars(range(min = 1, max = 2000))]
    pub cols: u16,
}

/// The body of a request that needs none: nothing, or an empty object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}
