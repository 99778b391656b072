//! Points of time on the wire.
//!
//! Not for a clock: a [`Time`] is made from a recorded [`Timestamp`].

use std::borrow::Cow;

use procyard_core::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point of time: RFC 3339 text in UTC with milliseconds. What is finer than a millisecond is cut off.
///
/// ```
/// use procyard_api::Time;
/// use procyard_core::Timestamp;
///
/// let time = Time::from(Timestamp::from_unix_micros(1_700_000_000_123_456));
/// assert_eq!(time.to_string(), "2023-11-14T22:13:20.123Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(Timestamp);

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp)
    }
}

impl From<Time> for Timestamp {
    fn from(time: Time) -> Self {
        time.0
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = self.0.as_unix_micros();
        // What no calendar year can name is shown as the last one that has a name.
        let point = jiff::Timestamp::from_microsecond(micros).unwrap_or(if micros < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        write!(f, "{}", point.strftime("%Y-%m-%dT%H:%M:%S.%3fZ"))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let point: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Self(Timestamp::from_unix_micros(point.as_microsecond())))
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(micros: i64, expect: &str) {
        let time = Time::from(Timestamp::from_unix_micros(micros));
        assert_eq!(serde_json::to_value(time).unwrap(), expect);
    }

    #[test]
    fn a_time_is_utc_with_milliseconds() {
        check(0, "1970-01-01T00:00:00.000Z");
        check(1_999, "1970-01-01T00:00:00.001Z");
        check(951_782_400_000_000, "2000-02-29T00:00:00.000Z");
    }

    #[test]
    fn a_time_read_back_is_the_same_to_the_millisecond() {
        let time: Time = serde_json::from_str("\"2026-01-02T03:04:05.678Z\"").unwrap();
        assert_eq!(time.to_string(), "2026-01-02T03:04:05.678Z");
    }

    #[test]
    fn a_point_beyond_the_calendar_does_not_panic() {
        for micros in [i64::MIN, i64::MAX] {
            assert!(Time::from(Timestamp::from_unix_micros(micros)).to_string().ends_with('Z'));
        }
    }
}
