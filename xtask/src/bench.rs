//! `bench`: what procyard costs, each figure against its own baseline in the same run.
//!
//! The measuring is a program of the composition root, which is built in release here: it is entered again as a
//! guardian and as the children that it measures, so it needs a `main` of its own. What the figures mean is written in
//! `docs/benchmarks.md`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::command;

/// What `bench` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure; everything when none is named
    names: Vec<String>,
    /// Where the figures are written; `target/bench.json` when nothing is said
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Handed to the measuring program: `--dir DIR`, `--quiet SECONDS`
    #[arg(last = true)]
    more: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let json = match &args.json {
        Some(file) => std::path::absolute(file)?,
        None => command::root().join("target").join("bench.json"),
    };
    if let Some(folder) = json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut cargo = command::cargo(["bench", "--package", "procyard", "--bench", "costs", "--"]);
    cargo.args(&args.names).arg("--json").arg(json).args(&args.more);
    command::run(&mut cargo)
}
