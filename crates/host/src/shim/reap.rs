//! Collecting what has ended, and the proof that nothing is left.
//!
//! Not for ending anything: see [`super::ending`].

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::start::Leader;
use super::{REST_MAX, Shim};
use crate::leader::parse_failure;
use crate::sys::{self, Reaped};
use crate::wire::{FromShim, Stage};

impl Shim {
    /// Collects what has ended. When nothing is left, the tree is empty once its cgroup agrees.
    pub(super) fn reap(&mut self) {
        self.check_started();
        loop {
            let init = self.init_pid();
            let reaped = sys::reap_and_see_stopped(&mut |pid| {
                // Nothing but somebody outside stops it, and while it is stopped nobody reaps orphans.
                if let Some(init) = self.init.as_ref().filter(|init| init.pid() == pid) {
                    init.go_on();
                }
            });
            match reaped {
                Reaped::Child(pid, _) if init == Some(pid) => self.init = None,
                Reaped::Child(pid, status) => {
                    if let Some(ending) = &mut self.ending {
                        ending.reaped = true;
                    }
                    if self.leader.pid() == Some(pid) {
                        self.check_started();
                        self.leader = Leader::Reaped;
                        self.tell_memory_kills();
                        self.tell(FromShim::Exited { status });
                        if let Some(init) = &mut self.init {
                            init.leader_is_reaped();
                        }
                    }
                }
                Reaped::NoneEnded => return,
                Reaped::Childless => return self.conclude(),
            }
        }
    }

    /// Looks whether the leader got to its command.
    fn check_started(&mut self) {
        let Leader::Starting(pid, report) = &mut self.leader else { return };
        let mut bytes = [0; 8];
        let told = match report.read(&mut bytes) {
            Ok(0) => FromShim::Started,
            Ok(length) => match parse_failure(&bytes[..length]) {
                Some((stage, errno)) => FromShim::Failed { stage, errno },
                None => FromShim::Failed { stage: Stage::Prepare, errno: libc::EIO },
            },
            // Nothing yet.
            Err(_) => return,
        };
        if self.init.is_some() {
            // It is our unreaped child, so the number is its own. An end of the leader before this only takes longer.
            self.mounts = File::open(format!("/proc/{pid}/ns/mnt")).ok();
        }
        self.leader = Leader::Running(*pid);
        self.tell(told);
    }

    /// No child is left. A process that root moved to another cgroup was still a child; one that root took from us by
    /// other means may still be in the cgroup. Only when both agree is the tree empty.
    fn conclude(&mut self) {
        self.tell_memory_kills();
        if let Some(leaf) = &self.leaf
            && leaf.remove().is_err()
        {
            if self.ending.is_some() {
                let _ = leaf.kill();
                leaf.kill_leaderless();
            }
            self.retry_remove = Some(Instant::now() + self.remove_rest);
            self.remove_rest = (self.remove_rest * 2).min(REST_MAX);
            return;
        }
        for job in std::mem::take(&mut self.jobs) {
            self.give_up(&job);
        }
        if let Some(mut ending) = self.ending.take() {
            let processes = ending.round.as_ref().map_or(0, |round| round.killed);
            for request in std::mem::take(&mut ending.requests) {
                let leader_alive = ending.leader_alive;
                self.tell(FromShim::Delivered { request, leader_alive, processes });
            }
        }
        // What is not removed here, because a stranger was moved into it, is swept later.
        self.limited.remove();
        self.tell(FromShim::Empty);
        if let (None, Some(base)) = (&self.lifeline, &self.base) {
            // Without a guardian the last shim clears up.
            let _ = base.remove();
        }
        self.finish()
    }

    fn finish(&mut self) -> ! {
        while let (false, Some(control)) = (self.outbox.is_empty(), &self.control) {
            let mut fds = [PollFd::new(control.as_fd(), PollFlags::POLLOUT)];
            // The tree is gone, so there is nothing that this wait could hold up.
            if poll(&mut fds, PollTimeout::from(10_000_u16)) == Ok(0) {
                break;
            }
            self.outbox.flush(control.as_fd());
        }
        sys::exit_now(0)
    }
}
