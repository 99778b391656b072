//! `procyard mcp`: the tools over MCP on standard input and output, for one session and one loop.
//!
//! Not for the protocol itself: the server crate speaks it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use procyard_core::Handle;
use procyard_server::http::Left;
use procyard_server::{serve_mcp, stdio};
use procyard_tools::{Dialect, Toolbox, ToolboxOptions};
use tokio_util::sync::CancellationToken;

use crate::caught::stop_on_signals;
use crate::cli::McpOptions;
use crate::limits::unenforced;
use crate::session::{Keep, Session};
use crate::{exit, gc, log};

/// Serves until standard input ends, or SIGTERM or SIGINT comes; then ends the session and exits 0.
pub(crate) async fn mcp(options: McpOptions) -> ExitCode {
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::fault(&error),
    }
}

async fn serve(options: McpOptions) -> anyhow::Result<()> {
    // Caught before the session is opened: a signal meanwhile ends it in order, too.
    let stop = stop_on_signals()?;
    let configured = options.config.load(options.limits.flags())?;
    let config = &configured.config;
    log::start(&config.log)?;
    let workspace = match &options.workspace {
        Some(named) => std::path::absolute(named).context("the workspace's path is not usable")?,
        None => std::env::current_dir().context("the current directory is gone; name a --workspace")?,
    };
    // Each command that names no workdir would be refused, so that the client's configuration is what is wrong.
    anyhow::ensure!(workspace.is_dir(), "the workspace {} is not a directory", workspace.display());
    let data_dir = options.data.resolve()?;
    let host = options.limits.of_runner(config);
    let opening =
        Session::open(&data_dir, options.session.into(), options.loop_id, Keep::Journal, &configured, host);
    let session = tokio::select! {
        session = opening => session?,
        // Nothing is started yet, so there is nothing to end.
        () = stop.cancelled() => return Ok(()),
    };
    tell_restored(&session);
    for missing in unenforced(config, &session.runner.report()) {
        tracing::warn!("{missing}");
    }
    // Every server makes a session; nothing waits for the old ones to go.
    let keep = gc::days(config.retention.log_days);
    let enough = CancellationToken::new();
    let collecting = {
        let enough = enough.clone();
        tokio::task::spawn_blocking(move || gc::collect(&data_dir, keep, &enough))
    };
    let toolbox = Toolbox::new(
        session.supervisor.clone(),
        session.runners(),
        session.owner,
        ToolboxOptions {
            workspace,
            limits: options.limits.of_each(config),
            auto_yield: (options.auto_yield > 0).then(|| Duration::from_secs(options.auto_yield)),
            ..config.toolbox_options()
        },
    );
    let (read, write) = stdio();
    let surface = Dialect::from(options.dialect).over(Arc::new(toolbox));
    let served = serve_mcp(surface, read, write, stop).await;
    enough.cancel();
    let (root, closed) = session.close().await;
    // Whoever wants the session next waits for it, and for nothing else.
    drop(root);
    match collecting.await {
        Ok(Ok(found)) => {
            for (session, error) in found.failed {
                tracing::warn!(%session, error = format!("{error:#}"), "an old session could not be removed");
            }
        }
        Ok(Err(error)) => {
            tracing::warn!(error = format!("{error:#}"), "old sessions were not looked through");
        }
        Err(_) => {}
    }
    served?;
    let left = Left { unproven: closed.failed.len(), unsaved: closed.unsaved };
    anyhow::ensure!(left.is_nothing(), "{left}");
    Ok(())
}

fn tell_restored(session: &Session) {
    for (name, why) in &session.restored.unreadable {
        let name = shortened(name);
        // Whoever asks for it is told that there is no such process; this is for whoever looks after the machine.
        tracing::error!(name, why, "a record does not load and is left as it is");
    }
    tracing::info!(restored = session.restored.restored, lost = session.restored.lost, "the session is open");
}

/// The name of a record as logs may show it: a handle is a capability, of which four characters are enough to find a file.
pub(crate) fn shortened(name: &str) -> String {
    match name.split_once('.').map(|(handle, rest)| (handle.parse::<Handle>(), rest)) {
        Some((Ok(handle), rest)) => format!("{handle:?}.{rest}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_log_shows_four_characters_of_a_handle() {
        assert_eq!(shortened("AAECAwQFBgcICQoLDA0ODw.manifest.json"), "AAEC….manifest.json");
        assert_eq!(shortened("stranger.manifest.json"), "stranger.manifest.json");
    }
}
