//! Waiting for something to do, and taking in what the supervisor asks.
//!
//! Not for doing it: see [`super::jobs`] and [`super::ending`].

use std::os::fd::AsFd;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Shim;
use super::jobs::{Freeze, JOBS_MAX, Job};
use super::start::Leader;
use crate::tree::{Pass, Sweep};
use crate::wire::{FromShim, Received, ToShim, WantedSignal, receive};

impl Shim {
    /// Whether there is so much to answer that nothing more is taken in.
    fn is_behind(&self) -> bool {
        self.outbox.is_long() || self.jobs.len() >= JOBS_MAX
    }

    /// Waits until there is something to do, and takes in requests.
    pub(super) fn wait(&mut self, more: bool) {
        let timers =
            [self.ending.as_ref().filter(|e| e.round.is_none()).and_then(|e| e.again_at), self.retry_remove];
        let timeout = if more {
            PollTimeout::ZERO
        } else {
            timers.into_iter().flatten().min().map_or(PollTimeout::NONE, until)
        };
        self.retry_remove = None;
        let mut fds = Vec::with_capacity(4);
        fds.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
        if let Leader::Starting(_, report) = &self.leader {
            fds.push(PollFd::new(report.as_fd(), PollFlags::POLLIN));
        }
        let lifeline_at = self.lifeline.as_ref().map(|lifeline| {
            fds.push(PollFd::new(lifeline.as_fd(), PollFlags::POLLIN));
            fds.len() - 1
        });
        let control_at = self.control.as_ref().map(|control| {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::POLLIN, !self.is_behind());
            wanted.set(PollFlags::POLLOUT, !self.outbox.is_empty());
            fds.push(PollFd::new(control.as_fd(), wanted));
            fds.len() - 1
        });
        if poll(&mut fds, timeout).is_err() {
            return;
        }
        let happened = |at: Option<usize>| at.is_some_and(|at| fds[at].any().unwrap_or(true));
        let (signal, lifeline, control) = (happened(Some(0)), happened(lifeline_at), happened(control_at));
        drop(fds);
        if signal {
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
        if lifeline {
            self.lifeline = None;
            self.end(None);
        }
        if control {
            self.take_requests();
        }
    }

    fn take_requests(&mut self) {
        while let Some(control) = &self.control {
            self.outbox.flush(control.as_fd());
            if self.is_behind() {
                return;
            }
            match receive(control.as_fd()) {
                Received::Message(ToShim::Tree { request }, _) => {
                    self.jobs.push_back(Job::Count { request, pass: Pass::new(self.init_pid()) });
                }
                Received::Message(ToShim::Signal { request, signal }, _) => self.signal(request, signal),
                Received::Nothing => return,
                Received::End => {
                    self.control = None;
                    self.end(None);
                }
            }
        }
    }

    fn signal(&mut self, request: u64, signal: WantedSignal) {
        // What has already ended is known before it is signalled.
        self.reap();
        match signal {
            WantedSignal::Kill => self.end(Some(request)),
            _ if self.ending.is_some() => {
                let leader_alive = self.leader.pid().is_some();
                self.tell(FromShim::Delivered { request, leader_alive, processes: 0 });
            }
            WantedSignal::Interrupt => {
                self.jobs.push_back(Job::Interrupt { request, pass: Pass::new(self.init_pid()) });
            }
            WantedSignal::Terminate => {
                self.jobs.push_back(Job::Terminate {
                    request,
                    leader_alive: self.leader.pid().is_some(),
                    sweep: Sweep::new(&[libc::SIGTERM, libc::SIGCONT], self.init_pid()),
                    freeze: Freeze::Wanted,
                });
            }
        }
    }
}

fn until(instant: Instant) -> PollTimeout {
    let left = instant.saturating_duration_since(Instant::now());
    // Rounded up: a timer that fires early would be polled for again and again.
    PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
}
