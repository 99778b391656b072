//! A host whose sessions run scripted processes and survive in a directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use procyard_api::http::{ContainmentReport, QuotaReport};
use procyard_core::{Handle, LifecycleEvent, Limits, Owner, SessionId};
use procyard_journal::{Journal, NotificationKind, NotificationRecord};
use procyard_runner::{CommandSpec, ProcessRequest, Runner, RunnerError, RunnerErrorKind, RunnerResolver};
use procyard_server::http::{HostError, HostedSession, Left, SessionHost};
use procyard_store::FsDir;
use procyard_supervisor::{
    CompletionNotifier, LifecyclePublisher, Notice, NoticeKind, RestoreReport, ServiceError, Services,
    Supervisor,
};
use procyard_testkit::{Reaction, Script, ScriptedRunner, StartFault};
use procyard_tools::{Toolbox, ToolboxOptions};
use tokio::sync::oneshot;

/// What a command line does.
fn script(request: &ProcessRequest) -> Script {
    let CommandSpec::Shell(line) = &request.command else { return Script::new() };
    match line.as_str() {
        "hello" => Script::new().stdout("hello\n").exit(0),
        "fail" => Script::new().stderr("no\n").exit(3),
        "both" => Script::new().stdout("out 1\nout 2\n").stderr("err 1\n").stdout("out 3\n").exit(0),
        "binary" => Script::new().stdout([0xff, 0, b'\n', 0x1b, b'x']).exit(0),
        "lines" => {
            let lines: Vec<_> = (0..5000).map(|line| format!("line {line}\n")).collect();
            Script::new().stdout(lines.concat()).exit(0)
        }
        "ticker" => Script::new().stdout("tick\ntick\n"),
        "echo" | "cat" => Script::new().echo_input().exit(0),
        "size" => Script::new().tell_size(),
        "missing" => Script::new().start_fault(StartFault::NotFound),
        "stuck" => Script::new().unprovable(),
        "stubborn" => Script::new().on_terminate(Reaction::Ignore),
        _ => Script::new(),
    }
}

pub(crate) struct Host {
    place: PathBuf,
    pub(crate) runner: ScriptedRunner,
    limits: Limits,
    /// How many sessions may be open.
    pub(crate) max_sessions: AtomicUsize,
    open: Mutex<BTreeMap<SessionId, Arc<Session>>>,
    /// Closed, and not proven gone.
    unproven: Mutex<BTreeMap<SessionId, Arc<Session>>>,
    /// Records that could not be saved, of sessions that were closed.
    unsaved: AtomicUsize,
    closed: Mutex<bool>,
    starts: Arc<AtomicBool>,
    /// The next restoring tells that it is under way, and waits.
    held: Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>>,
}

pub(crate) struct Session {
    supervisor: Supervisor,
    journal: Journal,
    restored: RestoreReport,
    runner: ScriptedRunner,
    starts: Arc<AtomicBool>,
}

impl Host {
    pub(crate) fn new(place: PathBuf, limits: Limits) -> Self {
        let runner = ScriptedRunner::choosing(script);
        let starts = Arc::new(AtomicBool::new(true));
        Self {
            place,
            runner,
            limits,
            max_sessions: AtomicUsize::new(usize::MAX),
            open: Mutex::default(),
            unproven: Mutex::default(),
            unsaved: AtomicUsize::default(),
            closed: Mutex::default(),
            starts,
            held: Mutex::default(),
        }
    }

    /// From now on no loop has a runner.
    pub(crate) fn start_nothing(&self) {
        self.starts.store(false, Ordering::Relaxed);
    }

    async fn make(&self, id: SessionId) -> Result<Arc<dyn HostedSession>, HostError> {
        if *self.closed.lock().unwrap() {
            return Err(HostError::ShuttingDown);
        }
        if let Some(open) = self.get(id) {
            return Ok(open);
        }
        let limit = self.max_sessions.load(Ordering::Relaxed);
        if self.open.lock().unwrap().len() >= limit {
            return Err(HostError::Full { limit });
        }
        let directory = self.directory(id);
        std::fs::create_dir_all(directory.join("state")).unwrap();
        let journal = Journal::open(&directory.join("journal.sqlite3")).unwrap();
        let state = FsDir::open(&directory.join("state")).unwrap();
        let supervisor = Supervisor::new(id, self.limits.clone(), state);
        let recorder = Arc::new(Recorder(journal.clone()));
        let services = Services::new(Arc::<Recorder>::clone(&recorder), recorder);
        let restored = supervisor.activate(services).await.unwrap();
        let (runner, starts) = (self.runner.clone(), Arc::clone(&self.starts));
        let session = Arc::new(Session { supervisor, journal, restored, runner, starts });
        self.open.lock().unwrap().insert(id, Arc::clone(&session));
        Ok(session)
    }

    fn directory(&self, id: SessionId) -> PathBuf {
        self.place.join(id.to_string())
    }

    pub(crate) fn journal(&self, id: SessionId) -> Journal {
        self.open.lock().unwrap()[&id].journal.clone()
    }

    pub(crate) fn supervisor(&self, id: SessionId) -> Supervisor {
        self.open.lock().unwrap()[&id].supervisor.clone()
    }

