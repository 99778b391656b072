//! `ProcessList`: the caller's own processes.
//!
//! Not for anybody else's: a list never shows that others exist.

use procyard_core::{Handle, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Notification, StdinState, Time, schema};

/// Arguments of `ProcessList`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListArguments {
    /// Only processes in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::state")]
    pub state: Option<State>,
    /// Longest list to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    #[schemars(extend("default" = 50))]
    pub limit: Option<u64>,
    /// The `next_page` of the last result, to go on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListEntry {
    /// The process.
    #[schemars(schema_with = "schema::handle")]
    pub process_id: Handle,
    /// Its state.
    #[schemars(schema_with = "schema::state")]
    pub status: State,
    /// The command line, shortened.
    pub command: String,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it has a terminal.
    pub tty: bool,
    /// Whether it takes input.
    pub stdin: StdinState,
    /// When the command began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The exit code, with `exited` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Bytes printed so far.
    pub total_bytes: u64,
    /// When it last printed something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<Time>,
}

/// Result of `ProcessList`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListResult {
    /// Newest first.
    pub processes: Vec<ListEntry>,
    /// Give this as `page` to get the rest; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page: Option<String>,
    /// What has happened to other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Notification>,
}
