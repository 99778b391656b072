//! `procyard serve`: the service put together, from the lock of its data directory to the end of its last session.
//!
//! Not for requests, which the server crate answers, nor for sessions, which `hosted` opens.

mod notify;
mod only;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use procyard_client::Client;
use procyard_core::PublicError;
use procyard_server::McpHttpOptions;
use procyard_server::http::{Listener, ServiceError, ServiceOptions, SessionHost as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::caught::stop_on_signals;
use crate::cli::ServeOptions;
use crate::config::Config;
use crate::hosted::Host;
use crate::say::{Voice, print_line, say};
use crate::{exit, gc, log};

/// The Unix socket in the data directory, where no other is configured.
pub(crate) const SOCKET: &str = "procyard.sock";

const ADMIN_TOKEN: &str = "admin.token";
const TOKENS: &str = "tokens";

/// Serves until SIGTERM, SIGINT or SIGHUP; then ends everything in order and exits 0, or with a fault where something could
/// not be proven gone or recorded.
pub(crate) async fn serve(options: ServeOptions) -> ExitCode {
    let voice = Voice::of(options.json);
    match run(&options, voice).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::fault_as(&error, voice),
    }
}

/// The whole wiring.
async fn run(options: &ServeOptions, voice: Voice) -> anyhow::Result<()> {
    // Caught first: a signal meanwhile ends what has begun in order, too.
    let stop = stop_on_signals()?;

    let configured = options.config.load(options.server.flags())?;
    log::start(&voice.logs(&configured.config.log))?;
    let data_dir = options.data.resolve()?;
    let workspace = workspace(options)?;

    // What may be wrong outside is found before anything is opened.
    let _only = only::one_service_on(&data_dir)?;
    let mut service = service(&data_dir, &configured.config)?;
    check_tokens(&service).await?;
    let socket = configured.config.server.socket.clone().unwrap_or_else(|| data_dir.join(SOCKET));
    let listeners = listen(&socket, &configured.config).await?;
    // An address is no name, so that nobody can make a name resolve to it.
    let listened = listeners.iter().filter_map(Listener::local_address);
    service.mcp.hosts.extend(listened.map(|address| address.to_string()));
    let addresses = listeners.iter().map(Listener::address).collect::<Result<Vec<_>, _>>()?;

    let keep = gc::days(configured.config.retention.log_days);
    let host = Arc::new(Host::new(data_dir.clone(), configured, workspace).await?);
    tokio::select! {
        reopened = host.reopen() => reopened?,
        () = stop.cancelled() => {
            let left = host.close_all().await;
            return if left.is_nothing() { Ok(()) } else { Err(ServiceError::Left(left).into()) };
        }
    }

    let beside = [
        tokio::spawn(gc::collect_until(stop.clone(), data_dir, keep)),
        tokio::spawn(announce(Client::unix(socket), addresses, voice, stop.clone())),
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
    if workspace.is_dir() {
        return Ok(workspace);
    }
    let message = format!("the workspace {} is not a directory", workspace.display());
    Err(PublicError::argument("--workspace", message).into())
}

fn service(data_dir: &Path, config: &Config) -> anyhow::Result<ServiceOptions> {
    let admin_token_file = config.server.admin_token_file.clone();
    if let Some(origin) = config.server.origins.iter().find(|origin| !origin.contains("://")) {
        let message = format!("`{origin}` is no origin; one is written as https://name:port");
        return Err(PublicError::argument("server.origins", message).into());
    }
    let mut mcp = McpHttpOptions::default();
    mcp.hosts.clone_from(&config.server.hosts);
    mcp.origins.clone_from(&config.server.origins);
    Ok(ServiceOptions {
        mcp,
        admin_token_file: admin_token_file.unwrap_or_else(|| data_dir.join(ADMIN_TOKEN)),
        tokens_dir: data_dir.join(TOKENS),
        max_tokens_per_session: usize::try_from(config.server.max_tokens_per_session).unwrap_or(usize::MAX),
        ..ServiceOptions::in_directory(data_dir)
    })
}

async fn check_tokens(service: &ServiceOptions) -> anyhow::Result<()> {
    let checked = service.clone();
    let checked = tokio::task::spawn_blocking(move || checked.check_tokens()).await;
    checked.context("the tokens could not be looked at")?.map_err(|error| match error {
        ServiceError::AdminToken(_) => {
            let file = format!("{} (server.admin_token_file)", service.admin_token_file.display());
            anyhow::Error::new(error).context(file)
        }
        error => error.into(),
    })
}

/// Opens the sockets.
async fn listen(socket: &Path, config: &Config) -> anyhow::Result<Vec<Listener>> {
    let unix = Listener::unix(socket).await.with_context(|| {
        format!("the socket {} cannot be listened on; another place is named with --socket", socket.display())
    })?;
    let Some(address) = config.server.listen else { return Ok(vec![unix]) };
    let tcp = Listener::tcp(address).with_context(|| format!("{address} cannot be listened on"))?;
    Ok(vec![unix, tcp])
}

/// Says that the service is ready once it answers; and, to the service manager, that it ends.
async fn announce(service: Client, addresses: Vec<String>, voice: Voice, stop: CancellationToken) {
    tokio::select! {
        answered = service.health() => match answered {
            Ok(_) => {
                match voice {
                    Voice::Text => say(format_args!("ready on {}", addresses.join(" and "))),
                    Voice::Json => print_line(&json!({"ready": {"addresses": addresses}})),
                }
                notify::tell("READY=1");
            }
            Err(error) => tracing::error!(%error, "the service does not answer itself"),
        },
        () = stop.cancelled() => return,
    }
    stop.cancelled().await;
    notify::tell("STOPPING=1");
}
