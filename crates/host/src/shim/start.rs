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
use crate::init::{self, Duty, Forked};
use crate::leader::{Bond, Program, Stdio, become_command};
use crate::limited::Limited;
use crate::limits::{Bounds, errno_of};
use crate::namespace;
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
        let tell = |seed: &Seed, (stage, errno): (Stage, Errno)| {
            let failure = FromShim::Failed { stage, errno: errno as i32 };
            Outbox::default().send(seed.control.as_fd(), &failure);
        };
        let init = match seed.namespace.map(enter_namespace).transpose() {
            Ok(Some(Forked::Inside(duty))) => become_init(seed, duty),
            Ok(Some(Forked::Outside(init))) => Some(init),
            Ok(None) => None,
            Err(failure) => {
                tell(&seed, failure);
                return None;
            }
        };
        match start_leader(&seed) {
            // Here the shim's own copies of the child's output are closed: only the tree holds it now.
            Ok(started) => Some(Self {
                control: Some(seed.control),
                lifeline: Some(seed.lifeline),
                signals: seed.signals,
                leader: Leader::Starting(started.leader, started.report),
                leaf: started.leaf,
                limited: started.limited,
                init,
                mounts: None,
                jobs: VecDeque::new(),
                ending: None,
                outbox: Outbox::default(),
                retry_remove: None,
                remove_rest: REST_MIN,
                base: seed.base.map(|(base, _)| base),
                _held: seed.held,
            }),
            Err(failure) => {
                if let Some(init) = init {
                    init.kill();
                    let _ = sys::wait_for(init.pid());
                }
                tell(&seed, failure);
                None
            }
        }
    }
}

/// Makes the namespace in which the leader is born, and its init.
#[expect(unsafe_code, reason = "forks the init")]
fn enter_namespace(kind: namespace::Kind) -> Result<Forked, (Stage, Errno)> {
    namespace::enter(kind).map_err(|refused| (Stage::Namespace, refused.errno))?;
    // SAFETY: a shim has one thread.
    unsafe { init::fork() }.map_err(|errno| (Stage::SetUp, errno))
}

/// In the child of a fork: gives up what is the shim's or the command's. What is held stays so until the namespace ends.
fn become_init(seed: Seed, duty: Duty) -> ! {
    let Seed { body, stdio, control, lifeline, signals, base, .. } = seed;
    drop((body, stdio, control, lifeline, signals, base));
    duty.serve()
}

struct Started {
    leader: Pid,
    /// Tells whether it gets to its command.
    report: File,
    leaf: Option<Leaf>,
    limited: Limited,
}

/// What fails leaves no cgroup behind.
fn start_leader(seed: &Seed) -> Result<Started, (Stage, Errno)> {
    let around = |errno| (Stage::SetUp, errno);
    let program = read_program(&seed.body).map_err(around)?;
    nix::sys::prctl::set_child_subreaper(true).map_err(around)?;
    let leaf = match &seed.base {
        None => None,
        Some((base, entry)) => {
            Some((base.leaf(seed.tree).map_err(|error| around(errno_of(&error)))?, *entry))
        }
    };
    let Bounds { memory_max, pids_max, .. } = program.bounds;
    let in_leaf = leaf.as_ref().map(|(leaf, _)| leaf);
    let mut limited = match seed.controllers.limit(memory_max, pids_max, in_leaf) {
        Ok(limited) => limited,
        Err(error) => {
            if let Some((leaf, _)) = leaf {
                let _ = leaf.remove();
            }
            return Err((Stage::Limits, errno_of(&error)));
        }
    };
    let bond = match seed.namespace {
        Some(_) => Bond::Namespace,
        None => Bond::Parent(nix::unistd::getpid().as_raw()),
    };
    match fork_leader(&program, &seed.stdio, leaf.as_ref(), &limited, bond) {
        Ok((leader, report)) => Ok(Started { leader, report, leaf: leaf.map(|(leaf, _)| leaf), limited }),
        Err(errno) => {
            limited.remove();
            if let Some((leaf, _)) = leaf {
                let _ = leaf.remove();
            }
            Err(around(errno))
        }
    }
}

fn read_program(body: &OwnedFd) -> Result<Program, Errno> {
    let mut bytes = Vec::new();
    let mut file = File::from(body.try_clone().map_err(|_| Errno::EMFILE)?);
    std::io::Seek::rewind(&mut file).map_err(|_| Errno::EIO)?;
    file.read_to_end(&mut bytes).map_err(|_| Errno::EIO)?;
    let body: StartBody = postcard::from_bytes(&bytes).map_err(|_| Errno::EBADMSG)?;
    Program::new(body).ok_or(Errno::EINVAL)
}

/// Forks the leader; gives its number and the pipe that tells whether it got to the command.
#[expect(unsafe_code, reason = "forks the leader")]
fn fork_leader(
    program: &Program,
    stdio: &Stdio,
    leaf: Option<&(Leaf, Entry)>,
    limited: &Limited,
    bond: Bond,
) -> Result<(Pid, File), Errno> {
    let (report, failure) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let (side, to_enter) = match leaf {
        // SAFETY: a shim has one thread; the child goes on to exec or ends.
        Some((leaf, Entry::Cloned)) => (unsafe { sys::fork_into(leaf.directory()) }?, None),
        // SAFETY: a shim has one thread.
        Some((leaf, Entry::Written)) => (unsafe { sys::fork() }?, Some(leaf)),
        // SAFETY: a shim has one thread.
        None => (unsafe { sys::fork() }?, None),
    };
    match side {
        Side::Child => become_command(program, stdio, to_enter, limited, bond, failure),
        Side::Parent(pid) => Ok((pid, File::from(report))),
    }
}
