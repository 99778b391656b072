//! What still comes of a request that is answered already.
//!
//! Its client may read the answer only when it has sent everything, and would find the connection broken instead (RFC 9112,
//! section 9.6). So the rest is taken and thrown away, for a while, and the answer says that the connection ends with it. Not
//! for what of a body is read, which is decided where it is needed.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::sync::mpsc;

/// How long, and for how many bytes, the rest of a body is taken.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// A body that can be taken back from whoever was given it.
struct Lent(Arc<Kept>);

struct Kept {
    /// Guards the body; held for a poll.
    body: Mutex<Incoming>,
    /// Something of it was asked for.
    begun: AtomicBool,
}

impl Kept {
    fn with<T>(&self, look: impl FnOnce(&mut Incoming) -> T) -> T {
        look(&mut self.body.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl hyper::body::Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.0.begun.store(true, Ordering::Relaxed);
        self.0.with(|body| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.0.with(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.with(|body| body.size_hint())
    }
}

/// The body of a request while it is answered.
pub(crate) struct Lending {
    kept: Arc<Kept>,
    /// Its client sends nothing before it is told to.
    expects: bool,
}

impl Lending {
    /// Lends the body of a request with such a head.
    pub(crate) fn new(head: &HeaderMap, body: Incoming) -> (Self, Body) {
        let kept = Arc::new(Kept { body: Mutex::new(body), begun: AtomicBool::new(false) });
        let lent = Body::new(Lent(Arc::clone(&kept)));
        (Self { kept, expects: head.contains_key(header::EXPECT) }, lent)
    }

    /// What of the body may still be on its way, now that there is an answer; the answer then ends the connection. It does so,
    /// too, where the client was not told to send and does not: what it sends next may be a part of the body all the same.
    pub(crate) fn over<B>(self, answer: &mut Response<B>) -> Option<Incoming> {
        // Who has not let go of it reads it.
        let kept = Arc::into_inner(self.kept)?;
        let body = kept.body.into_inner().unwrap_or_else(PoisonError::into_inner);
        if hyper::body::Body::is_end_stream(&body) {
            return None;
        }
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        (!self.expects || kept.begun.into_inner()).then_some(body)
    }
}

/// Takes the rests of bodies on one connection, which has one at a time. Ends with the connection alone.
pub(crate) async fn take(mut rests: mpsc::Receiver<Incoming>) {
    while let Some(rest) = rests.recv().await {
        let mut rest = Limited::new(rest, LINGER_BYTES);
        let all = async { while let Some(Ok(_)) = rest.frame().await {} };
        let _ = tokio::time::timeout(LINGER, all).await;
    }
    std::future::pending::<()>().await;
}
