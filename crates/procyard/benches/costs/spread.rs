//! Samples of the same thing: their median, and how far they lie apart.
//!
//! Not for means: one round that other load met would move them.

use serde::Serialize;

/// Median, smallest and largest of some samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) samples: usize,
}

impl Spread {
    /// Of no samples, everything is not a number.
    pub(crate) fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            at(middle)
        } else {
            f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
        };
        Self { median, min: at(0), max: at(sorted.len().wrapping_sub(1)), samples: sorted.len() }
    }
}

/// Round by round, what was measured over its baseline.
pub(crate) fn ratios(measured: &[f64], baseline: &[f64]) -> Spread {
    let each: Vec<f64> =
        measured.iter().zip(baseline).map(|(measured, baseline)| measured / baseline).collect();
    Spread::of(&each)
}
