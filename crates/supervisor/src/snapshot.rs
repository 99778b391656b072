//! What is known of a process at one moment, from memory.
//!
//! Not for output: that is read by cursor.

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{EffectiveLimits, Identity, Outcome, State, Timestamp};
use procyard_manifest::CommandRecord;
use procyard_runner::{TerminalSize, Tier};

/// Whether a process takes input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinStatus {
    /// It was started without.
    None,
    /// It does.
    Open,
    /// No longer: end of file was sent, or the process ended.
    Closed,
}

impl StdinStatus {
    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            StdinStatus::None => "none",
            StdinStatus::Open => "open",
            StdinStatus::Closed => "closed",
        }
    }
}

/// A process at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Who it is.
    pub identity: Identity,
    /// What was started. Shared by all snapshots of the process.
    pub command: Arc<CommandRecord>,
    /// Its state. A terminal one is on disk.
    pub state: State,
    /// Whether it is a background process, from its start or since it was handed over.
    pub handed_over: bool,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When the command was executed.
    pub started_at: Option<Timestamp>,
    /// When its leader's end had settled.
    pub finished_at: Option<Timestamp>,
    /// The lifetime deadline in force, counted from the start.
    pub deadline: Option<Duration>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Bytes of output so far.
    pub total_bytes: u64,
    /// The oldest byte that can still be read.
    pub retained_from: u64,
    /// When it last printed something.
    pub last_output_at: Option<Timestamp>,
    /// Whether something could not be written to disk.
    pub storage_degraded: bool,
    /// Whether its tree could not be proven empty within the bound; the proof goes on.
    pub teardown_failed: bool,
    /// Its terminal.
    pub terminal: Option<TerminalSize>,
    /// The size that its terminal had first, where that has changed since.
    pub initial_terminal: Option<TerminalSize>,
    /// Whether it takes input.
    pub stdin: StdinStatus,
    /// Bytes of input accepted and not yet taken: what a pipe or a terminal holds for the process counts as taken. Whoever has
    /// seen what the process did with some bytes finds them taken.
    pub pending_input: u64,
    /// Bytes of input that were accepted and that it never took, nor will: it ended or closed its input before. What a pipe
    /// or a terminal held for it counts as taken.
    pub unread_input: u64,
    /// What contains it.
    pub tier: Arc<str>,
    /// What became of the caps on what it may take; `None` where none was asked for.
    pub limits: Option<EffectiveLimits>,
    /// How many of its processes the kernel killed because its memory limit was reached; known once it is terminal.
    pub memory_kills: u32,
    /// The order of admission in this session.
    pub sequence: u64,
}

impl Snapshot {
    /// Whether the leader and every descendant are proven to be gone. True of everything that ended under this
    /// supervisor. What was lost with an earlier one is gone by the word of its runner's guardian, which a machine that
    /// killed all of them at once has silenced: then only a tier that ends a tree without anybody's help is a proof.
    pub fn tree_is_gone(&self) -> bool {
        let ends_alone = [Tier::CGROUP, Tier::PIDNS].iter().any(|tier| tier.as_str() == &*self.tier);
        self.state.is_terminal() && (self.state != State::LostOnRestore || ends_alone)
    }
}
