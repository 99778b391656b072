//! What procyard costs, each figure against its own baseline in the same run: run by `cargo xtask bench`.
//!
//! Every bench is a file that measures rounds, in which work and baseline take turns, so that other load on the machine
//! meets both. What the figures mean is written in `docs/benchmarks.md`.
//!
//! Not for profiling one part alone: the crates have examples for that.

mod append;
mod child;
mod fan_out;
mod idle;
mod ingest;
mod ingest_lines;
mod ingest_many;
mod load;
mod mcp_call;
mod memory;
mod read;
mod report;
mod restore;
mod scene;
mod spread;
mod start;
mod stop;
mod text;
mod wake;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};

use crate::report::Report;
use crate::scene::Place;

/// Measures procyard against baselines of the same run.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench")]
struct Cli {
    /// What to measure; everything when none is named
    names: Vec<Name>,
    /// Where the figures are written
    #[arg(long, value_name = "FILE", default_value = "target/bench.json")]
    json: PathBuf,
    /// Where sessions and files are made; put it on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Wait up to this many seconds before each bench for the machine to be idle
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    quiet: u64,
    /// What `cargo bench` adds
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Start,
    McpCall,
    Ingest,
    IngestMany,
    IngestLines,
    Append,
    Read,
    Restore,
    Wake,
    FanOut,
    Text,
    Stop,
    Idle,
}

impl Name {
    async fn measure(self, place: &Place) -> anyhow::Result<Report> {
        match self {
            Self::Start => start::measure(place).await,
            Self::McpCall => mcp_call::measure(place).await,
            Self::Ingest => ingest::measure(place).await,
            Self::IngestMany => ingest_many::measure(place).await,
            Self::IngestLines => ingest_lines::measure(place).await,
            Self::Append => append::measure(place),
            Self::Read => read::measure(place).await,
            Self::Restore => restore::measure(place).await,
            Self::Wake => wake::measure(place).await,
            Self::FanOut => fan_out::measure(place).await,
            Self::Text => Ok(text::measure()),
            Self::Stop => stop::measure().await,
            Self::Idle => idle::measure().await,
        }
    }
}

fn main() -> ExitCode {
    // In a process that was started as a guardian this never returns; it must come before anything else.
    procyard_host::enter();
    if let Some(code) = child::enter() {
        return code;
    }
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and reports; whether every figure that must be reached was.
fn run(cli: &Cli) -> anyhow::Result<bool> {
    let names = if cli.names.is_empty() { Name::value_variants() } else { &cli.names };
    let place = Place::new(&cli.dir)?;
    let mut reports = Vec::new();
    for name in names {
        let busy = load::settle(Duration::from_secs(cli.quiet))?;
        // A runtime of its own for each, as the program has it: threads of an earlier bench cost the next one nothing.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let mut report = runtime
            .block_on(name.measure(&place))
            .with_context(|| format!("`{}` could not be measured", name.name()))?;
        report.busy_before = busy;
        println!("{report}");
        reports.push(report);
    }
    let json = serde_json::to_vec_pretty(&reports)?;
    std::fs::write(&cli.json, json).with_context(|| format!("{} cannot be written", cli.json.display()))?;
    let missed: Vec<_> = reports.iter().flat_map(Report::missed).collect();
    for figure in &missed {
        println!("missed: {figure}");
    }
    Ok(missed.is_empty())
}

impl Name {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
