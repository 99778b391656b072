//! A started process, on the supervisor's side: what its shim says, and what the shim is asked.
//!
//! Not for signalling or reaping: a shim does that, this only asks it to.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::socket::{Shutdown, shutdown};
use procyard_core::WaitStatus;
use procyard_runner::{
    Delivery, ExitStatus, Input, Output, Process, RunnerError, RunnerErrorKind, Signal, StreamMode,
    TerminalSize, TreeProof,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::link::{Link, OrphanNotice};
use crate::prepared::Streams;
use crate::wire::{FromShim, Received, ToShim, WantedSignal, receive, send};

/// How long a shim may take to answer: it does bounded steps only.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a shim that cannot be asked any more may be on its way out before its end is told.
const VERDICT_MAX: Duration = Duration::from_secs(2);

/// What is known of the process.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    exited: Option<ExitStatus>,
    emptied: Option<TreeProof>,
    memory_kills: u32,
}

#[derive(Debug)]
struct Shared {
    control: AsyncFd<OwnedFd>,
    /// The guardian continues a shim that somebody stopped.
    link: Arc<Link>,
    known: watch::Sender<Known>,
    requests: AtomicU64,
    /// Who waits for which answer; `None` when there will be none any more. Never held across an await.
    answers: Mutex<Option<HashMap<u64, oneshot::Sender<FromShim>>>>,
}

impl Shared {
    fn answers(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<FromShim>>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: u64, message: FromShim) {
        if let Some(waiting) = self.answers().as_mut().and_then(|answers| answers.remove(&request)) {
            let _ = waiting.send(message);
        }
    }

    /// Asks the shim; `None` when it cannot or does not answer. Dropping the future does not take the question back.
    async fn ask(&self, message: impl FnOnce(u64) -> ToShim) -> Option<FromShim> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.answers().as_mut()?.insert(request, sender);
        let _forgotten = Forget { shared: self, request };
        let message = message(request);
        let asked = async {
            self.control
                .async_io(Interest::WRITABLE, |socket| Ok(send(socket.as_fd(), &message, &[])?))
                .await
                .ok()?;
            self.link.attended(answer).await.ok()
        };
        tokio::time::timeout(ANSWER_MAX, asked).await.ok().flatten()
    }
}

/// Nobody waits for this answer any more.
struct Forget<'a> {
    shared: &'a Shared,
    request: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(answers) = self.shared.answers().as_mut() {
            answers.remove(&self.request);
        }
    }
}

/// The next thing that the shim says; `None` at its end. Cancellation safe.
pub(crate) async fn next_message(control: &AsyncFd<OwnedFd>) -> Option<FromShim> {
    let received = control
        .async_io(Interest::READABLE, |socket| match receive(socket.as_fd()) {
            Received::Message(message, _) => Ok(Some(message)),
            Received::End => Ok(None),
            Received::Nothing => Err(io::ErrorKind::WouldBlock.into()),
        })
        .await;
    received.ok().flatten()
}

/// Takes in what the shim says until the tree is known to be empty, or nobody can tell any more.
async fn listen(shared: Arc<Shared>, notice: OrphanNotice) {
    let proof = loop {
        match next_message(&shared.control).await {
            Some(FromShim::Exited { status }) => shared.known.send_modify(|known| {
                known.exited = Some(ExitStatus { status: Some(WaitStatus(status)) });
            }),
            Some(FromShim::MemoryKills { count }) => {
                shared.known.send_modify(|known| known.memory_kills = count);
            }
            Some(message @ (FromShim::Delivered { request, .. } | FromShim::Living { request, .. })) => {
                shared.answer(request, message);
            }
            Some(FromShim::Empty) => break TreeProof::Empty,
            Some(FromShim::Started | FromShim::Failed { .. }) => {}
            // The shim died before its tree was empty. What it left is the guardian's to end and to prove.
            None => {
                break if notice.proven().await { TreeProof::Empty } else { TreeProof::Unknown };
            }
        }
    };
    shared.known.send_modify(|known| {
        known.exited.get_or_insert(ExitStatus { status: None });
        known.emptied = Some(proof);
    });
    shared.answers().take();
}

/// A started process.
#[derive(Debug)]
pub(crate) struct HostProcess {
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
    streams: Streams,
}

impl HostProcess {
    /// A process whose shim has said that it started.
    pub(crate) fn new(control: AsyncFd<OwnedFd>, notice: OrphanNotice, streams: Streams) -> Self {
        let shared = Arc::new(Shared {
            control,
            link: Arc::clone(notice.link()),
            known: watch::Sender::new(Known::default()),
            requests: AtomicU64::new(0),
            answers: Mutex::new(Some(HashMap::new())),
        });
        let listening = tokio::spawn(listen(Arc::clone(&shared), notice));
        Self { shared, listening, streams }
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // At this end of file the shim ends the tree.
        let _ = shutdown(self.shared.control.as_raw_fd(), Shutdown::Both);
        self.listening.abort();
    }
}

