//! Which cause owns an exit, when several race for it.
//!
//! Not for time or delivery: whoever delivers signals says here what was delivered, and when a grace has lapsed.

use crate::{LeaderEnd, Reason, SIGINT, SIGKILL, SignalNumber, TerminalState};

/// Who asked for a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Requester {
    /// The owner, through a stop call.
    Owner,
    /// The lifetime deadline.
    Deadline,
    /// The shutdown of the session.
    Shutdown,
}

/// What kind of stop was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopKind {
    /// SIGINT, or the interrupt character of a terminal. Never escalates.
    Interrupt,
    /// SIGTERM to the tree, SIGKILL after the grace.
    Terminate,
    /// SIGKILL to the tree at once.
    Kill,
}

/// The causes delivered to one process so far.
///
/// ```
/// use procyard_core::{Causes, LeaderEnd, Requester, SIGTERM, StopKind, TerminalState};
///
/// let mut causes = Causes::default();
/// causes.delivered(StopKind::Terminate, Requester::Owner);
/// assert_eq!(causes.decide(LeaderEnd::Signal(SIGTERM)).state, TerminalState::Terminated);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Causes {
    interrupt_open: bool,
    /// The first terminate, where no kill came before it.
    terminate: Option<Requester>,
    /// The first kill. It replaces the terminate only if it is what ended the leader.
    kill: Option<Requester>,
    /// SIGKILL went to a tree whose leader still lived.
    kill_met_leader: bool,
    /// SIGKILL followed a terminate, for the leader or for a descendant.
    escalated: bool,
    leader_gone: bool,
    /// A stop came after the leader's end, while its descendants were still waited for.
    after_leader: bool,
}

/// The state that an exit gets, and the word for why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The terminal state.
    pub state: TerminalState,
    /// The reason that its completion event gives.
    pub reason: Reason,
    /// The exit code: for [`TerminalState::Exited`] and for nothing else.
    pub exit_code: Option<u8>,
    /// The signal that ended the leader, where one did.
    pub signal: Option<SignalNumber>,
    /// Whether a terminate needed SIGKILL for some member of the tree.
    pub escalated: bool,
}

impl Causes {
    /// A stop was delivered. The first cause stands; a kill replaces an earlier terminate or interrupt if the leader
    /// still lived and the kill is what ended it. After the leader's end (see [`Causes::leader_ended`]) a stop counts
    /// only while descendants are waited for, which is the only time that anybody delivers one.
    pub fn delivered(&mut self, kind: StopKind, by: Requester) {
        match kind {
            StopKind::Interrupt => self.interrupt_open |= !self.is_stopping() && !self.leader_gone,
            StopKind::Terminate if !self.is_stopping() => {
                self.terminate = Some(by);
                self.after_leader = self.leader_gone;
            }
            StopKind::Terminate => {}
            StopKind::Kill => {
                if !self.is_stopping() {
                    self.kill = Some(by);
                    self.after_leader = self.leader_gone;
                } else if self.kill.is_none() && (!self.leader_gone || self.after_leader) {
                    self.kill = Some(by);
                }
                self.kill_met_leader |= !self.leader_gone;
            }
        }
    }

    /// The grace of a terminate lapsed and SIGKILL was delivered to what was left.
    pub fn escalated(&mut self) {
        self.escalated = true;
        self.kill_met_leader |= !self.leader_gone;
    }

    /// The grace of an interrupt lapsed, or further input was accepted after one that was typed: it no longer owns
    /// an exit, unless the leader had ended before.
    pub fn interrupt_lapsed(&mut self) {
        self.interrupt_open &= self.leader_gone;
    }

    /// The leader's wait status is there. What is delivered from now on met no living leader.
    pub fn leader_ended(&mut self) {
        self.leader_gone = true;
    }

    /// Whether a terminate or kill was delivered.
    pub fn is_stopping(&self) -> bool {
        self.terminate.is_some() || self.kill.is_some()
    }

