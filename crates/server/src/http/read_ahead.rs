//! Reads what a client sends before whoever serves it asks for it, so that a client which has left is noticed while a call
//! of it is under way, also behind requests that it sent on and that wait for their turn (pipelining, RFC 9112, section
//! 9.3.2): hyper reads nothing while it has such requests.
//!
//! Not for parsing: bytes pass through untouched.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, WriteHalf};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// So many bytes wait to be asked for. Behind more of them the end is not seen before they are.
const AHEAD_MAX: usize = 16 * 1024;

/// A stream that is read ahead.
pub(crate) struct ReadAhead<T> {
    read: DuplexStream,
    write: WriteHalf<T>,
    /// Reads from the stream; holds it, and so ends with this.
    _reading: AbortOnDropHandle<()>,
}

impl<T: AsyncRead + AsyncWrite + Send + 'static> ReadAhead<T> {
    /// Reads from the stream until its client has closed its side, and cancels the token then. Must be called within a
    /// runtime.
    pub(crate) fn new(stream: T, left: CancellationToken) -> Self {
        let (mut from, write) = tokio::io::split(stream);
        let (read, mut to) = tokio::io::duplex(AHEAD_MAX);
        let reading = tokio::spawn(async move {
            // An error is an end, too: whoever reads here is shown the end behind all that came.
            let _ = tokio::io::copy(&mut from, &mut to).await;
            left.cancel();
        });
        Self { read, write, _reading: AbortOnDropHandle::new(reading) }
    }
}

impl<T: Unpin> AsyncRead for ReadAhead<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.read).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ReadAhead<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.write).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.write).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.write.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_is_told_before_what_came_is_read_and_nothing_of_it_is_lost() {
        let (mut client, server) = tokio::io::duplex(64);
        let left = CancellationToken::new();
        let mut stream = ReadAhead::new(server, left.clone());
        client.write_all(b"more").await.unwrap();
        client.shutdown().await.unwrap();
        tokio::time::timeout(Duration::from_secs(1), left.cancelled()).await.unwrap();
        stream.write_all(b"answer").await.unwrap();
        let mut came = String::new();
        stream.read_to_string(&mut came).await.unwrap();
        assert_eq!(came, "more");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_is_closed_with_it() {
        let (mut client, server) = tokio::io::duplex(64);
        let stream = ReadAhead::new(server, CancellationToken::new());
        drop(stream);
        let mut came = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(1), client.read_to_end(&mut came)).await;
        assert_eq!(ended.unwrap().unwrap(), 0);
    }
}
