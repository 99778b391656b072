//! What an owner is told about its processes without having asked.
//!
//! Not for output: a notification never holds any.

use procyard_core::{Handle, NotificationId, Reason, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Time, schema};

/// What a notification announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotificationKind {
    /// The process has ended.
    Completed,
    /// The process runs and has printed nothing for a while.
    Stalled,
}

/// One notification. The same `id` is the same notification, should it ever come twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notification {
    /// Stable over every delivery.
    #[schemars(schema_with = "schema::uuid")]
    pub id: NotificationId,
    /// What happened.
    pub kind: NotificationKind,
    /// The process.
    #[schemars(schema_with = "schema::handle")]
    pub process_id: Handle,
    /// Its state.
    #[schemars(schema_with = "schema::state")]
    pub status: State,
    /// The exit code of an exited process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::word")]
    pub reason: Option<Reason>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Its label, where it was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// For how many milliseconds a stalled process has printed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_ms: Option<u64>,
    /// How many bytes a stalled process had printed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
}
