//! The ending of a tree: everything is killed, again and again until nothing is left.
//!
//! - With a PID namespace its init is killed once, and the kernel does the rest.
//! - With a leaf cgroup `cgroup.kill` does most, and rounds over the descendants what it passes over or does not know.
//! - Otherwise rounds do all.
//!
//! Not for telling that nothing is left: see [`super::reap`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::jobs::Job;
use super::{REST_MAX, REST_MIN, Shim};
use crate::init::Init;
use crate::tree::{Pass, Round};
use crate::wire::FromShim;

/// How long `cgroup.kill` is given before the tree is looked through process by process.
const CGROUP_KILL_REST: Duration = Duration::from_millis(25);

/// How long what is about to be killed is counted.
const COUNT_MAX: Duration = Duration::from_millis(50);

/// The ending of the tree, once it has begun.
pub(super) struct Ending {
    /// `None` while what was killed is given time to die.
    pub(super) round: Option<Round>,
    /// `None` when there is nothing more to do than to wait.
    pub(super) again_at: Option<Instant>,
    rest: Duration,
    /// Asked for by these requests, which are answered after the first round.
    pub(super) requests: Vec<u64>,
    pub(super) leader_alive: bool,
    pub(super) reaped: bool,
}

impl Shim {
    pub(super) fn work_on_ending(&mut self) -> bool {
        let Some(ending) = &mut self.ending else { return false };
        let Some(round) = &mut ending.round else {
            if ending.again_at.is_none_or(|at| Instant::now() < at) {
                return false;
            }
            if let Some(leaf) = &self.leaf {
                let _ = leaf.kill();
                // As long as deaths come in, there is no need to look for the living.
                if std::mem::take(&mut ending.reaped) && leaf.members().is_ok_and(|members| members > 0) {
                    ending.again_at = Some(Instant::now() + CGROUP_KILL_REST);
                    return false;
                }
            }
            ending.round = Some(Round::new());
            return true;
        };
        if !round.step(&|_| false) {
            return true;
        }
        let killed = round.killed;
        ending.round = None;
        ending.again_at = Some(Instant::now() + ending.rest);
        ending.rest = (ending.rest * 2).min(REST_MAX);
        let leader_alive = ending.leader_alive;
        for request in std::mem::take(&mut ending.requests) {
            self.tell(FromShim::Delivered { request, leader_alive, processes: killed });
        }
        false
    }

    /// Begins to end the tree, or begins anew what was slowing down.
    pub(super) fn end(&mut self, request: Option<u64>) {
        let leader_alive = self.leader.pid().is_some();
        // How many live is still told, between two rounds.
        let (counts, overtaken) =
            std::mem::take(&mut self.jobs).into_iter().partition(|job| matches!(job, Job::Count { .. }));
        self.jobs = counts;
        let overtaken: VecDeque<Job> = overtaken;
        for job in &overtaken {
            self.give_up(job);
        }
        let killed = self.kill_at_once();
        let now = Instant::now();
        let (again_at, rest) = match (&self.init, killed) {
            (Some(_), _) => (None, REST_MIN),
            (None, Some(_)) => (Some(now + CGROUP_KILL_REST), CGROUP_KILL_REST),
            (None, None) => (Some(now), REST_MIN),
        };
        let fresh = Ending { round: None, again_at, rest, requests: Vec::new(), leader_alive, reaped: false };
        let ending = self.ending.get_or_insert(fresh);
        ending.rest = rest;
        if killed.is_some() {
            ending.again_at = again_at;
        }
        match (killed, request) {
            (Some(processes), Some(request)) => {
                self.tell(FromShim::Delivered { request, leader_alive, processes });
            }
            (None, Some(request)) => ending.requests.push(request),
            (_, None) => {}
        }
    }

    /// Kills everything by one call, where there is one that does; tells how many lived.
    fn kill_at_once(&self) -> Option<u32> {
        let in_leaf = self.leaf.as_ref().and_then(|leaf| leaf.members().ok());
        let living = match (&self.init, &self.leaf) {
            (Some(init), _) => {
                let living = in_leaf.unwrap_or_else(|| count_below(init));
                init.kill();
                living
            }
            (None, Some(leaf)) => {
                leaf.kill().ok()?;
                in_leaf.unwrap_or(0)
            }
            (None, None) => return None,
        };
        Some(u32::try_from(living).unwrap_or(u32::MAX))
    }
}

/// How many live, as far as that is found out soon: they are about to be killed.
fn count_below(init: &Init) -> usize {
    let mut pass = Pass::new(Some(init.pid()));
    let until = Instant::now() + COUNT_MAX;
    while !pass.step(&mut |_, _| {}) && Instant::now() < until {}
    pass.members.len()
}
