//! What libFuzzer says about its run, and whether coverage guided it.
//!
//! An engine that sees no coverage runs on and finds nothing, so that a run which shows none of it is a failure. Not for
//! findings: the engine fails with those.

use std::fmt;

use anyhow::{Context as _, ensure};

/// What a line of progress says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    executions: u64,
    /// Edges reached.
    coverage: u64,
    /// Edges by how often they were reached, and comparisons by how close they were.
    features: u64,
    /// Inputs in the corpus: one more for each that showed something new.
    corpus: u64,
}

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    counters: Option<u64>,
    first: Option<Progress>,
    last: Option<Progress>,
    /// The engine itself doubts the instrumentation.
    doubts: bool,
}

/// A run that was guided, from its first inputs to its end.
#[derive(Debug)]
pub(super) struct Guided {
    counters: u64,
    first: Progress,
    last: Progress,
}

impl Report {
    /// Takes a line of what the engine writes to standard error.
    pub(super) fn read(&mut self, line: &str) {
        self.doubts |= line.contains("no interesting inputs");
        if line.contains("inline 8-bit counters)") {
            let count = line.split_once('(').and_then(|(_, rest)| rest.split(' ').next());
            self.counters = count.and_then(|count| count.parse().ok()).or(self.counters);
        }
        if let Some(progress) = progress(line) {
            // Before the kept corpus was read there is one empty input.
            if self.first.is_none() && !line.contains("INITED") {
                return;
            }
            self.first.get_or_insert(progress);
            self.last = Some(progress);
        }
    }

    /// Fails unless the program is instrumented and the engine saw inputs reach different code.
    pub(super) fn guided(&self) -> anyhow::Result<Guided> {
        ensure!(!self.doubts, "the engine finds no input interesting");
        let counters = self.counters.context("the program has no counters")?;
        let (first, last) = self.first.zip(self.last).context("the engine shows no progress")?;
        ensure!(counters > 0 && last.coverage > 0 && last.features > 0, "nothing is counted");
        ensure!(last.corpus > 1, "no input reached other code than the first one");
        Ok(Guided { counters, first, last })
    }
}

impl fmt::Display for Guided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first, self.last);
        write!(
            f,
            "{} executions; of {} edges {} reached, {} of them new; {} features, {} new; {} inputs",
            last.executions,
            self.counters,
            last.coverage,
            last.coverage.saturating_sub(first.coverage),
            last.features,
            last.features.saturating_sub(first.features),
            last.corpus,
        )
    }
}

/// A line such as `#4096 NEW cov: 210 ft: 540 corp: 31/2048b lim: 43 exec/s: 2048 rss: 48Mb`.
fn progress(line: &str) -> Option<Progress> {
    let executions = line.strip_prefix('#')?.split_whitespace().next()?.parse().ok()?;
    let after = |name: &str| {
        let value = line.split_once(name)?.1.trim_start();
        value.split(|ch: char| !ch.is_ascii_digit()).next()?.parse().ok()
    };
    Some(Progress {
        executions,
        coverage: after("cov:")?,
        features: after("ft:")?,
        corpus: after("corp:").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADED: &str = "INFO: Loaded 1 modules   (4321 inline 8-bit counters): 4321 [0x55, 0x66), ";
    const INITED: &str = "#13\tINITED cov: 100 ft: 101 corp: 7/700b exec/s: 0 rss: 43Mb";
    const NEW: &str =
        "#400\tNEW    cov: 120 ft: 150 corp: 8/710b lim: 12 exec/s: 0 rss: 43Mb L: 1/12 MS: 1 Ins-";
    const DONE: &str = "#500\tDONE   cov: 120 ft: 150 corp: 8/710b lim: 12 exec/s: 50 rss: 43Mb";

    fn report(lines: &[&str]) -> Report {
        let mut report = Report::default();
        for line in lines {
            report.read(line);
        }
        report
    }

    #[test]
    fn a_run_that_reached_more_is_told_from_its_begin_to_its_end() {
        let guided = report(&["INFO: Seed: 1", LOADED, INITED, NEW, DONE]).guided().unwrap();
        assert_eq!(
            guided.to_string(),
            "500 executions; of 4321 edges 120 reached, 20 of them new; 150 features, 49 new; 8 inputs"
        );
    }

    #[test]
    fn a_run_without_coverage_fails() {
        for (lines, why) in [
            (&[INITED, DONE][..], "counters"),
            (&[LOADED][..], "progress"),
            (&[LOADED, NEW][..], "progress"),
            (&[LOADED, "#2 INITED exec/s: 0 rss: 43Mb"][..], "progress"),
            (&[LOADED, "#2 INITED cov: 0 ft: 0 corp: 1/1b exec/s: 0 rss: 43Mb"][..], "nothing"),
            (&[LOADED, "#2 INITED cov: 3 ft: 3 corp: 1/1b exec/s: 0 rss: 43Mb"][..], "no input"),
            (
                &[LOADED, INITED, DONE, "WARNING: no interesting inputs were found so far. Is the code"][..],
                "interesting",
            ),
        ] {
            let error = report(lines).guided().unwrap_err().to_string();
            assert!(error.contains(why), "{lines:?}: {error}");
        }
    }
}
