//! Where wall-clock time comes from.
//!
//! Not for deadlines: those run on the runtime's monotonic clock.

use procyard_core::Timestamp;

/// A source of wall-clock time. A clock that jumps spoils timestamps and nothing else.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_system_time(std::time::SystemTime::now())
    }
}
