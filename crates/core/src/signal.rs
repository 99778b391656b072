//! Signals by name, and what a raw Linux wait status means.
//!
//! Not for sending signals: `kill` and its kin live with whoever holds processes.

use serde::{Deserialize, Serialize};

/// A signal number that ended a process, named as `signal(7)` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalNumber(u8);

/// SIGINT.
pub const SIGINT: SignalNumber = SignalNumber(2);
/// SIGKILL.
pub const SIGKILL: SignalNumber = SignalNumber(9);
/// SIGTERM.
pub const SIGTERM: SignalNumber = SignalNumber(15);

const NAMES: [&str; 32] = [
    "SIG0",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

impl SignalNumber {
    /// A signal by number, 1 to 64.
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 1 && number <= 64 { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The name: `SIGSEGV`; real-time signals as `SIGRT34`.
    pub fn name(self) -> String {
        NAMES.get(usize::from(self.0)).map_or_else(|| format!("SIGRT{}", self.0), |name| (*name).to_owned())
    }
}

impl std::fmt::Display for SignalNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Serialize for SignalNumber {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for SignalNumber {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let named =
            NAMES.iter().skip(1).position(|name| *name == text).and_then(|at| u8::try_from(at + 1).ok());
        named
            .or_else(|| text.strip_prefix("SIGRT").and_then(|number| number.parse().ok()))
            .and_then(Self::new)
            .filter(|signal| signal.name() == text)
            .ok_or_else(|| serde::de::Error::custom("not the name of a signal"))
    }
}

/// How a leader ended, as its wait status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaderEnd {
    /// It called `exit` with this code.
    Code(u8),
    /// This signal ended it.
    Signal(SignalNumber),
    /// Nobody could say: the status was lost with whoever should have collected it.
    Unknown,
}

/// A raw wait status as `waitpid(2)` gives it on Linux, kept whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitStatus(pub i32);

impl WaitStatus {
    /// The status of a leader that exits with `code`.
    pub const fn exited(code: u8) -> Self {
        Self((code as i32) << 8)
    }

    /// The status of a leader that `signal` ended, without a core dump.
    pub const fn signalled(signal: SignalNumber) -> Self {
        Self(signal.0 as i32)
    }

    /// What it means. Stopped and continued statuses are not ends and read as unknown.
    pub fn end(self) -> LeaderEnd {
        let low = self.0 & 0x7f;
        if low == 0 {
            LeaderEnd::Code(u8::try_from((self.0 >> 8) & 0xff).unwrap_or(u8::MAX))
        } else if low == 0x7f {
            LeaderEnd::Unknown
        } else {
            u8::try_from(low).ok().and_then(SignalNumber::new).map_or(LeaderEnd::Unknown, LeaderEnd::Signal)
        }
    }
}