    /// The directory of a process's output.
    pub(crate) fn spool(&self, session: SessionId, process: &str) -> PathBuf {
        self.directory(session).join("state").join(format!("{process}.spool"))
    }

    /// Holds the next restoring of a session: where it says that it is under way, and what lets it go on.
    pub(crate) fn hold_restoring(&self) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        let (here, told) = oneshot::channel();
        let (go, gone) = oneshot::channel();
        *self.held.lock().unwrap() = Some((here, gone));
        (told, go)
    }

    /// Removes a session that is closed.
    pub(crate) fn remove(&self, id: SessionId) {
        std::fs::remove_dir_all(self.directory(id)).unwrap();
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
        let options = ToolboxOptions { workspace: "/".into(), ..ToolboxOptions::default() };
        let runner = self.starts.load(Ordering::Relaxed).then(|| self.runner.clone());
        Toolbox::new(self.supervisor.clone(), Arc::new(Scripted(runner)), owner, options)
    }
}

struct Scripted(Option<ScriptedRunner>);

impl RunnerResolver for Scripted {
    fn resolve(&self, _: Owner) -> Result<Arc<dyn Runner>, RunnerError> {
        match self.0.clone() {
            Some(runner) => Ok(Arc::new(runner)),
            None => Err(RunnerError::new(RunnerErrorKind::Setup, "starting commands is switched off here")),
        }
    }
}

#[async_trait]
impl SessionHost for Host {
    async fn open(&self, session: Option<SessionId>) -> Result<Arc<dyn HostedSession>, HostError> {
        let id = session.unwrap_or_else(|| SessionId::from_random(*uuid::Uuid::new_v4().as_bytes()));
        self.make(id).await
    }
    async fn resume(&self, session: SessionId) -> Result<Arc<dyn HostedSession>, HostError> {
        let held = self.held.lock().unwrap().take();
        if let Some((here, go_on)) = held {
            here.send(()).unwrap();
            go_on.await.unwrap();
        }
        if self.directory(session).exists() { self.make(session).await } else { Err(HostError::NotFound) }
    }
    fn get(&self, session: SessionId) -> Option<Arc<dyn HostedSession>> {
        let open = self.open.lock().unwrap();
        open.get(&session).map(|session| Arc::clone(session) as Arc<dyn HostedSession>)
    }
    fn sessions(&self) -> Vec<Arc<dyn HostedSession>> {
        let open = self.open.lock().unwrap();
        open.values().map(|session| Arc::clone(session) as Arc<dyn HostedSession>).collect()
    }
    async fn close(&self, session: SessionId) -> Result<usize, HostError> {
        let open = self.open.lock().unwrap().remove(&session);
        let closing =
            open.or_else(|| self.unproven.lock().unwrap().remove(&session)).ok_or(HostError::NotFound)?;
        let report = closing.supervisor.shutdown().await;
        closing.journal.close();
        self.unsaved.fetch_add(report.unsaved, Ordering::Relaxed);
        if !report.failed.is_empty() {
            self.unproven.lock().unwrap().insert(session, closing);
        }
        Ok(report.failed.len())
    }
    async fn close_all(&self) -> Left {
        *self.closed.lock().unwrap() = true;
        let ids: Vec<_> = self.open.lock().unwrap().keys().copied().collect();
        let mut unproven = 0;
        for id in ids {
            unproven += self.close(id).await.unwrap_or_default();
        }
        Left { unproven, unsaved: self.unsaved.load(Ordering::Relaxed) }
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

struct Recorder(Journal);

impl Recorder {
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Journal) -> Result<T, procyard_journal::JournalError> + Send + 'static,
    ) -> Result<(), ServiceError> {
        let journal = self.0.clone();
        let written = tokio::task::spawn_blocking(move || work(&journal)).await.unwrap();
        written
            .map(drop)
            .map_err(|error| ServiceError::from(Box::<dyn std::error::Error + Send + Sync>::from(error)))
    }
}

#[async_trait]
impl LifecyclePublisher for Recorder {
    async fn publish(&self, event: &LifecycleEvent) -> Result<(), ServiceError> {
        let event = event.clone();
        self.write(move |journal| journal.append(&event)).await
    }
}

#[async_trait]
impl CompletionNotifier for Recorder {
    async fn notify(&self, owner: Owner, notice: &Notice) -> Result<(), ServiceError> {
        let record = NotificationRecord {
            id: notice.id,
            handle: notice.handle,
            kind: match notice.kind {
                NoticeKind::Completed => NotificationKind::Completed,
                NoticeKind::Stalled { quiet, total_bytes } => NotificationKind::Stalled {
                    quiet_ms: u64::try_from(quiet.as_millis()).unwrap(),
                    total_bytes,
                },
            },
            state: notice.state,
            reason: notice.reason,
            exit_code: notice.exit_code,
            started_at: notice.started_at,
            finished_at: notice.finished_at,
        };
        self.write(move |journal| journal.put(owner, &record)).await
    }
    async fn moved(&self, process: Handle, from: Owner, to: Owner) -> Result<(), ServiceError> {
        self.write(move |journal| journal.transfer(process, from, to)).await
    }
}
