//! What is asked of a living tree: an interrupt, a termination, a count. Done in order, in bounded steps.
//!
//! Not for killing: see [`super::ending`].

use std::time::{Duration, Instant};

use super::Shim;
use crate::sys;
use crate::tree::{Pass, Sweep};
use crate::wire::FromShim;

/// How long a freeze may take before signals go out without one.
const FREEZE_MAX: Duration = Duration::from_millis(50);
/// Requests in work at the same time.
pub(super) const JOBS_MAX: usize = 64;

/// One request in work. They are done in order, except that a kill overtakes.
pub(super) enum Job {
    Interrupt { request: u64, pass: Pass },
    Terminate { request: u64, leader_alive: bool, sweep: Sweep, freeze: Freeze },
    Count { request: u64, pass: Pass },
}

/// Signals reach all members at one moment of theirs where the tree can be frozen.
pub(super) enum Freeze {
    Wanted,
    Until(Instant),
    Done,
}

impl Shim {
    /// Does a bounded step of what is to be done; true when more is to be done at once.
    pub(super) fn work(&mut self) -> bool {
        if self.ending.is_some() && self.work_on_ending() {
            return true;
        }
        let Some(job) = self.jobs.front_mut() else { return false };
        let done = match job {
            // Counted before they are signalled: afterwards some are gone.
            Job::Interrupt { request, pass } => pass.step(&mut |_, _| {}).then(|| {
                // The leader is our unreaped child, so its number, which is its group's, is nobody else's.
                let leader = self.leader.pid();
                let reached = leader.filter(|pid| sys::signal_group_of_child(*pid, libc::SIGINT).is_ok());
                let of_group = |pid| pass.members.iter().filter(|member| member.stat.group == pid).count();
                FromShim::Delivered {
                    request: *request,
                    leader_alive: leader.is_some(),
                    processes: reached.map_or(0, |pid| u32::try_from(of_group(pid)).unwrap_or(u32::MAX)),
                }
            }),
            Job::Count { request, pass } => pass.step(&mut |_, _| {}).then(|| {
                // None seen, and yet there are children: they ended meanwhile, or cannot be read.
                let inside = self.leaf.as_ref().and_then(|leaf| leaf.members().ok()).unwrap_or(0);
                let living = u32::try_from(pass.members.len().max(inside)).unwrap_or(u32::MAX);
                FromShim::Living { request: *request, processes: (living > 0).then_some(living) }
            }),
            Job::Terminate { request, leader_alive, sweep, freeze } => {
                match (&*freeze, &self.leaf) {
                    (Freeze::Wanted, Some(leaf)) if leaf.freeze(true).is_ok() => {
                        *freeze = Freeze::Until(Instant::now() + FREEZE_MAX);
                        return true;
                    }
                    (Freeze::Until(until), Some(leaf)) if !leaf.is_frozen() && Instant::now() < *until => {
                        // A freeze takes as long as the slowest member needs to get out of the kernel.
                        std::thread::sleep(Duration::from_micros(200));
                        return true;
                    }
                    _ => *freeze = Freeze::Done,
                }
                sweep.step().then_some(FromShim::Delivered {
                    request: *request,
                    leader_alive: *leader_alive,
                    processes: sweep.signalled,
                })
            }
        };
        if let Some(answer) = done {
            if let Some(Job::Terminate { .. }) = self.jobs.pop_front() {
                self.thaw();
            }
            self.tell(answer);
        }
        !self.jobs.is_empty()
    }

    fn thaw(&self) {
        if let Some(leaf) = &self.leaf {
            let _ = leaf.freeze(false);
        }
    }

    /// Answers a job that a kill has overtaken.
    pub(super) fn give_up(&mut self, job: &Job) {
        match job {
            Job::Terminate { request, leader_alive, sweep, .. } => {
                self.thaw();
                self.tell(FromShim::Delivered {
                    request: *request,
                    leader_alive: *leader_alive,
                    processes: sweep.signalled,
                });
            }
            Job::Interrupt { request, .. } => self.tell(FromShim::Delivered {
                request: *request,
                leader_alive: self.leader.pid().is_some(),
                processes: 0,
            }),
            Job::Count { request, .. } => self.tell(FromShim::Living { request: *request, processes: None }),
        }
    }
}
