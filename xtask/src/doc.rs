//! `doc`: the public documentation builds without a warning, so no link in it is dead.

use crate::command;

pub(crate) fn run() -> anyhow::Result<()> {
    command::run(command::cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}
