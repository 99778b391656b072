//! `deny`: licences, bans and sources of every dependency are what `deny.toml` allows.
//!
//! The ordinary run stays off the network, so its answer depends on the change alone. Advisories are
//! another matter: they come from a database on the network that grows by itself, so a change that
//! was good yesterday can fail today. `--advisories` asks for them too.

use anyhow::Context as _;

use crate::command;

/// How a cargo-deny that understands `deny.toml` is installed.
const INSTALL: &str = "cargo install cargo-deny --locked --version '^0.20'";

/// What `deny` takes.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Check the advisory database too; needs network access
    #[arg(long)]
    advisories: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    command::answer(&mut command::cargo(["deny", "--version"]))
        .with_context(|| format!("cargo-deny is needed and does not run; install it with `{INSTALL}`"))?;
    // cargo-deny looks at the packages of every platform; a build has downloaded only those of this one.
    command::run(&mut command::cargo(["fetch", "--locked"]))?;
    let check: &[&str] = if args.advisories {
        &["deny", "check", "advisories", "bans", "licenses", "sources"]
    } else {
        &["deny", "--offline", "check", "bans", "licenses", "sources"]
    };
    command::run(&mut command::cargo(check))
}
