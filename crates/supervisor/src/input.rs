//! Input to one process: a bounded queue, and the one task that writes it.
//!
//! Not for deciding who may write: that has happened before.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use procyard_runner::{Input, Process};
use tokio::io::AsyncWriteExt as _;
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
    /// Bytes accepted and not taken.
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
    /// Guards the queue; held for a push, a pop or a look.
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

    /// True while more may follow.
    async fn write_piece(
        &self,
        input: &mut Input,
        piece: Piece,
        at_line_start: &mut bool,
    ) -> std::io::Result<bool> {
        match piece {
            Piece::Bytes(bytes) => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let taken = input.write(rest).await?;
                    if taken == 0 {
                        return Err(std::io::ErrorKind::WriteZero.into());
                    }
                    rest = &rest[taken..];
                    self.queue().pending -= taken as u64;
                    self.taken.notify_waiters();
                }
                input.flush().await?;
                *at_line_start = matches!(bytes.last(), Some(b'\n' | b'\r') | None);
                Ok(true)
            }
            Piece::Eof if self.terminal => {
                let ends: &[u8] = if *at_line_start { &[EOT] } else { &[EOT, EOT] };
                input.write_all(ends).await?;
                input.flush().await?;
                self.queue().pending -= 1;
                self.taken.notify_waiters();
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
}
