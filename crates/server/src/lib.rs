//! Transports over procyard's tools and supervisors: MCP over any pair of byte streams and over streamable HTTP, and the
//! HTTP service of many sessions ([`http`]).
//!
//! ```
//! use std::sync::Arc;
//! use procyard_core::{Limits, LoopId, Owner, SessionId};
//! use procyard_runner::{Runner, RunnerError, RunnerResolver};
//! use procyard_server::serve_mcp;
//! use procyard_store::FsDir;
//! use procyard_supervisor::{Services, Supervisor};
//! use procyard_testkit::{Script, ScriptedRunner};
//! use procyard_tools::{Toolbox, ToolboxOptions};
//! use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
//! use tokio_util::sync::CancellationToken;
//!
//! struct Scripted(ScriptedRunner);
//! impl RunnerResolver for Scripted {
//!     fn resolve(&self, _: Owner) -> Result<Arc<dyn Runner>, RunnerError> {
//!         Ok(Arc::new(self.0.clone()))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
//! let supervisor = Supervisor::new(owner.session, Limits::default(), FsDir::open(place.path())?);
//! supervisor.activate(Services::discard()).await?;
//! let runners = Arc::new(Scripted(ScriptedRunner::new(Script::new().exit(0))));
//! let options = ToolboxOptions { workspace: "/".into(), ..ToolboxOptions::default() };
//! let toolbox = Arc::new(Toolbox::new(supervisor, runners, owner, options));
//!
//! let (client, server) = tokio::io::duplex(64 * 1024);
//! let (read, write) = tokio::io::split(server);
//! let serving = tokio::spawn(serve_mcp(toolbox, read, write, CancellationToken::new()));
//!
//! let (read, mut write) = tokio::io::split(client);
//! let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",
//!     "capabilities":{},"clientInfo":{"name":"example","version":"1"}}}"#.replace('\n', "");
//! write.write_all(format!("{hello}\n").as_bytes()).await?;
//! let mut lines = BufReader::new(read).lines();
//! let answer = lines.next_line().await?.unwrap_or_default();
//! assert!(answer.contains(r#""name":"procyard""#), "{answer}");
//!
//! write.shutdown().await?;
//! drop((lines, write));
//! serving.await??;
//! # Ok(())
//! # }
//! ```
//!
//! Not for composing a service: sessions, runners and tokens come from whoever embeds this.

mod batch;
mod client_gone;
mod envelope;
mod follow;
pub mod http;
mod in_flight;
mod line_reader;
mod lines;
mod mcp;
mod mcp_http;
mod mcp_refusals;
mod mcp_server;
mod mcp_sessions;
mod opens_late;
mod outbox;
mod params;
mod presence;
mod reports;
mod resources;
mod results;
mod stamped_ids;
mod tasks;
mod turns;
mod weight;

pub use mcp::{ServeError, serve_mcp, stdio};
pub use mcp_http::{Callers, McpHttp, McpHttpOptions};
