//! What goes to a client over a stream, line after line, by one task.
//!
//! A line can be posted from anywhere without waiting, also by what may be dropped in the middle. How much waits is the
//! bound of the channel: whoever reads requests takes no more of them while it is too much. Not for what the lines say.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

/// The way to the client. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outbox {
    lines: mpsc::UnboundedSender<Line>,
    unsent: Arc<Unsent>,
}

#[derive(Default)]
struct Unsent {
    bytes: AtomicUsize,
    /// Told when it is less than before.
    less: Notify,
}

struct Line {
    bytes: Vec<u8>,
    written: oneshot::Sender<()>,
}

impl Outbox {
    /// The way to a client, and the task that goes it. The task ends when no outbox is left and all is written, or when the
    /// client takes nothing more.
    pub(crate) fn new<W>(mut write: W) -> (Self, AbortOnDropHandle<()>)
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (lines, mut posted) = mpsc::unbounded_channel::<Line>();
        let unsent = Arc::new(Unsent::default());
        let left = Arc::clone(&unsent);
        let task = tokio::spawn(async move {
            while let Some(Line { bytes, written }) = posted.recv().await {
                if write_all(&mut write, &bytes).await.is_err() {
                    // Dropping the rest tells whoever waits for it.
                    break;
                }
                left.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
                left.less.notify_waiters();
                // Nobody may be waiting for it.
                let _ = written.send(());
            }
            drop(posted);
            left.less.notify_waiters();
        });
        (Self { lines, unsent }, AbortOnDropHandle::new(task))
    }

    /// Posts a line. What is returned resolves when it is written, with an error when it never will be.
    pub(crate) fn post(&self, mut line: Vec<u8>) -> oneshot::Receiver<()> {
        line.push(b'\n');
        let (written, told) = oneshot::channel();
        self.unsent.bytes.fetch_add(line.len(), Ordering::Relaxed);
        // Of a client that takes nothing more, the receiver says so.
        let _ = self.lines.send(Line { bytes: line, written });
        told
    }

    /// Resolves when at most so many bytes wait, or none will ever be written. Cancellation safe.
    pub(crate) async fn at_most(&self, bytes: usize) {
        loop {
            let less = self.unsent.less.notified();
            if self.unsent.bytes.load(Ordering::Relaxed) <= bytes || self.lines.is_closed() {
                return;
            }
            less.await;
        }
    }
}

async fn write_all(write: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    write.write_all(bytes).await?;
    write.flush().await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_are_written_in_their_order_and_those_who_wait_are_told() {
        let (client, server) = tokio::io::duplex(4);
        let (outbox, task) = Outbox::new(server);
        let first = outbox.post(b"first".to_vec());
        let second = outbox.post(b"second".to_vec());
        let mut room = Box::pin(outbox.at_most(0));
        assert!(futures_util::poll!(&mut room).is_pending());
        let reading = tokio::spawn(async move {
            let (mut client, mut said) = (client, String::new());
            client.read_to_string(&mut said).await.unwrap();
            said
        });
        first.await.unwrap();
        second.await.unwrap();
        room.await;
        drop(outbox);
        task.await.unwrap();
        assert_eq!(reading.await.unwrap(), "first\nsecond\n");
    }

    #[tokio::test]
    async fn a_client_that_is_gone_keeps_nobody_waiting() {
        let (client, server) = tokio::io::duplex(4);
        let (outbox, task) = Outbox::new(server);
        let lost = outbox.post(b"a line longer than the pipe".to_vec());
        drop(client);
        assert!(lost.await.is_err());
        task.await.unwrap();
        assert!(outbox.post(b"one more".to_vec()).await.is_err());
        outbox.at_most(0).await;
    }
}
