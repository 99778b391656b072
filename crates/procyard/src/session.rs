//! Puts a session together: its directory and lock, its journal, the runner that holds the lock, the supervisor.
//!
//! Not for using it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use procyard_core::{Limits, LoopId, Owner, SessionId};
use procyard_host::{HostError, HostOptions, HostRunner, TierChoice};
use procyard_journal::Journal;
use procyard_manifest::{AnchorSettings, Ceilings, SessionRoot};
use procyard_runner::{Runner, RunnerError, RunnerErrorKind, RunnerResolver};
use procyard_supervisor::{RestoreReport, Services, Supervisor};

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
    /// Opens a session, a new one where none is named, and restores what it holds. Its commands are started as `host` and
    /// the configuration say.
    pub(crate) async fn open(
        data_dir: &Path,
        session: Option<SessionId>,
        loop_id: Option<LoopId>,
        keep: Keep,
        configured: &Effective,
        host: HostOptions,
    ) -> anyhow::Result<Self> {
        let session = session.unwrap_or_else(|| SessionId::from_random(*uuid::Uuid::new_v4().as_bytes()));
        let loop_id = loop_id.unwrap_or_else(|| LoopId::from_random(*uuid::Uuid::new_v4().as_bytes()));
        let limits = configured.limits.clone();
        let root = open_root(data_dir, session, &limits).await?;
        let journal = match keep {
            Keep::Journal => Some(open_journal(data_dir, session).await?),
            Keep::Nothing => None,
        };
        let services = journal.as_ref().map_or_else(Services::discard, services_over);
        let runner = start_runner(&root, host, configured.config.containment.require).await?;
        let supervisor = Supervisor::new(session, limits, root.dir());
        let restored = supervisor.activate(services).await?;
        let enabled = configured.config.processes.enabled;
        Ok(Self { supervisor, runner, owner: Owner { session, loop_id }, restored, enabled, journal, root })
    }

    /// The one runner, for every loop of this session; for none where commands are not to be started.
    pub(crate) fn runners(&self) -> Arc<dyn RunnerResolver> {
        Arc::new(OneRunner(self.enabled.then(|| Arc::new(self.runner.clone()) as Arc<dyn Runner>)))
    }

    /// Stops everything. Gives the session's directory back, still locked, and says how many trees could not be proven
    /// empty.
    pub(crate) async fn close(self) -> (SessionRoot, usize) {
        let report = self.supervisor.shutdown_within(CLOSE_GRACE).await;
        // What cannot be ended keeps its guardian, which holds the session's lock and goes on; this program does not
        // wait for that.
        if tokio::time::timeout(GUARDIAN_WAIT, self.runner.shutdown()).await.is_err() {
            tracing::warn!("the guardian still has processes that cannot be ended");
        }
        if let Some(journal) = self.journal {
            close_journal(journal).await;
        }
        (self.root, report.failed.len())
    }
}

/// What our sessions' anchors say.
pub(crate) fn anchor(limits: &Limits) -> AnchorSettings {
    AnchorSettings {
        provider: PROVIDER.to_owned(),
        ceilings: Ceilings { spool_bytes: limits.spool_bytes, spool_bytes_total: limits.spool_bytes_total },
    }
}

async fn open_root(data_dir: &Path, session: SessionId, limits: &Limits) -> anyhow::Result<SessionRoot> {
    let anchor = anchor(limits);
    let data_dir = data_dir.to_owned();
    let wait = limits.graceful_shutdown + LOCK_WAIT;
    // Waiting for the lock blocks.
    tokio::task::spawn_blocking(move || SessionRoot::open_or_create(&data_dir, session, anchor, wait))
        .await
        .context("opening the session failed")?
        .with_context(|| format!("session {session} cannot be opened"))
}

/// Starts the runner that holds the session's lock. A tier that is wished for and not required gives way to the strongest
/// that there is.
async fn start_runner(root: &SessionRoot, host: HostOptions, required: bool) -> anyhow::Result<HostRunner> {
    let held = || -> anyhow::Result<Vec<_>> {
        let lock = root.lock_descriptor().context("the session's lock cannot be shared")?;
        Ok(lock.into_iter().collect())
    };
    // Only guardians are started in this process.
    let host = HostOptions { adopt_orphans: true, ..host };
    let otherwise = HostOptions {
        guardian: host.guardian.clone(),
        shell: host.shell.clone(),
        env_filter: host.env_filter.clone(),
        held: held()?,
        tier: TierChoice::Strongest,
        ..host
    };
    match HostRunner::start(HostOptions { held: held()?, ..host }).await {
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
        let message = "commands are not to be started here (processes.enabled is false)";
        self.0.clone().ok_or_else(|| RunnerError::new(RunnerErrorKind::Setup, message))
    }
}
