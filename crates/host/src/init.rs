//! The first process of a PID namespace (`pid_namespaces(7)`): orphans come to it, and with it everything in the namespace
//! ends.
//!
//! Forked from a shim without exec, one thread. Signals from inside do
//! nothing to it: the kernel delivers to the first process of a namespace only what it handles, and it handles
//! nothing. It ends
//!
//! - by itself, when the leader, which is the shim's child, is reaped and no other process is left;
//! - by the shim's SIGKILL, which is how the tree is killed;
//! - with the shim, however that ends: the kernel kills it then (`PR_SET_PDEATHSIG`), and if it should not, it sees the
//!   end of the pipe from the shim.
//!
//! Not for the leader's status or for signalling anybody: that is the shim's.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::sys::{self, Pid, Reaped, Side};
use crate::tree::Stat;

/// Which side of the fork this is.
pub(crate) enum Forked {
    Outside(Init),
    Inside(Duty),
}

/// Forks the init of the namespace that children of the calling process are born in, of which it is the first. The child
/// closes what it was not meant to keep open, then [serves](Duty::serve).
///
/// # Safety
/// The calling process has one thread, and this is what [`sys::fork`] asks for.
#[expect(unsafe_code, reason = "forks the init")]
pub(crate) unsafe fn fork() -> Result<Forked, Errno> {
    let (news, told) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let parent = nix::unistd::getpid().as_raw();
    // SAFETY: by contract of the caller.
    match unsafe { sys::fork() }? {
        Side::Parent(pid) => Ok(Forked::Outside(Init { pid, told: File::from(told) })),
        Side::Child => Ok(Forked::Inside(Duty { parent, news: File::from(news) })),
    }
}

/// The init of a namespace, as an unreaped child of the process that forked it.
pub(crate) struct Init {
    pid: Pid,
    told: File,
}

impl Init {
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets it end as soon as no process is left.
    pub(crate) fn leader_is_reaped(&mut self) {
        // When it has ended already, there is nobody to tell.
        let _ = self.told.write(&[1]);
    }

    /// Kills the namespace and everything in it.
    pub(crate) fn kill(&self) {
        let _ = sys::signal_child(self.pid, libc::SIGKILL);
    }

    /// Goes on where somebody stopped it.
    pub(crate) fn go_on(&self) {
        let _ = sys::signal_child(self.pid, libc::SIGCONT);
    }
}

/// What the child of [`fork`] is to do.
pub(crate) struct Duty {
    parent: Pid,
    news: File,
}

impl Duty {
    /// Reaps until there is nobody any more to reap or to reap for.
    pub(crate) fn serve(mut self) -> ! {
        let _guard = sys::EndOnUnwind;
        let _ = nix::sys::prctl::set_name(c"procyard-init");
        // A session of its own: no group that it is in can be signalled from anywhere.
        let _ = nix::unistd::setsid();
        let mortal = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
        // By /proc, which is still that of the outer namespace: getppid(2) knows no number for a parent out there.
        if mortal.is_err() || Stat::own().is_none_or(|stat| stat.parent != self.parent) {
            sys::exit_now(1);
        }
        let mut children = SigSet::empty();
        children.add(Signal::SIGCHLD);
        let signals = sys::set_signal_mask(&children)
            .and_then(|()| SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK));
        let Ok(signals) = signals else { sys::exit_now(1) };
        let mut leader_is_reaped = false;
        loop {
            // In this order: what the leader left has come to us before we hear that it is reaped.
            leader_is_reaped |= self.hear();
            if reap() && leader_is_reaped {
                sys::exit_now(0);
            }
            let mut fds = [
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.news.as_fd(), PollFlags::POLLIN),
            ];
            let _ = poll(&mut fds, PollTimeout::NONE);
            while let Ok(Some(_)) = signals.read_signal() {}
        }
    }

    /// Whether the shim says that the leader is reaped; its end is the end.
    fn hear(&mut self) -> bool {
        match self.news.read(&mut [0; 8]) {
            Ok(0) => sys::exit_now(1),
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

/// Collects what has ended; true when no child is left.
fn reap() -> bool {
    loop {
        match sys::reap() {
            Reaped::Child(..) => {}
            Reaped::NoneEnded => return false,
            Reaped::Childless => return true,
        }
    }
}
