//! The bytes of a process's output, as a stream.
//!
//! Not for text: bytes come as they were printed.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use hyper::Response;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderValue, TE};
use procyard_api::http::{LogsQuery, StreamEndReason};
use procyard_core::Handle;

use crate::client::Ask;
use crate::path::{of_process, with_query};
use crate::{Client, ClientError};

/// The trailer that says why the service ends a stream that goes on.
const END_REASON: &str = "procyard-end-reason";

fn understood(reason: &HeaderValue) -> Option<StreamEndReason> {
    serde_json::from_value(serde_json::Value::from(reason.to_str().ok()?)).ok()
}

impl Client {
    /// Streams the output of a process. With `follow` it goes on until the process has ended.
    pub async fn logs(&self, handle: &Handle, query: &LogsQuery) -> Result<Logs, ClientError> {
        let ask = Ask::get(with_query(&of_process(handle, "/logs"), query)?);
        // The reason of an end comes behind the bytes (RFC 9110, section 6.5), where it is asked for.
        Ok(Logs::of(self.succeed(ask.header(TE.as_str(), "trailers")).await?))
    }
}

/// Output as it comes. Dropping it ends the request. Reads no further ahead than the connection's buffers.
#[derive(Debug)]
pub struct Logs {
    /// `None` after the end.
    body: Option<Incoming>,
    end_reason: Option<StreamEndReason>,
}

impl Logs {
    pub(crate) fn of(answer: Response<Incoming>) -> Self {
        Self { body: Some(answer.into_body()), end_reason: None }
    }

    /// Why the service ended the stream, where that is not because it was over. Known when [`next`](Self::next) has given
    /// `None`.
    pub fn end_reason(&self) -> Option<StreamEndReason> {
        self.end_reason
    }

    /// The next bytes; `None` after the last. Cancellation safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl Stream for Logs {
    type Item = Result<Bytes, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => return Poll::Ready(Some(Ok(bytes))),
                    Err(frame) => {
                        let reason = frame.trailers_ref().and_then(|trailers| trailers.get(END_REASON));
                        self.end_reason = reason.and_then(understood);
                    }
                },
                Some(Err(error)) => {
                    self.body = None;
                    return Poll::Ready(Some(Err(ClientError::broken(error))));
                }
                None => {
                    self.body = None;
                    return Poll::Ready(None);
                }
            }
        }
    }
}
