//! A prepared process: the hand-over of its descriptors and its program to the guardian, and how that can fail.
//!
//! Not for the process once it runs: see [`crate::process`].

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use procyard_core::{EffectiveLimits, WorkspaceAccess};
use procyard_runner::{
    PreparedProcess, Process, RunnerError, RunnerErrorKind, SpawnFailure, StdinMode, Tier,
};
use tokio::io::Interest;

use crate::HostRunner;
use crate::limits;
use crate::link::{Link, OrphanNotice};
use crate::process::{HostProcess, next_message};
use crate::streams::{InputEnd, OutputEnd, input_pipe, output_pipe};
use crate::terminal::Terminal;
use crate::wire::{FromShim, Stage, StartBody, packet_pair};

/// How long a command may take to be executed; file systems can hang.
const START_MAX: Duration = Duration::from_secs(30);

/// A request that was found to be right.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) runner: HostRunner,
    pub(crate) link: Arc<Link>,
    pub(crate) body: StartBody,
    pub(crate) limits: EffectiveLimits,
    pub(crate) stdin: StdinMode,
    /// Opened when this was prepared, so that a missing one is known before anything is spawned.
    pub(crate) terminal: Option<Terminal>,
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

    fn effective_limits(&self) -> EffectiveLimits {
        self.limits.clone()
    }

    async fn start(mut self: Box<Self>) -> Result<Box<dyn Process>, RunnerError> {
        let body = body_file(&self.body).map_err(around)?;
        let (control, theirs) = packet_pair().map_err(|errno| around(errno.into()))?;
        let control =
            crate::sys::watched(control, Interest::READABLE | Interest::WRITABLE).map_err(around)?;
        let (streams, childs) = self.streams().map_err(around)?;
        let [stdin, stdout, stderr] = childs.each_ref().map(Side::as_raw_fd);
        let fds = [body.as_raw_fd(), stdin, stdout, stderr, theirs.as_raw_fd()];
        let notice = self.hand_over(&fds).await?;
        // Only the tree holds its side from here on.
        drop((body, childs, theirs));
        // A future that is dropped here closes the control socket, at which the shim ends what it started.
        match tokio::time::timeout(START_MAX, notice.link().attended(next_message(&control))).await {
            Ok(Some(FromShim::Started)) => {}
            Ok(Some(FromShim::Failed { stage, errno })) => return Err(start_error(stage, errno)),
            Ok(_) => return Err(lost(Errno::EPIPE)),
            Err(_) => return Err(lost(Errno::ETIMEDOUT)),
        }
        Ok(Box::new(HostProcess::new(control, notice, streams)))
    }
}

/// Our ends of the process's streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) stdin: Option<InputEnd>,
    pub(crate) stdout: Option<OutputEnd>,
    pub(crate) stderr: Option<OutputEnd>,
    pub(crate) terminal: Option<Arc<crate::terminal::Master>>,
}

/// A descriptor that the child gets.
enum Side {
    Own(OwnedFd),
    /// `/dev/null` of the link.
    Null(RawFd),
}

impl Side {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Side::Own(fd) => fd.as_raw_fd(),
            Side::Null(fd) => *fd,
        }
    }
}

impl Prepared {
    /// Our ends, and the child's standard input, output and error.
    fn streams(&mut self) -> io::Result<(Streams, [Side; 3])> {
        if let Some(Terminal { master, slave }) = self.terminal.take() {
            let childs = [Side::Own(slave.try_clone()?), Side::Own(slave.try_clone()?), Side::Own(slave)];
            let streams = Streams {
                stdin: Some(InputEnd::Terminal(Arc::clone(&master))),
                stdout: Some(OutputEnd::Terminal(Arc::clone(&master))),
                stderr: None,
                terminal: Some(master),
            };
            return Ok((streams, childs));
        }
        let (stdout, child_stdout) = output_pipe()?;
        let (stderr, child_stderr) = output_pipe()?;
        let (stdin, child_stdin) = match self.stdin {
            StdinMode::Null => (None, Side::Null(self.link.null.as_raw_fd())),
            StdinMode::Open => {
                let (stdin, child) = input_pipe()?;
                (Some(stdin), Side::Own(child))
            }
        };
        let streams = Streams { stdin, stdout: Some(stdout), stderr: Some(stderr), terminal: None };
        Ok((streams, [child_stdin, Side::Own(child_stdout), Side::Own(child_stderr)]))
    }
}

fn around(error: io::Error) -> RunnerError {
    if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)) {
        return RunnerError::spawn(SpawnFailure::Exhausted).with_source(error);
    }
    RunnerError::new(RunnerErrorKind::Setup, "the command's surroundings could not be set up")
        .with_source(error)
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
        if successor.tier() != self.link.tier() || successor.hello.means != self.link.hello.means {
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
    if let Some(error) = limits::start_error(stage, errno) {
        return error;
    }
    let failure = match (stage, errno) {
        (_, Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE)
        | (Stage::SetUp | Stage::Namespace, Errno::ENOSPC | Errno::EUSERS) => SpawnFailure::Exhausted,
        (Stage::Workdir, _) => SpawnFailure::Workdir,
        (Stage::Exec, Errno::ENOENT | Errno::ENOTDIR) => SpawnFailure::NotFound,
        (Stage::Exec, Errno::ENOEXEC | Errno::ELIBBAD | Errno::EISDIR) => SpawnFailure::NotExecutable,
        (Stage::Exec, Errno::EACCES | Errno::EPERM) => SpawnFailure::PermissionDenied,
        (Stage::Exec, Errno::ETXTBSY) => SpawnFailure::Busy,
        (Stage::Exec, Errno::E2BIG) => SpawnFailure::TooLong,
        (Stage::Exec, _) => SpawnFailure::Other,
        (Stage::Namespace, _) => {
            return RunnerError::new(
                RunnerErrorKind::LifetimeEnforcementUnavailable,
                "no PID namespace is to be had any more; nothing was started",
            )
            .with_source(io::Error::from(errno));
        }
        _ => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_still_written_is_busy_and_may_be_tried_again() {
        let error = start_error(Stage::Exec, Errno::ETXTBSY as i32);
        assert_eq!(error.kind(), RunnerErrorKind::Spawn(SpawnFailure::Busy));
        assert!(error.public().retryable);
        assert!(!start_error(Stage::Exec, Errno::ENOENT as i32).public().retryable);
    }
}
