//! Input to one process: a bounded queue, and the one task that writes it.
//!
//! Not for deciding who may write: that has happened before.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Poll, ready};

use procyard_runner::{Input, Process};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{StdinClosed, SupervisorError};

/// The end-of-transmission character: what ends input on a terminal in canonical mode.
const EOT: u8 = 0x04;

enum Piece {
    Bytes(Vec<u8>),
    Eof,
}

struct Queue {
    pieces: VecDeque<Piece>,
    pending: u64,
    /// End of file was accepted, on a pipe: nothing more is.
    ended: bool,
    /// The other side is gone.
    broken: bool,
}

/// How the input of a process stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InputStatus {
    /// More is accepted.
    pub(crate) open: bool,
    /// Bytes accepted and not taken. None of them has reached the process.
    pub(crate) pending: u64,
    /// Those of them that never will be.
    pub(crate) lost: u64,
}

/// The pending input of one process. A write is accepted whole or refused whole, in the order of acceptance.
pub(crate) struct InputQueue {
    limit: u64,
    terminal: bool,
    /// Says whether input would reach the command whole; there once the process is.
    process: OnceLock<Weak<dyn Process>>,
    /// Guards the queue; held for a push, a pop, a look, and for one attempt to write, which does not block.
    queue: Mutex<Queue>,
    wake: Notify,
    /// Woken when something was taken, or nothing more will be.
    taken: Notify,
}

impl InputQueue {
    pub(crate) fn new(limit: u64, terminal: bool) -> Self {
        let queue = Queue { pieces: VecDeque::new(), pending: 0, ended: false, broken: false };
        Self {
            limit,
            terminal,
            process: OnceLock::new(),
            queue: Mutex::new(queue),
            wake: Notify::new(),
            taken: Notify::new(),
        }
    }

    /// The process whose input this is.
    pub(crate) fn attach(&self, process: Weak<dyn Process>) {
        // Once: a queue is made for one process.
        let _ = self.process.set(process);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn pending(&self) -> u64 {
        self.queue().pending
    }

    /// How it stands.
    pub(crate) fn status(&self) -> InputStatus {
        let queue = self.queue();
        InputStatus {
            open: !queue.ended && !queue.broken,
            pending: queue.pending,
            lost: if queue.broken { queue.pending } else { 0 },
        }
    }

    /// Whether [`push`](Self::push) would accept this now. Takes nothing into account.
    pub(crate) fn would_accept(&self, data: &[u8], eof: bool) -> Result<(), SupervisorError> {
        let queue = self.queue();
        if queue.repeats_end(data, eof) {
            return Ok(());
        }
        queue.admit(data.len() as u64 + self.mark(eof), self.limit)?;
        match self.process.get().and_then(Weak::upgrade) {
            Some(process) => Ok(process.would_admit_input(data, eof)?),
            None => Ok(()),
        }
    }

    /// What end of file takes: on a terminal it is a byte like others, and as many are bounded as of others.
    fn mark(&self, eof: bool) -> u64 {
        u64::from(eof && self.terminal)
    }

    /// Accepts data, and end of file after it. End of file alone is idempotent on a pipe. `accepted` is called before
    /// any of it can be written.
    pub(crate) fn push(
        &self,
        data: Vec<u8>,
        eof: bool,
        accepted: impl FnOnce(),
    ) -> Result<u64, SupervisorError> {
        let pending = {
            let mut queue = self.queue();
            if queue.repeats_end(&data, eof) {
                return Ok(queue.pending);
            }
            let mark = self.mark(eof);
            queue.admit(data.len() as u64 + mark, self.limit)?;
            if let Some(process) = self.process.get().and_then(Weak::upgrade) {
                process.admit_input(&data, eof)?;
            }
            accepted();
            queue.pending += mark;
            if !data.is_empty() {
                queue.pending += data.len() as u64;
                queue.pieces.push_back(Piece::Bytes(data));
            }
            if eof {
                queue.pieces.push_back(Piece::Eof);
                queue.ended = !self.terminal;
            }
            queue.pending
        };
        self.wake.notify_one();
        Ok(pending)
    }

    /// The process ended: nothing more is accepted.
    pub(crate) fn close(&self) {
        self.queue().broken = true;
        self.taken.notify_waiters();
    }

    /// Resolves when at least half of the queue is free, with how much is; or when nothing more is accepted.
    pub(crate) async fn room(&self) -> Result<u64, SupervisorError> {
        loop {
            let taken = self.taken.notified();
            tokio::pin!(taken);
            // Enrolled before the look, so that nothing taken in between is missed.
            taken.as_mut().enable();
            {
                let queue = self.queue();
                queue.admit(0, self.limit)?;
                let free = self.limit.saturating_sub(queue.pending);
                if free >= self.limit / 2 {
                    return Ok(free);
                }
            }
            taken.await;
        }
    }

    async fn next(&self) -> Piece {
        loop {
            let piece = self.queue().pieces.pop_front();
            match piece {
                Some(piece) => return piece,
                None => self.wake.notified().await,
            }
        }
    }

    /// Writes what is queued until end of file, a broken pipe, or `stop`. Never blocks anybody else.
    pub(crate) async fn write_to(&self, mut input: Input, stop: CancellationToken) {
        // Whether the last byte that went to a terminal ended a line: else end of transmission is sent twice, once
        // to pass the line on and once to end it.
        let mut at_line_start = true;
        loop {
            let piece = tokio::select! {
                piece = self.next() => piece,
                () = stop.cancelled() => return,
            };
            let written = tokio::select! {
                written = self.write_piece(&mut input, piece, &mut at_line_start) => written,
                () = stop.cancelled() => return,
            };
            match written {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.close();
                    return;
                }
            }
        }
    }

