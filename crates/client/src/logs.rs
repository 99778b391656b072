//! The bytes of a process's output, as a stream.
//!
//! Not for text: bytes come as they were printed.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use hyper::Response;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderMap, TE};
use procyard_api::http::LogsQuery;
use procyard_core::Handle;

use crate::client::Ask;
use crate::path::{of_process, with_query};
use crate::{Client, ClientError, CutOff};

/// The trailer that says why a stream ends.
const END: &str = "procyard-end";

/// Nothing of a stream that ended because it was over, and why any other did.
fn cut_off(trailers: &HeaderMap) -> Option<ClientError> {
    let said = trailers.get(END)?.to_str().unwrap_or_default();
    match said {
        "complete" => None,
        said => Some(CutOff::parse(said).map_or_else(
            || ClientError::not_understood(format!("a stream ended, and the reason is {said:?}")),
            ClientError::CutOff,
        )),
    }
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
}

impl Logs {
    pub(crate) fn of(answer: Response<Incoming>) -> Self {
        Self { body: Some(answer.into_body()) }
    }

    /// The next bytes; `None` after the last, a [`ClientError::CutOff`] where the stream ends before that. Cancellation safe.
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
                        if let Some(error) = frame.trailers_ref().and_then(cut_off) {
                            self.body = None;
                            return Poll::Ready(Some(Err(error)));
                        }
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
