//! What a bench found: figures, their baselines, what must be reached, as a table and as JSON.
//!
//! Not for measuring.

use std::fmt;

use serde::Serialize;

use crate::spread::{Spread, ratios};

/// What one bench found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) bench: &'static str,
    /// What was done.
    pub(crate) work: String,
    /// The share of processor time that other things took just before.
    pub(crate) busy_before: f64,
    pub(crate) figures: Vec<Figure>,
}

/// One line of a report.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    unit: Unit,
    measured: Spread,
    against: Option<Against>,
    must: Option<Must>,
    reached: Option<bool>,
}

/// The baseline of a figure, and the figure over it, round by round.
#[derive(Debug, Serialize)]
struct Against {
    what: String,
    baseline: Spread,
    ratio: Spread,
}

/// What samples count.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Seconds,
    BytesPerSecond,
    Bytes,
    Times,
}

/// What must be reached: by the ratio where there is a baseline, else by the figure itself, by the median.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Must {
    AtMost(f64),
    AtLeast(f64),
}

impl Report {
    pub(crate) fn new(bench: &'static str, work: impl Into<String>, figures: Vec<Figure>) -> Self {
        Self { bench, work: work.into(), busy_before: f64::NAN, figures }
    }

    /// The figures that must be reached and were not.
    pub(crate) fn missed(&self) -> impl Iterator<Item = String> {
        self.figures
            .iter()
            .filter(|figure| figure.reached == Some(false))
            .map(|figure| format!("{}: {}", self.bench, figure.what))
    }
}

impl Figure {
    /// A figure by itself.
    pub(crate) fn plain(what: impl Into<String>, unit: Unit, measured: Spread) -> Self {
        Self { what: what.into(), unit, measured, against: None, must: None, reached: None }
    }

    /// A figure over the baseline that took turns with it.
    pub(crate) fn ratio(
        what: impl Into<String>,
        unit: Unit,
        samples: &[f64],
        baseline_is: impl Into<String>,
        baseline: &[f64],
    ) -> Self {
        let against = Against {
            what: baseline_is.into(),
            baseline: Spread::of(baseline),
            ratio: ratios(samples, baseline),
        };
        Self { against: Some(against), ..Self::plain(what, unit, Spread::of(samples)) }
    }

    /// The same figure with what it must reach.
    pub(crate) fn must(mut self, must: Must) -> Self {
        let value = self.against.as_ref().map_or(self.measured, |against| against.ratio).median;
        self.reached = Some(match must {
            Must::AtMost(bound) => value <= bound,
            Must::AtLeast(bound) => value >= bound,
        });
        self.must = Some(must);
        self
    }
}

impl Unit {
    fn show(self, value: f64) -> String {
        let mib = f64::from(1 << 20);
        match self {
            Self::Seconds if value.abs() < 1e-6 => format!("{:.0} ns", value * 1e9),
            Self::Seconds if value.abs() < 1e-3 => format!("{:.1} µs", value * 1e6),
            Self::Seconds if value.abs() < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Seconds => format!("{value:.2} s"),
            Self::BytesPerSecond => format!("{:.0} MiB/s", value / mib),
            Self::Bytes if value.abs() < mib => format!("{:.0} KiB", value / 1024.0),
            Self::Bytes => format!("{:.1} MiB", value / mib),
            Self::Times => format!("{value:.2}"),
        }
    }

    fn spread(self, spread: &Spread) -> String {
        if spread.samples == 1 {
            return self.show(spread.median);
        }
        format!("{} ({} – {})", self.show(spread.median), self.show(spread.min), self.show(spread.max))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.bench, self.work)?;
        writeln!(
            f,
            "  (median, smallest – largest; the machine was {:.0} % busy before)",
            self.busy_before * 100.0
        )?;
        for figure in &self.figures {
            let must = match figure.must {
                None => String::new(),
                Some(Must::AtMost(most)) => format!("  must be ≤ {}", bound(figure, most)),
                Some(Must::AtLeast(least)) => format!("  must be ≥ {}", bound(figure, least)),
            };
            let verdict = match figure.reached {
                None => "",
                Some(true) => ": reached",
                Some(false) => ": MISSED",
            };
            let measured = figure.unit.spread(&figure.measured);
            match &figure.against {
                None => writeln!(f, "  {:<34} {measured}{must}{verdict}", figure.what)?,
                Some(against) => {
                    writeln!(f, "  {:<34} {measured}", figure.what)?;
                    writeln!(f, "    {:<32} {}", against.what, figure.unit.spread(&against.baseline))?;
                    writeln!(
                        f,
                        "    {:<32} {} ×{must}{verdict}",
                        "ratio",
                        Unit::Times.spread(&against.ratio)
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// A bound in the unit of what it bounds.
fn bound(figure: &Figure, value: f64) -> String {
    if figure.against.is_some() { format!("{value}") } else { figure.unit.show(value) }
}
