//! The record of one process, as it is kept for years: every field, its unit, its bound.
//!
//! Not here: which values are valid ([`check`](crate::Manifest::check)), which may follow which
//! ([`check_update`](crate::Manifest::check_update)), what is announced of it ([`events`](crate::Manifest::events)), how it
//! reaches the disk ([`ManifestStore`](crate::ManifestStore)).

use procyard_core::{
    EffectiveLimits, EventId, GenerateError, Identity, NotificationId, Outcome, Owner, Reason, State,
    Timestamp, WorkspaceAccess, cut,
};
use serde::{Deserialize, Serialize};

/// The version of the format that this crate writes.
pub const VERSION: u32 = 1;
/// The most that a recorded command takes, in bytes of UTF-8; what is longer is cut and marked.
pub const COMMAND_MAX: usize = 32 * 1024;
/// The most that recorded paths take together, in bytes of UTF-8.
pub const PATHS_MAX: usize = 32 * 1024;
/// The longest working directory, in bytes: `PATH_MAX` of Linux.
pub const WORKDIR_MAX: usize = 4096;
/// The longest label, in bytes of UTF-8.
pub const LABEL_MAX: usize = 1024;
/// The longest idempotency key, in bytes of UTF-8: 128 characters, whichever they are.
pub const KEY_MAX: usize = 512;
/// The longest digest or tier, in bytes of UTF-8.
pub const WORD_MAX: usize = 256;
/// The longest note for a post-mortem, in bytes of UTF-8.
pub const TEARDOWN_MAX: usize = 4096;
/// How often a process may change hands.
pub const TRANSFERS_MAX: usize = 1024;

/// The durable record of one process.
///
/// Made by [`Manifest::new`] in state `starting`; a later one is made by changing fields, and the store decides
/// whether it may follow. It never holds environment, input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format: [`VERSION`].
    pub version: u32,
    /// Handle, owner and origin. Of these only the owner ever changes, by a transfer.
    pub identity: Identity,
    /// What was asked for.
    pub command: CommandRecord,
    /// What of the workspace it may write.
    pub access: AccessRecord,
    /// The containment tier, as the runner names it. Open until the process runs.
    pub tier: String,
    /// What became of the caps on what it may take; absent where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<EffectiveLimits>,
    /// How many of its processes the kernel killed because its memory limit was reached. Known with the end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_kills: u32,
    /// Rows and columns as they are now, for a process on a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalRecord>,
    /// The terminal's first size, where it has another one since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_terminal: Option<TerminalRecord>,
    /// What its standard input is.
    pub stdin: StdinRecord,
    /// Whether it was started in the background.
    pub background: bool,
    /// Whether its caller went on without the result, so that its owner gets a notice of the end.
    pub handed_over: bool,
    /// When it became a background process after a start in the foreground. Not there for one whose caller only went
    /// away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_over_at: Option<Timestamp>,
    /// Where it is in its life.
    pub state: State,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When the command was executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it became terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// When its lifetime ends, for a reader of the record; the deadline itself runs on a monotonic clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// When it last printed something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<Timestamp>,
    /// The first stop that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_requested: Option<StopRecord>,
    /// How it ended: in terminal states, and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The bounds of its output.
    pub spool: SpoolBounds,
    /// Whether some of its output could not be kept.
    pub storage_degraded: bool,
    /// The IDs of everything that may ever be published about it.
    pub ids: StableIds,
    /// What was published.
    pub published: Markers,
    /// Whether it gave way to others: it can no longer be asked for and its output is removed. The record of such a
    /// process stays until all that is due about its end was told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evicted: bool,
    /// The owners that it had, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<Transfer>,
    /// About the running operating-system process, for a person who looks at the file after a crash. It is written
    /// and never read back, so that nothing can act on a PID of yesterday.
    #[serde(default, skip_serializing_if = "Teardown::is_empty")]
    teardown: Teardown,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde passes a field")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A command as it was asked for; the line or the arguments, not both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRecord {
    /// The command line of a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Program and arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Whether the command was longer than [`COMMAND_MAX`] and is cut here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Where it runs.
    pub workdir: String,
    /// What its caller calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The key under which a repeated start finds this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyRecord>,
}

