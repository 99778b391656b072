//! A prepared and a started process, on the supervisor's side: pipes, and what its shim says.
//!
//! Not for signalling or reaping: a shim does that, this only asks it to.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{Shutdown, shutdown};
use nix::unistd::pipe2;
use procyard_core::{WaitStatus, WorkspaceAccess};
use procyard_runner::{
    Delivery, ExitStatus, Input, Output, PreparedProcess, Process, RunnerError, RunnerErrorKind, Signal,
    SpawnFailure, StdinMode, StreamMode, TerminalSize, Tier, TreeProof,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::HostRunner;
use crate::link::{Link, OrphanNotice};
use crate::wire::{FromShim, Received, Stage, StartBody, ToShim, WantedSignal, packet_pair, receive, send};

/// How much of a pipe a command can fill before somebody reads; what the user's pipe budget refuses stays as it is.
const PIPE_BYTES: i32 = 256 * 1024;
/// How long a command may take to be executed; file systems can hang.
const START_MAX: Duration = Duration::from_secs(30);
/// How long a shim may take to answer: it does bounded steps only.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A request that was found to be right.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) runner: HostRunner,
    pub(crate) link: Arc<Link>,
    pub(crate) body: StartBody,
    pub(crate) stdin: StdinMode,
}

#[async_trait]
impl PreparedProcess for Prepared {
    fn effective_access(&self) -> WorkspaceAccess {
        // Nothing here keeps a command from writing.
        WorkspaceAccess::BroadWrite
    }

    fn tier(&self) -> Tier {
        self.link.tier()
    }

    async fn start(self: Box<Self>) -> Result<Box<dyn Process>, RunnerError> {
        let around = |error: io::Error| {
            RunnerError::new(
                RunnerErrorKind::Setup,
                "pipes for the command could not be made; try again later",
            )
            .with_source(error)
        };
        let body = body_file(&self.body).map_err(around)?;
        let (control, theirs) = packet_pair().map_err(|errno| around(errno.into()))?;
        let control =
            crate::sys::watched(control, Interest::READABLE | Interest::WRITABLE).map_err(around)?;
        let (stdout, child_stdout) = output_pipe().map_err(around)?;
        let (stderr, child_stderr) = output_pipe().map_err(around)?;
        let (stdin, child_stdin) = match self.stdin {
            StdinMode::Null => (None, None),
            StdinMode::Open => {
                let (stdin, child) = input_pipe().map_err(around)?;
                (Some(stdin), Some(child))
            }
        };
        let stdin_fd = child_stdin.as_ref().map_or(self.link.null.as_raw_fd(), AsRawFd::as_raw_fd);
        let fds = [
            body.as_raw_fd(),
            stdin_fd,
            child_stdout.as_raw_fd(),
            child_stderr.as_raw_fd(),
            theirs.as_raw_fd(),
        ];
        let notice = self.hand_over(&fds).await?;
        // Only the tree holds its side from here on.
        drop((body, child_stdin, child_stdout, child_stderr, theirs));
        // A future that is dropped here closes the control socket, at which the shim ends what it started.
        match tokio::time::timeout(START_MAX, next_message(&control)).await {
            Ok(Some(FromShim::Started)) => {}
            Ok(Some(FromShim::Failed { stage, errno })) => return Err(start_error(stage, errno)),
            Ok(_) => return Err(lost(Errno::EPIPE)),
            Err(_) => return Err(lost(Errno::ETIMEDOUT)),
        }
        let shared = Arc::new(Shared {
            control,
            known: watch::Sender::new(Known::default()),
            requests: AtomicU64::new(0),
            answers: Mutex::new(Some(HashMap::new())),
        });
        let listening = tokio::spawn(listen(Arc::clone(&shared), notice));
        Ok(Box::new(HostProcess { shared, listening, stdin, stdout: Some(stdout), stderr: Some(stderr) }))
    }
}

fn lost(errno: Errno) -> RunnerError {
    RunnerError::new(RunnerErrorKind::Setup, "the guardian of processes is gone; try again")
        .with_source(io::Error::from(errno))
}

impl Prepared {
    /// Gives the start to the guardian, or to its successor when it died since this was prepared.
    async fn hand_over(&self, fds: &[RawFd]) -> Result<OrphanNotice, RunnerError> {
        let notice = self.link.orphan_notice();
        match self.link.start(notice.tree(), fds).await {
            Ok(()) => return Ok(notice),
            Err(Errno::EPIPE) => {}
            Err(errno) => return Err(lost(errno)),
        }
        let successor = self.runner.link().await?;
        if successor.tier() != self.link.tier() {
            // What was promised when this was prepared is not to be had any more.
            return Err(lost(Errno::EPIPE));
        }
        let notice = successor.orphan_notice();
        successor.start(notice.tree(), fds).await.map_err(lost)?;
        Ok(notice)
    }
}