    /// Writes what is taken of some bytes at once, and counts it by `counts`. Both under one lock: whoever sees what the process
    /// does with them finds them taken.
    async fn write_some(
        &self,
        input: &mut Input,
        bytes: &[u8],
        counts: impl Fn(usize) -> u64,
    ) -> io::Result<usize> {
        let taken = poll_fn(|context| {
            let mut queue = self.queue();
            let taken = ready!(Pin::new(&mut *input).poll_write(context, bytes))?;
            queue.pending -= counts(taken);
            Poll::Ready(io::Result::Ok(taken))
        })
        .await?;
        if taken == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.taken.notify_waiters();
        Ok(taken)
    }

    /// True while more may follow.
    async fn write_piece(
        &self,
        input: &mut Input,
        piece: Piece,
        at_line_start: &mut bool,
    ) -> io::Result<bool> {
        match piece {
            Piece::Bytes(bytes) => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let taken = self.write_some(input, rest, |taken| taken as u64).await?;
                    rest = &rest[taken..];
                }
                input.flush().await?;
                *at_line_start = matches!(bytes.last(), Some(b'\n' | b'\r') | None);
                Ok(true)
            }
            Piece::Eof if self.terminal => {
                let mut ends: &[u8] = if *at_line_start { &[EOT] } else { &[EOT, EOT] };
                while !ends.is_empty() {
                    // Both together are the one byte that was counted.
                    let left = ends.len();
                    let taken = self.write_some(input, ends, |taken| u64::from(taken == left)).await?;
                    ends = &ends[taken..];
                }
                input.flush().await?;
                *at_line_start = true;
                Ok(true)
            }
            Piece::Eof => {
                input.shutdown().await?;
                Ok(false)
            }
        }
    }
}

impl Queue {
    /// Whether this is but the end of file that was accepted before.
    fn repeats_end(&self, data: &[u8], eof: bool) -> bool {
        data.is_empty() && eof && self.ended && !self.broken
    }

    fn admit(&self, bytes: u64, limit: u64) -> Result<(), SupervisorError> {
        if self.ended || self.broken {
            return Err(SupervisorError::StdinClosed(StdinClosed::Eof));
        }
        let free = limit.saturating_sub(self.pending);
        if bytes > free {
            return Err(SupervisorError::Backpressure { pending: self.pending, free });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Context;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_was_accepted_and_not_taken_when_the_other_side_closes_is_lost() {
        let queue = InputQueue::new(100, false);
        queue.push(vec![b'x'; 10], false, || {}).unwrap();
        queue.push(vec![b'y'; 5], true, || {}).unwrap();
        let status = queue.status();
        assert_eq!((status.open, status.pending, status.lost), (false, 15, 0), "it may still take all of it");
        // A pipe of four bytes, which nobody reads.
        let (ours, theirs) = tokio::io::duplex(4);
        let closing = async {
            tokio::task::yield_now().await;
            drop(theirs);
        };
        tokio::join!(queue.write_to(Box::new(ours), CancellationToken::new()), closing);
        let status = queue.status();
        assert_eq!((status.open, status.pending, status.lost), (false, 11, 11));
    }

    /// What is pending, as somebody finds it who looks as soon as anything was written.
    struct LookedAt {
        queue: Arc<InputQueue>,
        found: Arc<Mutex<Vec<u64>>>,
        looking: Vec<std::thread::JoinHandle<()>>,
    }

    impl AsyncWrite for LookedAt {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let (queue, found) = (Arc::clone(&self.queue), Arc::clone(&self.found));
            let (looked, told) = std::sync::mpsc::channel();
            self.looking.push(std::thread::spawn(move || {
                found.lock().unwrap().push(queue.pending());
                // Nobody may be waiting for it any more.
                let _ = looked.send(());
            }));
            // Whoever can look before it was counted has done so by then.
            let _ = told.recv_timeout(Duration::from_millis(100));
            Poll::Ready(Ok(bytes.len().min(4)))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            for looking in self.looking.drain(..) {
                looking.join().unwrap();
            }
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_a_process_has_is_not_pending_for_anybody_who_looks() {
        let queue = Arc::new(InputQueue::new(100, false));
        queue.push(b"12345678".to_vec(), true, || {}).unwrap();
        let found = Arc::default();
        let input = LookedAt { queue: Arc::clone(&queue), found: Arc::clone(&found), looking: Vec::new() };
        queue.write_to(Box::new(input), CancellationToken::new()).await;
        let mut found = found.lock().unwrap().clone();
        found.sort_unstable();
        // The first look may come after the second write, too.
        assert!(found.len() == 2 && found[0] == 0 && found[1] <= 4, "{found:?}");
    }
}
