//! Ends a connection whose client takes nothing of what is sent to it.
//!
//! Not for clients that send nothing: the protocol's own timeouts are for those, and a client that waits may wait.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A connection on which a write that makes no progress for a while fails.
pub(crate) struct Stalled<T> {
    inner: T,
    patience: Duration,
    /// Set while a write makes no progress.
    until: Option<Pin<Box<Sleep>>>,
}

impl<T> Stalled<T> {
    pub(crate) fn new(inner: T, patience: Duration) -> Self {
        Self { inner, patience, until: None }
    }

    /// What became of a write, or that it has waited for too long.
    fn judge<V>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<V>>) -> Poll<io::Result<V>> {
        if polled.is_ready() {
            self.until = None;
            return polled;
        }
        let end = Instant::now() + self.patience;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stalled<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stalled<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.judge(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(context);
        self.judge(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_left_and_one_that_is_slow_is_not() {
        let (near, far) = tokio::io::duplex(16);
        let mut connection = Stalled::new(near, Duration::from_secs(30));
        connection.write_all(&[0; 16]).await.unwrap();
        let error = connection.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);

        let (near, mut far) = tokio::io::duplex(16);
        let mut connection = Stalled::new(near, Duration::from_secs(30));
        let slow = tokio::spawn(async move {
            let mut taken = [0; 16];
            for _ in 0..8 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                tokio::io::AsyncReadExt::read_exact(&mut far, &mut taken).await.unwrap();
            }
        });
        connection.write_all(&[0; 128]).await.unwrap();
        slow.await.unwrap();
    }
}
