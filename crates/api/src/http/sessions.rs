//! Sessions and loops, as their administrator sees them.
//!
//! Not for what a loop may see: it never learns of another.

use procyard_core::{LoopId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Asks for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    /// The session to open again, with what it holds. Default: a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub session_id: Option<SessionId>,
}

/// An open session and the first token for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCreated {
    /// The session.
    #[schemars(schema_with = "schema::uuid")]
    pub session_id: SessionId,
    /// A new loop in it.
    #[schemars(schema_with = "schema::uuid")]
    pub loop_id: LoopId,
    /// The token of that loop. It is told once and kept nowhere.
    pub token: String,
}

/// Asks for a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateLoop {
    /// A loop of this session that lost its token: it gets another one, and the earlier ones stay valid. Default: a new
    /// loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub loop_id: Option<LoopId>,
}

/// A loop and a token for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoopCreated {
    /// The loop.
    #[schemars(schema_with = "schema::uuid")]
    pub loop_id: LoopId,
    /// Its token. It is told once and kept nowhere.
    pub token: String,
}

/// One loop of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoopInfo {
    /// The loop.
    #[schemars(schema_with = "schema::uuid")]
    pub loop_id: LoopId,
    /// How many valid tokens it has.
    pub tokens: u64,
    /// How many of its processes are starting or running.
    pub running: u64,
    /// How many of its completed processes are retained.
    pub retained: u64,
}

/// An open session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// The session.
    #[schemars(schema_with = "schema::uuid")]
    pub session_id: SessionId,
    /// Its loops that have a token or a process, in the order of their ids.
    pub loops: Vec<LoopInfo>,
}

/// The open sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    /// In the order of their ids.
    pub sessions: Vec<SessionInfo>,
}

impl std::fmt::Debug for SessionCreated {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { session_id, loop_id, .. } = self;
        let mut shown = f.debug_struct("SessionCreated");
        shown.field("session_id", session_id).field("loop_id", loop_id).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for LoopCreated {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoopCreated").field("loop_id", &self.loop_id).finish_non_exhaustive()
    }
}
