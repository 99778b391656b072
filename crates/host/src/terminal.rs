//! A pseudo-terminal: the master's side, which is the supervisor's (`pty(7)`, `tty_ioctl(2)`).
//!
//! Reading and writing never block, so a program that prints while it is fed cannot deadlock. Everybody who asks the
//! terminal what it is gets an answer, because nobody may be attached who would give one.
//!
//! Not for showing anything: what a screen would look like is worked out from the output elsewhere.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, unlockpt};
use nix::sys::termios::{InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, tcgetattr, tcsetattr};
use procyard_runner::TerminalSize;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, ReadBuf};

use crate::queries::Queries;
use crate::sys;

/// In canonical mode the kernel keeps so much of a line and drops the rest (`termios(3)`).
const LINE_MAX: usize = 4095;
/// What the interrupt character is where a program has unset it.
const ETX: u8 = 3;

/// A new terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) master: std::sync::Arc<Master>,
    /// The child's side.
    pub(crate) slave: OwnedFd,
}

impl Terminal {
    /// Opens one. Needs the context of a runtime.
    pub(crate) fn open(size: TerminalSize) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let master = posix_openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave = sys::open_terminal_peer(master.as_fd())?;
        let mut modes = tcgetattr(&slave)?;
        modes.input_flags |= InputFlags::IUTF8;
        tcsetattr(&slave, SetArg::TCSANOW, &modes)?;
        let fd = sys::watched(OwnedFd::from(master), Interest::READABLE | Interest::WRITABLE)?;
        let master = Master { fd, line: Mutex::new(0), queries: Mutex::new(Queries::default()) };
        master.resize(size)?;
        Ok(Self { master: std::sync::Arc::new(master), slave })
    }
}

/// The supervisor's side of a terminal.
#[derive(Debug)]
pub(crate) struct Master {
    fd: AsyncFd<OwnedFd>,
    /// Bytes since the last end of a line that was admitted.
    line: Mutex<usize>,
    queries: Mutex<Queries>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Master {
    /// Reads output, and answers what a program asks its terminal. At end of file when nobody has the other side open.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.fd.poll_read_ready(cx))?;
            let read = ready.try_io(|fd| Ok(nix::unistd::read(fd.get_ref(), buffer.initialize_unfilled())?));
            match read {
                Ok(Ok(length)) => {
                    let from = buffer.filled().len();
                    buffer.advance(length);
                    self.answer(&buffer.filled()[from..]);
                    return Poll::Ready(Ok(()));
                }
                // So the master says that the last of the other side was closed.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Poll::Ready(Ok(())),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }

    fn answer(&self, output: &[u8]) {
        let answers = lock(&self.queries).take_in(output);
        if !answers.is_empty() {
            // A terminal whose input is full has a program that does not read: it waits for no answer.
            let _ = nix::unistd::write(self.fd.get_ref(), &answers);
        }
    }

    /// Whether the terminal's line editing would keep all of this; takes it into account when it would.
    pub(crate) fn admit(&self, bytes: &[u8], eof: bool) -> bool {
        let mut line = lock(&self.line);
        let Some(ends) = self.line_ends() else {
            *line = 0;
            return true;
        };
        let fits = fits(*line, bytes, &ends);
        if fits {
            *line = if eof { 0 } else { end_of_line(*line, bytes, &ends) };
        }
        fits
    }

    /// Whether the terminal's line editing would keep all of this now.
    pub(crate) fn would_admit(&self, bytes: &[u8]) -> bool {
        let line = lock(&self.line);
        self.line_ends().is_none_or(|ends| fits(*line, bytes, &ends))
    }

    /// Writes input as far as the terminal takes it now.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.fd.poll_write_ready(cx))?;
            match ready.try_io(|fd| Ok(nix::unistd::write(fd.get_ref(), bytes)?)) {
                Ok(Ok(length)) => return Poll::Ready(Ok(length)),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }

    /// Types the end-of-file character, at which a reader in canonical mode sees an end; repeatable, and nothing in other
    /// modes, which know no end of file.
    pub(crate) fn poll_end_of_file(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(ends) = self.line_ends() else { return Poll::Ready(Ok(())) };
        match ready!(self.poll_write(cx, &ends[..1])) {
            // Nobody has the other side open any more.
            Err(error) if error.raw_os_error() != Some(libc::EIO) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// The characters that end a line or throw it away, in canonical mode; end of file is the first.
    fn line_ends(&self) -> Option<[u8; 9]> {
        let modes = tcgetattr(self.fd.get_ref()).ok()?;
        let control = |index: SpecialCharacterIndices| modes.control_chars[index as usize];
        // A carriage return is a newline where the terminal makes it one.
        let carriage_return = if modes.input_flags.contains(InputFlags::ICRNL) { b'\r' } else { b'\n' };
        modes.local_flags.contains(LocalFlags::ICANON).then(|| {
            [
                control(SpecialCharacterIndices::VEOF),
                b'\n',
                carriage_return,
                control(SpecialCharacterIndices::VEOL),
                control(SpecialCharacterIndices::VEOL2),
                control(SpecialCharacterIndices::VKILL),
                control(SpecialCharacterIndices::VINTR),
                control(SpecialCharacterIndices::VQUIT),
                control(SpecialCharacterIndices::VSUSP),
            ]
        })
    }

    /// Types the interrupt character; the line discipline makes a signal of it, unless the program wants it as input.
    pub(crate) fn interrupt(&self) {
        let set = tcgetattr(self.fd.get_ref())
            .map_or(0, |modes| modes.control_chars[SpecialCharacterIndices::VINTR as usize]);
        let character = if set == 0 { ETX } else { set };
        if nix::unistd::write(self.fd.get_ref(), &[character]) == Err(Errno::EAGAIN) {
            // Its input is full; the signal must not wait for that.
            let _ = sys::signal_terminal(self.fd.get_ref().as_fd(), libc::SIGINT);
        }
        *lock(&self.line) = 0;
    }

    /// Gives it another size; its foreground group gets SIGWINCH.
    pub(crate) fn resize(&self, size: TerminalSize) -> Result<(), Errno> {
        sys::set_terminal_size(self.fd.get_ref().as_fd(), size.rows, size.cols)
    }
}

/// Whether every line in `bytes` fits, the first one after `line` bytes.
fn fits(mut line: usize, bytes: &[u8], ends: &[u8]) -> bool {
    bytes.iter().all(|byte| {
        // Unset characters are 0, which then is text.
        line = if *byte != 0 && ends.contains(byte) { 0 } else { line + 1 };
        line <= LINE_MAX
    })
}

fn end_of_line(line: usize, bytes: &[u8], ends: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0 && ends.contains(byte));
    last.map_or(line + bytes.len(), |last| bytes.len() - last - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_across_writes() {
        let ends = [4, b'\n', b'\r', 0, 0];
        let long = vec![b'x'; LINE_MAX];
        assert!(fits(0, &long, &ends));
        assert!(!fits(1, &long, &ends));
        assert!(fits(1, &[&b"\n"[..], &long].concat(), &ends));
        assert!(!fits(0, &[&long[..], b"y\n"].concat(), &ends));
        assert_eq!(end_of_line(3, b"ab", &ends), 5);
        assert_eq!(end_of_line(3, b"a\nbc", &ends), 2);
        assert_eq!(end_of_line(3, b"a\x04", &ends), 0);
        assert_eq!(end_of_line(0, b"\0\0", &ends), 2, "an unset delimiter is no delimiter");
    }
}
