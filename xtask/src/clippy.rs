//! `clippy`: every target of every crate holds to the workspace's lints, warnings denied.
//!
//! Benches and examples are targets too, so this is what keeps them compiling.

use crate::command;

pub(crate) fn run() -> anyhow::Result<()> {
    command::run(&mut command::cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}
