//! The traits of a runner: prepare, start, and what a started process can do.
//!
//! Not for supervision: a runner keeps no output, no record and no deadline.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use procyard_core::{EffectiveLimits, Owner, WaitStatus, WorkspaceAccess};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::{ProcessRequest, RunnerError, TerminalSize};

/// What keeps a tree from escaping, by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tier(Cow<'static, str>);

impl Tier {
    /// A leaf cgroup (v2) and a subreaper.
    pub const CGROUP: Tier = Tier(Cow::Borrowed("cgroup"));
    /// A subreaper.
    pub const SUBREAPER: Tier = Tier(Cow::Borrowed("subreaper"));
    /// A PID namespace.
    pub const PIDNS: Tier = Tier(Cow::Borrowed("pidns"));

    /// A tier of another runner's own.
    pub const fn named(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a runner can do, told before anything is prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The containment of its trees; `None` when a tree can outlive the supervisor, which then refuses everything
    /// that outlives its call.
    pub tier: Option<Tier>,
    /// Whether it has terminals.
    pub terminals: bool,
}

/// What a signal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGINT to the process group of the leader; to a terminal, its interrupt character.
    Interrupt,
    /// SIGTERM and SIGCONT to the whole tree.
    Terminate,
    /// SIGKILL to the whole tree, until it is empty.
    Kill,
}

/// What a delivered signal met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delivery {
    /// Whether the leader still lived. When it did not, [`Process::wait`] is ready.
    pub leader_alive: bool,
    /// How many processes were signalled.
    pub processes: u32,
}

/// What is known of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeProof {
    /// Proven: the leader and every descendant are gone.
    Empty,
    /// This many still live, the leader included.
    Survivors(u32),
    /// Cannot tell. Never to be read as empty.
    Unknown,
}

/// How a leader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExitStatus {
    /// Its wait status; `None` when what should have collected it died first.
    pub status: Option<WaitStatus>,
}

/// Where output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamMode {
    /// Two pipes.
    Pipes,
    /// One terminal; its output is what [`Process::take_stdout`] gives.
    Terminal,
}

/// A change of the workspace by a process, as a runner that watches one saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// What changed.
    pub path: PathBuf,
}

/// Readable end of a process's output.
pub type Output = Box<dyn AsyncRead + Send + Unpin>;

/// Writable end of a process's input. Shutting it down is end of file for a pipe.
pub type Input = Box<dyn AsyncWrite + Send + Unpin>;

/// What can start processes.
#[async_trait]
pub trait Runner: Send + Sync {
    /// What this runner can do. Cheap; does not change.
    fn capabilities(&self) -> Capabilities;

    /// Validates a request and reserves what it needs; refuses at least what [`ProcessRequest::check`] refuses. Spawns
    /// nothing, so that a lease can be taken for what will really be enforced. Cancellation safe: a dropped future
    /// leaves nothing behind.
    async fn prepare(&self, request: ProcessRequest) -> Result<Box<dyn PreparedProcess>, RunnerError>;
}

/// A process that could be started. Dropping it releases everything.
#[async_trait]
pub trait PreparedProcess: Send {
    /// What of the workspace the process will be able to write: what is enforced, not what was asked for.
    fn effective_access(&self) -> WorkspaceAccess;

    /// What will contain it.
    fn tier(&self) -> Tier;

    /// What becomes of the caps that were asked for and of those that the runner sets by itself: what will be in force,
    /// not what was asked for. A start that cannot keep to it fails. What a runner says nothing of, as it does by default,
    /// counts as not enforced where it was asked for ([`ResourceLimits::effective`](crate::ResourceLimits::effective)).
    fn effective_limits(&self) -> EffectiveLimits {
        EffectiveLimits::default()
    }

    /// Starts it. When this returns, the command was executed: a program that is missing is an error here, not
    /// an exit code. A future dropped before it returns leaves no process behind.
    async fn start(self: Box<Self>) -> Result<Box<dyn Process>, RunnerError>;
}

/// A started process: its leader and every descendant. Dropping it kills the tree.
#[async_trait]
pub trait Process: Send + Sync {
    /// Pipes or a terminal.
    fn stream_mode(&self) -> StreamMode;

    /// Standard output, or the terminal's output; `None` once taken. At end of file when every holder closed it.
    fn take_stdout(&mut self) -> Option<Output>;

    /// Standard error; `None` once taken and for terminals.
    fn take_stderr(&mut self) -> Option<Output>;

    /// Standard input; `None` once taken and when the process has none.
    fn take_stdin(&mut self) -> Option<Input>;

    /// Whether this input, and end of file after it where `eof` says so, would reach the command whole, in the order of
    /// the calls. Asked before the input is accepted; what a terminal's line editing would drop is refused here with
    /// [`RunnerErrorKind::InvalidRequest`](crate::RunnerErrorKind::InvalidRequest) of `data`, and nothing of it is
    /// written. Does not block.
    fn admit_input(&self, data: &[u8], eof: bool) -> Result<(), RunnerError> {
        let _ = (data, eof);
        Ok(())
    }

    /// What [`Process::admit_input`] would say now, asked before something that a refusal could not undo: nothing is taken
    /// into account, so it may be asked any number of times. Does not block.
    fn would_admit_input(&self, data: &[u8], eof: bool) -> Result<(), RunnerError> {
        let _ = (data, eof);
        Ok(())
    }

    /// Resolves when the leader has ended, from its wait status, whoever still holds its output. Awaited by one
    /// owner, while others signal. Cancellation safe; after it has resolved it gives the same again.
    async fn wait(&self) -> ExitStatus;

    /// Signals the tree and resolves when the signal is delivered. Never reaches a process that is not of the
    /// tree. For [`Signal::Kill`] delivered does not mean gone: see [`Process::emptied`].
    /// After the end it is harmless and met nobody. Dropping the future does not take the signal back.
    async fn signal(&self, signal: Signal) -> Result<Delivery, RunnerError>;

    /// What is known of the tree now.
    async fn tree(&self) -> TreeProof;

    /// Resolves when the tree is proven empty, or when that can no longer be told; never with survivors.
    /// Cancellation safe.
    async fn emptied(&self) -> TreeProof;

    /// How many processes of the tree the kernel has killed because its memory limit was reached, as far as is known
    /// now: those that died before the leader once [`Process::wait`] has resolved, all of them once
    /// [`Process::emptied`] has. Does not block.
    fn memory_kills(&self) -> u32 {
        0
    }

    /// Gives the terminal another size. Without a terminal, or with no rows or columns, it is
    /// [`RunnerErrorKind::InvalidRequest`](crate::RunnerErrorKind::InvalidRequest); after the end it is harmless.
    async fn resize(&self, size: TerminalSize) -> Result<(), RunnerError>;

    /// Changes of the workspace, where this runner watches them; `None` once taken and by default.
    fn activities(&mut self) -> Option<mpsc::Receiver<Activity>> {
        None
    }

    /// Kills what is left and releases everything; resolves when that is done or cannot be told.
    async fn close(&self) -> TreeProof;
}

/// Gives each loop its runner. Captured when a start tool is built; an error there means that the loop gets no
/// such tool.
pub trait RunnerResolver: Send + Sync {
    /// The runner of this loop.
    fn resolve(&self, owner: Owner) -> Result<Arc<dyn Runner>, RunnerError>;
}
