//! The sessions of the service: each is opened once, by whoever asks first, and those that were open when the service ended
//! are open again when it begins.
//!
//! Not for tokens, and not for requests: the server crate has those.

mod unproven;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use futures_util::future::join_all;
use procyard_api::LimitReport;
use procyard_api::http::{ContainmentReport, MissingTier, QuotaReport};
use procyard_core::{Limits, Owner, SessionId};
use procyard_host::{HostOptions, HostRunner};
use procyard_journal::{Journal, JournalError};
use procyard_manifest::SessionError;
use procyard_runner::{Runner as _, RunnerResolver};
use procyard_server::http::{HostError, HostedSession, Left, SessionHost};
use procyard_supervisor::{RestoreReport, Sessions, Supervisor};
use procyard_tools::{Toolbox, ToolboxOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::unproven::Unproven;
use crate::config::{Config, Effective};
use crate::limits::unenforced;
use crate::mcp::shortened;
use crate::session::{Keep, Session, Which, open_root, start_runner};

/// After this long a foreground call is handed over: many clients give a call up after a minute, and would lose its
/// handle.
const AUTO_YIELD: Duration = Duration::from_secs(50);

/// How many sessions are opened at the same time.
const OPENINGS: usize = 8;

/// More sessions than this are not opened when the service begins; they are when somebody asks for them.
const REOPENED_MAX: usize = 1000;

/// A session that the service has open.
struct Hosted {
    supervisor: Supervisor,
    journal: Journal,
    restored: RestoreReport,
    runners: Arc<dyn RunnerResolver>,
    options: ToolboxOptions,
    /// With its place among those that may be open. Taken by whoever closes it; guards nothing else, and is held for that
    /// alone.
    session: Mutex<Option<(Session, OwnedSemaphorePermit)>>,
}

impl HostedSession for Hosted {
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
        Toolbox::new(self.supervisor.clone(), Arc::clone(&self.runners), owner, self.options.clone())
    }
}

/// The sessions of one data directory.
pub(crate) struct Host {
    data_dir: PathBuf,
    configured: Effective,
    options: ToolboxOptions,
    containment: ContainmentReport,
    open: Sessions<SessionId, Arc<Hosted>>,
    /// How many sessions may be open, and a place for each more.
    max_sessions: usize,
    places: Arc<Semaphore>,
    /// Places of those that are at the work of an opening, which waits for nobody.
    at_work: Semaphore,
    /// Knows every opening that is under way, also those that wait.
    openings: TaskTracker,
    /// Cancelled when no session is to be opened any more.
    ending: CancellationToken,
    unproven: Unproven,
    /// Records that the disk did not take, of all sessions that were ended.
    unsaved: AtomicUsize,
    /// Those that did not open again, and why. Held for a look or a change.
    unopened: Mutex<BTreeMap<SessionId, String>>,
}

impl Host {
    /// Looks what can be contained here, and refuses to begin where nothing can. Opens no session.
    pub(crate) async fn new(
        data_dir: PathBuf,
        configured: Effective,
        workspace: PathBuf,
    ) -> anyhow::Result<Self> {
        let config = &configured.config;
        let containment = look(&configured).await?;
        let max_sessions = usize::try_from(config.server.max_sessions).unwrap_or(Semaphore::MAX_PERMITS);
        let options = ToolboxOptions { workspace, auto_yield: Some(AUTO_YIELD), ..config.toolbox_options() };
        fs::create_dir_all(data_dir.join(OPEN)).context("the data directory cannot be used")?;
        Ok(Self {
            unproven: Unproven::new(data_dir.clone()),
            unsaved: AtomicUsize::default(),
            unopened: Mutex::default(),
            data_dir,
            configured,
            options,
            containment,
            open: Sessions::new(),
            max_sessions,
            places: Arc::new(Semaphore::new(max_sessions)),
            at_work: Semaphore::new(OPENINGS),
            openings: TaskTracker::new(),
            ending: CancellationToken::new(),
        })
    }

    /// Opens the sessions again that were open when the service ended. One that does not open is left as it is.
    pub(crate) async fn reopen(&self) -> anyhow::Result<()> {
        let marked = marked(&self.data_dir).context("the data directory cannot be read")?;
        let reopening = marked.into_iter().take(REOPENED_MAX.min(self.max_sessions)).map(|session| async move {
            match self.opened(Which::Existing(session)).await {
                Ok(_) | Err(HostError::ShuttingDown) => {}
                Err(HostError::NotFound) => self.unmark(session),
                Err(error) => {
                    self.unopened().insert(session, error.to_string());
                    let error = anyhow::Error::new(error);
                    tracing::error!(%session, error = format!("{error:#}"), "a session does not open again");
                }
            }
        });
        join_all(reopening).await;
        Ok(())
    }

