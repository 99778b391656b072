//! What callers hand to a supervisor with a start, a read, a wait, an input or a stop.
//!
//! Not for validation of text that a model wrote: that has happened before anything gets here.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use procyard_core::{Handle, StopKind, Stream};
use procyard_manifest::CommandRecord;
use procyard_runner::{ResourceLimits, StdinMode, TerminalSize};
use procyard_spool::StreamFilter;
use tokio::sync::watch;

use crate::Snapshot;

/// The workspace access that a process holds for its whole life; released once, when this is dropped.
pub struct Lease(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Lease {
    /// No lease: nobody else coordinates access to the workspace.
    pub fn none() -> Self {
        Self(None)
    }

    /// A lease that `release` gives back.
    pub fn new(release: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(release)))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.0.is_some()).finish()
    }
}

/// What happens to descendants that outlive the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeftoverPolicy {
    /// They are ended when the leader's output has settled.
    #[default]
    Kill,
    /// The process stays running until they are gone.
    Wait,
}

/// Lets a reader that must lose nothing slow a process down: reading pauses while more than `ahead` bytes are not
/// consumed, so that the process blocks on a full pipe, as it would on any other.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The cursor up to which output was consumed. A sender that is gone lifts the pace.
    pub consumed: watch::Receiver<u64>,
    /// How far the output may run ahead of that, in bytes.
    pub ahead: u64,
}

/// How a process is supervised.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// What the record and lists say of the command, and the key under which a repeated start finds it.
    pub command: CommandRecord,
    /// Whether it is a background process from the start.
    pub background: bool,
    /// Bytes of output kept on disk; lowers the configured ceiling, never raises it.
    pub spool_ceiling: Option<u64>,
    /// How long it may live, on the monotonic clock.
    pub deadline: Option<Duration>,
    /// What happens to descendants that outlive the leader.
    pub leftovers: LeftoverPolicy,
    /// Gives a notice when nothing was printed for this long.
    pub stall_window: Option<Duration>,
    /// The terminal that was asked for.
    pub terminal: Option<TerminalSize>,
    /// The standard input that was asked for.
    pub stdin: StdinMode,
    /// Written to standard input, then end of file.
    pub input: Option<Vec<u8>>,
    /// The caps that were asked for, so that the record says what became of each of them.
    pub limits: ResourceLimits,
    /// Keeps the process from running ahead of a reader. Without it a process is never slowed.
    pub pace: Option<Pace>,
}

impl StartOptions {
    /// A foreground process with pipes, no input and no deadline.
    pub fn new(command: CommandRecord) -> Self {
        Self {
            command,
            background: false,
            spool_ceiling: None,
            deadline: None,
            leftovers: LeftoverPolicy::default(),
            stall_window: None,
            terminal: None,
            stdin: StdinMode::default(),
            input: None,
            limits: ResourceLimits::default(),
            pace: None,
        }
    }
}

/// What a start gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// A new process.
    New(Handle),
    /// The process that the idempotency key had started before.
    Existing(Handle),
}

impl Started {
    /// The process.
    pub const fn handle(self) -> Handle {
        match self {
            Started::New(handle) | Started::Existing(handle) => handle,
        }
    }
}

/// Where a read begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// At this byte of the combined stream.
    Cursor(u64),
    /// This many bytes before the end.
    TailBytes(u64),
    /// This many lines before the end, or of one stream, as far as they fit into what is read.
    TailLines(u64),
}

/// One read of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// Where it begins.
    pub from: ReadFrom,
    /// The most raw bytes that it returns.
    pub max_bytes: usize,
    /// Which streams it returns; cursors are always those of the combined stream.
    pub streams: StreamFilter,
}

/// What a wait looks for in the output: a view that says when something would be rendered, or a matcher.
///
/// A probe is fed everything from its target's cursor on, in order, each byte once.
pub trait Probe: Any + Send {
    /// Contiguous bytes of one stream, the first of them at `cursor` of the combined stream: what was read from the
    /// process at once, which can be few. True when satisfied.
    fn feed(&mut self, cursor: u64, stream: Stream, bytes: &[u8]) -> bool;

    /// Nothing more is at hand for the moment, or as much was fed as is read at once, 64 KiB: here a probe looks whose
    /// looks cost more than what is new. True when satisfied.
    fn look(&mut self) -> bool {
        false
    }

    /// Bytes up to the cursor `to` are not to be had.
    fn gap(&mut self, to: u64);

    /// Bytes up to the cursor `to` are there and damaged: a read that begins at them fails, and says so. What follows is
    /// intact, and fed. True when satisfied.
    fn damaged(&mut self, to: u64) -> bool {
        self.gap(to);
        false
    }

    /// The process is terminal and everything was fed. Not called where some of it could not be.
    fn finish(&mut self);
}

/// How many targets must be satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// One.
    Any,
    /// Each.
    All,
}

/// What satisfies a target. A terminal process always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The terminal state alone.
    Exit,
    /// What the target's probe says; without a probe, any byte beyond the cursor.
    Probe,
}

/// One process that is waited for.
pub struct Target {
    /// The process.
    pub handle: Handle,
    /// Output from here on counts.
    pub cursor: u64,
    /// What to look for in it.
    pub probe: Option<Box<dyn Probe>>,
}

/// What became of a target.
pub struct Waited {
    /// The process.
    pub handle: Handle,
    /// The probe, with whatever it has found.
    pub probe: Option<Box<dyn Probe>>,
    /// Whether it was satisfied.
    pub satisfied: bool,
    /// The process as it is now; `None` when there is no such process of this owner.
    pub snapshot: Option<Snapshot>,
}

/// Input to a process: applied in the order size, data, end of file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputRequest {
    /// A new size, for terminals.
    pub size: Option<TerminalSize>,
    /// Bytes, taken whole or refused whole.
    pub data: Vec<u8>,
    /// End of file after the data.
    pub eof: bool,
}

/// What was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputAccepted {
    /// Bytes of this write.
    pub accepted_bytes: u64,
    /// Bytes that the process has not taken yet, these included: counted as they were accepted, before any of them could be
    /// written. What it takes from then on a [`Snapshot`](crate::Snapshot) has.
    pub pending_bytes: u64,
    /// The end of the output just before.
    pub cursor_before: u64,
}

/// A stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopRequest {
    /// Which kind.
    pub kind: StopKind,
    /// How long an interrupt waits for the exit, and a terminate before it kills; the configured period when
    /// `None`.
    pub grace: Option<Duration>,
}
