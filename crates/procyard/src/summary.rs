//! The one line that says how a command ended.
//!
//! Not for stdout: that is the command's.

use std::fmt::Write as _;
use std::time::Duration;

use procyard_supervisor::Snapshot;

use crate::say::{Voice, print_line, say};

/// Says it on stderr.
pub(crate) fn tell(snapshot: &Snapshot, voice: Voice) {
    match voice {
        Voice::Json => print_line(&as_json(snapshot)),
        Voice::Text => say(as_text(snapshot)),
    }
}

fn as_text(snapshot: &Snapshot) -> String {
    // Writing to a text does not fail.
    let mut text = snapshot.state.as_str().replace('_', " ");
    if let Some(outcome) = &snapshot.outcome {
        if let Some(code) = outcome.exit_code {
            let _ = write!(text, " {code}");
        }
        if let Some(signal) = outcome.signal {
            let _ = write!(text, " ({signal})");
        }
    }
    let _ = write!(
        text,
        " after {}, {} of output",
        millis_in_words(millis(snapshot)),
        bytes(snapshot.total_bytes)
    );
    if let Some(left) = snapshot.outcome.as_ref().and_then(|outcome| outcome.leftovers) {
        let (noun, verb) = if left.count == 1 { ("process", "was") } else { ("processes", "were") };
        let done = match left.action {
            procyard_core::LeftoverAction::Killed => "ended",
            procyard_core::LeftoverAction::Waited => "waited for",
        };
        let _ = write!(text, "; {} {noun} that outlived it {verb} {done}", left.count);
    }
    if let Some(limits) = snapshot.limits.as_ref().filter(|_| snapshot.memory_kills > 0) {
        let _ = write!(text, "; {}", limits.memory_reached(snapshot.memory_kills));
    }
    if snapshot.storage_degraded {
        text.push_str("; some output could not be kept");
    }
    text
}

fn as_json(snapshot: &Snapshot) -> serde_json::Value {
    let outcome = snapshot.outcome.as_ref();
    let mut value = serde_json::json!({
        "status": snapshot.state,
        "duration_ms": millis(snapshot),
        "total_bytes": snapshot.total_bytes,
    });
    let optional = [
        ("exit_code", outcome.and_then(|outcome| outcome.exit_code).map(serde_json::Value::from)),
        ("signal", outcome.and_then(|outcome| outcome.signal).map(|signal| signal.name().into())),
        ("reason", outcome.map(|outcome| outcome.reason.as_str().into())),
        (
            "leftovers",
            outcome.and_then(|outcome| outcome.leftovers).and_then(|left| serde_json::to_value(left).ok()),
        ),
        (
            "diagnostic",
            outcome.and_then(|outcome| outcome.diagnostic.as_deref()).map(serde_json::Value::from),
        ),
        ("limits", snapshot.limits.as_ref().and_then(|limits| serde_json::to_value(limits).ok())),
        ("memory_kills", (snapshot.memory_kills > 0).then(|| snapshot.memory_kills.into())),
        ("storage_degraded", snapshot.storage_degraded.then(|| true.into())),
    ];
    for (name, field) in optional {
        if let Some(field) = field {
            value[name] = field;
        }
    }
    value
}

fn millis(snapshot: &Snapshot) -> u64 {
    let started = snapshot.started_at.unwrap_or(snapshot.created_at);
    snapshot.finished_at.map_or(0, |finished| finished.millis_since(started))
}

/// A duration as people say it.
pub(crate) fn millis_in_words(millis: u64) -> String {
    let seconds = Duration::from_millis(millis).as_secs_f64();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{seconds:.1} s"),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis / 1_000 % 60),
        3_600_000..86_400_000 => format!("{} h {} min", millis / 3_600_000, millis / 60_000 % 60),
        _ => format!("{} d {} h", millis / 86_400_000, millis / 3_600_000 % 24),
    }
}

/// A size as people say it.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::{bytes, millis_in_words};

    #[test]
    fn durations_are_told_in_two_units_at_most() {
        for (millis, text) in [
            (5, "5 ms"),
            (1_500, "1.5 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(millis_in_words(millis), text);
        }
    }

    #[test]
    fn sizes_are_told_in_the_unit_that_fits() {
        for (count, text) in [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB")] {
            assert_eq!(bytes(count), text);
        }
    }
}
