//! An endpoint on a port of this machine, with two owners whose commands play scripts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use procyard_core::{Limits, LoopId, Owner, SessionId, State};
use procyard_runner::{CommandSpec, ProcessRequest, Runner, RunnerError, RunnerResolver};
use procyard_server::{McpHttp, McpHttpOptions};
use procyard_store::FsDir;
use procyard_supervisor::{Services, Supervisor};
use procyard_testkit::{Script, ScriptedRunner};
use procyard_tools::{Surface, Toolbox, ToolboxOptions};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

struct Scripted(ScriptedRunner);

impl RunnerResolver for Scripted {
    fn resolve(&self, _: Owner) -> Result<Arc<dyn Runner>, RunnerError> {
        Ok(Arc::new(self.0.clone()))
    }
}

/// `quick` prints and exits, `cat` echoes, everything else begins and goes on.
fn script(request: &ProcessRequest) -> Script {
    match &request.command {
        CommandSpec::Shell(line) if line == "quick" => Script::new().stdout("done\n").exit(0),
        CommandSpec::Shell(line) if line == "cat" => Script::new().echo_input().exit(0),
        _ => Script::new().stdout("begun\n").pause(Duration::from_secs(3600)).exit(0),
    }
}

pub(crate) fn owner(of: u8) -> Owner {
    Owner { session: SessionId::from_random([9; 16]), loop_id: LoopId::from_random([of; 16]) }
}

pub(crate) struct Scene {
    pub(crate) supervisor: Supervisor,
    pub(crate) endpoint: McpHttp,
    pub(crate) stop: CancellationToken,
    address: SocketAddr,
    _place: TempDir,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With other than the usual options.
    pub(crate) async fn with(change: impl FnOnce(&mut McpHttpOptions)) -> Self {
        let place = tempfile::tempdir().unwrap();
        let root = FsDir::open(place.path()).unwrap();
        let supervisor = Supervisor::new(owner(1).session, Limits::default(), root);
        supervisor.activate(Services::discard()).await.unwrap();
        let runners = Arc::new(Scripted(ScriptedRunner::choosing(script)));
        let toolbox = |of| {
            let options = ToolboxOptions { workspace: "/".into(), ..ToolboxOptions::default() };
            Arc::new(Toolbox::new(supervisor.clone(), runners.clone(), owner(of), options))
        };
        let (alice, bob) = (toolbox(1), toolbox(2));
        let callers = move |head: &Parts| -> Result<Arc<dyn Surface>, Box<Response>> {
            match head.headers.get("authorization").map(HeaderValue::as_bytes) {
                Some(b"alice") => Ok(alice.clone()),
                Some(b"bob") => Ok(bob.clone()),
                _ => Err(Box::new(StatusCode::UNAUTHORIZED.into_response())),
            }
        };
        let mut options = McpHttpOptions::default();
        change(&mut options);
        let stop = CancellationToken::new();
        let endpoint = McpHttp::new(callers, options, stop.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().nest("/v1/mcp", endpoint.clone().router());
        let stopping = stop.clone();
        tokio::spawn(async move {
            let serving = axum::serve(listener, router);
            serving.with_graceful_shutdown(stopping.cancelled_owned()).await
        });
        Self { supervisor, endpoint, stop, address, _place: place }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The states of an owner's processes, newest first.
    pub(crate) fn states(&self, of: u8) -> Vec<State> {
        self.supervisor.list(owner(of)).iter().map(|snapshot| snapshot.state).collect()
    }
}

/// Looks again and again until it is so, and fails at the deadline.
pub(crate) async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let so = async {
        while !look().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, so).await.unwrap_or_else(|_| panic!("{what}: not in time"));
}
