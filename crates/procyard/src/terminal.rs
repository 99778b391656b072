//! The person's side of a run: their input, their ^C, their terminal.
//!
//! Not for the command's terminal: a runner makes that.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::termios::{self, SetArg, Termios};
use procyard_core::{ErrorCode, StopKind};
use procyard_runner::{StdinMode, TerminalSize};
use procyard_supervisor::{InputRequest, StopRequest};
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::caught::Caught;
use crate::pages::await_ready;
use crate::problem::without_number;
use crate::run::Run;

/// How much input is passed on at a time.
const INPUT_BYTES: usize = 64 * 1024;

/// How often a background job looks whether it has come to the foreground.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(250);

/// How long an interrupt owns the end that follows it.
const INTERRUPT_GRACE: Duration = Duration::from_secs(10);

/// The person's terminal in raw mode; restored when this is dropped, on every path, a panic's included.
pub(crate) struct RawTerminal {
    terminal: OwnedFd,
    saved: Termios,
}

impl RawTerminal {
    /// Enters raw mode, where standard input is a terminal that this program may change.
    pub(crate) fn enter() -> Option<Self> {
        Self::of(std::io::stdin().as_fd())
    }

    fn of(terminal: BorrowedFd<'_>) -> Option<Self> {
        if in_background(terminal) {
            return None;
        }
        let saved = termios::tcgetattr(terminal).ok()?;
        // A descriptor of its own: whatever becomes of standard input meanwhile, this is the terminal that was changed.
        let raw = Self { terminal: terminal.try_clone_to_owned().ok()?, saved };
        let mut wanted = raw.saved.clone();
        termios::cfmakeraw(&mut wanted);
        termios::tcsetattr(&raw.terminal, SetArg::TCSANOW, &wanted).ok()?;
        Some(raw)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // There is nobody to tell if it fails; the person sees it.
        let _ = termios::tcsetattr(&self.terminal, SetArg::TCSANOW, &self.saved);
    }
}

/// The size of the person's terminal, where there is one with a size.
pub(crate) fn size() -> Option<TerminalSize> {
    size_of(std::io::stdin()).or_else(|| size_of(std::io::stdout())).or_else(|| size_of(std::io::stderr()))
}

/// The size of this terminal; `None` of what is none, or of one that nobody has given a size.
pub(crate) fn size_of(terminal: impl AsFd) -> Option<TerminalSize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(TerminalSize { rows: size.ws_row, cols: size.ws_col })
}

impl Run<'_> {
    /// Passes standard input on until its end, then end of file; as fast as the command takes it.
    pub(crate) async fn pass_input_on(&self, stdin: StdinMode) {
        if stdin == StdinMode::Null {
            return;
        }
        let (supervisor, owner) = (&self.session.supervisor, self.session.owner);
        // Whoever reads next gets what comes after this is dropped.
        let over = CancellationToken::new();
        let _guard = over.clone().drop_guard();
        loop {
            let Ok(room) = supervisor.input_room(owner, &self.handle).await else { return };
            let most = INPUT_BYTES.min(usize::try_from(room).unwrap_or(usize::MAX));
            let over = over.clone();
            let read = tokio::task::spawn_blocking(move || read_input(most, &over)).await;
            let data = read.unwrap_or_else(|_| Ok(Vec::new())).unwrap_or_else(|error| {
                self.voice.note(format_args!(
                    "standard input could not be read: {}",
                    without_number(&error.to_string())
                ));
                Vec::new()
            });
            let eof = data.is_empty();
            let request = InputRequest { size: None, data, eof };
            match supervisor.input(owner, &self.handle, request).await {
                Ok(_) if eof => return,
                Ok(_) => {}
                // The terminal would cut the line: a bell, as it gives one itself, and the next input is its own.
                Err(error) if error.code() == ErrorCode::InvalidArguments => say_bell(),
                Err(_) => return,
            }
        }
    }
}

fn say_bell() {
    // Nobody may be listening any more.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), b"\x07");
}

