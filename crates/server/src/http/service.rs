//! What all requests share: the host, the tokens, the open sessions with the toolboxes of their loops.
//!
//! Not for any route.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use procyard_core::{ErrorCode, Handle, LoopId, Owner, PublicError, SessionId};
use procyard_journal::Journal;
use procyard_supervisor::{Snapshot, Supervisor, SupervisorError};
use procyard_tools::{Surface, Toolbox};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admin_token::AdminToken;
use super::caller::{Caller, LoopCaller, invalid};
use super::host::{HostError, HostedSession, SessionHost};
use super::metrics::Metrics;
use super::problem::Problem;
use super::tokens::Tokens;
use crate::{McpHttp, McpHttpOptions};

pub(crate) struct Service {
    pub(crate) host: Arc<dyn SessionHost>,
    pub(crate) admin_token: AdminToken,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) metrics: Metrics,
    pub(crate) idle_timeout: Duration,
    /// A place for each stream that goes on until somebody ends it.
    streams: Arc<Semaphore>,
    /// What `/v1/mcp` keeps of its clients.
    pub(crate) mcp: McpHttp,
    /// Cancelled when the service is to end: no new work, and streams end.
    pub(crate) stop: CancellationToken,
    /// Owns every task that outlives the request which began it.
    pub(crate) tasks: TaskTracker,
    /// Guards what the service keeps of each open session; held for a lookup.
    open: Mutex<HashMap<SessionId, Arc<OpenSession>>>,
}

/// An open session, with what the service keeps of it.
pub(crate) struct OpenSession {
    session: Arc<dyn HostedSession>,
    /// The supervisor as the administrator sees it.
    overseer: Supervisor,
    /// Guards the toolboxes, by loop and by whether they oversee it; held for a lookup or the making of one, which waits for
    /// nothing.
    toolboxes: Mutex<HashMap<(LoopId, bool), Arc<Toolbox>>>,
    /// Changes when an inbox of the session does.
    pub(crate) inbox: Arc<watch::Sender<()>>,
    /// Cancelled when the session is to end, before it does.
    pub(crate) ending: CancellationToken,
}

impl OpenSession {
    fn new(session: Arc<dyn HostedSession>) -> Self {
        let inbox = Arc::new(watch::Sender::new(()));
        let told = Arc::downgrade(&inbox);
        let watched = session.journal().watch_inbox(move || {
            if let Some(inbox) = told.upgrade() {
                inbox.send_replace(());
            }
        });
        if !watched {
            tracing::warn!(
                "the inbox of a session is watched by somebody else; long polls of it last their time"
            );
        }
        let overseer = session.supervisor().overseeing();
        let ending = CancellationToken::new();
        Self { session, overseer, toolboxes: Mutex::default(), inbox, ending }
    }

    pub(crate) fn hosted(&self) -> &dyn HostedSession {
        self.session.as_ref()
    }

    pub(crate) fn supervisor(&self) -> &Supervisor {
        self.session.supervisor()
    }

    pub(crate) fn id(&self) -> SessionId {
        self.supervisor().session()
    }

    /// The supervisor for the administrator, who also sees what closed loops have left.
    pub(crate) fn overseer(&self) -> &Supervisor {
        &self.overseer
    }

    /// The tools of a loop of this session.
    pub(crate) fn toolbox(&self, owner: Owner) -> Arc<Toolbox> {
        self.kept_toolbox((owner.loop_id, false), || self.session.toolbox(owner))
    }

    /// The tools with which the administrator looks at what a loop has.
    pub(crate) fn overseeing_toolbox(&self, owner: Owner) -> Arc<Toolbox> {
        self.kept_toolbox((owner.loop_id, true), || self.session.toolbox(owner).overseeing())
    }

    fn kept_toolbox(&self, place: (LoopId, bool), make: impl FnOnce() -> Toolbox) -> Arc<Toolbox> {
        let mut toolboxes = self.toolboxes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(toolboxes.entry(place).or_insert_with(|| Arc::new(make())))
    }

    /// Lets go of what is kept of a loop that is closed.
    pub(crate) fn forget(&self, owner: Owner) {
        let mut toolboxes = self.toolboxes.lock().unwrap_or_else(PoisonError::into_inner);
        toolboxes.retain(|(loop_id, _), _| *loop_id != owner.loop_id);
    }

    /// Reads from or writes to the journal, on a blocking thread.
    pub(crate) async fn journal<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Journal) -> Result<T, procyard_journal::JournalError> + Send + 'static,
    ) -> Result<T, Problem> {
        let journal = self.session.journal().clone();
        Ok(blocking(move || work(&journal)).await??)
    }
}

/// The tools of the loop whose token came with a request; nothing gets here without one.
fn tools_of(head: &Parts) -> Result<Arc<dyn Surface>, Box<Response>> {
    match head.extensions.get::<LoopCaller>() {
        Some(caller) => Ok(Arc::clone(&caller.toolbox) as Arc<dyn Surface>),
        None => Err(Box::new(Problem::unauthenticated("a token is missing").into_response())),
    }
}

