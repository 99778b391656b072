//! Bodies, queries and messages of the HTTP service, beyond those that the tools have.
//!
//! Their doc comments become the descriptions of the service's `OpenAPI` document, which is assembled from the schemas of
//! these types. A body or query that is a tool's arguments is that type without its `process_id`, which is in the path.
//! Not for what a route does: the server carries it out.

mod attach;
mod diagnostics;
mod events;
mod invoke;
mod notifications;
mod processes;
mod queries;
mod sessions;

pub use attach::{AttachCommand, AttachQuery, AttachReport};
pub use diagnostics::{
    ContainmentReport, Health, MissingTier, ProcessCounts, QuotaReport, RecoveryReport, SessionRecovery,
    UnopenedSession, UnreadableRecord,
};
pub use events::{EventPage, EventRecord, LagNotice, OutputSample, StreamEnd, StreamEndReason};
pub use invoke::{InvokeReply, InvokeRequest, ToolInfo, ToolList};
pub use notifications::{InboxNotification, NotificationPage, NotificationQuery};
pub use processes::{NoArguments, ProcessDetails, ProcessOutcome, ProcessPage, ResizeBody, StartReply};
pub use queries::{EventQuery, EventStreamQuery, LogsQuery, ProcessQuery};
pub use sessions::{
    CreateLoop, CreateSession, LoopCreated, LoopInfo, SessionCreated, SessionInfo, SessionList,
};
