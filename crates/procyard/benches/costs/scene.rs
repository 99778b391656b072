//! A session as the program has it: a directory with a lock, the host runner, the supervisor.
//!
//! Not for measuring.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use procyard_core::{ExecutionId, Handle, LimitSettings, LoopId, Origin, Owner, SessionId, State};
use procyard_host::{HostOptions, HostRunner, TierChoice};
use procyard_manifest::{AnchorSettings, Ceilings, CommandRecord, SessionRoot};
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _};
use procyard_supervisor::{Lease, Services, Snapshot, StartOptions, Supervisor, Target, Until, WaitMode};
use tempfile::TempDir;

/// How long anything that is measured may take; longer is a failure of the bench.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Where sessions and files of this run are made.
#[derive(Debug)]
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    /// A directory of this run below `parent`, removed at its end.
    pub(crate) fn new(parent: &Path) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("procyard-bench-").tempdir_in(parent);
        Ok(Self { dir: dir.with_context(|| format!("nothing can be made in {}", parent.display()))? })
    }

    /// The same on a file system in memory, where `fsync` costs nothing.
    pub(crate) fn in_memory() -> anyhow::Result<Self> {
        Self::new(Path::new("/dev/shm"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// An open session.
pub(crate) struct Scene {
    pub(crate) supervisor: Supervisor,
    pub(crate) owner: Owner,
    runner: HostRunner,
    path: PathBuf,
    /// Held for as long as the session lives.
    _root: SessionRoot,
}

impl Scene {
    /// A new session in `place`, contained as `tier` says.
    pub(crate) async fn open(place: &Place, tier: TierChoice, limits: LimitSettings) -> anyhow::Result<Self> {
        let session = SessionId::from_random(rand::random());
        let owner = Owner { session, loop_id: LoopId::from_random(rand::random()) };
        let limits = limits.resolve()?;
        let ceilings =
            Ceilings { spool_bytes: limits.spool_bytes, spool_bytes_total: limits.spool_bytes_total };
        let anchor = AnchorSettings { provider: "bench".to_owned(), ceilings };
        let root = SessionRoot::open_or_create(place.path(), session, anchor, Duration::ZERO)?;
        let held = root.lock_descriptor()?.into_iter().collect();
        let runner = HostRunner::start(HostOptions { held, tier, ..HostOptions::default() }).await?;
        let supervisor = Supervisor::new(session, limits, root.dir());
        supervisor.activate(Services::discard()).await?;
        let path = SessionRoot::path_of(place.path(), session);
        Ok(Self { supervisor, owner, runner, path, _root: root })
    }

    /// What contains the processes of this session.
    pub(crate) fn tier(&self) -> String {
        self.runner.report().tier.as_str().to_owned()
    }

    /// The directory of the session.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a program.
    pub(crate) async fn start(&self, argv: &[String]) -> anyhow::Result<Handle> {
        self.start_with(argv, |_| {}).await
    }

    /// Starts a program with other than the usual options.
    pub(crate) async fn start_with(
        &self,
        argv: &[String],
        change: impl FnOnce(&mut StartOptions),
    ) -> anyhow::Result<Handle> {
        let origin = Origin { execution: ExecutionId::from_random(rand::random()) };
        let mut options = StartOptions::new(CommandRecord::argv(argv, "/"));
        change(&mut options);
        let mut request = ProcessRequest::new(CommandSpec::Argv(argv.to_vec()), "/", origin);
        request.stdin = options.stdin;
        let prepared = self.runner.prepare(request).await?;
        let started = self.supervisor.start(self.owner, origin, prepared, Lease::none(), options).await?;
        Ok(started.handle())
    }

    /// Waits for the end of a process, which must be an exit with code 0.
    pub(crate) async fn exited(&self, handle: Handle) -> anyhow::Result<Snapshot> {
        let target = Target { handle, cursor: 0, probe: None };
        let waited =
            self.supervisor.wait(self.owner, WaitMode::All, Until::Exit, vec![target], PATIENCE).await?;
        let snapshot = waited.into_iter().next().and_then(|waited| waited.snapshot);
        let snapshot = snapshot.context("the process is not there")?;
        let code = snapshot.outcome.as_ref().and_then(|outcome| outcome.exit_code);
        anyhow::ensure!(
            snapshot.state == State::Exited && code == Some(0) && !snapshot.storage_degraded,
            "a child did not end as it should: {snapshot:?}"
        );
        Ok(snapshot)
    }

    /// Ends the session and its guardian.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let report = self.supervisor.shutdown().await;
        self.runner.shutdown().await;
        anyhow::ensure!(report.failed.is_empty(), "some processes could not be proven gone");
        Ok(())
    }
}
