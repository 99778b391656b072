//! What the tests of the supervisor share: a session on a temporary directory, on a scripted runner.
pub(crate) mod crooked;

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{
    ErrorCode, EventKind, ExecutionId, Handle, Limits, LoopId, Origin, Owner, SessionId, State, StopKind,
    Stream,
};
use procyard_runner::{CommandSpec, ProcessRequest, Runner, StdinMode, TerminalSize};
use procyard_store::{Dir, FsDir};
use procyard_supervisor::{
    CommandRecord, Lease, Probe, ReadFrom, ReadRequest, Snapshot, StartOptions, Started, StopRequest,
    StreamFilter, Supervisor, SupervisorError, Target, Until, WaitMode, Waited,
};
use procyard_testkit::{
    DEADLINE, Failure, Fault, Faults, FaultyDir, Journal, Operation, Script, ScriptedRunner,
};
use tempfile::TempDir;

pub(crate) fn owner(of: u8) -> Owner {
    Owner { session: SessionId::from_random([9; 16]), loop_id: LoopId::from_random([of; 16]) }
}

pub(crate) fn origin() -> Origin {
    Origin { execution: ExecutionId::from_random([3; 16]) }
}

/// A session with one scripted runner.
pub(crate) struct Yard {
    pub(crate) supervisor: Supervisor,
    pub(crate) runner: ScriptedRunner,
    pub(crate) journal: Arc<Journal>,
    pub(crate) owner: Owner,
    pub(crate) place: Arc<TempDir>,
}

impl Yard {
    pub(crate) async fn new(script: Script) -> Self {
        Self::with_limits(script, Limits::default()).await
    }

    pub(crate) async fn with_limits(script: Script, limits: Limits) -> Self {
        Self::on(Arc::new(tempfile::tempdir().unwrap()), script, limits).await
    }

    pub(crate) async fn on(place: Arc<TempDir>, script: Script, limits: Limits) -> Self {
        let root: Arc<dyn Dir> = FsDir::open(place.path()).unwrap();
        Self::over(place, root, script, limits).await
    }

    /// A session whose storage fails as `faults` says.
    pub(crate) async fn brittle(script: Script, faults: &Arc<Faults>) -> Self {
        let place = Arc::new(tempfile::tempdir().unwrap());
        let root = FaultyDir::over(FsDir::open(place.path()).unwrap(), faults);
        Self::over(place, root, script, Limits::default()).await
    }

    async fn over(place: Arc<TempDir>, root: Arc<dyn Dir>, script: Script, limits: Limits) -> Self {
        Self::try_over(place, root, script, limits).await.unwrap()
    }

    pub(crate) async fn try_over(
        place: Arc<TempDir>,
        root: Arc<dyn Dir>,
        script: Script,
        limits: Limits,
    ) -> Result<Self, SupervisorError> {
        let supervisor = Supervisor::new(owner(1).session, limits, root);
        let journal = Journal::new();
        supervisor.activate(journal.services()).await?;
        Ok(Self { supervisor, runner: ScriptedRunner::new(script), journal, owner: owner(1), place })
    }

    /// The same directory under a new supervisor, as after a crash: the old one never shut down.
    pub(crate) async fn restarted(&self) -> Self {
        Self::on(Arc::clone(&self.place), Script::new(), Limits::default()).await
    }

    pub(crate) async fn try_start(&self, options: StartOptions) -> Result<Handle, SupervisorError> {
        self.try_start_as(self.owner, options).await
    }

    pub(crate) async fn try_start_as(
        &self,
        owner: Owner,
        options: StartOptions,
    ) -> Result<Handle, SupervisorError> {
        self.try_start_with(owner, options, Lease::none()).await.map(Started::handle)
    }

    pub(crate) async fn try_start_with(
        &self,
        owner: Owner,
        options: StartOptions,
        lease: Lease,
    ) -> Result<Started, SupervisorError> {
        let request = ProcessRequest {
            stdin: options.stdin,
            terminal: options.terminal,
            ..ProcessRequest::new(CommandSpec::Shell("play".into()), "/", origin())
        };
        let prepared = self.runner.prepare(request).await?;
        self.supervisor.start(owner, origin(), prepared, lease, options).await
    }

    pub(crate) async fn start(&self, options: StartOptions) -> Handle {
        self.try_start(options).await.unwrap()
    }

    pub(crate) async fn background(&self) -> Handle {
        self.start(StartOptions { background: true, ..options() }).await
    }

