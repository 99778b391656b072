//! The supervisor's ends of a process's streams: pipes and terminals behind one face.
//!
//! Not for what is read: bounding and keeping output is a supervisor's.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use crate::terminal::Master;

/// How much of a pipe a command can fill before somebody reads; what the user's pipe budget refuses stays as it is.
const PIPE_BYTES: i32 = 256 * 1024;

fn enlarged_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = pipe2(OFlag::O_CLOEXEC)?;
    // Beyond the user's budget (`pipe-user-pages-soft`) it is refused, which is fine.
    let _ = fcntl(&ends.0, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
    Ok(ends)
}

/// A pipe that the child writes to.
pub(crate) fn output_pipe() -> io::Result<(OutputEnd, OwnedFd)> {
    let (read, write) = enlarged_pipe()?;
    Ok((OutputEnd::Pipe(pipe::Receiver::from_owned_fd(read)?), write))
}

/// A pipe that the child reads from.
pub(crate) fn input_pipe() -> io::Result<(InputEnd, OwnedFd)> {
    let (read, write) = enlarged_pipe()?;
    Ok((InputEnd::Pipe(pipe::Sender::from_owned_fd(write)?), read))
}

/// What a process's output is read from.
#[derive(Debug)]
pub(crate) enum OutputEnd {
    Pipe(pipe::Receiver),
    Terminal(Arc<Master>),
}

impl AsyncRead for OutputEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            OutputEnd::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            OutputEnd::Terminal(master) => master.poll_read(cx, buffer),
        }
    }
}

/// What a process's input is written to.
#[derive(Debug)]
pub(crate) enum InputEnd {
    Pipe(pipe::Sender),
    Terminal(Arc<Master>),
    /// A pipe that was shut down, which for a pipe is closing it.
    Closed,
}

impl AsyncWrite for InputEnd {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            InputEnd::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            InputEnd::Terminal(master) => master.poll_write(cx, bytes),
            InputEnd::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            InputEnd::Terminal(master) => master.poll_end_of_file(cx),
            pipe => {
                *pipe = InputEnd::Closed;
                Poll::Ready(Ok(()))
            }
        }
    }
}
