//! Notices that the client is gone, as soon as its end of the stream is closed.
//!
//! Not for parsing: bytes pass through untouched.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// A reader that cancels a token at end of file or error.
pub(crate) struct TellsWhenGone<R> {
    inner: R,
    gone: CancellationToken,
}

impl<R> TellsWhenGone<R> {
    pub(crate) fn new(inner: R, gone: CancellationToken) -> Self {
        Self { inner, gone }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for TellsWhenGone<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Poll::Ready(result) = &polled
            && (result.is_err() || buffer.filled().len() == before && buffer.remaining() > 0)
        {
            self.gone.cancel();
        }
        polled
    }
}
