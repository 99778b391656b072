//! `fuzz`: feeds targets with inputs that libFuzzer makes from what the code's coverage tells it, on the stable toolchain.
//!
//! What is new is kept below `target`, what fails in `target/fuzz/findings`. Not for CI: it replays the kept corpus in a
//! test.

mod build;
mod engine;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::command;
use engine::Report;

/// The targets, as `fuzz/src/targets/mod.rs` has them.
pub(crate) const TARGETS: [&str; 6] = ["text", "spool", "manifest", "arguments", "mcp", "http"];

/// The longest input that is tried.
const LENGTH_MAX: u32 = 16 << 10;

/// The longest input that is kept, so that the corpus in the repository stays small.
const KEPT_MAX: u32 = 2 << 10;

/// How many inputs without a name are kept of one target, so that the replay stays short; of more, some of every length.
const KEPT_COUNT: usize = 240;

/// What `fuzz` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to fuzz, one after the other
    #[arg(required = true, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    names: Vec<String>,
    /// For how long each
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Afterwards put into the repository, in place of the kept corpus, the fewest inputs that reach the same code
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let place = Place::build()?;
    for name in &args.names {
        place.fuzz(name, args.seconds)?;
        if args.keep {
            place.keep(name)?;
        }
    }
    Ok(())
}

/// Fuzzes every target for so long, whatever the others show.
pub(crate) fn run_all(seconds: u64) -> anyhow::Result<()> {
    let place = Place::build()?;
    let failed: Vec<_> = TARGETS.iter().filter_map(|name| place.fuzz(name, seconds).err()).collect();
    let failed: Vec<_> = failed.iter().map(|error| format!("{error:#}")).collect();
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
}

/// Where the program is, and what it reads and writes.
struct Place {
    /// `target/fuzz`, whatever the target directory of others is.
    target: PathBuf,
    /// `fuzz/corpus`.
    kept: PathBuf,
    program: PathBuf,
}

impl Place {
    fn build() -> anyhow::Result<Self> {
        let root = command::root();
        let target = root.join("target").join("fuzz");
        let program = build::build(&root, &target)?;
        Ok(Self { target, kept: root.join("fuzz").join("corpus"), program })
    }

    /// The engine on a target, with what holds of every run of it.
    fn engine(&self, name: &str, length: u32) -> anyhow::Result<Command> {
        let findings = made(self.target.join("findings").join(name))?;
        let mut engine = command::program(&self.program);
        engine.env("PROCYARD_FUZZ", name).args([
            format!("-artifact_prefix={}/", findings.display()),
            format!("-max_len={length}"),
            "-timeout=20".to_owned(),
            "-rss_limit_mb=2048".to_owned(),
        ]);
        Ok(engine)
    }

    fn fuzz(&self, name: &str, seconds: u64) -> anyhow::Result<()> {
        let mut engine = self.engine(name, LENGTH_MAX)?;
        engine.args([format!("-max_total_time={seconds}"), "-print_final_stats=1".to_owned()]);
        engine.args([made(self.growing(name))?, made(self.kept.join(name))?]);
        let mut report = Report::default();
        command::run_telling(&mut engine, |line| report.read(line))
            .with_context(|| format!("a finding of {name} lies in target/fuzz/findings/{name}"))?;
        let guided = report.guided().with_context(|| format!("{name} was not fuzzed by its coverage"))?;
        eprintln!("{name}: {guided}");
        Ok(())
    }

    /// Where new inputs gather.
    fn growing(&self, name: &str) -> PathBuf {
        self.target.join("corpus").join(name)
    }

    /// Replaces the kept corpus by the fewest inputs that reach what both corpora reach.
    fn keep(&self, name: &str) -> anyhow::Result<()> {
        let (kept, growing) = (self.kept.join(name), self.growing(name));
        let fresh = self.target.join("kept").join(name);
        if fresh.exists() {
            fs::remove_dir_all(&fresh)?;
        }
        let mut engine = self.engine(name, KEPT_MAX)?;
        command::run(engine.arg("-set_cover_merge=1").args([&made(fresh.clone())?, &kept, &growing]))?;
        for path in files(&kept)? {
            // Inputs with names were chosen by somebody: seeds, and what was found once.
            if path.file_name().is_some_and(|name| name.to_string_lossy().len() == 40) {
                fs::remove_file(path)?;
            }
        }
        let mut fresh = files(&fresh)?;
        fresh.sort_by_cached_key(|path| {
            (fs::metadata(path).map_or(u64::MAX, |found| found.len()), path.clone())
        });
        let count = fresh.len().min(KEPT_COUNT);
        for path in (0..count).map(|place| &fresh[place * fresh.len() / count]) {
            let name = path.file_name().context("a file has a name")?;
            fs::copy(path, kept.join(name))?;
        }
        Ok(())
    }
}

fn made(folder: PathBuf) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder)
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    entries.collect()
}
