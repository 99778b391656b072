//! `fuzz`: feeds a target with inputs that libFuzzer makes from what the code's coverage tells it, on the stable toolchain.
//!
//! The compiler's own pass counts edges and shows comparisons; there is no sanitizer, and none is needed where `unsafe` is
//! not. What is new is kept below `target`, what fails in `target/fuzz/findings`. Not for CI: it replays the kept corpus
//! in a test.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::command;

/// The targets, as `fuzz/src/targets/mod.rs` has them.
const TARGETS: [&str; 5] = ["text", "spool", "manifest", "arguments", "mcp"];

/// What a stable compiler needs to be told for coverage guidance.
const FLAGS: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The longest input that is tried.
const LENGTH_MAX: u32 = 16 << 10;

/// The longest input that is kept, so that the corpus in the repository stays small.
const KEPT_MAX: u32 = 2 << 10;

/// What `fuzz` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to fuzz: text, spool, manifest, arguments or mcp
    name: String,
    /// For how long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Afterwards put into the repository, in place of the kept corpus, the fewest inputs that reach the same code
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let name = args.name.as_str();
    if !TARGETS.contains(&name) {
        bail!("there is no target {name:?}; there are {}", TARGETS.join(", "));
    }
    let root = command::root();
    let place = root.join("target").join("fuzz");
    let triple = host()?;
    // With a target named, build scripts and procedural macros are built without the instrumentation.
    let mut build = command::cargo(["build", "--release", "--locked", "--target", &triple, "--target-dir"]);
    build
        .arg(&place)
        .arg("--manifest-path")
        .arg(root.join("fuzz").join("Cargo.toml"))
        .env("RUSTFLAGS", FLAGS);
    command::run(&mut build)?;

    let kept = root.join("fuzz").join("corpus").join(name);
    let growing = place.join("corpus").join(name);
    let findings = place.join("findings").join(name);
    for folder in [&kept, &growing, &findings] {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    let program = place.join(&triple).join("release").join("procyard-fuzz");
    let fuzzer =
        |length: u32| {
            let mut fuzzer = command::program(&program);
            fuzzer.env("PROCYARD_FUZZ", name).arg(format!("-artifact_prefix={}/", findings.display())).args(
                [format!("-max_len={length}"), "-timeout=20".to_owned(), "-rss_limit_mb=2048".to_owned()],
            );
            fuzzer
        };
    let mut fuzzing = fuzzer(LENGTH_MAX);
    fuzzing
        .args([
            format!("-max_total_time={}", args.seconds),
            "-print_final_stats=1".to_owned(),
            "-verbosity=1".to_owned(),
        ])
        .args([&growing, &kept]);
    command::run(&mut fuzzing)
        .with_context(|| format!("a finding of {name} lies in {}", findings.display()))?;
    if args.keep {
        keep(&kept, &growing, &place.join("kept").join(name), || fuzzer(KEPT_MAX))
    } else {
        Ok(())
    }
}

/// Replaces the kept corpus by the fewest inputs that reach what both corpora reach.
fn keep(
    kept: &Path,
    growing: &Path,
    fresh: &Path,
    fuzzer: impl Fn() -> std::process::Command,
) -> anyhow::Result<()> {
    if fresh.exists() {
        fs::remove_dir_all(fresh)?;
    }
    fs::create_dir_all(fresh)?;
    command::run(fuzzer().arg("-merge=1").args([fresh, kept, growing]))?;
    for entry in fs::read_dir(kept)? {
        let path = entry?.path();
        // Inputs with names were chosen by somebody: seeds, and what was found once.
        let made = path.file_name().is_some_and(|name| name.to_string_lossy().len() == 40);
        if made {
            fs::remove_file(path)?;
        }
    }
    for entry in fs::read_dir(fresh)? {
        let entry = entry?;
        if entry.metadata()?.len() <= u64::from(KEPT_MAX) {
            fs::copy(entry.path(), kept.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// The machine that this is built on, as the compiler names it.
fn host() -> anyhow::Result<String> {
    let mut rustc = command::program(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let said = command::answer(rustc.arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("the compiler does not say what machine this is")
}