    /// The verdict over a leader that ended as `end`.
    pub fn decide(&self, end: LeaderEnd) -> Verdict {
        let signal = match end {
            LeaderEnd::Signal(signal) => Some(signal),
            LeaderEnd::Code(_) | LeaderEnd::Unknown => None,
        };
        let needed_kill = if self.after_leader {
            self.escalated
        } else {
            // A leader that chose its own end in the instant before the kill reached it did not need the kill.
            self.kill_met_leader && !matches!(end, LeaderEnd::Code(_)) && signal.is_none_or(|s| s == SIGKILL)
        };
        let (state, reason) = match (self.terminate, self.kill) {
            (_, Some(by)) if needed_kill || self.after_leader => killed(by),
            (Some(Requester::Deadline), _) => (TerminalState::TimedOut, Reason::TimedOut),
            (Some(by), _) if needed_kill => killed(by),
            (Some(by), _) => (TerminalState::Terminated, stop_reason(by, Reason::Terminated)),
            (None, _) => self.unstopped(end),
        };
        let exit_code = match (state, end) {
            (TerminalState::Exited, LeaderEnd::Code(code)) => Some(code),
            _ => None,
        };
        Verdict { state, reason, exit_code, signal, escalated: self.escalated }
    }

    fn unstopped(self, end: LeaderEnd) -> (TerminalState, Reason) {
        match end {
            LeaderEnd::Code(_) if self.interrupt_open => (TerminalState::Interrupted, Reason::Interrupted),
            LeaderEnd::Signal(SIGINT) if self.interrupt_open => {
                (TerminalState::Interrupted, Reason::Interrupted)
            }
            LeaderEnd::Code(_) => (TerminalState::Exited, Reason::Exited),
            LeaderEnd::Signal(_) | LeaderEnd::Unknown => (TerminalState::Failed, Reason::Failed),
        }
    }
}

fn killed(by: Requester) -> (TerminalState, Reason) {
    match by {
        Requester::Deadline => (TerminalState::TimedOut, Reason::TimedOut),
        by => (TerminalState::Killed, stop_reason(by, Reason::Killed)),
    }
}