    fn unopened(&self) -> MutexGuard<'_, BTreeMap<SessionId, String>> {
        self.unopened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn opened(&self, which: Which) -> Result<Arc<Hosted>, HostError> {
        // Taken before it is asked whether the service ends, so that its end waits for this one.
        let _opening = self.openings.token();
        let session = which.session();
        let which = if which == Which::New { Which::Named(session) } else { which };
        tokio::select! {
            biased;
            () = self.ending.cancelled() => Err(HostError::ShuttingDown),
            opened = self.open.get_or_create(session, || self.make(session, which)) => opened,
        }
    }

    async fn make(&self, session: SessionId, which: Which) -> Result<Arc<Hosted>, HostError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| HostError::Full { limit: self.max_sessions })?;
        let host = host_options(&self.configured.config);
        let (data_dir, limits) = (&self.data_dir, &self.configured.limits);
        let root = open_root(data_dir, session, which, limits).await.map_err(in_host_words)?;
        // After the lock: a session that somebody else is slow to leave keeps no other one waiting.
        let _at_work = self.at_work.acquire().await.map_err(|error| failed(error.into()))?;
        let opened =
            Session::open_in(root, data_dir, session, None, Keep::Journal, &self.configured, host).await;
        let opened = opened.map_err(in_host_words)?;
        self.unproven.forget(session);
        self.unopened().remove(&session);
        for (record, why) in &opened.restored.unreadable {
            tracing::error!(%session, record = shortened(record), why, "a record does not load and is left as it is");
        }
        let journal =
            opened.journal().cloned().ok_or_else(|| failed(anyhow::anyhow!("a session has no journal")))?;
        // Without the mark it is open all the same, and after a restart only when somebody asks for it.
        if let Err(error) = fs::write(self.mark(session), "") {
            tracing::warn!(%error, "a session could not be marked as open");
        }
        Ok(Arc::new(Hosted {
            supervisor: opened.supervisor.clone(),
            journal,
            restored: opened.restored.clone(),
            runners: opened.runners(),
            options: self.options.clone(),
            session: Mutex::new(Some((opened, place))),
        }))
    }

    /// Closes a session that is open, or waits for whoever is closing it; how many of its trees are not proven gone. The
    /// same of one that was closed before, until all are.
    async fn end(&self, session: SessionId) -> Option<usize> {
        let grace = self.configured.limits.graceful_shutdown;
        let ending = |hosted: Arc<Hosted>| {
            let taken = hosted.session.lock().unwrap_or_else(PoisonError::into_inner).take();
            async move {
                if let Some((open, _place)) = taken {
                    let (_root, closed) = open.close_within(grace).await;
                    self.unproven.remember(session, closed.failed.len());
                    self.unsaved.fetch_add(closed.unsaved, Ordering::Relaxed);
                }
            }
        };
        let closed = self.open.close(&session, ending).await || self.open.closed(&session).await;
        self.unproven.left(session).await.or(closed.then_some(0))
    }

    fn mark(&self, session: SessionId) -> PathBuf {
        self.data_dir.join(OPEN).join(session.to_string())
    }

    fn unmark(&self, session: SessionId) {
        match fs::remove_file(self.mark(session)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "a session that is closed is still marked as open");
            }
            _ => {}
        }
    }
}

/// The directory with an empty file for each open session, named after it.
const OPEN: &str = "open";

fn marked(data_dir: &Path) -> io::Result<Vec<SessionId>> {
    let mut sessions = Vec::new();
    for entry in fs::read_dir(data_dir.join(OPEN))? {
        // Whatever else is there is not ours.
        sessions.extend(entry?.file_name().to_str().and_then(|name| name.parse::<SessionId>().ok()));
    }
    sessions.sort();
    Ok(sessions)
}

/// What the service's commands do not inherit, beside what is configured: what would let them speak for the service.
fn host_options(config: &Config) -> HostOptions {
    let mut options = config.host_options();
    options.env_filter.extend(["NOTIFY_SOCKET", "LISTEN_FDS*"].map(str::to_owned));
    options
}

