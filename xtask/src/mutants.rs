//! `mutants`: which changes of the code the tests of its crate do not notice.
//!
//! cargo-mutants makes one small change after the other in a copy of the workspace and runs the tests of the crate each time.
//! A change that passes is a test that is missing, or code that does nothing. What survives today, and why that is
//! right, is written in `docs/mutation-testing.md`.
//!
//! Not a step of `ci`: it takes hours, and its answer is a list to be read.

use std::ffi::OsString;

use anyhow::{Context as _, bail};

use crate::command;
use crate::layers::table;

/// How a cargo-mutants that understands these arguments is installed.
const INSTALL: &str = "cargo install cargo-mutants --locked --version '^27'";

/// The crates whose rules everything else relies on.
const USUAL: [&str; 2] = ["core", "supervisor"];

/// What `mutants` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The crates, by their folders in crates/; core and supervisor when none is named
    crates: Vec<String>,
    /// Handed to cargo-mutants: `--file finish.rs`, `--list`, `--iterate`
    #[arg(last = true)]
    more: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    command::answer(&mut command::cargo(["mutants", "--version"]))
        .with_context(|| format!("cargo-mutants is needed and does not run; install it with `{INSTALL}`"))?;
    let named: Vec<&str> = args.crates.iter().map(String::as_str).collect();
    let crates = if named.is_empty() { USUAL.to_vec() } else { named };
    if let Some(unknown) = crates.iter().find(|dir| table::find(dir).is_none()) {
        bail!("there is no crate {unknown}; a crate is named by its folder in crates/");
    }
    // Survivors of one crate, which cargo-mutants ends with an error for, are no reason not to look at the next.
    let survived: Vec<&str> =
        crates.into_iter().filter(|dir| command::run(&mut of(dir, &args.more)).is_err()).collect();
    if !survived.is_empty() {
        bail!("survivors, or a run that broke off: {}; see target/mutants", survived.join(", "));
    }
    Ok(())
}

/// The run over one crate; what it found is in `target/mutants/<crate>/mutants.out`.
fn of(dir: &str, more: &[OsString]) -> std::process::Command {
    let mut cargo = command::cargo(["mutants", "--package", &table::package_name(dir), "--output"]);
    cargo.arg(command::root().join("target").join("mutants").join(dir));
    // A changed function leaves code that nobody uses, which is no reason to count it as not built.
    cargo.args(["--cap-lints", "true", "--no-shuffle"]);
    // Symbols double what is built for each mutant and are looked at by nobody.
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    cargo.args(more);
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_by_its_folder_and_has_its_own_results() {
        let line = format!("{:?}", of("supervisor", &["--file".into(), "finish.rs".into()]));
        assert!(line.contains("\"procyard-supervisor\"") && line.contains("mutants/supervisor\""), "{line}");
        assert!(line.ends_with("\"--file\" \"finish.rs\""), "{line}");
    }

    #[test]
    fn the_usual_crates_are_crates() {
        assert!(USUAL.iter().all(|dir| table::find(dir).is_some()));
    }
}
