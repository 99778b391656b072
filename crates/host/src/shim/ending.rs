//! The ending of a tree: everything is killed, again and again until nothing is left.
//!
//! Not for telling that nothing is left: see [`super::reap`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::jobs::Job;
use super::{REST_MAX, REST_MIN, Shim};
use crate::tree::Round;
use crate::wire::FromShim;

/// How long `cgroup.kill` is given before the tree is looked through process by process.
const CGROUP_KILL_REST: Duration = Duration::from_millis(25);

/// The ending of the tree, once it has begun.
pub(super) struct Ending {
    /// `None` while what was killed is given time to die.
    pub(super) round: Option<Round>,
    pub(super) again_at: Instant,
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
            if Instant::now() < ending.again_at {
                return false;
            }
            if let Some(leaf) = &self.leaf {
                let _ = leaf.kill();
                // As long as deaths come in, there is no need to look for the living.
                if std::mem::take(&mut ending.reaped) && leaf.members().is_ok_and(|members| members > 0) {
                    ending.again_at = Instant::now() + CGROUP_KILL_REST;
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
        ending.again_at = Instant::now() + ending.rest;
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
        let fresh = Ending {
            round: None,
            again_at: Instant::now(),
            rest: REST_MIN,
            requests: Vec::new(),
            leader_alive,
            reaped: false,
        };
        let mut answered = None;
        let ending = self.ending.get_or_insert(fresh);
        ending.rest = REST_MIN;
        if let Some(leaf) = &self.leaf {
            let members = leaf.members().unwrap_or(0);
            if leaf.kill().is_ok() {
                ending.again_at = Instant::now() + CGROUP_KILL_REST;
                ending.rest = CGROUP_KILL_REST;
                answered = request.map(|request| FromShim::Delivered {
                    request,
                    leader_alive,
                    processes: u32::try_from(members).unwrap_or(u32::MAX),
                });
            }
        }
        match (answered, request) {
            (Some(answer), _) => self.tell(answer),
            (None, Some(request)) => ending.requests.push(request),
            (None, None) => {}
        }
    }
}
