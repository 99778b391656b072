//! Journal records, and what a stream of events carries beside them.
//!
//! Not for output as such: a sample shows that there is some.

use procyard_core::{
    EventId, EventKind, ExecutionId, Handle, LifecycleEvent, LoopId, Reason, SignalNumber, State,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Time, schema};

/// One record of the journal: something happened in the life of a process. The `data` of a stream's event whose name is
/// `kind` and whose `id` is `seq`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRecord {
    /// Its number in the journal of its session, ascending.
    pub seq: u64,
    /// Stable over every delivery.
    #[schemars(schema_with = "schema::uuid")]
    pub event_id: EventId,
    /// The process.
    #[schemars(schema_with = "schema::handle")]
    pub process_id: Handle,
    /// The tool call that the process came from.
    #[schemars(schema_with = "schema::uuid")]
    pub execution_id: ExecutionId,
    /// What happened.
    #[schemars(schema_with = "schema::event_kind")]
    pub kind: EventKind,
    /// The state that the process had or got.
    #[schemars(schema_with = "schema::state")]
    pub state: State,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::word")]
    pub reason: Option<Reason>,
    /// When it happened.
    pub at: Time,
    /// When the process was admitted.
    pub created_at: Time,
    /// When its command began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The exit code of an exited process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::word")]
    pub signal: Option<SignalNumber>,
    /// More about a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<String>,
    /// The loop that had the process then; for the administrator alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub loop_id: Option<LoopId>,
}

impl EventRecord {
    /// A journal's event under its number, as its owner sees it.
    pub fn new(seq: u64, event: &LifecycleEvent) -> Self {
        Self {
            seq,
            event_id: event.id,
            process_id: event.identity.handle,
            execution_id: event.identity.origin.execution,
            kind: event.kind,
            state: event.state,
            reason: event.reason,
            at: event.happened_at().into(),
            created_at: event.created_at.into(),
            started_at: event.started_at.map(Into::into),
            finished_at: event.finished_at.map(Into::into),
            exit_code: event.exit_code,
            signal: event.signal,
            diagnostic: event.diagnostic.clone().filter(|text| !text.is_empty()),
            loop_id: None,
        }
    }
}

/// A page of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    /// In their order.
    pub events: Vec<EventRecord>,
    /// Give this as `after_seq` to go on.
    pub next_seq: u64,
    /// Whether there are more already.
    pub more: bool,
    /// Whether some records after `after_seq` may be missing, because the journal no longer has what is so old.
    pub gap: bool,
}

/// A sample of the newest output, in a stream's event named `output`, which has no `id`. Read the whole output by cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputSample {
    /// The process.
    #[schemars(schema_with = "schema::handle")]
    pub process_id: Handle,
    /// Always true: what was printed between two samples is not sent.
    pub sample: bool,
    /// The end of the output, as text.
    pub text: String,
    /// Where `text` begins in the stream.
    pub start_cursor: u64,
    /// Bytes printed so far.
    pub total_bytes: u64,
}

/// Something was skipped; in a stream's event named `lagged`, which has no `id`. The journal no longer has these records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LagNotice {
    /// The first number that was skipped.
    pub from_seq: u64,
    /// The first number that is there again.
    pub until_seq: u64,
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamEndReason {
    /// The service is being shut down.
    ShuttingDown,
    /// The session has ended.
    SessionClosed,
    /// The loop was closed: what it ran has ended, and that was sent.
    LoopClosed,
    /// The journal cannot be read now: connect again with `Last-Event-ID`.
    Unavailable,
}

/// The last event of a stream that does not end with the process, named `end`, without an `id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamEnd {
    /// Why.
    pub reason: StreamEndReason,
}
