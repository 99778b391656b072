//! What became of the caps on what a command may take.
//!
//! Not for asking for them, and not for enforcing them: a runner does that, and says here what it really does.

use serde::{Deserialize, Serialize};

/// The longest reason why a cap is not enforced, in bytes of UTF-8.
pub const NOT_ENFORCED_MAX: usize = 256;

/// What became of one cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement<T> {
    /// This value is in force, which may be another than the one that was asked for: a kernel rounds.
    InForce(T),
    /// None is; why, in words that are fit for a model: no path of the host, no PID.
    NotEnforced(String),
}

impl<T: Copy> Enforcement<T> {
    /// No value is in force, because of `why`, cut to [`NOT_ENFORCED_MAX`] bytes at a character.
    pub fn not(why: &str) -> Self {
        Self::NotEnforced(crate::cut(why, NOT_ENFORCED_MAX).to_owned())
    }

    /// The value in force.
    pub const fn value(&self) -> Option<T> {
        match self {
            Enforcement::InForce(value) => Some(*value),
            Enforcement::NotEnforced(_) => None,
        }
    }

    /// Why none is in force.
    pub fn why_not(&self) -> Option<&str> {
        match self {
            Enforcement::InForce(_) => None,
            Enforcement::NotEnforced(why) => Some(why),
        }
    }
}

/// The caps on one command: what was asked for, and what its runner sets by itself. `None` is neither.
///
/// ```
/// use procyard_core::{EffectiveLimits, Enforcement};
///
/// let limits = EffectiveLimits { memory_max: Some(Enforcement::InForce(64 << 20)), ..EffectiveLimits::default() };
/// assert!(limits.memory_reached(1).starts_with("the memory limit of 64 MiB was reached"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectiveLimits {
    /// Bytes of memory of the whole tree, swap included where the kernel counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_max: Option<Enforcement<u64>>,
    /// Processes and threads of the whole tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids_max: Option<Enforcement<u32>>,
    /// CPU niceness, −20 to 19, of the leader and of what inherits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<Enforcement<i32>>,
    /// `oom_score_adj`, −1000 to 1000, of the leader and of what inherits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_score_adj: Option<Enforcement<i32>>,
    /// The most that a core dump may take, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_max: Option<Enforcement<u64>>,
}

impl EffectiveLimits {
    /// Whether every reason is within its bound.
    pub fn is_bounded(&self) -> bool {
        let reasons = [
            self.memory_max.as_ref().and_then(Enforcement::why_not),
            self.pids_max.as_ref().and_then(Enforcement::why_not),
            self.nice.as_ref().and_then(Enforcement::why_not),
            self.oom_score_adj.as_ref().and_then(Enforcement::why_not),
            self.core_max.as_ref().and_then(Enforcement::why_not),
        ];
        reasons.into_iter().flatten().all(|why| why.len() <= NOT_ENFORCED_MAX)
    }

    /// What is said of a command of which the kernel ended so many processes at the memory limit.
    pub fn memory_reached(&self, kills: u32) -> String {
        let limit = self.memory_max.as_ref().and_then(Enforcement::value);
        let limit = limit.map(|bytes| format!(" of {}", in_words(bytes))).unwrap_or_default();
        let noun = if kills == 1 { "process" } else { "processes" };
        format!("the memory limit{limit} was reached, and the kernel killed {kills} {noun} of the command")
    }
}

/// In the largest binary unit that takes it whole.
fn in_words(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    fits.map_or_else(|| format!("{bytes} bytes"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_told_in_the_largest_unit_that_takes_it_whole() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (4097, "4097 bytes"),
            (12 << 10, "12 KiB"),
            (1536 << 20, "1536 MiB"),
            (2 << 30, "2 GiB"),
        ] {
            assert_eq!(in_words(bytes), text);
        }
    }

    #[test]
    fn a_reason_is_cut_to_its_bound() {
        let long = Enforcement::<u64>::not(&"é".repeat(NOT_ENFORCED_MAX));
        let limits = EffectiveLimits { memory_max: Some(long), ..EffectiveLimits::default() };
        assert!(limits.is_bounded());
        let why = "x".repeat(NOT_ENFORCED_MAX + 1);
        let over = EffectiveLimits { nice: Some(Enforcement::NotEnforced(why)), ..limits };
        assert!(!over.is_bounded());
    }

    #[test]
    fn several_deaths_are_told_as_several() {
        assert_eq!(
            EffectiveLimits::default().memory_reached(2),
            "the memory limit was reached, and the kernel killed 2 processes of the command"
        );
        let memory_max = Some(Enforcement::InForce(64 << 20));
        assert_eq!(
            EffectiveLimits { memory_max, ..EffectiveLimits::default() }.memory_reached(1),
            "the memory limit of 64 MiB was reached, and the kernel killed 1 process of the command"
        );
    }
}
