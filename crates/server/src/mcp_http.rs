//! The tools over MCP's streamable HTTP transport, for many clients of many owners.
//!
//! Each owner has sessions of its own, so that the id of a session is worth nothing to anybody else. Host and Origin are
//! checked before anything else, against web pages that were made to look like local names. Not for tokens: whoever mounts
//! this says who sent a request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use procyard_core::{ErrorCode, Owner, PublicError, SessionId};
use procyard_tools::Surface;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::envelope::{self, Received, Refusal};
use crate::mcp_refusals;
use crate::mcp_server::McpServer;
use crate::mcp_sessions::{SessionLimits, Sessions};
use crate::{params, results};

/// Names and origins of this machine itself; ports do not matter.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
const LOCAL_ORIGINS: [&str; 6] = [
    "http://localhost:*",
    "http://127.0.0.1:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.1:*",
    "https://[::1]:*",
];

/// The longest body: a tool's arguments are at most 1 MiB of text, which JSON can write as six.
const BODY_MAX: usize = 8 * 1024 * 1024;

/// Owners without a session that are remembered; of more, all are forgotten, which costs them nothing.
const OWNERS_IDLE_MAX: usize = 64;

/// The header that names a session, and the one that names the revision a client speaks.
const SESSION_ID: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";

/// The first revision that has no sessions. Revisions are dates, and compare as text.
const SESSIONLESS: &str = "2026-07-28";

/// What the SDK is given in the place of what asks for nothing and cannot be read: an answer to nothing.
const FORGOTTEN: &[u8] = br#"{"jsonrpc":"2.0","id":0,"result":{}}"#;

/// How the endpoint is used.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct McpHttpOptions {
    /// Names that clients may reach the service by, beside those of this machine: `name` or `name:port`.
    pub hosts: Vec<String>,
    /// Web pages that may use the service, beside those of this machine: `https://name:port`.
    pub origins: Vec<String>,
    /// Sessions of one owner at a time. One more ends the one that was not used for the longest time.
    pub sessions: usize,
    /// A session without an open connection ends when it was not used for so long.
    pub idle: Duration,
    /// So long a call waits for a client whose connection is gone to resume; then it is cancelled, and a foreground
    /// command stopped.
    pub absence: Duration,
    /// How often a stream on which nothing happens shows that it lives; never, where there is no time. By the clock of the
    /// machine, also where the runtime's is paused.
    pub heartbeat: Option<Duration>,
}

impl Default for McpHttpOptions {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            sessions: 32,
            idle: Duration::from_secs(30 * 60),
            absence: Duration::from_secs(10),
            heartbeat: Some(Duration::from_secs(15)),
        }
    }
}

/// Says whose tools a request is about.
pub trait Callers: Send + Sync + 'static {
    /// The tools of whoever sent a request with this head, or the response that refuses it. As long as they are those of
    /// one [`Toolbox`](procyard_tools::Toolbox), the sessions of their owner go on. Must not block.
    fn surface(&self, head: &Parts) -> Result<Arc<dyn Surface>, Box<Response>>;
}

impl<F> Callers for F
where
    F: Fn(&Parts) -> Result<Arc<dyn Surface>, Box<Response>> + Send + Sync + 'static,
{
    fn surface(&self, head: &Parts) -> Result<Arc<dyn Surface>, Box<Response>> {
        self(head)
    }
}

type Service = StreamableHttpService<McpServer, Sessions>;

/// The endpoint. Cheap to clone.
#[derive(Clone)]
pub struct McpHttp {
    shared: Arc<Shared>,
}

struct Shared {
    callers: Box<dyn Callers>,
    options: McpHttpOptions,
    stop: CancellationToken,
    /// Guards who has an endpoint; held to find one.
    owners: Mutex<HashMap<Owner, Arc<OwnersEndpoint>>>,
}

/// The endpoint of one owner.
struct OwnersEndpoint {
    surface: Arc<dyn Surface>,
    service: Service,
    sessions: Arc<Sessions>,
    stop: CancellationToken,
    /// Ends sessions that nobody uses.
    _looked_after: AbortOnDropHandle<()>,
}

