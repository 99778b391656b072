//! How a host runner is set up, what it found, and why it could not be.
//!
//! Not for one command's settings: those are in its request.

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use procyard_runner::{RunnerError, RunnerErrorKind, Tier};

/// Which program becomes the guardian.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GuardianProgram {
    /// This program, entered again: its `main` calls [`enter`](crate::enter) first.
    #[default]
    CurrentExe,
    /// Another program of the same version whose `main` calls [`enter`](crate::enter) first.
    Path(PathBuf),
}

/// Which containment is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TierChoice {
    /// The strongest that does not change what commands see.
    #[default]
    Strongest,
    /// Exactly this one; without it nothing is ever started. [`Tier::PIDNS`] is only to be had this way: process numbers
    /// and `/proc` are others inside, and for an ordinary user setuid programs have no privileges.
    Require(Tier),
}

/// Whether commands are kept from signalling processes outside their own tree, by a Landlock domain (Linux 6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SignalScope {
    /// They are not: a command signals whom its user may, guardian and shims included.
    #[default]
    Off,
    /// They are where the kernel can.
    Preferred,
    /// They are; where the kernel cannot, nothing is ever started.
    Required,
}

/// How much a command's `oom_score_adj` is above this process's, so that the command is ended first when memory runs
/// out. What is more than 1000 in the end is 1000; 0 leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomScoreRaise(pub u16);

impl Default for OomScoreRaise {
    fn default() -> Self {
        Self(500)
    }
}

/// Names of environment variables that usually hold secrets, for [`HostOptions::env_filter`].
pub const SECRET_NAMES: [&str; 8] = [
    "*_TOKEN",
    "*_SECRET",
    "*_SECRET_*",
    "*_PASSWORD",
    "*_PASSWD",
    "*_API_KEY",
    "*_PRIVATE_KEY",
    "*_CREDENTIALS",
];

/// How a host runner is set up.
#[derive(Debug, Default)]
pub struct HostOptions {
    /// Which program becomes the guardian.
    pub guardian: GuardianProgram,
    /// Which containment is wanted.
    pub tier: TierChoice,
    /// Also try the tiers that are only used when they are required, so that the [report](ContainmentReport) tells of
    /// them. Costs some milliseconds at each start of a guardian.
    pub try_on_request: bool,
    /// Descriptors that guardian and shims keep open until the trees are gone, for example one with a `flock(2)` on
    /// it: whoever can take that lock knows that no tree of this runner lives. At most 64.
    #[cfg(unix)]
    pub held: Vec<OwnedFd>,
    /// Inherited environment variables whose name matches one of these are not passed on. `*` is any text; letters
    /// match in both cases. What a request sets is never filtered.
    pub env_filter: Vec<String>,
    /// The shell of command lines, as `shell -c line`. By default `bash` where `PATH` has it, else `sh`.
    pub shell: Option<PathBuf>,
    /// Makes this process a subreaper (`PR_SET_CHILD_SUBREAPER`), so that a tree whose shim and guardian are killed at once
    /// comes to it, is ended, and proven empty. For a program whose own children, if any, stay in its session: when
    /// a guardian was killed, every other child of the process is taken for an orphan and killed.
    ///
    /// Without this such a tree is ended in the cgroup tier only, and is [`Unknown`](procyard_runner::TreeProof::Unknown).
    pub adopt_orphans: bool,
    /// The file mode creation mask of commands; by default this process's.
    pub umask: Option<u32>,
    /// How much sooner than this process a command is ended when memory runs out, where its request names no
    /// `oom_score_adj`. Guardian and shims stay as this process is.
    pub oom_score_raise: OomScoreRaise,
    /// Leaves the core dumps of commands as they are set for this process. By default the soft limit is 0 (`RLIMIT_CORE`,
    /// and only that: where the kernel pipes dumps to a program, that program decides).
    pub keep_core_dumps: bool,
    /// Sets `no_new_privs` (`PR_SET_NO_NEW_PRIVS`): set-user-ID programs, such as `sudo`, run without what they are for, so
    /// that every descendant can be signalled.
    pub no_new_privs: bool,
    /// Whether commands are kept from signalling others: this process, guardian and shims, and other commands. Takes
    /// `no_new_privs` with it. Tracing (`ptrace(2)`) is confined to the tree, too, as in every Landlock domain.
    pub signal_scope: SignalScope,
}

/// A version of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One hierarchy for each controller.
    One,
    /// One hierarchy for all.
    Two,
}

/// What a host runner found on this machine, for a person who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainmentReport {
    /// What contains its trees.
    pub tier: Tier,
    /// Tiers that can be required here and are never chosen otherwise, because commands see the difference. Only filled
    /// where [`HostOptions::try_on_request`] asks for it.
    pub on_request: Vec<Tier>,
    /// The tiers that are not to be had of those that were tried, and why; where something would make one available,
    /// that is said.
    pub unavailable: Vec<(Tier, String)>,
    /// The kernel's release.
    pub kernel: String,
    /// Whether the kernel lists the children of each thread; without that descendants are found more slowly.
    pub proc_children: bool,
    /// Whether a leader is born in its cgroup; without that it moves itself before exec, which costs milliseconds on
    /// some kernels.
    pub clone_into_cgroup: bool,
    /// Whose controller enforces memory limits, or why nothing does.
    pub memory_limit: Result<CgroupVersion, String>,
    /// Whose controller enforces limits of processes, or why nothing does.
    pub process_limit: Result<CgroupVersion, String>,
    /// Whether commands can be kept from signalling others, or why not.
    pub signal_scope: Result<(), String>,
}

/// Why there is no host runner.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The containment that was asked for, or any at all, is not to be had.
    #[error("processes cannot be contained on this machine: {0}")]
    LifetimeEnforcementUnavailable(String),
    /// The guardian could not be started.
    #[error("the guardian could not be started")]
    Guardian(#[source] std::io::Error),
    /// The guardian program did not answer as one.
    #[error("the guardian did not answer: its program must call `procyard_host::enter` first in `main`")]
    NoAnswer,
    /// More descriptors to hold than can be handed over.
    #[error("at most {0} descriptors can be held")]
    TooManyHeld(usize),
    /// A setting that has no meaning.
    #[error("invalid setting: {0}")]
    InvalidSetting(&'static str),
}

impl From<HostError> for RunnerError {
    fn from(error: HostError) -> Self {
        let kind = match error {
            HostError::LifetimeEnforcementUnavailable(_) => RunnerErrorKind::LifetimeEnforcementUnavailable,
            _ => RunnerErrorKind::Setup,
        };
        let message = match kind {
            RunnerErrorKind::LifetimeEnforcementUnavailable => {
                "processes cannot be contained on this machine"
            }
            _ => "the guardian of processes could not be started; try again",
        };
        RunnerError::new(kind, message).with_source(error)
    }
}
