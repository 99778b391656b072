//! `fmt`: every file is formatted as `rustfmt.toml` says. It only checks; `cargo fmt` formats.

use crate::command;

pub(crate) fn run() -> anyhow::Result<()> {
    command::run(&mut command::cargo(["fmt", "--all", "--check"]))
}