/// A process that a caller may reach, if there is one.
pub(crate) struct Reached {
    pub(crate) session: Arc<OpenSession>,
    pub(crate) owner: Owner,
    pub(crate) handle: Handle,
    /// The administrator looks: nothing that its owner is to be told counts as told.
    pub(crate) by_admin: bool,
}

impl Reached {
    pub(crate) fn supervisor(&self) -> &Supervisor {
        if self.by_admin { self.session.overseer() } else { self.session.supervisor() }
    }

    pub(crate) fn toolbox(&self) -> Arc<Toolbox> {
        if self.by_admin {
            self.session.overseeing_toolbox(self.owner)
        } else {
            self.session.toolbox(self.owner)
        }
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, SupervisorError> {
        self.supervisor().snapshot(self.owner, &self.handle)
    }
}

impl Service {
    pub(crate) fn new(
        host: Arc<dyn SessionHost>,
        admin_token: AdminToken,
        tokens: Tokens,
        idle_timeout: Duration,
        streams: usize,
        mcp: McpHttpOptions,
        stop: CancellationToken,
    ) -> Self {
        Self {
            host,
            admin_token,
            tokens: Arc::new(tokens),
            metrics: Metrics::default(),
            idle_timeout,
            streams: Arc::new(Semaphore::new(streams)),
            mcp: McpHttp::new(tools_of, mcp, stop.child_token()),
            stop,
            tasks: TaskTracker::new(),
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<OpenSession>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a stream, held for as long as that is open.
    pub(crate) fn stream_place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let message =
                "as many streams are open as this service serves at a time; end one, or wait for that";
            PublicError::new(ErrorCode::OutputQuotaExceeded, message).retryable().into()
        })
    }

    /// What is kept of a session that the host gives. One that was closed and opened again is another.
    pub(crate) fn keep(&self, session: Arc<dyn HostedSession>) -> Arc<OpenSession> {
        let id = session.supervisor().session();
        let mut open = self.open();
        if let Some(known) = open.get(&id) {
            if std::ptr::addr_eq(Arc::as_ptr(&known.session), Arc::as_ptr(&session)) {
                return Arc::clone(known);
            }
            known.ending.cancel();
        }
        let kept = Arc::new(OpenSession::new(session));
        open.insert(id, Arc::clone(&kept));
        kept
    }

    /// Lets go of what is kept of a session that is closed.
    pub(crate) fn forget(&self, session: SessionId) {
        self.open().remove(&session);
        self.mcp.forget_session(session);
    }

    /// The open sessions, in the order of their ids.
    pub(crate) fn sessions(&self) -> Vec<Arc<OpenSession>> {
        let mut sessions: Vec<_> =
            self.host.sessions().into_iter().map(|session| self.keep(session)).collect();
        sessions.sort_by_key(|session| session.id());
        sessions
    }

    /// An open session, for the administrator.
    pub(crate) fn session(&self, id: SessionId) -> Result<Arc<OpenSession>, Problem> {
        let session = self.host.get(id).ok_or(HostError::NotFound)?;
        Ok(self.keep(session))
    }

    /// The session of the loop that calls, restored where it is not open. Its token is looked at anew, before and after:
    /// one that was revoked meanwhile reaches nothing, and opens nothing again.
    pub(crate) async fn session_of(self: &Arc<Self>, caller: Caller) -> Result<Arc<OpenSession>, Problem> {
        let owner = caller.valid_owner(self)?;
        if let Some(session) = self.host.get(owner.session) {
            return Ok(self.keep(session));
        }
        match self.host.resume(owner.session).await {
            Ok(session) => match caller.valid_owner(self) {
                Ok(_) => Ok(self.keep(session)),
                Err(revoked) => {
                    if self.tokens.loops(owner.session).is_empty() {
                        let service = Arc::clone(self);
                        self.tasks.spawn(async move { service.close(owner.session).await });
                    }
                    Err(revoked)
                }
            },
            Err(HostError::NotFound) => {
                let tokens = Arc::clone(&self.tokens);
                if let Err(error) = blocking(move || tokens.revoke_session(owner.session)).await? {
                    tracing::warn!(%error, "the tokens of a session that is gone could not be removed");
                }
                Err(invalid())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a session; called in a task that goes on when nobody waits for it, so that none is half closed.
    pub(crate) async fn close(&self, session: SessionId) -> Result<usize, HostError> {
        if let Some(open) = self.open().get(&session) {
            open.ending.cancel();
        }
        let closed = self.host.close(session).await;
        self.forget(session);
        closed
    }

    /// The process of this handle: for a loop in its own session and as its own, whether or not there is one; for the
    /// administrator wherever it is.
    pub(crate) async fn reach(self: &Arc<Self>, caller: Caller, handle: Handle) -> Result<Reached, Problem> {
        if let Some(owner) = caller.owner() {
            let session = self.session_of(caller).await?;
            return Ok(Reached { session, owner, handle, by_admin: false });
        }
        let mut sessions = self.sessions().into_iter();
        let found = sessions.find_map(|session| Some((session.supervisor().owner_of(&handle)?, session)));
        let (owner, session) = found.ok_or(SupervisorError::NotFound)?;
        Ok(Reached { session, owner, handle, by_admin: true })
    }
}

/// Runs what blocks on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal("a blocking task failed", &error))
}