impl CommandRecord {
    /// A command line, cut to [`COMMAND_MAX`] bytes at a character.
    pub fn line(line: &str, workdir: &str) -> Self {
        let kept = cut(line, COMMAND_MAX);
        Self {
            line: Some(kept.to_owned()),
            argv: None,
            truncated: kept.len() < line.len(),
            workdir: cut(workdir, WORKDIR_MAX).to_owned(),
            label: None,
            idempotency: None,
        }
    }

    /// Program and arguments, cut to [`COMMAND_MAX`] bytes altogether.
    pub fn argv<S: AsRef<str>>(argv: &[S], workdir: &str) -> Self {
        let (kept, truncated) = fit(argv.iter().map(AsRef::as_ref), COMMAND_MAX);
        Self { line: None, argv: Some(kept), truncated, ..Self::line("", workdir) }
    }

    /// With a label, cut to [`LABEL_MAX`] bytes at a character.
    pub fn labelled(self, label: &str) -> Self {
        Self { label: Some(cut(label, LABEL_MAX).to_owned()), ..self }
    }
}

/// As many of the strings as fit `max` bytes, the last one cut at a character; and whether something was cut.
/// Every string counts as one byte more than it has, so that many empty ones are bounded too.
fn fit<'a>(strings: impl Iterator<Item = &'a str>, max: usize) -> (Vec<String>, bool) {
    let (mut kept, mut room) = (Vec::new(), max);
    for string in strings {
        let Some(rest) = room.checked_sub(1) else { return (kept, true) };
        let part = cut(string, rest);
        kept.push(part.to_owned());
        if part.len() < string.len() {
            return (kept, true);
        }
        room = rest - part.len();
    }
    (kept, false)
}

/// A key that its caller chose, and what the arguments of that call were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdempotencyRecord {
    /// The key.
    pub key: String,
    /// A digest of the arguments: the same key with another digest is a conflict.
    pub digest: String,
}

/// What of a workspace a process may write, as a summary for people; a lease, not this, is what is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AccessRecord {
    /// Nothing.
    ReadOnly,
    /// Some paths.
    ScopedWrite {
        /// The paths; what is not UTF-8 in them is replaced.
        paths: Vec<String>,
        /// Whether there were more than [`PATHS_MAX`] bytes of them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    },
    /// Everything.
    BroadWrite,
}

impl From<&WorkspaceAccess> for AccessRecord {
    fn from(access: &WorkspaceAccess) -> Self {
        match access {
            WorkspaceAccess::ReadOnly => Self::ReadOnly,
            WorkspaceAccess::ScopedWrite { paths } => {
                let texts: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
                let (paths, truncated) = fit(texts.iter().map(AsRef::as_ref), PATHS_MAX);
                Self::ScopedWrite { paths, truncated }
            }
            WorkspaceAccess::BroadWrite => Self::BroadWrite,
        }
    }
}

/// The size of a terminal, both at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalRecord {
    /// Rows of text.
    pub rows: u16,
    /// Columns of text.
    pub cols: u16,
}

/// What a process's standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinRecord {
    /// At end of file from the start.
    None,
    /// Open for writing to.
    Open,
}

/// A stop that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRecord {
    /// Interrupted, terminated or killed.
    pub reason: Reason,
    /// The state that the process had.
    pub state: State,
    /// When it was asked for.
    pub at: Timestamp,
}

/// The bounds of a process's output, in bytes of the combined stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpoolBounds {
    /// How much was ever printed: the cursor behind the last byte.
    pub total_bytes: u64,
    /// The cursor of the oldest byte that is kept.
    pub retained_from: u64,
    /// How much of it is kept: the ceiling that the spool is written with. Stays as it was first set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<u64>,
    /// What the spool takes on disk, where it was measured. May shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
}

