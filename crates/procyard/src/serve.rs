//! `procyard serve`: the service on its sockets, from the lock of its data directory to the end of its last session.
//!
//! Not for requests: the server crate answers them.

mod notify;

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::fcntl::{Flock, FlockArg};
use procyard_client::Client;
use procyard_server::McpHttpOptions;
use procyard_server::http::{Listener, ServiceError, ServiceOptions, SessionHost};
use tokio_util::sync::CancellationToken;

use crate::caught::stop_on_signals;
use crate::cli::ServeOptions;
use crate::config::{Config, Effective};
use crate::hosted::Host;
use crate::say::say;
use crate::{exit, gc, log};

/// The Unix socket in the data directory, where no other is configured.
pub(crate) const SOCKET: &str = "procyard.sock";

const ADMIN_TOKEN: &str = "admin.token";
const TOKENS: &str = "tokens";
const LOCK: &str = "service.lock";

/// How often ended sessions are looked through.
const COLLECT_EVERY: Duration = Duration::from_secs(6 * 3600);

/// Serves until SIGTERM, SIGINT or SIGHUP; then ends everything in order and exits 0.
pub(crate) async fn serve(options: ServeOptions) -> ExitCode {
    match run(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::fault(&error),
    }
}

async fn run(options: &ServeOptions) -> anyhow::Result<()> {
    // Caught first: a signal meanwhile ends what has begun in order, too.
    let stop = stop_on_signals()?;
    let configured = options.config.load(options.server.flags())?;
    log::start(&configured.config.log)?;
    let data_dir = options.data.resolve()?;
    let workspace = workspace(options)?;
    let _only = lock(&data_dir)?;
    let keep = gc::days(configured.config.retention.log_days);
    let socket = configured.config.server.socket.clone().unwrap_or_else(|| data_dir.join(SOCKET));
    let (listeners, service) = listen(&data_dir, &socket, &configured).await?;
    let addresses = listeners.iter().map(Listener::address).collect::<Result<Vec<_>, _>>()?;
    let host = Arc::new(Host::new(data_dir.clone(), configured, workspace).await?);
    tokio::select! {
        reopened = host.reopen() => reopened?,
        () = stop.cancelled() => {
            let survivors = host.close_all().await;
            anyhow::ensure!(survivors == 0, ServiceError::Survivors(survivors));
            return Ok(());
        }
    }
    let beside = [
        tokio::spawn(collect(data_dir, keep, stop.clone())),
        tokio::spawn(announce(Client::unix(socket), addresses, stop.clone())),
    ];
    let served = procyard_server::http::serve(listeners, host, service, stop.clone()).await;
    // Serving ends by itself only when it fails.
    stop.cancel();
    for task in beside {
        let _ = task.await;
    }
    Ok(served?)
}

fn workspace(options: &ServeOptions) -> anyhow::Result<PathBuf> {
    let workspace = match &options.workspace {
        Some(named) => std::path::absolute(named).context("the workspace's path is not usable")?,
        None => std::env::current_dir().context("the current directory is gone; name a --workspace")?,
    };
    anyhow::ensure!(workspace.is_dir(), "the workspace {} is not a directory", workspace.display());
    Ok(workspace)
}

/// Makes the data directory, private, and takes its lock: two services would take each other's sessions.
fn lock(data_dir: &Path) -> anyhow::Result<Flock<File>> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .with_context(|| format!("the data directory {} cannot be made", data_dir.display()))?;
    // Whoever can write there could put a socket of their own in the place of the service's.
    let shared = data_dir.metadata().is_ok_and(|found| found.mode() & 0o022 != 0);
    anyhow::ensure!(
        !shared,
        "others can write to the data directory {}; take that away (chmod go-w)",
        data_dir.display()
    );
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(data_dir.join(LOCK));
    let file =
        file.with_context(|| format!("the data directory {} cannot be written", data_dir.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => bail!(
            "a service runs on {} already; stop it, or name another directory with --data-dir",
            data_dir.display()
        ),
        Err((_, error)) => Err(error).context("the data directory cannot be locked"),
    }
}

/// Opens the sockets.
async fn listen(
    data_dir: &Path,
    socket: &Path,
    configured: &Effective,
) -> anyhow::Result<(Vec<Listener>, ServiceOptions)> {
    let Config { server, .. } = &configured.config;
    let unix = Listener::unix(socket).await.with_context(|| {
        format!("the socket {} cannot be listened on; another place is named with --socket", socket.display())
    })?;
    let mut listeners = vec![unix];
    if let Some(address) = server.listen {
        let tcp = Listener::tcp(address).await;
        listeners.push(tcp.with_context(|| format!("{address} cannot be listened on"))?);
    }
    if let Some(origin) = server.origins.iter().find(|origin| !origin.contains("://")) {
        bail!("server.origins names `{origin}`, which is no origin; one is written as https://name:port");
    }
    // An address is no name, so that nobody can make a name resolve to it.
    let listened = listeners.iter().filter_map(Listener::local_address).map(|address| address.to_string());
    let mut mcp = McpHttpOptions::default();
    mcp.hosts = server.hosts.iter().cloned().chain(listened).collect();
    mcp.origins.clone_from(&server.origins);
    let service = ServiceOptions {
        mcp,
        admin_token_file: server.admin_token_file.clone().unwrap_or_else(|| data_dir.join(ADMIN_TOKEN)),
        tokens_dir: data_dir.join(TOKENS),
        ..ServiceOptions::in_directory(data_dir)
    };
    Ok((listeners, service))
}

/// Says that the service is ready once it answers; and, to the service manager, that it ends.
async fn announce(service: Client, addresses: Vec<String>, stop: CancellationToken) {
    tokio::select! {
        answered = service.health() => match answered {
            Ok(_) => {
                say(format_args!("ready on {}", addresses.join(" and ")));
                notify::tell("READY=1");
            }
            Err(error) => tracing::error!(%error, "the service does not answer itself"),
        },
        () = stop.cancelled() => return,
    }
    stop.cancelled().await;
    notify::tell("STOPPING=1");
}

/// Removes sessions that ended long ago, now and again, until the service ends.
async fn collect(data_dir: PathBuf, keep: Duration, stop: CancellationToken) {
    loop {
        let (data_dir, stopped) = (data_dir.clone(), stop.clone());
        match tokio::task::spawn_blocking(move || gc::collect(&data_dir, keep, &stopped)).await {
            Ok(Ok(found)) => {
                for (session, error) in found.failed {
                    tracing::warn!(%session, error = format!("{error:#}"), "an old session could not be removed");
                }
            }
            Ok(Err(error)) => {
                tracing::warn!(error = format!("{error:#}"), "old sessions were not looked through");
            }
            Err(_) => return,
        }
        tokio::select! {
            () = tokio::time::sleep(COLLECT_EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}