/// Reads what there is of standard input, at most so much. Blocks until there is something; nothing is end of file.
pub(crate) fn read_input(most: usize, over: &CancellationToken) -> std::io::Result<Vec<u8>> {
    let stdin = std::io::stdin();
    let mut buffer = vec![0; most];
    loop {
        await_ready(stdin.as_fd(), PollFlags::POLLIN)?;
        if over.is_cancelled() {
            return Ok(Vec::new());
        }
        if in_background(stdin.as_fd()) {
            std::thread::sleep(BACKGROUND_PAUSE);
            continue;
        }
        match nix::unistd::read(stdin.as_fd(), &mut buffer) {
            Ok(count) => {
                buffer.truncate(count);
                return Ok(buffer);
            }
            // Somebody else was faster, on a descriptor that does not block.
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether this is a background job of a terminal: reading from that would stop it and, with it, the passing on of output.
fn in_background(terminal: BorrowedFd<'_>) -> bool {
    nix::unistd::tcgetpgrp(terminal).is_ok_and(|foreground| foreground != nix::unistd::getpgrp())
}

/// The signals that a person or a session manager sends to a run.
pub(crate) struct Signals {
    interrupt: Caught,
    terminate: Caught,
    hangup: Caught,
    quit: Caught,
    resized: Caught,
}

impl Signals {
    /// Catches them from now on.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: Caught::catch(SignalKind::interrupt())?,
            terminate: Caught::catch(SignalKind::terminate())?,
            hangup: Caught::catch(SignalKind::hangup())?,
            quit: Caught::catch(SignalKind::quit())?,
            resized: Caught::catch(SignalKind::window_change())?,
        })
    }
}

impl Run<'_> {
    /// A first ^C interrupts the command, a second terminates it, a third kills it; SIGTERM, SIGHUP and SIGQUIT terminate
    /// it. Says so to `told`. Never resolves: the end of the command ends it. Typed into a raw terminal, ^C is input and
    /// comes not here.
    pub(crate) async fn obey(&self, mut signals: Signals, tty: bool, told: watch::Sender<bool>) {
        let mut asked = 0;
        loop {
            let kind = tokio::select! {
                () = signals.interrupt.recv() => {
                    asked += 1;
                    match asked {
                        1 if !tty => StopKind::Interrupt,
                        1 | 2 => StopKind::Terminate,
                        _ => StopKind::Kill,
                    }
                }
                () = signals.terminate.recv() => StopKind::Terminate,
                () = signals.hangup.recv() => StopKind::Terminate,
                () = signals.quit.recv() => StopKind::Terminate,
                () = signals.resized.recv() => {
                    self.resize(tty).await;
                    continue;
                }
            };
            told.send_replace(true);
            let (supervisor, owner, handle) =
                (self.session.supervisor.clone(), self.session.owner, self.handle);
            let grace = (kind == StopKind::Interrupt).then_some(INTERRUPT_GRACE);
            // The end is seen through the output; here only the next signal is waited for.
            tokio::spawn(async move { supervisor.stop(owner, &handle, StopRequest { kind, grace }).await });
        }
    }

    /// Gives the command's terminal the size of the person's.
    async fn resize(&self, tty: bool) {
        if let Some(size) = size().filter(|_| tty) {
            let request = InputRequest { size: Some(size), data: Vec::new(), eof: false };
            // A command that has just ended needs no size.
            let _ = self.session.supervisor.input(self.session.owner, &self.handle, request).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_its_size_and_a_pipe_has_none() {
        let size = nix::pty::Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = nix::pty::openpty(&size, None).unwrap();
        assert_eq!(size_of(terminal.slave.as_fd()), Some(TerminalSize { rows: 30, cols: 100 }));
        let unsized_terminal = nix::pty::openpty(None, None).unwrap();
        assert_eq!(size_of(unsized_terminal.slave.as_fd()), None);
        let (pipe, _) = std::io::pipe().unwrap();
        assert_eq!(size_of(pipe.as_fd()), None);
        assert!(!in_background(pipe.as_fd()));
    }

    #[test]
    fn a_terminal_is_as_it_was_after_a_panic_too() {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let modes = || {
            let modes = termios::tcgetattr(&terminal.slave).unwrap();
            (modes.local_flags, modes.input_flags, modes.output_flags, modes.control_chars)
        };
        let before = modes();
        let panicked = std::panic::catch_unwind(|| {
            let _raw = RawTerminal::of(terminal.slave.as_fd()).unwrap();
            assert_ne!(modes().0, before.0, "it is raw");
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert_eq!(modes(), before);
        let (pipe, _) = std::io::pipe().unwrap();
        assert!(RawTerminal::of(pipe.as_fd()).is_none());
    }
}
