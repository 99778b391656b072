//! Serves the tools over MCP's streamable HTTP transport on a port of this machine, for whoever comes: one owner, no token.
//!
//! Prints the address, and ends with its standard input. Not a service: that has sessions, owners and tokens.

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use axum::response::Response;
use procyard_core::{Limits, LoopId, Owner, SessionId};
use procyard_host::{HostOptions, HostRunner};
use procyard_runner::{Runner, RunnerError, RunnerResolver};
use procyard_server::{McpHttp, McpHttpOptions};
use procyard_store::FsDir;
use procyard_supervisor::{Services, Supervisor};
use procyard_tools::{Surface, Toolbox, ToolboxOptions};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

struct OneRunner(HostRunner);

impl RunnerResolver for OneRunner {
    fn resolve(&self, _: Owner) -> Result<Arc<dyn Runner>, RunnerError> {
        Ok(Arc::new(self.0.clone()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In a process that was started as a guardian this never returns; it must come before anything else.
    procyard_host::enter();
    tokio::runtime::Runtime::new()?.block_on(serve())
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let owner = Owner {
        session: SessionId::from_random(rand::random()),
        loop_id: LoopId::from_random(rand::random()),
    };
    let supervisor = Supervisor::new(owner.session, Limits::default(), FsDir::open(place.path())?);
    supervisor.activate(Services::discard()).await?;
    let runner = HostRunner::start(HostOptions::default()).await?;
    let options = ToolboxOptions {
        workspace: place.path().to_owned(),
        auto_yield: Some(Duration::from_secs(50)),
        ..ToolboxOptions::default()
    };
    let runners = Arc::new(OneRunner(runner.clone()));
    let toolbox = Arc::new(Toolbox::new(supervisor.clone(), runners, owner, options));

    let stop = CancellationToken::new();
    let everybody = move |_: &Parts| -> Result<Arc<dyn Surface>, Box<Response>> { Ok(toolbox.clone()) };
    let endpoint = McpHttp::new(everybody, McpHttpOptions::default(), stop.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/v1/mcp", listener.local_addr()?);

    let stopping = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
        stopping.cancel();
    });
    let router = axum::Router::new().nest("/v1/mcp", endpoint.router());
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await?;
    supervisor.shutdown().await;
    runner.shutdown().await;
    Ok(())
}
