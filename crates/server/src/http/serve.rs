//! Accepts connections, serves them within limits, and ends everything in order.
//!
//! Not for routes.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response_with_state;
use axum::response::Response;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admin_token::AdminToken;
use super::caller::Peer;
use super::dispatch::router;
use super::host::{Left, SessionHost};
use super::linger::{self, Lending};
use super::listener::{Connection, Listener};
use super::options::ServiceOptions;
use super::read_ahead::ReadAhead;
use super::service::Service;
use super::stalled::Stalled;
use super::tokens::Tokens;

/// The longest head of a request, in bytes.
const HEAD_MAX: usize = 64 * 1024;

/// The most headers of a request.
const HEADERS_MAX: usize = 100;

/// What connections get to end by themselves once the service is stopped, or their client has left.
const LEAVE_GRACE: Duration = Duration::from_secs(3);

/// How long a connection without a request is kept open for one then.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// How long nothing is accepted when the system has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the service did not begin, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The administrator's token could not be read or made.
    #[error("the admin token cannot be used: {0}")]
    AdminToken(#[source] io::Error),
    /// The tokens of loops could not be read.
    #[error("the directory of tokens cannot be used: {0}")]
    Tokens(#[source] io::Error),
    /// Something was not done at the end.
    #[error("{0}")]
    Left(Left),
    /// A task failed.
    #[error("serving failed")]
    Failed(#[from] tokio::task::JoinError),
}

/// Serves on these listeners until `stop` is cancelled; then accepts no more work, ends streams with a reason, gives calls
/// under way a moment, closes connections, and closes all sessions of the host. Whoever comes while that goes on is still
/// answered, with 503; the listeners are closed when nothing is left to ask for. Returns when all of that is done, which is
/// bounded by a few seconds and by what closing the sessions takes.
///
/// Not cancellation safe: dropped, it leaves the sessions open.
pub async fn serve(
    listeners: Vec<Listener>,
    host: Arc<dyn SessionHost>,
    options: ServiceOptions,
    stop: CancellationToken,
) -> Result<(), ServiceError> {
    let ServiceOptions {
        admin_token_file,
        tokens_dir,
        max_connections,
        max_tokens_per_session,
        idle_timeout,
        mcp,
    } = options;
    let max_connections = max_connections.max(1);
    let opening = tokio::task::spawn_blocking(move || {
        let admin_token = AdminToken::open(&admin_token_file).map_err(ServiceError::AdminToken)?;
        let tokens = Tokens::open(&tokens_dir, max_tokens_per_session).map_err(ServiceError::Tokens)?;
        Ok::<_, ServiceError>((admin_token, tokens))
    });
    let (admin_token, tokens) = opening.await??;
    // The rest is left to calls, so that who only follows keeps nobody from looking and stopping.
    let streams = (max_connections - max_connections / 4).max(1);
    let service = Arc::new(Service::new(
        Arc::clone(&host),
        admin_token,
        tokens,
        idle_timeout,
        streams,
        mcp,
        stop.clone(),
    ));
    let router = router(&service);
    let door = Door {
        service: Arc::clone(&service),
        router,
        late: TaskTracker::new(),
        shut: CancellationToken::new(),
    };
    let mut accepting = JoinSet::new();
    for listener in listeners {
        // Of each its own: who can reach a port, without any token, keeps nobody from the socket.
        let places = Arc::new(Semaphore::new(max_connections));
        accepting.spawn(door.clone().accept(listener, places));
    }
    stop.cancelled().await;
    service.tasks.close();
    if tokio::time::timeout(2 * LEAVE_GRACE, service.tasks.wait()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
    let left = host.close_all().await;
    door.shut.cancel();
    while accepting.join_next().await.is_some() {}
    door.late.close();
    // Each of them is bounded by itself.
    door.late.wait().await;
    if left.is_nothing() { Ok(()) } else { Err(ServiceError::Left(left)) }
}

/// What connections come through.
#[derive(Clone)]
struct Door {
    service: Arc<Service>,
    router: Router,
    /// Owns the connections that come once the service is stopped.
    late: TaskTracker,
    /// Cancelled when nobody is let in any more.
    shut: CancellationToken,
}

impl Door {
    async fn accept(self, mut listener: Listener, places: Arc<Semaphore>) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.shut.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // One that is accepted and has no place is not read from; behind it nothing is accepted here.
                    let place = tokio::select! {
                        biased;
                        () = self.shut.cancelled() => return,
                        place = Arc::clone(&places).acquire_owned() => place,
                    };
                    let late = self.service.stop.is_cancelled();
                    let tasks = if late { &self.late } else { &self.service.tasks };
                    let serving = connection(stream, peer, Arc::clone(&self.service), self.router.clone());
                    tasks.spawn(async move {
                        let _place = place;
                        serving.await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Serves one connection until it ends, or has had its grace after the service was stopped.
async fn connection(stream: Box<dyn Connection>, peer: Peer, service: Arc<Service>, router: Router) {
    let _held = service.metrics.connection();
    let left = CancellationToken::new();
    let stream = ReadAhead::new(stream, left.clone());
    let stream = TokioIo::new(Stalled::new(stream, peer.patience(service.idle_timeout)));
    let router = router.layer(map_response_with_state(peer.clone(), end_unknown)).layer(Extension(peer));
    let answers = TowerToHyperService::new(router);
    let begun = CancellationToken::new();
    let (rests, rests_come) = mpsc::channel(1);
    let served = {
        let begun = begun.clone();
        service_fn(move |request: hyper::Request<Incoming>| {
            begun.cancel();
            let (head, body) = request.into_parts();
            let (lending, body) = Lending::new(&head.headers, body);
            let answer = answers.call(hyper::Request::from_parts(head, body));
            let rests = rests.clone();
            async move {
                let mut response = answer.await?;
                if let Some(rest) = lending.over(&mut response) {
                    // There is room: the connection has ended with the one before.
                    let _ = rests.try_send(rest);
                }
                Ok::<_, Infallible>(response)
            }
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(service.idle_timeout)
        .max_buf_size(HEAD_MAX)
        // Beyond what is buffered: a head that came in one piece is measured, too.
        .max_header_size(HEAD_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(stream, served)
        .with_upgrades();
    tokio::pin!(connection);
    let taking = linger::take(rests_come);
    tokio::pin!(taking);
    let stopped = async {
        service.stop.cancelled().await;
        // A client that has only just come has its first request on the way, and is answered.
        let _ = tokio::time::timeout(FIRST_REQUEST, begun.cancelled()).await;
    };
    // Of a client that has left, a call under way is dropped at once where nothing is behind it; this is for the others.
    let left = async {
        left.cancelled().await;
        tokio::time::sleep(LEAVE_GRACE).await;
    };
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = &mut taking => return,
        () = left => return,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = taking => return,
                () = tokio::time::sleep(LEAVE_GRACE) => return,
            }
        }
    };
    if let Err(error) = ended {
        // A client that breaks off or speaks something else; it was told where it could be.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A connection of nobody who is known ends with its answer: strangers hold a place for one request, and not by asking for
/// something public again and again.
async fn end_unknown(State(peer): State<Peer>, mut response: Response) -> Response {
    if !peer.is_known() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
