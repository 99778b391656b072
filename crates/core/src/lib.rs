//! Identity, states, quotas, lease rules, error codes and the lifecycle matrix of procyard; pure.

/// Stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// stdout
    Stdout,
    /// stderr
    Stderr,
    /// terminal
    Terminal,
}

/// Unix microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From.
    pub const fn from_unix_micros(micros: i64) -> Self {
        Self(micros)
    }
    /// As.
    pub const fn as_unix_micros(self) -> i64 {
        self.0
    }
}