impl HostProcess {
    fn known_proof(&self) -> Option<TreeProof> {
        self.shared.known.borrow().emptied
    }

    /// What becomes known of a tree whose shim did not answer: mostly it has just ended, and its last word is on the
    /// way.
    async fn verdict(&self) -> TreeProof {
        tokio::time::timeout(VERDICT_MAX, self.emptied()).await.unwrap_or(TreeProof::Unknown)
    }
}

fn line_too_long() -> RunnerError {
    RunnerError::new(
        RunnerErrorKind::InvalidRequest("data"),
        "a line is longer than the 4095 bytes that the terminal keeps, and nothing of it was sent; send shorter lines, \
         or use stdin: true instead of tty: true",
    )
}

#[async_trait]
impl Process for HostProcess {
    fn stream_mode(&self) -> StreamMode {
        if self.streams.terminal.is_some() { StreamMode::Terminal } else { StreamMode::Pipes }
    }

    fn take_stdout(&mut self) -> Option<Output> {
        self.streams.stdout.take().map(|end| Box::new(end) as Output)
    }

    fn take_stderr(&mut self) -> Option<Output> {
        self.streams.stderr.take().map(|end| Box::new(end) as Output)
    }

    fn take_stdin(&mut self) -> Option<Input> {
        self.streams.stdin.take().map(|end| Box::new(end) as Input)
    }

    fn admit_input(&self, data: &[u8], eof: bool) -> Result<(), RunnerError> {
        let admitted = self.streams.terminal.as_ref().is_none_or(|terminal| terminal.admit(data, eof));
        if admitted { Ok(()) } else { Err(line_too_long()) }
    }

    fn would_admit_input(&self, data: &[u8], _eof: bool) -> Result<(), RunnerError> {
        let admitted = self.streams.terminal.as_ref().is_none_or(|terminal| terminal.would_admit(data));
        if admitted { Ok(()) } else { Err(line_too_long()) }
    }

    async fn wait(&self) -> ExitStatus {
        let mut known = self.shared.known.subscribe();
        let found = known.wait_for(|known| known.exited.is_some()).await;
        // The sender is in `self.shared`, so the channel is open.
        found.ok().and_then(|known| known.exited).unwrap_or(ExitStatus { status: None })
    }

    async fn signal(&self, signal: Signal) -> Result<Delivery, RunnerError> {
        if let (Signal::Interrupt, Some(terminal)) = (signal, &self.streams.terminal) {
            let leader_alive = self.shared.known.borrow().exited.is_none();
            if leader_alive {
                terminal.interrupt();
            }
            // Whom the terminal's foreground group holds is between it and the kernel.
            return Ok(Delivery { leader_alive, processes: u32::from(leader_alive) });
        }
        let wanted = match signal {
            Signal::Interrupt => WantedSignal::Interrupt,
            Signal::Terminate => WantedSignal::Terminate,
            Signal::Kill => WantedSignal::Kill,
        };
        match self.shared.ask(|request| ToShim::Signal { request, signal: wanted }).await {
            Some(FromShim::Delivered { leader_alive, processes, .. }) => {
                Ok(Delivery { leader_alive, processes })
            }
            // What ended meanwhile is no failure: nobody was left to signal.
            _ if self.verdict().await == TreeProof::Empty => {
                Ok(Delivery { leader_alive: false, processes: 0 })
            }
            _ => Err(RunnerError::new(RunnerErrorKind::Gone, "what supervised the process is gone")),
        }
    }

    async fn tree(&self) -> TreeProof {
        if let Some(proof) = self.known_proof() {
            return proof;
        }
        match self.shared.ask(|request| ToShim::Tree { request }).await {
            Some(FromShim::Living { processes: Some(living), .. }) => TreeProof::Survivors(living),
            _ => self.verdict().await,
        }
    }

    async fn emptied(&self) -> TreeProof {
        let mut known = self.shared.known.subscribe();
        let found = known.wait_for(|known| known.emptied.is_some()).await;
        found.ok().and_then(|known| known.emptied).unwrap_or(TreeProof::Unknown)
    }

    fn memory_kills(&self) -> u32 {
        self.shared.known.borrow().memory_kills
    }

    async fn resize(&self, size: TerminalSize) -> Result<(), RunnerError> {
        size.check()?;
        match &self.streams.terminal {
            Some(terminal) => terminal.resize(size).map_err(|errno| {
                RunnerError::new(RunnerErrorKind::Gone, "the terminal cannot be resized")
                    .with_source(io::Error::from(errno))
            }),
            None => {
                Err(RunnerError::new(RunnerErrorKind::InvalidRequest("rows"), "the process has no terminal"))
            }
        }
    }

    async fn close(&self) -> TreeProof {
        if self.known_proof().is_none() {
            let _ = self.signal(Signal::Kill).await;
        }
        match tokio::time::timeout(ANSWER_MAX, self.emptied()).await {
            Ok(proof) => proof,
            // Something cannot be killed; its number is the truth.
            Err(_) => self.tree().await,
        }
    }
}
