//! The tools over the Model Context Protocol, revisions 2024-11-05 to the newest that the SDK speaks.
//!
//! Not for sessions: whoever serves has one, and ends it when this returns.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use procyard_tools::{CallContext, Progress, Reply, Surface, ToolDefinition};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, Peer, ServerHandler};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client_gone::TellsWhenGone;
use crate::opens_late::OpensLate;
use crate::turns::{TakesTurns, Turn};

/// The longest message that is read; a tool's arguments are at most 1 MiB of text, which JSON can write as six.
const MESSAGE_MAX: usize = 8 * 1024 * 1024;

/// What calls that are under way get to finish when the client has gone: those that only look something up do.
const GONE_GRACE: Duration = Duration::from_millis(250);

/// After this long without a client, or after a stop, serving ends although answers could not be written.
const LEAVE_GRACE: Duration = Duration::from_secs(1);

/// Reports of progress that may wait for a slow client; more are dropped.
const REPORTS: usize = 4;

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
    let server = McpServer { surface: Arc::clone(&surface), gone: gone.clone() };
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MESSAGE_MAX);
    let transport = OpensLate::new(TakesTurns::new(transport, surface));
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

struct McpServer {
    surface: Arc<dyn Surface>,
    gone: CancellationToken,
}

impl McpServer {
    /// Whether the results of a tool are more than text. Those of a name that is no tool have a structure, too: errors.
    fn gives_structure(&self, name: &str) -> bool {
        let tool = self.surface.definitions().into_iter().find(|definition| definition.name == name);
        tool.is_none_or(|definition| definition.output_schema.is_some())
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("procyard", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.surface.instructions())
    }

    fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListToolsResult, ErrorData>> + Send {
        let tools = self.surface.definitions().into_iter().map(tool).collect();
        std::future::ready(Ok(ListToolsResult::with_all_items(tools)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.surface.definitions().into_iter().find(|definition| definition.name == name).map(tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let token = context.meta.get_progress_token();
        let (reports, mut call) = Reports::of(token, context.peer);
        let turn = context.extensions.get::<Turn>().cloned();
        if let Some(turn) = &turn {
            call.accepted = turn.accepted();
        }
        let answered = async {
            if let Some(turn) = &turn {
                turn.come().await;
            }
            self.surface.call(&request.name, arguments, call).await
        };
        // Dropping the call is what cancels it: it stops a foreground command that was not handed over.
        let reply = tokio::select! {
            biased;
            () = context.ct.cancelled() => None,
            reply = answered => Some(reply),
            () = client_left(&self.gone) => None,
        };
        reports.end().await;
        match reply {
            // The response to a call that was cancelled meanwhile is dropped, so nobody has seen it.
            Some(reply) if !context.ct.is_cancelled() => {
                let result = result(&reply, self.gives_structure(&request.name));
                reply.handed_to_transport();
                Ok(result.into())
            }
            // A cancelled call gets no response; the SDK drops this one.
            _ => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }
}

async fn client_left(gone: &CancellationToken) {
    gone.cancelled().await;
    tokio::time::sleep(GONE_GRACE).await;
}

fn result(reply: &Reply, structured: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(reply.text.clone())];
    let mut result =
        if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured.then(|| reply.structured.clone());
    result
}

fn tool(definition: ToolDefinition) -> Tool {
    let hints = definition.annotations;
    let annotations = ToolAnnotations::with_title(definition.title)
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world);
    let tool = Tool::new(definition.name, definition.description, Arc::new(object(definition.input_schema)))
        .with_title(definition.title)
        .with_annotations(annotations);
    match definition.output_schema {
        Some(schema) => tool.with_raw_output_schema(Arc::new(object(schema))),
        None => tool,
    }
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        // The tools' schemas are objects; a schema of anything admits nothing less.
        _ => JsonObject::new(),
    }
}

/// Sends reports of progress while a call runs.
struct Reports(Option<tokio::task::JoinHandle<()>>);

impl Reports {
    /// What sends the reports, and the context of a call that makes them, where the client gave a token.
    fn of(token: Option<ProgressToken>, peer: Peer<RoleServer>) -> (Self, CallContext) {
        let Some(token) = token else { return (Self(None), CallContext::default()) };
        let (sender, mut reports) = mpsc::channel::<(u64, String)>(REPORTS);
        let task = tokio::spawn(async move {
            while let Some((bytes, last_line)) = reports.recv().await {
                let mut report = ProgressNotificationParam::new(token.clone(), bytes as f64);
                report.message = Some(last_line);
                // A client that is gone needs no progress.
                if peer.notify_progress(report).await.is_err() {
                    return;
                }
            }
        });
        let context = CallContext { progress: Some(Arc::new(Sender(sender))), ..CallContext::default() };
        (Self(Some(task)), context)
    }

    /// Waits until what was reported is sent: no progress comes after the result.
    async fn end(self) {
        if let Some(task) = self.0 {
            // The call is over and has dropped its sender, so the task ends; one that failed has no more to say.
            let _ = task.await;
        }
    }
}

struct Sender(mpsc::Sender<(u64, String)>);

impl Progress for Sender {
    fn report(&self, bytes: u64, last_line: &str) {
        // A client that does not keep up misses reports, nothing else.
        let _ = self.0.try_send((bytes, last_line.to_owned()));
    }
}
