//! The HTTP service over sessions with scripted processes, reached through streams in memory.
//!
//! One for many inputs, since making one takes longer than trying one. Not for what is sent and what must come back.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use procyard_api::http::{ContainmentReport, QuotaReport};
use procyard_core::{Handle, LifecycleEvent, Limits, Owner, SessionId};
use procyard_journal::{Journal, JournalError, NotificationKind, NotificationRecord};
use procyard_server::http::{
    Connector, HostError, HostedSession, Left, Listener, ServiceError, ServiceOptions, SessionHost, serve,
};
use procyard_store::{Dir, FsDir};
use procyard_supervisor::{
    CompletionNotifier, LifecyclePublisher, Notice, NoticeKind, RestoreReport, Services, Supervisor,
};
use procyard_testkit::ScriptedRunner;
use procyard_tools::{Toolbox, ToolboxOptions};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::world::{Resolver, scratch, script};

/// The administrator's token.
pub(crate) const ADMIN: &str = "pya_0123456789012345678901234567890123456789";

/// A service that is running, within the runtime that it was begun in.
pub(crate) struct Running {
    pub(crate) host: Arc<Host>,
    pub(crate) connector: Connector,
    stop: CancellationToken,
    serving: JoinHandle<Result<(), ServiceError>>,
    place: tempfile::TempDir,
}

impl Running {
    pub(crate) fn begin() -> Self {
        let place = scratch();
        let file = place.path().join("admin.token");
        std::fs::write(&file, ADMIN).expect("the scratch directory is writable");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
        let host = Arc::new(Host { place: place.path().join("sessions"), open: Mutex::default() });
        let (listener, connector) = Listener::handed();
        let mut options = ServiceOptions::in_directory(place.path());
        // The SDK's are measured by another clock than the paused one, and would never cease.
        options.mcp.heartbeat = None;
        let stop = CancellationToken::new();
        let sessions: Arc<dyn SessionHost> = host.clone();
        let serving = tokio::spawn(serve(vec![listener], sessions, options, stop.clone()));
        Self { host, connector, stop, serving, place }
    }

    /// Where it keeps everything, which no client is told.
    pub(crate) fn place(&self) -> &Path {
        self.place.path()
    }

    /// Stops it, which must succeed.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        let served = self.serving.await.unwrap_or_else(|error| panic!("the service failed: {error}"));
        served.unwrap_or_else(|error| panic!("the service did not end well: {error}"));
    }
}

/// The sessions.
pub(crate) struct Host {
    place: PathBuf,
    open: Mutex<BTreeMap<SessionId, Arc<Session>>>,
}

struct Session {
    supervisor: Supervisor,
    journal: Journal,
    restored: RestoreReport,
    runner: Arc<ScriptedRunner>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Host {
    /// The supervisor of an open session.
    pub(crate) fn supervisor(&self, session: SessionId) -> Option<Supervisor> {
        self.found(session).map(|session| session.supervisor.clone())
    }

    /// How many sessions are open.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().expect("nobody panics with it").len()
    }

    fn found(&self, session: SessionId) -> Option<Arc<Session>> {
        self.open.lock().expect("nobody panics with it").get(&session).cloned()
    }

    async fn make(&self, id: SessionId) -> Result<Arc<dyn HostedSession>, Failure> {
        if let Some(open) = self.found(id) {
            return Ok(open);
        }
        let directory = self.place.join(id.to_string());
        std::fs::create_dir_all(directory.join("state"))?;
        let journal = Journal::open(&directory.join("journal.sqlite3"))?;
        let state: Arc<dyn Dir> = FsDir::open(&directory.join("state"))?;
        let supervisor = Supervisor::new(id, Limits::default(), state);
        let recorder = Arc::new(Recorder(journal.clone()));
        let restored = supervisor.activate(Services::new(recorder.clone(), recorder)).await?;
        let runner = Arc::new(ScriptedRunner::choosing(script));
        let session = Arc::new(Session { supervisor, journal, restored, runner });
        self.open.lock().expect("nobody panics with it").insert(id, Arc::clone(&session));
        Ok(session)
    }
}

