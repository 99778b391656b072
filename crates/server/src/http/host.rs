//! What the service needs of whoever composes it: sessions, and what belongs to each.
//!
//! Not for tokens, which the service keeps, and not for how a session is made: its directory, its lock and its runner are
//! the host's.

use std::sync::Arc;

use async_trait::async_trait;
use procyard_api::http::ContainmentReport;
use procyard_core::{Owner, SessionId};
use procyard_journal::Journal;
use procyard_supervisor::{RestoreReport, Supervisor};
use procyard_tools::Toolbox;

/// Why a host could not do something with a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// There is no such session.
    #[error("there is no such session")]
    NotFound,
    /// Another program holds the session.
    #[error("another program holds the session")]
    Busy,
    /// As many sessions are open as may be.
    #[error("{limit} sessions are open, as many as may be")]
    Full {
        /// How many that is.
        limit: usize,
    },
    /// No session is opened any more.
    #[error("the service is being shut down")]
    ShuttingDown,
    /// What the session's directory holds does not load, and is left as it is.
    #[error("what is stored of the session does not load: {0}")]
    Damaged(String),
    /// Something failed; the cause is for trusted logs.
    #[error("the session failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An open session.
pub trait HostedSession: Send + Sync {
    /// Its supervisor, activated. Blocks for nothing.
    fn supervisor(&self) -> &Supervisor;

    /// The journal that the supervisor's services record in: every lifecycle event and every notice. An event must be in
    /// it before [`procyard_supervisor::LifecyclePublisher::publish`] returns.
    fn journal(&self) -> &Journal;

    /// What opening it found and did.
    fn restored(&self) -> &RestoreReport;

    /// The tools of one of its loops. The service keeps what it is given for the calls of that loop.
    fn toolbox(&self, owner: Owner) -> Toolbox;
}

/// Opens and closes sessions. A session is open once, whoever asks for it, and stays open until it is closed.
#[async_trait]
pub trait SessionHost: Send + Sync + 'static {
    /// Opens a session for the administrator: a new one where none is named. A named one is the open one, or is restored, or
    /// is made. Cancellation safe: a session whose opening was under way is open or not afterwards, never half.
    async fn open(&self, session: Option<SessionId>) -> Result<Arc<dyn HostedSession>, HostError>;

    /// The session of a token that is still valid: the open one, or it is restored. Never makes one:
    /// [`HostError::NotFound`] when it was removed, and then its tokens go, too. Cancellation safe as
    /// [`SessionHost::open`].
    async fn resume(&self, session: SessionId) -> Result<Arc<dyn HostedSession>, HostError>;

    /// The open session of this id. Blocks for nothing.
    fn get(&self, session: SessionId) -> Option<Arc<dyn HostedSession>>;

    /// The open sessions, in no order. Blocks for nothing.
    fn sessions(&self) -> Vec<Arc<dyn HostedSession>>;

    /// The sessions that were open when the service was ended before, and did not open again since, each with why in words that
    /// are fit for a client. Blocks for nothing.
    fn unopened(&self) -> Vec<(SessionId, String)>;

    /// Ends a session: shuts it down and gives its directory and lock back; how many of its trees are not proven gone. One
    /// that somebody else is ending is waited for. One that was ended with trees that are not proven gone is remembered:
    /// asked again, this says how many are left, until it has said 0. [`HostError::NotFound`] when it is none of these.
    async fn close(&self, session: SessionId) -> Result<usize, HostError>;

    /// Refuses to open any session from now on and closes all, also those that somebody else is closing; how many trees are
    /// not proven gone, of all that were ever closed. Idempotent.
    async fn close_all(&self) -> usize;

    /// How commands are contained, in words that are fit for a client: no path of the host.
    fn containment(&self) -> ContainmentReport;
}