impl Drop for OwnersEndpoint {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl McpHttp {
    /// An endpoint that serves until `stop` is cancelled, which ends its sessions and streams and stops the foreground
    /// commands of calls under way.
    pub fn new(callers: impl Callers, options: McpHttpOptions, stop: CancellationToken) -> Self {
        let callers = Box::new(callers);
        Self { shared: Arc::new(Shared { callers, options, stop, owners: Mutex::default() }) }
    }

    /// The endpoint as the one path of a router, for a service to nest at `/v1/mcp`.
    pub fn router(self) -> Router {
        Router::new().route("/", any(serve)).with_state(self)
    }

    /// Ends every session of an owner, as when its loop was closed. Its calls under way are cancelled.
    pub fn forget(&self, owner: Owner) {
        self.shared.owners().remove(&owner);
    }

    /// The same for all owners of a session, as when it was closed.
    pub fn forget_session(&self, session: SessionId) {
        self.shared.owners().retain(|owner, _| owner.session != session);
    }

    /// Answers one request. Must be called within a runtime. Dropping the future is what a connection does that is gone.
    pub async fn answer(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        if self.shared.stop.is_cancelled() {
            let why = "the service is being shut down";
            let error = PublicError::new(ErrorCode::SupervisorShuttingDown, why).retryable();
            return mcp_refusals::of_request(StatusCode::SERVICE_UNAVAILABLE, error);
        }
        let surface = match self.shared.callers.surface(&head) {
            Ok(surface) => surface,
            Err(refused) => return *refused,
        };
        let endpoint = self.shared.endpoint(surface);
        if opens_a_session(&head.method, &head.headers) && endpoint.sessions.is_full() {
            let error = PublicError::new(ErrorCode::Conflict, "too many sessions are in use; end one first");
            let mut refused = mcp_refusals::of_request(StatusCode::SERVICE_UNAVAILABLE, error.retryable());
            refused.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
            return refused;
        }
        let body = if head.method == Method::POST {
            match endpoint.admit(&head, body).await {
                Ok(message) => Body::from(message),
                Err(refused) => return *refused,
            }
        } else {
            body
        };
        let response = endpoint.service.handle(Request::from_parts(head, body)).await;
        // A stream holds what serves it, so that its owner is not forgotten meanwhile.
        mcp_refusals::in_form(response).await.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let _ = &endpoint;
                frame
            }))
        })
    }
}

impl OwnersEndpoint {
    /// Reads a message that was posted and looks at its envelope, before the SDK does, which cannot say what is wrong.
    async fn admit(&self, head: &Parts, body: Body) -> Result<Bytes, Box<Response>> {
        let Ok(bytes) = axum::body::to_bytes(body, BODY_MAX).await else {
            // Of a connection that broke off nobody reads this.
            return Err(Box::new(mcp_refusals::too_long(BODY_MAX)));
        };
        let refusal = match envelope::read(&bytes) {
            Received::Message(message) => match self.refusal(head, &message) {
                None => return Ok(bytes),
                Some(refusal) => refusal,
            },
            Received::Refused(refusal) => refusal,
            Received::Batch(_) => Refusal::batched(),
            Received::Ignored if bytes.trim_ascii().is_empty() => Refusal::empty(),
            // Taken and forgotten, if the rest of the request is right.
            Received::Ignored => return Ok(Bytes::from_static(FORGOTTEN)),
        };
        // Who may ask, and how, comes first. The SDK looks at the head before it finds that there is no message.
        let head_alone = Request::from_parts(head.clone(), Body::empty());
        let said = self.service.handle(head_alone).await;
        let head_is_right = said.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && says_json(&head.headers);
        Err(Box::new(if head_is_right {
            mcp_refusals::of_message(&refusal)
        } else {
            mcp_refusals::in_form(said).await
        }))
    }

