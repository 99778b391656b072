//! The tools over the Model Context Protocol on a pair of byte streams, revisions 2024-11-05 to the newest that the SDK
//! speaks.
//!
//! Not for sessions: whoever serves has one, and ends it when this returns. Not for what is answered: see `mcp_server`.

use std::sync::Arc;
use std::time::Duration;

use procyard_tools::Surface;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::client_gone::TellsWhenGone;
use crate::lines::Lines;
use crate::mcp_server::McpServer;
use crate::opens_late::OpensLate;
use crate::results;
use crate::turns::TakesTurns;

/// After this long without a client, or after a stop, serving ends although answers could not be written.
const LEAVE_GRACE: Duration = Duration::from_secs(1);

/// Why serving ended otherwise than by the client's or the server's wish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client did not open the protocol as it must.
    #[error("the client did not begin the protocol: {0}")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The task that serves failed.
    #[error("serving failed")]
    Failed(#[from] tokio::task::JoinError),
}

/// Serves a surface on a pair of byte streams, one JSON-RPC message a line, until the client closes its end or `stop` is
/// cancelled. Foreground commands of calls that are under way then are stopped. Writes nothing but protocol. Answers that a
/// client no longer reads keep it for a second at most; a client that does not read and does not leave keeps it.
pub async fn serve_mcp<R, W>(
    surface: Arc<dyn Surface>,
    read: R,
    write: W,
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let gone = stop.child_token();
    let read = TellsWhenGone::new(read, gone.clone());
    let server = McpServer::new(Arc::clone(&surface), results::tools(&*surface), gone.clone());
    let transport = OpensLate::new(TakesTurns::new(Lines::new(read, write), surface));
    let opening = rmcp::service::serve_server_with_ct(server, transport, stop.clone()).await;
    let running = match opening {
        Ok(running) => running,
        // A client that leaves before it has said anything has not done anything wrong.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(Box::new(error))),
    };
    let leave = async {
        gone.cancelled().await;
        tokio::time::sleep(LEAVE_GRACE).await;
    };
    tokio::select! {
        ended = running.waiting() => ended.map(|_| ()).map_err(Into::into),
        // Answers that nobody reads are blocked in a full pipe. They are dropped with the streams' runtime.
        () = leave => Ok(()),
    }
}

/// Standard input and output as a pair of streams; without a thread between where both are pipes, as MCP clients make
/// them. Must be called within a runtime.
pub fn stdio() -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static) {
    rmcp::transport::io::stdio_pipes()
}
