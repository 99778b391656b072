//! From what the guardian handed over to a leader that is on its way to its command.
//!
//! Not for what the leader does on that way: see [`crate::leader`].

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::{REST_MIN, Seed, Shim};
use crate::cgroup::{Entry, Leaf};
use crate::leader::{Program, Stdio, become_command};
use crate::sys::{self, Pid, Side};
use crate::wire::{FromShim, Outbox, Stage, StartBody};

pub(super) enum Leader {
    /// Forked; the pipe tells whether it gets to the command.
    Starting(Pid, File),
    Running(Pid),
    Reaped,
}

impl Leader {
    pub(super) fn pid(&self) -> Option<Pid> {
        match self {
            Leader::Starting(pid, _) | Leader::Running(pid) => Some(*pid),
            Leader::Reaped => None,
        }
    }
}

impl Shim {
    /// `None` when there is no tree; the reason has been told.
    pub(super) fn start(seed: Seed) -> Option<Self> {
        let control = seed.control;
        let failed = |errno: Errno| {
            let failure = FromShim::Failed { stage: Stage::SetUp, errno: errno as i32 };
            Outbox::default().send(control.as_fd(), &failure);
        };
        let program = match read_program(seed.body) {
            Ok(program) => program,
            Err(errno) => {
                failed(errno);
                return None;
            }
        };
        if let Err(errno) = nix::sys::prctl::set_child_subreaper(true) {
            failed(errno);
            return None;
        }
        let leaf = match &seed.base {
            None => None,
            Some((base, entry)) => match base.leaf(seed.tree) {
                Ok(leaf) => Some((leaf, *entry)),
                Err(error) => {
                    failed(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)));
                    return None;
                }
            },
        };
        match fork_leader(&program, &seed.stdio, leaf.as_ref()) {
            Ok((pid, report)) => Some(Self {
                control: Some(control),
                lifeline: Some(seed.lifeline),
                signals: seed.signals,
                leader: Leader::Starting(pid, report),
                leaf: leaf.map(|(leaf, _)| leaf),
                jobs: VecDeque::new(),
                ending: None,
                outbox: Outbox::default(),
                retry_remove: None,
                remove_rest: REST_MIN,
                base: seed.base.map(|(base, _)| base),
                _held: seed.held,
            }),
            Err(errno) => {
                failed(errno);
                if let Some((leaf, _)) = leaf {
                    let _ = leaf.remove();
                }
                None
            }
        }
        // Here the shim's own copies of the child's output are closed: only the tree holds it now.
    }
}

fn read_program(body: OwnedFd) -> Result<Program, Errno> {
    let mut bytes = Vec::new();
    let mut file = File::from(body);
    std::io::Seek::rewind(&mut file).map_err(|_| Errno::EIO)?;
    file.read_to_end(&mut bytes).map_err(|_| Errno::EIO)?;
    let body: StartBody = postcard::from_bytes(&bytes).map_err(|_| Errno::EBADMSG)?;
    Program::new(body).ok_or(Errno::EINVAL)
}

/// Forks the leader; gives its number and the pipe that tells whether it got to the command.
#[expect(unsafe_code, reason = "forks the leader")]
fn fork_leader(program: &Program, stdio: &Stdio, leaf: Option<&(Leaf, Entry)>) -> Result<(Pid, File), Errno> {
    let (report, failure) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let shim = nix::unistd::getpid().as_raw();
    let (side, to_enter) = match leaf {
        // SAFETY: a shim has one thread; the child goes on to exec or ends.
        Some((leaf, Entry::Cloned)) => (unsafe { sys::fork_into(leaf.directory()) }?, None),
        // SAFETY: a shim has one thread.
        Some((leaf, Entry::Written)) => (unsafe { sys::fork() }?, Some(leaf)),
        // SAFETY: a shim has one thread.
        None => (unsafe { sys::fork() }?, None),
    };
    match side {
        Side::Child => become_command(program, stdio, to_enter, shim, failure),
        Side::Parent(pid) => Ok((pid, File::from(report))),
    }
}
