//! `ProcessStop`: ends a process and everything it started.
//!
//! Not for how a stop escalates: the supervisor does that.

use procyard_core::{Handle, Reason, SignalNumber, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LeftoversReport, Notification, Time, schema};

/// How a process is to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    /// As ^C does; never escalates.
    Interrupt,
    /// SIGTERM to the whole tree, SIGKILL after the grace.
    #[default]
    Terminate,
    /// SIGKILL to the whole tree at once.
    Kill,
}

/// Arguments of `ProcessStop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopArguments {
    /// The process to stop.
    #[schemars(schema_with = "schema::handle")]
    pub process_id: Handle,
    /// `terminate` (default) asks every process of the tree to end and kills what is left after the grace; `kill`
    /// kills at once; `interrupt` is ^C and never escalates, so the process may go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "terminate"))]
    pub mode: Option<StopMode>,
    /// Milliseconds that `terminate` leaves before it kills, or that `interrupt` waits for the exit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 600_000))]
    pub grace_ms: Option<u64>,
}

/// Result of `ProcessStop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopResult {
    /// The process.
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
    /// When the command began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Whether the process and every descendant are gone: proven. True whenever it has ended, but for some that were lost
    /// with the program that supervised them.
    pub tree_exited: bool,
    /// Whether something had to be killed after it was asked to end.
    pub escalated: bool,
    /// Descendants that outlived the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<LeftoversReport>,
    /// Whether something of it, such as the record of its end, could not be written to disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub storage_degraded: bool,
    /// What has happened to other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Notification>,
}