/// The IDs of everything that may be published about a process; all minted before the first save.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StableIds {
    /// Of the `started` event.
    pub started: EventId,
    /// Of the `backgrounded` event.
    pub backgrounded: EventId,
    /// Of the `stop_requested` event.
    pub stop_requested: EventId,
    /// Of the `completed` event.
    pub completed: EventId,
    /// Of the `lost` event.
    pub lost: EventId,
    /// Of the notice to the owner.
    pub notification: NotificationId,
}

impl StableIds {
    /// Mints all IDs from `random`, which fills 16 bytes from the operating system's CSPRNG and says whether it could.
    pub fn generate(mut random: impl FnMut(&mut [u8; 16]) -> bool) -> Result<Self, GenerateError> {
        let mut next = || {
            let mut bytes = [0; 16];
            if random(&mut bytes) { Ok(bytes) } else { Err(GenerateError::Random) }
        };
        Ok(Self {
            started: EventId::from_random(next()?),
            backgrounded: EventId::from_random(next()?),
            stop_requested: EventId::from_random(next()?),
            completed: EventId::from_random(next()?),
            lost: EventId::from_random(next()?),
            notification: NotificationId::from_random(next()?),
        })
    }
}

/// What was published. A marker that is set stays set. Events are published in their order, so a published
/// completion says that the earlier ones were, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Markers {
    /// The `completed` or `lost` event is in the journal.
    pub completion: bool,
    /// The owner has its notice, or needs none.
    pub notification: bool,
}

/// One change of hands, inside one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The owner until then.
    pub from: Owner,
    /// The owner from then on.
    pub to: Owner,
    /// When.
    pub at: Timestamp,
}

/// See [`Manifest::set_teardown`].
#[derive(Clone, Default, PartialEq, Eq)]
struct Teardown(String);

impl Teardown {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Teardown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_empty() { "none" } else { "…" })
    }
}

impl Serialize for Teardown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Teardown {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self::default())
    }
}

impl Manifest {
    /// The first record of a process: `starting`, pipes, no input, in the foreground, nothing printed.
    pub fn new(
        identity: Identity,
        command: CommandRecord,
        access: AccessRecord,
        ids: StableIds,
        created_at: Timestamp,
    ) -> Self {
        Self {
            version: VERSION,
            identity,
            command,
            access,
            tier: String::new(),
            limits: None,
            memory_kills: 0,
            terminal: None,
            initial_terminal: None,
            stdin: StdinRecord::None,
            background: false,
            handed_over: false,
            handed_over_at: None,
            state: State::Starting,
            created_at,
            started_at: None,
            finished_at: None,
            deadline_at: None,
            last_output_at: None,
            stop_requested: None,
            outcome: None,
            spool: SpoolBounds::default(),
            storage_degraded: false,
            ids,
            published: Markers::default(),
            evicted: false,
            transfers: Vec::new(),
            teardown: Teardown::default(),
        }
    }

    /// Notes something about the running operating-system process for a person who looks at the file after a
    /// crash, cut to [`TEARDOWN_MAX`] bytes. There is no way to read it back: a PID in a record is never trusted.
    pub fn set_teardown(&mut self, note: &str) {
        self.teardown = Teardown(cut(note, TEARDOWN_MAX).to_owned());
    }

    /// Makes it terminal, and drops what was noted about the running process. What is not valid is refused by the
    /// next save, not here.
    pub fn finish(&mut self, state: State, outcome: Outcome, at: Timestamp) {
        self.state = state;
        self.outcome = Some(outcome);
        self.finished_at = Some(at);
        self.teardown = Teardown::default();
    }

    /// Gives its terminal another size, and keeps the first one. Nothing for a process without a terminal.
    pub fn resize(&mut self, size: TerminalRecord) {
        let Some(before) = self.terminal else { return };
        self.terminal = Some(size);
        if before != size {
            self.initial_terminal.get_or_insert(before);
        }
    }

    /// Gives it to another owner, and notes that in the trail.
    pub fn transfer(&mut self, to: Owner, at: Timestamp) {
        self.transfers.push(Transfer { from: self.identity.owner, to, at });
        self.identity.owner = to;
    }
}
