//! From a request to the handler of its route and back: authenticates, reads the body, counts.
//!
//! Not for what routes do.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use procyard_core::ErrorCode;

use super::call::Call;
use super::caller::{Access, Caller, LoopCaller, Peer};
use super::host_field;
use super::problem::Problem;
use super::route::Route;
use super::routes::ROUTES;
use super::service::Service;

/// The longest body: a tool's arguments are at most 1 MiB of text, which JSON can write as six.
const BODY_MAX: usize = 8 * 1024 * 1024;

/// What a call that is under way gets to finish when the service is stopped.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// The router of everything.
pub(crate) fn router(service: &Arc<Service>) -> Router {
    let mut router = Router::new();
    for route in ROUTES.iter() {
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
        let service = Arc::clone(service);
        let handler = move |request: Request| dispatch(Arc::clone(&service), route, request);
        router = router.route(route.path, on(filter, handler));
    }
    let guarded = service.mcp.clone().router().layer(from_fn_with_state(Arc::clone(service), admit_mcp));
    router
        .nest("/v1/mcp", guarded)
        .fallback(async || Problem::not_found("there is no such path; see /openapi.json").into_response())
        .method_not_allowed_fallback(async || Problem::method_not_allowed().into_response())
        .layer(from_fn(host_field::admit))
}

async fn dispatch(service: Arc<Service>, route: &'static Route, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let answered = answer(&service, route, parts, body).await;
    let response = answered.unwrap_or_else(Problem::into_response);
    service.metrics.answered(route.name, response.status());
    finished(&service, response)
}

/// What every answer has: it is for whoever asked, is what its type says, and the last on its connection once the service is
/// stopped.
fn finished(service: &Service, mut response: Response) -> Response {
    let stopped = service.stop.is_cancelled() && response.status() != StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    if stopped {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn answer(
    service: &Arc<Service>,
    route: &'static Route,
    mut parts: Parts,
    body: Body,
) -> Result<Response, Problem> {
    let peer = parts.extensions.get::<Peer>().cloned();
    let caller = Caller::authenticate(service, route.access, &parts.headers, peer.as_ref())?;
    if service.stop.is_cancelled() {
        return Err(Problem::shutting_down());
    }
    let path = RawPathParams::from_request_parts(&mut parts, &()).await;
    let path = path.map_err(|_| Problem::not_found("the path is not UTF-8"))?;
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    // One that the route does not take is read all the same: left behind, it would end the connection after the answer, under
    // the next request of its client.
    let given = read(service, body).await;
    let body = if route.body.is_some() { given? } else { Bytes::new() };
    let call = Call { service: Arc::clone(service), caller, route, parts, path, body };
    if route.query.is_none() {
        call.no_query()?;
    }
    let stopped = async {
        service.stop.cancelled().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    tokio::select! {
        answered = (route.handler)(call) => answered,
        () = stopped => Err(Problem::interrupted()),
    }
}

/// Reads a body whole, within its bounds of size and time.
async fn read(service: &Service, body: Body) -> Result<Bytes, Problem> {
    let too_large = || Problem::new(ErrorCode::TooLarge, format!("a body has at most {BODY_MAX} bytes"));
    // What its head says is enough to refuse it, before anything of it comes.
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(service.idle_timeout, Limited::new(body, BODY_MAX).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::new(ErrorCode::InvalidArguments, "the body did not come whole")),
        Err(_) => Err(Problem::new(ErrorCode::InvalidArguments, "the body did not come in time")),
    }
}

/// Lets a request to the Model Context Protocol through, with the loop of its token.
async fn admit_mcp(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    match admitted(&service, request).await {
        Ok(request) => {
            let mut response = next.run(request).await;
            if !response.status().is_success() && response.body().size_hint().exact() != Some(0) {
                // The transport says in words why it refuses, and not that it is text.
                let text = HeaderValue::from_static("text/plain; charset=utf-8");
                response.headers_mut().entry(header::CONTENT_TYPE).or_insert(text);
            }
            finished(&service, response)
        }
        Err(problem) => finished(&service, problem.into_response()),
    }
}

/// The request with its body read, within the bounds of every body, and with its loop.
async fn admitted(service: &Arc<Service>, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().cloned();
    let caller = Caller::authenticate(service, Access::Loop, &parts.headers, peer.as_ref())?;
    if service.stop.is_cancelled() {
        return Err(Problem::shutting_down());
    }
    let body = read(service, body).await?;
    let session = service.session_of(caller).await?;
    let toolbox = session.toolbox(caller.valid_owner(service)?);
    parts.extensions.insert(LoopCaller { toolbox });
    Ok(Request::from_parts(parts, Body::from(body)))
}
