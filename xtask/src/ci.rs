//! `ci`: every check that a change must pass, in an order that fails early, with the time of each.
//!
//! After a failure the quick steps still run, because what they find is found for free; the slow
//! ones do not. The summary names each step, also those that did not run.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::ValueEnum;

use crate::{clippy, deny, doc, docs, fmt, layers, mcp_conformance, test};

/// What `ci` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A step to leave out, where the caller has run it already; may be repeated
    #[arg(long, value_enum, value_name = "STEP")]
    skip: Vec<Step>,
}

/// The steps, in the order they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    Fmt,
    Layers,
    Docs,
    Clippy,
    Test,
    McpConformance,
    Doc,
    Deny,
}

impl Step {
    const ALL: [Self; 8] = [
        Self::Fmt,
        Self::Layers,
        Self::Docs,
        Self::Clippy,
        Self::Test,
        Self::McpConformance,
        Self::Doc,
        Self::Deny,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Layers => "layers",
            Self::Docs => "docs",
            Self::Clippy => "clippy",
            Self::Test => "test",
            Self::McpConformance => "mcp-conformance",
            Self::Doc => "doc",
            Self::Deny => "deny",
        }
    }

    /// Whether the step compiles nothing, so that it is worth running after a failure.
    fn is_quick(self) -> bool {
        matches!(self, Self::Fmt | Self::Layers | Self::Docs | Self::Deny)
    }

    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Fmt => fmt::run(),
            Self::Layers => layers::run(&layers::Args::default()),
            // The page that has to be compiled for is compared by the test suite.
            Self::Docs => docs::references_hold(),
            Self::Clippy => clippy::run(),
            Self::Test => test::run(&test::Args::default()),
            Self::McpConformance => mcp_conformance::run(),
            Self::Doc => doc::run(),
            Self::Deny => deny::run(&deny::Args::default()),
        }
    }
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Left out because the caller said so.
    Skipped,
    /// Left out because an earlier step failed.
    NotRun,
}

/// One line of the summary.
#[derive(Debug)]
struct Row {
    step: Step,
    outcome: Outcome,
    took: Duration,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let rows = walk(&args.skip, |step| {
        eprintln!("\n== {}", step.name());
        step.run().inspect_err(|error| eprintln!("error: {error:#}")).is_ok()
    });
    println!("\n{}", summary(&rows));
    let failed: Vec<_> =
        rows.iter().filter(|row| row.outcome == Outcome::Failed).map(|row| row.step.name()).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs the steps by `run`, which says whether a step passed.
fn walk(skip: &[Step], mut run: impl FnMut(Step) -> bool) -> Vec<Row> {
    let mut failed = false;
    let row = |step| {
        if skip.contains(&step) {
            return Row { step, outcome: Outcome::Skipped, took: Duration::ZERO };
        }
        if failed && !step.is_quick() {
            return Row { step, outcome: Outcome::NotRun, took: Duration::ZERO };
        }
        let start = Instant::now();
        let passed = run(step);
        failed |= !passed;
        let outcome = if passed { Outcome::Passed } else { Outcome::Failed };
        Row { step, outcome, took: start.elapsed() }
    };
    Step::ALL.into_iter().map(row).collect()
}

fn summary(rows: &[Row]) -> String {
    let lines = rows.iter().map(|Row { step, outcome, took }| {
        let name = step.name();
        match outcome {
            Outcome::Passed => format!("{name:<15} passed   {:>8.1} s", took.as_secs_f64()),
            Outcome::Failed => format!("{name:<15} FAILED   {:>8.1} s", took.as_secs_f64()),
            Outcome::Skipped => format!("{name:<15} skipped"),
            Outcome::NotRun => format!("{name:<15} not run"),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks with the steps `fail` failing; gives the outcome of each step by its name.
    fn outcomes(skip: &[Step], fail: &[Step]) -> Vec<(&'static str, Outcome)> {
        let rows = walk(skip, |step| !fail.contains(&step));
        rows.iter().map(|row| (row.step.name(), row.outcome)).collect()
    }

    #[test]
    fn every_step_runs_where_none_fails() {
        let outcomes = outcomes(&[], &[]);
        assert_eq!(outcomes.len(), Step::value_variants().len());
        assert!(outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Passed));
    }

    #[test]
    fn after_a_failure_only_quick_steps_run() {
        assert_eq!(
            outcomes(&[], &[Step::Clippy]),
            [
                ("fmt", Outcome::Passed),
                ("layers", Outcome::Passed),
                ("docs", Outcome::Passed),
                ("clippy", Outcome::Failed),
                ("test", Outcome::NotRun),
                ("mcp-conformance", Outcome::NotRun),
                ("doc", Outcome::NotRun),
                ("deny", Outcome::Passed),
            ]
        );
    }

    #[test]
    fn a_skipped_step_is_shown_as_skipped_and_its_failure_cannot_count() {
        assert_eq!(
            outcomes(&[Step::Test], &[Step::Test])[4..],
            [
                ("test", Outcome::Skipped),
                ("mcp-conformance", Outcome::Passed),
                ("doc", Outcome::Passed),
                ("deny", Outcome::Passed),
            ]
        );
    }

    #[test]
    fn the_summary_has_a_line_for_each_step_also_for_those_that_did_not_run() {
        let rows = walk(&[Step::Fmt], |step| step != Step::Layers);
        let text = summary(&rows);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), Step::ALL.len());
        assert_eq!(lines[0], "fmt             skipped");
        assert!(lines[1].starts_with("layers          FAILED"), "{text}");
        assert!(lines[2].starts_with("docs            passed"), "{text}");
        assert_eq!(lines[3], "clippy          not run");
    }
}
