//! Calls that wait: what each waits for, when it ends by itself, and what it is answered.
//!
//! Not for what calls do: see the reference.

use procyard_core::{ErrorCode, State};

use super::process::Phase;
use super::reference::{Millis, Model, PENDING_INPUT};
use super::steps::Until;

/// What a call gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Started {
        id: usize,
        new: bool,
    },
    Done,
    Ended(State),
    /// Of each target, whether it is satisfied, and whether it is there.
    Waited(Vec<(bool, bool)>),
    Room(u64),
    Left(usize),
    Refused(ErrorCode),
}

/// What a call waits for.
#[derive(Debug, Clone)]
pub(super) enum Waits {
    Start { id: usize },
    Stop { id: usize, owner: usize, until: Option<Millis> },
    Wait { owner: usize, targets: Vec<(usize, usize)>, any: bool, until: Until, end: Millis },
    Quiet { id: usize, owner: usize, quiet: Millis, end: Millis },
    Room { id: usize, owner: usize },
    Close { owner: usize, living: Vec<usize> },
    Shutdown { living: Vec<usize> },
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) waits: Waits,
    pub(super) answer: Option<(Millis, Answer)>,
}

impl Model {
    /// When a call ends by itself.
    pub(super) fn due(&self, call: &Call) -> Option<Millis> {
        if call.answer.is_some() {
            return None;
        }
        match &call.waits {
            Waits::Stop { until, .. } => *until,
            Waits::Wait { end, .. } => Some(*end),
            Waits::Quiet { id, quiet, end, .. } => Some((self.processes[*id].printed_at + quiet).min(*end)),
            _ => None,
        }
    }

    /// What a call is answered, once it can be.
    pub(super) fn answer(&self, call: &Call) -> Option<Answer> {
        let gone = |id: usize, owner: usize| self.processes[id].owner != owner;
        match &call.waits {
            Waits::Start { id } => {
                let process = &self.processes[*id];
                match process.phase {
                    Phase::Starting => None,
                    _ if process.started_at.is_some() => Some(Answer::Started { id: *id, new: true }),
                    _ if process.plan.fails => Some(Answer::Refused(ErrorCode::SpawnFailed)),
                    _ => Some(Answer::Refused(ErrorCode::Terminated)),
                }
            }
            Waits::Stop { id, owner, until } => {
                let process = &self.processes[*id];
                let done = process.is_terminal() || until.is_some_and(|until| self.now >= until);
                if gone(*id, *owner) {
                    return Some(Answer::Refused(ErrorCode::NotFound));
                }
                done.then_some(Answer::Ended(process.state))
            }
            Waits::Wait { owner, targets, any, until, end } => {
                let satisfied = |(id, cursor): &(usize, usize)| {
                    let Some(process) = self.processes.get(*id) else { return true };
                    let output = &process.printed[(*cursor).min(process.printed.len())..];
                    let found = match until {
                        Until::Exit => false,
                        Until::Output => !output.is_empty(),
                        Until::Match(letter) => output.contains(*letter),
                    };
                    process.owner != *owner || process.is_terminal() || found
                };
                let there = |id: usize| self.processes.get(id).is_some_and(|process| process.owner == *owner);
                let flags: Vec<_> =
                    targets.iter().map(|target| (satisfied(target), there(target.0))).collect();
                let count = flags.iter().filter(|(satisfied, _)| *satisfied).count();
                let enough = count == flags.len() || (*any && count > 0) || self.now >= *end;
                enough.then_some(Answer::Waited(flags))
            }
            Waits::Quiet { id, owner, quiet, end } => {
                let process = &self.processes[*id];
                if gone(*id, *owner) {
                    return Some(Answer::Refused(ErrorCode::NotFound));
                }
                let due = (process.printed_at + quiet).min(*end);
                (process.is_terminal() || self.now >= due).then_some(Answer::Done)
            }
            Waits::Room { id, owner } => {
                let process = &self.processes[*id];
                if gone(*id, *owner) {
                    return Some(Answer::Refused(ErrorCode::NotFound));
                }
                if process.is_terminal() || process.input_ended || !process.plan.stdin {
                    return Some(Answer::Refused(ErrorCode::StdinClosed));
                }
                let free = PENDING_INPUT - process.input_pending();
                (free >= PENDING_INPUT / 2).then_some(Answer::Room(free))
            }
            Waits::Close { owner, living } => {
                let ended = living.iter().all(|id| self.processes[*id].is_terminal());
                ended.then(|| Answer::Left(self.running_of(*owner)))
            }
            Waits::Shutdown { living } => {
                let ended = living.iter().all(|id| self.processes[*id].is_terminal());
                ended.then_some(Answer::Left(living.len()))
            }
        }
    }
}