    /// Why a message is not for the SDK.
    fn refusal(&self, head: &Parts, message: &ClientJsonRpcMessage) -> Option<Refusal> {
        if opens_a_session(&head.method, &head.headers) {
            return params::refusal(message);
        }
        let session = head.headers.get(SESSION_ID)?.to_str().ok()?;
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        self.sessions.is_answering(session, &request.id).then(|| Refusal::in_use(&request.id))
    }
}

impl std::fmt::Debug for McpHttp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpHttp").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

async fn serve(State(endpoint): State<McpHttp>, request: Request) -> Response {
    endpoint.answer(request).await
}

/// Whether a body is said to be JSON.
fn says_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// Whether a request could only be the first one of a session.
fn opens_a_session(method: &Method, headers: &HeaderMap) -> bool {
    let revision = headers.get(REVISION).and_then(|value| value.to_str().ok());
    *method == Method::POST
        && !headers.contains_key(SESSION_ID)
        && revision.is_none_or(|revision| revision < SESSIONLESS)
}

impl Shared {
    fn owners(&self) -> MutexGuard<'_, HashMap<Owner, Arc<OwnersEndpoint>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint of whoever owns these tools. Another toolbox of the same owner, as after its session was opened anew,
    /// ends the sessions with the one before.
    fn endpoint(&self, surface: Arc<dyn Surface>) -> Arc<OwnersEndpoint> {
        let owner = surface.toolbox().owner();
        let mut owners = self.owners();
        if let Some(known) = owners.get(&owner)
            && std::ptr::eq(known.surface.toolbox(), surface.toolbox())
        {
            return Arc::clone(known);
        }
        if owners.len() >= OWNERS_IDLE_MAX {
            // One that is answering a request is held by that.
            owners.retain(|_, known| Arc::strong_count(known) > 1 || !known.sessions.is_empty());
        }
        let endpoint = Arc::new(self.open(surface));
        owners.insert(owner, Arc::clone(&endpoint));
        endpoint
    }

    fn open(&self, surface: Arc<dyn Surface>) -> OwnersEndpoint {
        let stop = self.stop.child_token();
        let limits = SessionLimits {
            most: self.options.sessions,
            idle: self.options.idle,
            absence: self.options.absence,
        };
        let sessions = Arc::new(Sessions::new(limits));
        let service = {
            let (surface, gone) = (Arc::clone(&surface), stop.clone());
            let tools = results::tools(&*surface);
            let make = move || Ok(McpServer::new(Arc::clone(&surface), Arc::clone(&tools), gone.clone()));
            StreamableHttpService::new(make, Arc::clone(&sessions), self.config(&stop))
        };
        let looked_after = Arc::clone(&sessions);
        let looking = tokio::spawn(async move { looked_after.look_after().await });
        OwnersEndpoint { surface, service, sessions, stop, _looked_after: AbortOnDropHandle::new(looking) }
    }

    fn config(&self, stop: &CancellationToken) -> StreamableHttpServerConfig {
        let hosts = LOCAL_HOSTS.iter().map(ToString::to_string).chain(self.options.hosts.iter().cloned());
        let origins =
            LOCAL_ORIGINS.iter().map(ToString::to_string).chain(self.options.origins.iter().cloned());
        StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(BODY_MAX)
            .with_sse_keep_alive(self.options.heartbeat)
            .with_cancellation_token(stop.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_post_that_names_no_session_may_open_one() {
        let check = |method: Method, headers: &[(&'static str, &'static str)], opens| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, header::HeaderValue::from_static(value));
            }
            assert_eq!(opens_a_session(&method, &map), opens, "{method} {headers:?}");
        };
        check(Method::POST, &[], true);
        check(Method::POST, &[("mcp-protocol-version", "2025-06-18")], true);
        check(Method::POST, &[("mcp-protocol-version", "2026-07-28")], false);
        check(Method::POST, &[("mcp-session-id", "x")], false);
        check(Method::GET, &[], false);
        check(Method::DELETE, &[], false);
    }
}
