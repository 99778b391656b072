//! Puts a session together: its directory and lock, its journal, the runner that holds the lock, the supervisor.
//!
//! Not for using it.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use procyard_core::{Limits, LoopId, Owner, SessionId};
use procyard_host::{HostError, HostOptions, HostRunner, TierChoice};
use procyard_journal::Journal;
use procyard_manifest::{AnchorSettings, Ceilings, SessionRoot};
use procyard_runner::{Runner, RunnerError, RunnerErrorKind, RunnerResolver};
use procyard_supervisor::{RestoreReport, Services, ShutdownReport, Supervisor};

use crate::config::Effective;
use crate::journal::{close_journal, open_journal, services_over};

/// Who keeps sessions in this format, as their anchors say.
const PROVIDER: &str = "procyard";

/// How long a new supervisor waits for the lock of an old one, beyond the grace that the old one gives its commands when
/// it ends: a client that starts its server anew meets the old one on its way out. Less than clients wait for a server.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// What commands get between SIGTERM and SIGKILL when their session ends: clients give a server that they have left a
/// few seconds, then kill it, and what was running would be recorded as lost.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// How long the guardian may take to end once every tree has, or cannot be, ended.
const GUARDIAN_WAIT: Duration = Duration::from_secs(2);

/// Whether what happens in a session is kept in its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Events and notices, for whoever asks later.
    Journal,
    /// Nothing: the session goes with the one call that it was made for.
    Nothing,
}

/// Which session is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// A new one.
    New,
    /// This one; made where it is not there.
    Named(SessionId),
    /// This one, which must be there.
    Existing(SessionId),
}

impl Which {
    /// The session that is meant: of a new one, another each time.
    pub(crate) fn session(self) -> SessionId {
        match self {
            Which::New => SessionId::from_random(*uuid::Uuid::new_v4().as_bytes()),
            Which::Named(session) | Which::Existing(session) => session,
        }
    }
}

impl From<Option<SessionId>> for Which {
    fn from(named: Option<SessionId>) -> Self {
        named.map_or(Self::New, Self::Named)
    }
}

/// An open session.
pub(crate) struct Session {
    pub(crate) supervisor: Supervisor,
    pub(crate) runner: HostRunner,
    pub(crate) owner: Owner,
    pub(crate) restored: RestoreReport,
    /// Whether commands may be started.
    enabled: bool,
    journal: Option<Journal>,
    // Held for as long as the session lives.
    root: SessionRoot,
}

impl Session {
    /// Opens a session and restores what it holds. Its commands are started as `host` and the configuration say.
    /// Cancellation safe: nothing of it stays open.
    pub(crate) async fn open(
        data_dir: &Path,
        which: Which,
        loop_id: Option<LoopId>,
        keep: Keep,
        configured: &Effective,
        host: HostOptions,
    ) -> anyhow::Result<Self> {
        let session = which.session();
        let root = open_root(data_dir, session, which, &configured.limits).await?;
        Self::open_in(root, data_dir, session, loop_id, keep, configured, host).await
    }

    /// The same in a directory whose lock is held.
    pub(crate) async fn open_in(
        root: SessionRoot,
        data_dir: &Path,
        session: SessionId,
        loop_id: Option<LoopId>,
        keep: Keep,
        configured: &Effective,
        host: HostOptions,
    ) -> anyhow::Result<Self> {
        let loop_id = loop_id.unwrap_or_else(|| LoopId::from_random(*uuid::Uuid::new_v4().as_bytes()));
        let limits = configured.limits.clone();
        let journal = match keep {
            Keep::Journal => Some(open_journal(data_dir, session).await?),
            Keep::Nothing => None,
        };
        let services = journal.as_ref().map_or_else(Services::discard, services_over);
        let lock = root.lock_descriptor().context("the session's lock cannot be shared")?;
        // A copy for each attempt; one that cannot be made is one that would not hold the lock.
        let lock = lock.map(|lock| Ok::<_, std::io::Error>([lock.try_clone()?, lock])).transpose()?;
        let runner = start_runner(lock, host, configured.config.containment.require).await?;
        let supervisor = Supervisor::new(session, limits, root.dir());
        let restored = supervisor.activate(services).await?;
        let enabled = configured.config.processes.enabled;
        Ok(Self { supervisor, runner, owner: Owner { session, loop_id }, restored, enabled, journal, root })
    }

