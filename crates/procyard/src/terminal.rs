//! The person's side of a run: their input, their ^C, their terminal.
//!
//! Not for the command's terminal: a runner makes that.

use std::time::Duration;

use anyhow::Context as _;
use nix::sys::termios::{self, SetArg, Termios};
use procyard_core::{Handle, StopKind};
use procyard_runner::{StdinMode, TerminalSize};
use procyard_supervisor::{InputRequest, StopRequest};
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::session::Session;

/// How much input is passed on at a time.
const INPUT_BYTES: usize = 64 * 1024;

/// The person's terminal in raw mode; restored when this is dropped, on every path.
pub(crate) struct RawTerminal(Termios);

impl RawTerminal {
    /// Enters raw mode, where standard input is a terminal.
    pub(crate) fn enter() -> Option<Self> {
        let saved = termios::tcgetattr(std::io::stdin()).ok()?;
        let mut raw = saved.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &raw).ok()?;
        Some(Self(saved))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // There is nobody to tell if it fails; the person sees it.
        let _ = termios::tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &self.0);
    }
}

/// The size of the person's terminal, or the usual one.
pub(crate) fn size() -> TerminalSize {
    let named =
        |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok()).filter(|size| *size > 0);
    let usual = TerminalSize::default();
    TerminalSize { rows: named("LINES").unwrap_or(usual.rows), cols: named("COLUMNS").unwrap_or(usual.cols) }
}

/// Passes standard input on until its end, then end of file; as fast as the command takes it.
pub(crate) async fn pass_input_on(session: &Session, handle: Handle, stdin: StdinMode) {
    if stdin == StdinMode::Null {
        return;
    }
    let mut input = tokio::io::stdin();
    let mut buffer = vec![0; INPUT_BYTES];
    loop {
        // The command ended, or takes no more: what is not read here is left to whoever reads next.
        let Ok(room) = session.supervisor.input_room(session.owner, &handle).await else { return };
        let most = buffer.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let count = input.read(&mut buffer[..most]).await.unwrap_or(0);
        let request = InputRequest { size: None, data: buffer[..count].to_vec(), eof: count == 0 };
        if session.supervisor.input(session.owner, &handle, request).await.is_err() || count == 0 {
            return;
        }
    }
}

/// The signals that a person or a session manager sends to a run.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Catches them from now on.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let catch = |kind| signal(kind).context("signals cannot be caught");
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hangup: catch(SignalKind::hangup())?,
        })
    }

    /// A first ^C interrupts the command, a second terminates it, a third kills it; SIGTERM and SIGHUP terminate it.
    /// Never resolves: the end of the command ends it. Typed into a raw terminal, ^C is input and comes not here.
    pub(crate) async fn obey(mut self, session: &Session, handle: Handle, tty: bool) {
        let mut asked = 0;
        loop {
            let kind = tokio::select! {
                _ = self.interrupt.recv() => {
                    asked += 1;
                    match asked {
                        1 if !tty => StopKind::Interrupt,
                        1 | 2 => StopKind::Terminate,
                        _ => StopKind::Kill,
                    }
                }
                _ = self.terminate.recv() => StopKind::Terminate,
                _ = self.hangup.recv() => StopKind::Terminate,
            };
            let (supervisor, owner) = (session.supervisor.clone(), session.owner);
            let grace = (kind == StopKind::Interrupt).then_some(Duration::from_secs(10));
            // The end is seen through the output; here only the next signal is waited for.
            tokio::spawn(async move { supervisor.stop(owner, &handle, StopRequest { kind, grace }).await });
        }
    }
}
