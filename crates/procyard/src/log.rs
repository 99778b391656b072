//! procyard's own logs: to stderr, as the configuration says. Stdout belongs to commands and protocols.
//!
//! Not for the output of commands, their input, their environment or tokens: none of it is ever logged. The libraries below
//! do log what passes through them, whole messages and heads of requests, so nothing that they log is shown, at no level.

use anyhow::Context as _;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::config::{Log, LogFormat};

/// What the targets of procyard's own crates begin with.
pub(crate) const OURS: &str = "procyard";

/// Starts logging. Once in a program.
pub(crate) fn start(log: &Log) -> anyhow::Result<()> {
    // The configuration has been checked: it names no library, which would be asked in vain.
    let wanted = EnvFilter::try_new(&log.level).context("log.level is not right")?;
    let ours = filter_fn(|metadata| metadata.target().starts_with(OURS));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(wanted.and(ours))).init();
    Ok(())
}