    /// The one runner, for every loop of this session; for none where commands are not to be started.
    pub(crate) fn runners(&self) -> Arc<dyn RunnerResolver> {
        Arc::new(OneRunner(self.enabled.then(|| Arc::new(self.runner.clone()) as Arc<dyn Runner>)))
    }

    /// The journal, where one is kept.
    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Stops everything within what a client gives a server that it has left.
    pub(crate) async fn close(self) -> (SessionRoot, ShutdownReport) {
        let grace = CLOSE_GRACE.min(self.supervisor.limits().graceful_shutdown);
        self.close_within(grace).await
    }

    /// Stops everything, with so long between terminate and kill. Gives the session's directory back, still locked, and
    /// says what was stopped and what could not be done.
    pub(crate) async fn close_within(self, grace: Duration) -> (SessionRoot, ShutdownReport) {
        let report = self.supervisor.shutdown_within(grace).await;
        // What cannot be ended keeps its guardian, which holds the session's lock and goes on; this program does not
        // wait for that.
        if tokio::time::timeout(GUARDIAN_WAIT, self.runner.shutdown()).await.is_err() {
            tracing::warn!("the guardian still has processes that cannot be ended");
        }
        if let Some(journal) = self.journal {
            close_journal(journal).await;
        }
        (self.root, report)
    }
}

/// What our sessions' anchors say.
pub(crate) fn anchor(limits: &Limits) -> AnchorSettings {
    AnchorSettings {
        provider: PROVIDER.to_owned(),
        ceilings: Ceilings { spool_bytes: limits.spool_bytes, spool_bytes_total: limits.spool_bytes_total },
    }
}

/// Takes the directory and the lock of a session, of which `which` says whether it must be there. Waits for the lock as
/// long as whoever holds it may take to end.
pub(crate) async fn open_root(
    data_dir: &Path,
    session: SessionId,
    which: Which,
    limits: &Limits,
) -> anyhow::Result<SessionRoot> {
    let anchor = anchor(limits);
    let data_dir = data_dir.to_owned();
    let wait = limits.graceful_shutdown + LOCK_WAIT;
    // Waiting for the lock blocks.
    let open =
        if matches!(which, Which::Existing(_)) { SessionRoot::open } else { SessionRoot::open_or_create };
    tokio::task::spawn_blocking(move || open(&data_dir, session, anchor, wait))
        .await
        .context("opening the session failed")?
        .with_context(|| format!("session {session} cannot be opened"))
}

/// Starts a runner that holds a lock, of which it is given a copy for each attempt. A tier that is wished for and not
/// required gives way to the strongest that there is.
pub(crate) async fn start_runner(
    lock: Option<[OwnedFd; 2]>,
    host: HostOptions,
    required: bool,
) -> anyhow::Result<HostRunner> {
    let (held, held_otherwise) = lock.map_or_else(Default::default, |[one, other]| (vec![one], vec![other]));
    // Only guardians are started in this process.
    let host = HostOptions { adopt_orphans: true, ..host };
    let otherwise = HostOptions {
        guardian: host.guardian.clone(),
        shell: host.shell.clone(),
        env_filter: host.env_filter.clone(),
        held: held_otherwise,
        tier: TierChoice::Strongest,
        ..host
    };
    match HostRunner::start(HostOptions { held, ..host }).await {
        Err(HostError::LifetimeEnforcementUnavailable(why)) if !required => {
            tracing::warn!(
                why,
                "the tier that is configured is not to be had; the strongest takes its place"
            );
            Ok(HostRunner::start(otherwise).await?)
        }
        started => Ok(started?),
    }
}

struct OneRunner(Option<Arc<dyn Runner>>);

impl RunnerResolver for OneRunner {
    fn resolve(&self, _: Owner) -> Result<Arc<dyn Runner>, RunnerError> {
        let message = "starting commands is switched off here (processes.enabled = false); what has run can still be read, \
            stopped and listed";
        self.0.clone().ok_or_else(|| RunnerError::new(RunnerErrorKind::Setup, message))
    }
}
