//! What the service says of itself.
//!
//! Not for metrics: those are text for Prometheus.

use std::collections::BTreeMap;

use procyard_core::{SessionId, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LimitReport, schema};

/// That the service is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`; a service that is being shut down answers with an error.
    pub status: String,
}

/// How many processes are in which state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessCounts {
    /// Every state, with the number of processes in it.
    #[schemars(schema_with = "schema::state_counts")]
    pub states: BTreeMap<State, u64>,
    /// How many are starting or running.
    pub running: u64,
    /// How many completed ones are retained.
    pub retained: u64,
    /// How many have a tree that could not be proven empty yet.
    pub teardown_failed: u64,
    /// How many lost part of their output or record to a disk that refused it.
    pub storage_degraded: u64,
}

/// A record that did not load. It is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadableRecord {
    /// Its name, shortened: the whole one would be a capability.
    pub record: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What opening a session found and did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRecovery {
    /// The session.
    #[schemars(schema_with = "schema::uuid")]
    pub session_id: SessionId,
    /// Completed processes that can be asked for again.
    pub restored: u64,
    /// Processes that were running when their supervisor died: they are gone, and say so.
    pub lost: u64,
    /// Anomalies: records that do not load.
    pub unreadable: Vec<UnreadableRecord>,
    /// What a crash leaves and every start removes: stored output without a record.
    pub orphans_removed: u64,
    /// What a crash leaves and every start removes: temporary files of interrupted saves.
    pub temporaries_removed: u64,
}

/// A session that was open when the service ended and does not open again. It is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnopenedSession {
    /// The session.
    #[schemars(schema_with = "schema::uuid")]
    pub session_id: SessionId,
    /// What is wrong with it.
    pub problem: String,
}

/// What opening the sessions found and did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryReport {
    /// The open sessions, in the order of their ids.
    pub sessions: Vec<SessionRecovery>,
    /// Anomalies: sessions that did not open again.
    pub unopened: Vec<UnopenedSession>,
    /// How many anomalies there are in all of them.
    pub anomalies: u64,
}

/// A tier of containment that is not to be had, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingTier {
    /// The tier.
    pub tier: String,
    /// Why not.
    pub reason: String,
}

/// The quotas in force in each session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaReport {
    /// Running processes of one loop.
    pub running_per_loop: u64,
    /// Running processes of a session.
    pub running_per_session: u64,
    /// Completed processes that are retained in a session.
    pub retained_per_session: u64,
    /// Bytes of output kept on disk for one process.
    pub spool_bytes: u64,
    /// Bytes of output kept on disk for a session.
    pub spool_bytes_total: u64,
}

/// How commands are contained, and what they may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainmentReport {
    /// The tier in force; absent where nothing can be contained, and nothing is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Tiers that are not to be had here.
    pub unavailable: Vec<MissingTier>,
    /// Whether commands can have a terminal.
    pub terminals: bool,
    /// Caps on each command, by name: the value in force, or why there is none.
    pub limits: BTreeMap<String, LimitReport>,
    /// The quotas of a session.
    pub quotas: QuotaReport,
}