    /// Waits for the terminal state, within the deadline of a test.
    pub(crate) async fn end(&self, handle: Handle) -> Snapshot {
        let target = Target { handle, cursor: 0, probe: None };
        let waited = self
            .supervisor
            .wait(self.owner, WaitMode::All, Until::Exit, vec![target], DEADLINE)
            .await
            .unwrap()
            .remove(0);
        assert!(waited.satisfied, "the process did not end: {:?}", waited.snapshot);
        waited.snapshot.unwrap()
    }

    /// Waits until the output reaches `total` bytes.
    pub(crate) async fn output_to(&self, handle: Handle, total: u64) {
        let target = Target { handle, cursor: total - 1, probe: None };
        let waited = self
            .supervisor
            .wait(self.owner, WaitMode::All, Until::Probe, vec![target], DEADLINE)
            .await
            .unwrap();
        assert!(waited[0].satisfied, "the output stopped short of {total}");
    }

    pub(crate) async fn text(&self, handle: Handle) -> String {
        let request =
            ReadRequest { from: ReadFrom::Cursor(0), max_bytes: 1 << 20, streams: StreamFilter::Both };
        let (page, _) = self.supervisor.read(self.owner, &handle, request).await.unwrap();
        String::from_utf8(page.bytes).unwrap()
    }

    pub(crate) async fn stop(
        &self,
        handle: Handle,
        kind: StopKind,
        grace: Duration,
    ) -> Result<Snapshot, SupervisorError> {
        self.supervisor.stop(self.owner, &handle, StopRequest { kind, grace: Some(grace) }).await
    }

    pub(crate) fn state(&self, handle: Handle) -> State {
        self.supervisor.snapshot(self.owner, &handle).unwrap().state
    }

    /// The kinds and states of the events of one process, once `count` of them were published.
    pub(crate) async fn events(&self, handle: Handle, count: usize) -> Vec<(EventKind, State)> {
        self.journal
            .until("the events are published", |journal| journal.events_of(handle).len() >= count)
            .await;
        self.journal.events_of(handle).iter().map(|event| (event.kind, event.state)).collect()
    }

    /// Names in the session's directory, without those of saves under way.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.place.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with(".tmp-"));
        names.sort();
        names
    }
}

/// No write works, until the faults are healed.
pub(crate) fn full_disk() -> Fault {
    Fault::on(&[Operation::Write]).with(Failure::NoSpace)
}

/// Polls until it holds; on a paused clock that costs no time.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "this never came true: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn read_from(cursor: u64) -> ReadRequest {
    ReadRequest { from: ReadFrom::Cursor(cursor), max_bytes: 1 << 20, streams: StreamFilter::Both }
}

pub(crate) fn target(handle: Handle, cursor: u64) -> Target {
    Target { handle, cursor, probe: None }
}

/// Looks for bytes in the output of both streams, across the borders of chunks.
pub(crate) struct Find {
    wanted: Vec<u8>,
    seen: Vec<u8>,
    pub(crate) fed: u64,
    pub(crate) finished: bool,
    pub(crate) found: bool,
}

impl Find {
    pub(crate) fn bytes(wanted: &[u8]) -> Self {
        Self { wanted: wanted.to_vec(), seen: Vec::new(), fed: 0, finished: false, found: false }
    }

    pub(crate) fn in_output_of(handle: Handle, wanted: &[u8]) -> Target {
        Target { handle, cursor: 0, probe: Some(Box::new(Self::bytes(wanted))) }
    }
}

impl Probe for Find {
    fn feed(&mut self, _: u64, _: Stream, bytes: &[u8]) -> bool {
        self.fed += bytes.len() as u64;
        self.seen.extend_from_slice(bytes);
        self.found = self.seen.windows(self.wanted.len()).any(|window| window == self.wanted);
        let kept = self.seen.len().saturating_sub(self.wanted.len());
        self.seen.drain(..kept);
        self.found
    }

    fn gap(&mut self, _: u64) {
        self.seen.clear();
    }

    fn finish(&mut self) {
        self.finished = true;
    }
}

/// The probe of a target, as what it was.
pub(crate) fn found(waited: Waited) -> Find {
    let probe: Box<dyn std::any::Any> = waited.probe.unwrap();
    *probe.downcast::<Find>().unwrap()
}

pub(crate) fn options() -> StartOptions {
    StartOptions::new(CommandRecord::line("play", "/"))
}

pub(crate) fn with_stdin() -> StartOptions {
    StartOptions { stdin: StdinMode::Open, ..options() }
}

pub(crate) fn on_terminal() -> StartOptions {
    StartOptions { terminal: Some(TerminalSize::default()), ..options() }
}

pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, SupervisorError>) -> ErrorCode {
    result.unwrap_err().code()
}
