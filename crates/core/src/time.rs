//! A point of wall-clock time, handed in by whoever has a clock.
//!
//! Not for measuring durations: deadlines and graces run on a monotonic clock elsewhere.

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the Unix epoch.
    pub const fn from_unix_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_unix_micros(self) -> i64 {
        self.0
    }

    /// From a system time; what lies outside the range of 64-bit microseconds is clamped.
    pub fn from_system_time(time: std::time::SystemTime) -> Self {
        match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => Self(i64::try_from(after.as_micros()).unwrap_or(i64::MAX)),
            Err(before) => Self(i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |m| -m)),
        }
    }

    /// This much later; clamped to the range.
    pub fn after(self, duration: std::time::Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Whole milliseconds from `earlier` to `self`; zero when the clock went backwards.
    pub const fn millis_since(self, earlier: Timestamp) -> u64 {
        let micros = self.0.saturating_sub(earlier.0);
        if micros <= 0 { 0 } else { micros.unsigned_abs() / 1000 }
    }
}
