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

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_time_before_the_epoch_is_negative_and_one_out_of_range_is_clamped() {
        let day = Duration::from_secs(86_400);
        for (time, micros) in [
            (UNIX_EPOCH, 0),
            (UNIX_EPOCH + Duration::from_nanos(1_999), 1),
            (UNIX_EPOCH - day, -86_400_000_000),
            (UNIX_EPOCH + day * 365 * 400_000, i64::MAX),
            (UNIX_EPOCH - day * 365 * 400_000, i64::MIN),
        ] {
            assert_eq!(Timestamp::from_system_time(time).as_unix_micros(), micros, "{time:?}");
        }
    }

    #[test]
    fn what_went_by_is_whole_milliseconds_and_never_negative() {
        let at = Timestamp::from_unix_micros;
        let most = i64::MAX.unsigned_abs() / 1000;
        for (earlier, later, millis) in [
            (5, 5, 0),
            (0, 999, 0),
            (0, 1_000, 1),
            (-3_000, 2_999, 5),
            (7_000, 0, 0),
            (i64::MIN, i64::MAX, most),
        ] {
            assert_eq!(at(later).millis_since(at(earlier)), millis, "from {earlier} to {later}");
        }
        assert_eq!(at(1).after(Duration::from_micros(2)), at(3));
        assert_eq!(at(1).after(Duration::MAX), at(i64::MAX));
    }
}
