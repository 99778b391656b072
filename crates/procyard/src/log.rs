//! procyard's own logs: to stderr, as the configuration says. Stdout belongs to commands and protocols.
//!
//! Not for the output of commands, their input, their environment or tokens: none of it is ever logged. The libraries below
//! do log what passes through them, whole messages and heads of requests, so nothing that they log is shown, at no level.

use anyhow::{Context as _, bail};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::config::{Log, LogFormat};

/// What the targets of procyard's own crates begin with.
const OURS: &str = "procyard";

/// Starts logging. Once in a program.
pub(crate) fn start(log: &Log) -> anyhow::Result<()> {
    let wanted = wanted(&log.level)?;
    let ours = filter_fn(|metadata| metadata.target().starts_with(OURS));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(wanted.and(ours))).init();
    Ok(())
}

/// What is to be told. A library that is asked for is refused, since it would be asked in vain.
fn wanted(level: &str) -> anyhow::Result<EnvFilter> {
    let filter = EnvFilter::try_new(level).with_context(|| {
        format!("log.level `{level}` is not right; write for example warn,procyard_supervisor=info")
    })?;
    for directive in level.split(',') {
        let named = directive.split(['=', '[']).next().unwrap_or_default().trim();
        if !named.is_empty() && named.parse::<LevelFilter>().is_err() && !named.starts_with(OURS) {
            bail!(
                "log.level names `{named}`, which is none of procyard's own modules; no others are ever shown, because they \
                 could show output, input or tokens"
            );
        }
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::wanted;

    #[test]
    fn levels_and_modules_of_procyard_are_taken_and_libraries_are_refused_by_name() {
        for taken in
            ["", "error", "TRACE", "off", "3", "warn,procyard=info", "procyard_server::mcp=trace, info"]
        {
            assert!(wanted(taken).is_ok(), "{taken}");
        }
        for (refused, why) in [
            ("rmcp=trace", "`rmcp`"),
            ("warn,hyper::proto=debug", "`hyper::proto`"),
            ("info,tokio_tungstenite", "`tokio_tungstenite`"),
            ("h2[frames]=trace", "`h2`"),
            ("procyard=loud", "is not right"),
        ] {
            let error = wanted(refused).unwrap_err().to_string();
            assert!(error.contains(why), "{refused}: {error}");
        }
    }
}
