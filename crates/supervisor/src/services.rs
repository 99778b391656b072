//! The two narrow services through which the outside learns what happens here, bound when a session is activated.
//!
//! Not for storage: a journal implements these traits, the supervisor does not know one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use procyard_core::{Handle, LifecycleEvent, NotificationId, Owner, Reason, State, Timestamp};

/// A service that could not take something. It is asked again, with the same id.
#[derive(Debug, thiserror::Error)]
#[error("the service did not take it: {0}")]
pub struct ServiceError(#[from] Box<dyn std::error::Error + Send + Sync>);

/// Takes lifecycle events, in order. Idempotent by event id, since a retry repeats it.
#[async_trait]
pub trait LifecyclePublisher: Send + Sync {
    /// Takes one event.
    async fn publish(&self, event: &LifecycleEvent) -> Result<(), ServiceError>;
}

/// Takes notices for an owner, in order of completion. Idempotent by notification id.
#[async_trait]
pub trait CompletionNotifier: Send + Sync {
    /// Takes one notice.
    async fn notify(&self, owner: Owner, notice: &Notice) -> Result<(), ServiceError>;

    /// A process was given to another owner: notices of it that were taken and not delivered are for `to`. Repeated
    /// after a restart where such notices may be left. A notifier that keeps nothing has nothing to do.
    async fn moved(&self, process: Handle, from: Owner, to: Owner) -> Result<(), ServiceError> {
        let _ = (process, from, to);
        Ok(())
    }
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// A process that was handed over became terminal.
    Completed,
    /// A process printed nothing for its stall window.
    Stalled {
        /// How long it has been quiet.
        quiet: Duration,
        /// How much it had printed.
        total_bytes: u64,
    },
}

/// News of a process for its owner. Metadata only: no command text, no output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Stable over every delivery.
    pub id: NotificationId,
    /// What it is about.
    pub kind: NoticeKind,
    /// Which process.
    pub handle: Handle,
    /// Its state.
    pub state: State,
    /// Why it ended.
    pub reason: Option<Reason>,
    /// With which code.
    pub exit_code: Option<u8>,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// The services of a session. One that is absent makes every use that needs it fail closed.
#[derive(Clone, Default)]
pub struct Services {
    /// Where lifecycle events go.
    pub publisher: Option<Arc<dyn LifecyclePublisher>>,
    /// Where notices go.
    pub notifier: Option<Arc<dyn CompletionNotifier>>,
}

impl Services {
    /// Both services.
    pub fn new(publisher: Arc<dyn LifecyclePublisher>, notifier: Arc<dyn CompletionNotifier>) -> Self {
        Self { publisher: Some(publisher), notifier: Some(notifier) }
    }

    /// The explicit choice to let events and pushed notices go nowhere. Owners can still pull their notices.
    pub fn discard() -> Self {
        Self::new(Arc::new(Discard), Arc::new(Discard))
    }
}

/// Takes everything and keeps nothing.
struct Discard;

#[async_trait]
impl LifecyclePublisher for Discard {
    async fn publish(&self, _: &LifecycleEvent) -> Result<(), ServiceError> {
        Ok(())
    }
}

#[async_trait]
impl CompletionNotifier for Discard {
    async fn notify(&self, _: Owner, _: &Notice) -> Result<(), ServiceError> {
        Ok(())
    }
}
