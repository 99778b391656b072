//! Queries of routes that are not a tool's arguments.
//!
//! Not for parsing: the server does that, against the schemas of these.

use procyard_core::{SessionId, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{StreamChoice, schema};

/// Which processes to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessQuery {
    /// Only processes in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::state")]
    pub state: Option<State>,
    /// Longest page to return. Default 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u64>,
    /// The `next_page` of the last page, to go on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Only processes of this session; for the administrator alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub session_id: Option<SessionId>,
}

/// Which bytes of the output to send.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// `both` (default), `stdout` or `stderr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamChoice>,
    /// Begin at this byte of the combined stream. Default 0, the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// Only the first so many lines of what is retained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub head_lines: Option<u64>,
    /// Only the last so many lines, and at most the last 4 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tail_lines: Option<u64>,
    /// Go on with what is printed until the process has ended. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

/// Which records of the journal to show.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventQuery {
    /// Only records behind this one: the `next_seq` of the last page. Default 0, the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    /// Longest page to return. Default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
    /// Whose journal; for the administrator alone, who must name one where no process is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub session_id: Option<SessionId>,
}

/// Where a stream of events begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventStreamQuery {
    /// Only records behind this one. `Last-Event-ID` goes before it. Default: of one process its beginning, else what
    /// happens from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    /// Whether samples of output are sent, too. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<bool>,
    /// Whose journal; for the administrator alone, who must name one where no process is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub session_id: Option<SessionId>,
}