fn in_host_words(error: anyhow::Error) -> HostError {
    match error.chain().find_map(|cause| cause.downcast_ref::<SessionError>()) {
        Some(SessionError::Missing) => return HostError::NotFound,
        Some(SessionError::Locked) => return HostError::Busy,
        Some(SessionError::Io(_)) => return failed(error),
        Some(damage) => return HostError::Damaged(damage.to_string()),
        None => {}
    }
    match error.chain().find_map(|cause| cause.downcast_ref::<JournalError>()) {
        Some(
            damage @ (JournalError::Corrupt { .. } | JournalError::Foreign | JournalError::Newer { .. }),
        ) => HostError::Damaged(damage.to_string()),
        _ => failed(error),
    }
}

fn failed(error: anyhow::Error) -> HostError {
    HostError::Failed(error.into())
}

#[async_trait]
impl SessionHost for Host {
    async fn open(&self, session: Option<SessionId>) -> Result<Arc<dyn HostedSession>, HostError> {
        Ok(self.opened(session.into()).await?)
    }

    async fn resume(&self, session: SessionId) -> Result<Arc<dyn HostedSession>, HostError> {
        Ok(self.opened(Which::Existing(session)).await?)
    }

    fn get(&self, session: SessionId) -> Option<Arc<dyn HostedSession>> {
        Some(self.open.get(&session)?)
    }

    fn sessions(&self) -> Vec<Arc<dyn HostedSession>> {
        self.open.all().into_iter().map(|(_, session)| session as Arc<dyn HostedSession>).collect()
    }

    async fn close(&self, session: SessionId) -> Result<usize, HostError> {
        let survivors = self.end(session).await;
        // Also of one that did not open.
        self.unmark(session);
        self.unopened().remove(&session);
        survivors.ok_or(HostError::NotFound)
    }

    async fn close_all(&self) -> Left {
        // Those that are being opened are open now or never.
        self.ending.cancel();
        self.openings.close();
        self.openings.wait().await;
        let open: Vec<_> = self.open.all().into_iter().map(|(session, _)| session).collect();
        join_all(open.into_iter().map(|session| self.end(session))).await;
        // Those that somebody else is closing, too.
        self.open.all_closed().await;
        Left { unproven: self.unproven.total().await, unsaved: self.unsaved.load(Ordering::Relaxed) }
    }

    fn unopened(&self) -> Vec<(SessionId, String)> {
        self.unopened().iter().map(|(session, why)| (*session, why.clone())).collect()
    }

    fn containment(&self) -> ContainmentReport {
        self.containment.clone()
    }
}

/// Starts a runner to see what it can do.
async fn look(configured: &Effective) -> anyhow::Result<ContainmentReport> {
    let host = host_options(&configured.config);
    let runner = start_runner(None, host, configured.config.containment.require).await?;
    let report = describe(&runner, configured);
    for missing in unenforced(&configured.config, &runner.report()) {
        tracing::warn!("{missing}");
    }
    if tokio::time::timeout(Duration::from_secs(2), runner.shutdown()).await.is_err() {
        tracing::warn!("a guardian did not end in time");
    }
    Ok(report)
}

fn describe(runner: &HostRunner, configured: &Effective) -> ContainmentReport {
    let report = runner.report();
    let asked = &configured.config.containment;
    let limit = |asked: Option<u64>, problem: Option<&String>| {
        let value = asked?;
        Some(match problem {
            None => LimitReport { value: Some(i64::try_from(value).unwrap_or(i64::MAX)), not_enforced: None },
            Some(why) => LimitReport { value: None, not_enforced: Some(without_paths(why)) },
        })
    };
    let limits = [
        ("memory_max", limit(asked.memory_max, report.memory_limit.as_ref().err())),
        ("pids_max", limit(asked.pids_max, report.process_limit.as_ref().err())),
    ];
    let limits: BTreeMap<_, _> =
        limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?))).collect();
    ContainmentReport {
        tier: runner.capabilities().tier.map(|tier| tier.as_str().to_owned()),
        unavailable: report
            .unavailable
            .iter()
            .map(|(tier, why)| MissingTier { tier: tier.as_str().to_owned(), reason: without_paths(why) })
            .collect(),
        terminals: runner.capabilities().terminals,
        limits,
        quotas: quotas(&configured.limits),
    }
}

/// A reason that a client may see: one that names a place of this machine is for whoever is there.
fn without_paths(why: &str) -> String {
    if why.contains('/') {
        "`procyard doctor` tells on the machine itself".to_owned()
    } else {
        why.to_owned()
    }
}

fn quotas(limits: &Limits) -> QuotaReport {
    QuotaReport {
        running_per_loop: limits.running_per_loop.into(),
        running_per_session: limits.running_per_session.into(),
        retained_per_session: limits.retained_per_session.into(),
        spool_bytes: limits.spool_bytes,
        spool_bytes_total: limits.spool_bytes_total,
    }
}
