//! The bytes of a process's output, as a stream.
//!
//! Not for text: bytes come as they were printed.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use hyper::Response;
use hyper::body::{Body as _, Incoming};
use procyard_api::http::LogsQuery;
use procyard_core::Handle;

use crate::client::Ask;
use crate::path::{of_process, with_query};
use crate::{Client, ClientError};

impl Client {
    /// Streams the output of a process. With `follow` it goes on until the process has ended.
    pub async fn logs(&self, handle: &Handle, query: &LogsQuery) -> Result<Logs, ClientError> {
        let answer = self.succeed(Ask::get(with_query(&of_process(handle, "/logs"), query)?)).await?;
        Ok(Logs::of(answer))
    }
}

/// Output as it comes. Dropping it ends the request. Reads no further ahead than the connection's buffers.
#[derive(Debug)]
pub struct Logs {
    /// `None` after the end.
    body: Option<Incoming>,
}

impl Logs {
    pub(crate) fn of(answer: Response<Incoming>) -> Self {
        Self { body: Some(answer.into_body()) }
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
                    // Trailers say nothing.
                    Err(_) => {}
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
