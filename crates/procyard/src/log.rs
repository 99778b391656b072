//! procyard's own logs: to stderr, as the configuration says. Stdout belongs to commands and protocols.
//!
//! Not for the output of commands, their input, their environment or tokens: none of it is ever logged.

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Starts logging. Once in a program.
pub(crate) fn start(log: &Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.level).with_context(|| {
        format!("log.level `{}` is not right; write for example warn,procyard=info", log.level)
    })?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}