impl HostedSession for Session {
    fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }
    fn journal(&self) -> &Journal {
        &self.journal
    }
    fn restored(&self) -> &RestoreReport {
        &self.restored
    }
    fn toolbox(&self, owner: Owner) -> Toolbox {
        let options = ToolboxOptions { workspace: "/ws".into(), ..ToolboxOptions::default() };
        Toolbox::new(self.supervisor.clone(), Arc::new(Resolver(Arc::clone(&self.runner))), owner, options)
    }
}

#[async_trait]
impl SessionHost for Host {
    async fn open(&self, session: Option<SessionId>) -> Result<Arc<dyn HostedSession>, HostError> {
        let id = session.unwrap_or_else(|| SessionId::from_random(*uuid::Uuid::new_v4().as_bytes()));
        self.make(id).await.map_err(HostError::Failed)
    }
    async fn resume(&self, session: SessionId) -> Result<Arc<dyn HostedSession>, HostError> {
        if self.place.join(session.to_string()).exists() {
            self.make(session).await.map_err(HostError::Failed)
        } else {
            Err(HostError::NotFound)
        }
    }
    fn get(&self, session: SessionId) -> Option<Arc<dyn HostedSession>> {
        self.found(session).map(|session| session as Arc<dyn HostedSession>)
    }
    fn sessions(&self) -> Vec<Arc<dyn HostedSession>> {
        let open = self.open.lock().expect("nobody panics with it");
        open.values().map(|session| Arc::clone(session) as Arc<dyn HostedSession>).collect()
    }
    async fn close(&self, session: SessionId) -> Result<usize, HostError> {
        let closing = self.open.lock().expect("nobody panics with it").remove(&session);
        let closing = closing.ok_or(HostError::NotFound)?;
        let report = closing.supervisor.shutdown().await;
        closing.journal.close();
        Ok(report.failed.len())
    }
    async fn close_all(&self) -> Left {
        let ids: Vec<_> = self.open.lock().expect("nobody panics with it").keys().copied().collect();
        let mut unproven = 0;
        for id in ids {
            unproven += self.close(id).await.unwrap_or_default();
        }
        Left { unproven, ..Left::default() }
    }
    fn unopened(&self) -> Vec<(SessionId, String)> {
        Vec::new()
    }

    fn containment(&self) -> ContainmentReport {
        ContainmentReport {
            tier: Some("scripted".to_owned()),
            unavailable: Vec::new(),
            terminals: true,
            limits: BTreeMap::new(),
            quotas: QuotaReport {
                running_per_loop: 8,
                running_per_session: 32,
                retained_per_session: 100,
                spool_bytes: 1,
                spool_bytes_total: 1,
            },
        }
    }
}

/// Records in the journal what a session's supervisor tells.
struct Recorder(Journal);

impl Recorder {
    async fn record<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Journal) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<(), procyard_supervisor::ServiceError> {
        let journal = self.0.clone();
        let recorded = tokio::task::spawn_blocking(move || work(&journal).map(drop)).await;
        let recorded = recorded.unwrap_or_else(|error| panic!("the journal failed: {error}"));
        recorded.map_err(|error| procyard_supervisor::ServiceError::from(Failure::from(error)))
    }
}

#[async_trait]
impl LifecyclePublisher for Recorder {
    async fn publish(&self, event: &LifecycleEvent) -> Result<(), procyard_supervisor::ServiceError> {
        let event = event.clone();
        self.record(move |journal| journal.append(&event)).await
    }
}

#[async_trait]
impl CompletionNotifier for Recorder {
    async fn notify(&self, owner: Owner, notice: &Notice) -> Result<(), procyard_supervisor::ServiceError> {
        let record = NotificationRecord {
            id: notice.id,
            handle: notice.handle,
            kind: match notice.kind {
                NoticeKind::Completed => NotificationKind::Completed,
                NoticeKind::Stalled { quiet, total_bytes } => NotificationKind::Stalled {
                    quiet_ms: u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX),
                    total_bytes,
                },
            },
            state: notice.state,
            reason: notice.reason,
            exit_code: notice.exit_code,
            started_at: notice.started_at,
            finished_at: notice.finished_at,
        };
        self.record(move |journal| journal.put(owner, &record)).await
    }
    async fn moved(
        &self,
        process: Handle,
        from: Owner,
        to: Owner,
    ) -> Result<(), procyard_supervisor::ServiceError> {
        self.record(move |journal| journal.transfer(process, from, to)).await
    }
}