fn stop_reason(by: Requester, otherwise: Reason) -> Reason {
    if by == Requester::Shutdown { Reason::RunnerShutdown } else { otherwise }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SIGTERM;

    const SEGV: SignalNumber = match SignalNumber::new(11) {
        Some(signal) => signal,
        None => panic!("11 is a signal"),
    };

    #[derive(Clone, Copy)]
    enum Step {
        Stop(StopKind, Requester),
        Escalate,
        Lapse,
        LeaderEnds,
    }
    use Requester::{Deadline, Owner, Shutdown};
    use Step::{Escalate, Lapse, LeaderEnds, Stop as S};
    use StopKind::{Interrupt, Kill, Terminate};

    fn check(steps: &[Step], end: LeaderEnd, state: TerminalState, reason: Reason) {
        let mut causes = Causes::default();
        for step in steps {
            match *step {
                S(kind, by) => causes.delivered(kind, by),
                Escalate => causes.escalated(),
                Lapse => causes.interrupt_lapsed(),
                LeaderEnds => causes.leader_ended(),
            }
        }
        let verdict = causes.decide(end);
        assert_eq!((verdict.state, verdict.reason), (state, reason));
        assert_eq!(verdict.exit_code.is_some(), state == TerminalState::Exited, "a code for exited alone");
    }

    #[test]
    fn an_unprovoked_end_is_exited_or_failed() {
        check(&[], LeaderEnd::Code(3), TerminalState::Exited, Reason::Exited);
        check(&[], LeaderEnd::Signal(SEGV), TerminalState::Failed, Reason::Failed);
        check(&[], LeaderEnd::Signal(SIGTERM), TerminalState::Failed, Reason::Failed);
        check(&[], LeaderEnd::Unknown, TerminalState::Failed, Reason::Failed);
    }

    #[test]
    fn an_interrupt_owns_an_exit_by_sigint_or_by_choice_within_its_grace() {
        let asked = S(Interrupt, Owner);
        check(&[asked], LeaderEnd::Signal(SIGINT), TerminalState::Interrupted, Reason::Interrupted);
        check(&[asked], LeaderEnd::Code(0), TerminalState::Interrupted, Reason::Interrupted);
        check(&[asked], LeaderEnd::Signal(SEGV), TerminalState::Failed, Reason::Failed);
        check(&[asked, Lapse], LeaderEnd::Code(0), TerminalState::Exited, Reason::Exited);
    }

    #[test]
    fn after_a_terminate_the_end_of_the_leader_decides() {
        let asked = S(Terminate, Owner);
        for end in [LeaderEnd::Signal(SIGTERM), LeaderEnd::Code(0), LeaderEnd::Code(143)] {
            check(&[asked], end, TerminalState::Terminated, Reason::Terminated);
        }
        check(&[asked, Escalate], LeaderEnd::Signal(SIGKILL), TerminalState::Killed, Reason::Killed);
        check(
            &[asked, LeaderEnds, Escalate],
            LeaderEnd::Code(0),
            TerminalState::Terminated,
            Reason::Terminated,
        );
    }

    #[test]
    fn a_kill_replaces_a_terminate_only_while_the_leader_lives() {
        let (terminate, kill) = (S(Terminate, Owner), S(Kill, Owner));
        check(&[terminate, kill], LeaderEnd::Signal(SIGKILL), TerminalState::Killed, Reason::Killed);
        check(
            &[terminate, LeaderEnds, kill],
            LeaderEnd::Code(1),
            TerminalState::Terminated,
            Reason::Terminated,
        );
        check(
            &[S(Terminate, Deadline), kill],
            LeaderEnd::Signal(SIGKILL),
            TerminalState::Killed,
            Reason::Killed,
        );
    }

    #[test]
    fn a_kill_that_came_too_late_for_the_leader_leaves_its_own_choice() {
        check(&[S(Kill, Owner)], LeaderEnd::Code(0), TerminalState::Exited, Reason::Exited);
        check(&[S(Kill, Owner)], LeaderEnd::Signal(SIGKILL), TerminalState::Killed, Reason::Killed);
    }

    #[test]
    fn a_kill_that_came_too_late_leaves_the_terminate_before_it() {
        let (terminate, kill) = (S(Terminate, Owner), S(Kill, Owner));
        for end in [LeaderEnd::Signal(SIGTERM), LeaderEnd::Code(0)] {
            check(&[terminate, kill], end, TerminalState::Terminated, Reason::Terminated);
            check(&[S(Terminate, Deadline), kill], end, TerminalState::TimedOut, Reason::TimedOut);
            check(&[S(Terminate, Shutdown), kill], end, TerminalState::Terminated, Reason::RunnerShutdown);
        }
    }

    #[test]
    fn what_follows_the_end_of_the_leader_takes_nothing_from_its_interrupt() {
        let asked = S(Interrupt, Owner);
        for late in [Lapse, asked] {
            let steps = [asked, LeaderEnds, late];
            check(&steps, LeaderEnd::Code(130), TerminalState::Interrupted, Reason::Interrupted);
        }
        check(&[LeaderEnds, asked], LeaderEnd::Code(0), TerminalState::Exited, Reason::Exited);
    }

    #[test]
    fn a_deadline_is_timed_out_however_the_leader_went() {
        for (steps, end) in [
            (&[S(Terminate, Deadline)][..], LeaderEnd::Code(0)),
            (&[S(Terminate, Deadline), Escalate][..], LeaderEnd::Signal(SIGKILL)),
            (&[S(Interrupt, Owner), S(Terminate, Deadline)][..], LeaderEnd::Signal(SIGINT)),
            (&[S(Terminate, Deadline), S(Terminate, Owner)][..], LeaderEnd::Signal(SIGTERM)),
            (&[S(Kill, Deadline)][..], LeaderEnd::Signal(SIGKILL)),
        ] {
            check(steps, end, TerminalState::TimedOut, Reason::TimedOut);
        }
    }

    #[test]
    fn a_shutdown_is_named_as_the_reason() {
        let down = S(Terminate, Shutdown);
        check(&[down], LeaderEnd::Signal(SIGTERM), TerminalState::Terminated, Reason::RunnerShutdown);
        check(&[down, Escalate], LeaderEnd::Signal(SIGKILL), TerminalState::Killed, Reason::RunnerShutdown);
    }

    #[test]
    fn a_stop_after_the_leader_decides_while_descendants_are_waited_for() {
        check(
            &[LeaderEnds, S(Terminate, Owner)],
            LeaderEnd::Code(0),
            TerminalState::Terminated,
            Reason::Terminated,
        );
        check(
            &[LeaderEnds, S(Terminate, Owner), Escalate],
            LeaderEnd::Code(0),
            TerminalState::Killed,
            Reason::Killed,
        );
        check(&[LeaderEnds, S(Kill, Owner)], LeaderEnd::Code(0), TerminalState::Killed, Reason::Killed);
        check(
            &[LeaderEnds, S(Terminate, Deadline)],
            LeaderEnd::Code(0),
            TerminalState::TimedOut,
            Reason::TimedOut,
        );
    }
}
