//! What the service needs of whoever composes it: sessions, and what belongs to each.
//!
//! Not for tokens, which the service keeps, and not for how a session is made: its directory, its lock and its runner are
//! the host's.

use std::fmt;
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

/// What ending sessions could not do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Trees that are not proven gone.
    pub unproven: usize,
    /// Commands that have ended and whose records the disk did not take: when their session is opened again, they are told
    /// to be lost.
    pub unsaved: usize,
}

impl Left {
    /// Whether everything was done.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// Words for whoever looks after the service.
impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unproven, unsaved } = *self;
        if unproven > 0 || unsaved == 0 {
            write!(f, "{} could not be proven gone", commands(unproven))?;
        }
        if unsaved > 0 {
            let and = if unproven > 0 { ", and " } else { "" };
            write!(
                f,
                "{and}the records of {} could not be saved: how that ended is lost; look at the disk before the service is \
                 started again",
                commands(unsaved)
            )?;
        }
        Ok(())
    }
}

fn commands(number: usize) -> String {
    if number == 1 { "1 command".to_owned() } else { format!("{number} commands") }
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

    /// Refuses to open any session from now on and closes all, also those that somebody else is closing; what is left undone
    /// of all that were ever closed. Idempotent.
    async fn close_all(&self) -> Left;

    /// How commands are contained, in words that are fit for a client: no path of the host.
    fn containment(&self) -> ContainmentReport;
}

#[cfg(test)]
mod tests {
    use super::Left;

    #[test]
    fn what_is_left_is_told_in_one_line() {
        for (unproven, unsaved, begins) in [
            (2, 0, "2 commands could not be proven gone"),
            (0, 1, "the records of 1 command could not be saved"),
            (0, 3, "the records of 3 commands could not be saved"),
            (2, 3, "2 commands could not be proven gone, and the records of 3 commands could not be saved"),
        ] {
            let left = Left { unproven, unsaved };
            let said = left.to_string();
            assert!(said.starts_with(begins) && !said.contains('\n'), "{said}");
            assert!(!left.is_nothing());
        }
        assert!(Left::default().is_nothing());
    }
}