fn start_error(stage: Stage, errno: i32) -> RunnerError {
    let errno = Errno::from_raw(errno);
    let failure = match (stage, errno) {
        (_, Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE) => SpawnFailure::Exhausted,
        (Stage::Workdir, _) => SpawnFailure::Workdir,
        (Stage::Exec, Errno::ENOENT | Errno::ENOTDIR) => SpawnFailure::NotFound,
        (Stage::Exec, Errno::ENOEXEC | Errno::ELIBBAD | Errno::EISDIR) => SpawnFailure::NotExecutable,
        (Stage::Exec, Errno::EACCES | Errno::EPERM) => SpawnFailure::PermissionDenied,
        (Stage::Exec, Errno::E2BIG) => SpawnFailure::TooLong,
        (Stage::Exec, _) => SpawnFailure::Other,
        (Stage::Prepare, Errno::EACCES | Errno::EPERM) => {
            return RunnerError::new(
                RunnerErrorKind::Setup,
                "a limit that was asked for may not be set by this user",
            )
            .with_source(io::Error::from(errno));
        }
        (Stage::SetUp | Stage::Prepare, _) => {
            return RunnerError::new(
                RunnerErrorKind::Setup,
                "the command's surroundings could not be set up",
            )
            .with_source(io::Error::from(errno));
        }
    };
    RunnerError::spawn(failure).with_source(io::Error::from(errno))
}

fn body_file(body: &StartBody) -> io::Result<OwnedFd> {
    let bytes = postcard::to_stdvec(body).map_err(io::Error::other)?;
    let mut file = File::from(memfd_create(c"procyard-start", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&bytes)?;
    Ok(file.into())
}

fn enlarged_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = pipe2(OFlag::O_CLOEXEC)?;
    // Beyond the user's budget (`pipe-user-pages-soft`) it is refused, which is fine.
    let _ = fcntl(&ends.0, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
    Ok(ends)
}

fn output_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (read, write) = enlarged_pipe()?;
    Ok((pipe::Receiver::from_owned_fd(read)?, write))
}

fn input_pipe() -> io::Result<(pipe::Sender, OwnedFd)> {
    let (read, write) = enlarged_pipe()?;
    Ok((pipe::Sender::from_owned_fd(write)?, read))
}

/// What is known of the process.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    exited: Option<ExitStatus>,
    emptied: Option<TreeProof>,
}

#[derive(Debug)]
struct Shared {
    control: AsyncFd<OwnedFd>,
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
            answer.await.ok()
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

async fn next_message(control: &AsyncFd<OwnedFd>) -> Option<FromShim> {
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
struct HostProcess {
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
    stdin: Option<pipe::Sender>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
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
}

#[async_trait]
impl Process for HostProcess {
    fn stream_mode(&self) -> StreamMode {
        StreamMode::Pipes
    }

    fn take_stdout(&mut self) -> Option<Output> {
        self.stdout.take().map(|pipe| Box::new(pipe) as Output)
    }

    fn take_stderr(&mut self) -> Option<Output> {
        self.stderr.take().map(|pipe| Box::new(pipe) as Output)
    }

    fn take_stdin(&mut self) -> Option<Input> {
        self.stdin.take().map(|pipe| Box::new(ClosingPipe(Some(pipe))) as Input)
    }

    async fn wait(&self) -> ExitStatus {
        let mut known = self.shared.known.subscribe();
        let found = known.wait_for(|known| known.exited.is_some()).await;
        // The sender is in `self.shared`, so the channel is open.
        found.ok().and_then(|known| known.exited).unwrap_or(ExitStatus { status: None })
    }

    async fn signal(&self, signal: Signal) -> Result<Delivery, RunnerError> {
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
            _ if self.known_proof() == Some(TreeProof::Empty) => {
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
            _ => self.known_proof().unwrap_or(TreeProof::Unknown),
        }
    }

    async fn emptied(&self) -> TreeProof {
        let mut known = self.shared.known.subscribe();
        let found = known.wait_for(|known| known.emptied.is_some()).await;
        found.ok().and_then(|known| known.emptied).unwrap_or(TreeProof::Unknown)
    }

    async fn resize(&self, _size: TerminalSize) -> Result<(), RunnerError> {
        Err(RunnerError::new(RunnerErrorKind::InvalidRequest("rows"), "the process has no terminal"))
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

/// The writable end of a pipe, for which shutting down is closing.
#[derive(Debug)]
struct ClosingPipe(Option<pipe::Sender>);

impl AsyncWrite for ClosingPipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}
