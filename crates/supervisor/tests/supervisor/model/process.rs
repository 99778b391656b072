//! The life of one process as it should be: a plain value that time and orders change.
//!
//! Not for what is shared with other processes: slots, keys, notices and calls are the reference's.

use procyard_core::{
    Causes, EventKind, LeaderEnd, LeftoverAction, Reason, Requester, SIGINT, SIGKILL, SIGTERM, SignalNumber,
    State, StopKind,
};
use procyard_testkit::Reaction;

use super::reference::{DRAIN_CAP, DRAIN_QUIET, GRACE, LEFTOVER_GRACE, Millis, PIPE};
use super::steps::Plan;

/// Where a process is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The runner has not brought it up.
    Starting,
    /// Its leader lives.
    Live,
    /// The leader has ended; its output comes to rest.
    Quiet,
    /// The leader has ended; its descendants are waited for.
    Waiting,
    /// Its descendants were terminated, and have their grace.
    Grace,
    /// The tree is being ended, and has the grace of a stop.
    Proving,
    Ended,
}

/// What a process does when its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    Up,
    Deadline,
    Kill,
    InterruptLapse,
    Stall,
    Quiet,
    LeftoverGrace,
    LeftoversEnd,
}

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) id: usize,
    pub(super) owner: usize,
    /// When it was last given to another owner.
    pub(super) given_at: Millis,
    pub(super) plan: Plan,
    pub(super) phase: Phase,
    pub(super) state: State,
    pub(super) reason: Option<Reason>,
    pub(super) exit_code: Option<u8>,
    pub(super) signal: Option<SignalNumber>,
    pub(super) escalated: bool,
    pub(super) leftovers: Option<(u32, LeftoverAction)>,
    pub(super) unread_input: u64,
    pub(super) printed: String,
    pub(super) handed_over: bool,
    /// It was handed over while it was starting, so that it does not depend on the caller that starts it.
    pub(super) joined: bool,
    /// That caller went away before it ran.
    pub(super) starter_gone: bool,
    /// When it was launched.
    pub(super) started_at: Option<Millis>,
    pub(super) finished_at: Option<Millis>,
    /// When it was last asked for, or ended; 0 after a restart.
    pub(super) used_at: Millis,
    /// The lifetime deadline in force.
    pub(super) lifetime: Option<Millis>,
    /// What is said of it, in order.
    pub(super) events: Vec<EventKind>,
    /// Its owner was told how it ended.
    pub(super) told: bool,
    /// Its owner learnt its end without a notice, under an earlier supervisor. Nobody need have recorded that.
    pub(super) learnt_before: bool,
    /// How many of its stalls there were, and whether the last is still to be told.
    pub(super) stalls: u32,
    pub(super) stall_open: bool,
    pub(super) evicted: bool,
    /// It lives in the supervisor of now.
    pub(super) native: bool,
    pub(super) input_accepted: u64,
    pub(super) input_ended: bool,
    pub(super) printed_at: Millis,
    causes: Causes,
    leader: Option<LeaderEnd>,
    survivors: u32,
    stop_requested: bool,
    stopping: bool,
    killing: bool,
    up_at: Option<Millis>,
    deadline: Option<Millis>,
    kill_at: Option<Millis>,
    interrupt_until: Option<Millis>,
    quiet_at: Option<Millis>,
    cap_at: Option<Millis>,
    grace_until: Option<Millis>,
    leftovers_end: Option<Millis>,
    stalled_total: Option<usize>,
}

impl Process {
    pub(super) fn begin(id: usize, plan: Plan, now: Millis) -> Self {
        let mut process = Self {
            id,
            owner: plan.owner,
            given_at: 0,
            phase: Phase::Starting,
            state: State::Starting,
            reason: None,
            exit_code: None,
            signal: None,
            escalated: false,
            leftovers: None,
            unread_input: 0,
            printed: String::new(),
            handed_over: plan.background,
            joined: false,
            starter_gone: false,
            started_at: None,
            finished_at: None,
            used_at: 0,
            lifetime: plan.deadline,
            events: Vec::new(),
            told: false,
            learnt_before: false,
            stalls: 0,
            stall_open: false,
            evicted: false,
            native: true,
            input_accepted: 0,
            input_ended: false,
            printed_at: now,
            causes: Causes::default(),
            leader: None,
            survivors: 0,
            stop_requested: false,
            stopping: false,
            killing: false,
            up_at: plan.slow.map(|slow| now + slow),
            deadline: None,
            kill_at: None,
            interrupt_until: None,
            quiet_at: None,
            cap_at: None,
            grace_until: None,
            leftovers_end: None,
            stalled_total: None,
            plan,
        };
        if process.plan.fails {
            process.end(State::Failed, Reason::Failed, now);
            // By the answer to the start.
            process.told = true;
        } else if process.up_at.is_none() {
            process.up(now);
        }
        process
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.state.is_terminal()
    }

    /// Whether its start was given up before anything came of it.
    pub(super) fn was_given_up(&self) -> bool {
        let never_ran = self.is_terminal() && self.started_at.is_none() && self.state != State::LostOnRestore;
        never_ran && !self.plan.fails
    }

    /// Whether its owner is to be told of its end.
    pub(super) fn notice_due(&self) -> bool {
        self.is_terminal() && self.handed_over && !self.told
    }

    pub(super) fn input_pending(&self) -> u64 {
        let taken = if self.phase == Phase::Starting || self.started_at.is_none() { 0 } else { PIPE };
        self.input_accepted.saturating_sub(taken)
    }

    fn leader_lives(&self) -> bool {
        self.leader.is_none()
    }

    pub(super) fn next_timer(&self) -> Option<(Millis, Timer)> {
        if self.phase == Phase::Ended {
            return None;
        }
        let quiet = self.quiet_at.into_iter().chain(self.cap_at).min();
        [
            (self.up_at, Timer::Up),
            (self.deadline, Timer::Deadline),
            (self.kill_at, Timer::Kill),
            (self.interrupt_until, Timer::InterruptLapse),
            (self.stall_at(), Timer::Stall),
            (quiet.filter(|_| self.phase == Phase::Quiet), Timer::Quiet),
            (self.grace_until, Timer::LeftoverGrace),
            (self.leftovers_end, Timer::LeftoversEnd),
        ]
        .into_iter()
        .filter_map(|(at, timer)| Some((at?, timer)))
        .min_by_key(|(at, _)| *at)
    }

    fn stall_at(&self) -> Option<Millis> {
        let window = self.plan.stall.filter(|_| self.phase != Phase::Starting)?;
        (self.stalled_total != Some(self.printed.len())).then_some(self.printed_at + window)
    }

    pub(super) fn fire(&mut self, timer: Timer, now: Millis) {
        match timer {
            Timer::Up => self.up(now),
            Timer::Deadline => {
                self.deadline = None;
                self.stop(StopKind::Terminate, Requester::Deadline, GRACE, now);
            }
            Timer::Kill => {
                self.kill_at = None;
                self.killing = true;
                if self.leader_lives() || self.survivors > 0 {
                    self.causes.escalated();
                }
                self.kill_tree(now);
            }
            Timer::InterruptLapse => {
                self.interrupt_until = None;
                self.causes.interrupt_lapsed();
            }
            Timer::Stall => {
                self.stalled_total = Some(self.printed.len());
                self.stalls += 1;
                self.stall_open = true;
            }
            Timer::Quiet => {
                self.leftovers = Some((self.survivors, LeftoverAction::Killed));
                (self.quiet_at, self.cap_at) = (None, None);
                self.phase = Phase::Grace;
                self.grace_until = Some(now + LEFTOVER_GRACE);
                if self.leftovers_heed_terminate() {
                    self.tree_empties(now);
                }
            }
            Timer::LeftoverGrace => {
                self.grace_until = None;
                self.prove(now);
            }
            Timer::LeftoversEnd => self.tree_empties(now),
        }
    }

    fn leftovers_heed_terminate(&self) -> bool {
        self.plan.leftover.is_some_and(|leftover| leftover.on_terminate != Reaction::Ignore)
    }

    fn up(&mut self, now: Millis) {
        self.up_at = None;
        self.phase = Phase::Live;
        self.state = State::Running;
        self.started_at = Some(now);
        // What does not run is not quiet.
        self.printed_at = now;
        self.deadline = self.lifetime.map(|lifetime| now + lifetime);
        let started = if self.plan.background { EventKind::Backgrounded } else { EventKind::Started };
        self.events.push(started);
        if self.handed_over && !self.plan.background {
            // It was handed over while it was starting.
            self.events.push(EventKind::Backgrounded);
        }
    }

    pub(super) fn print(&mut self, text: &str, now: Millis) {
        let holds = self.plan.leftover.is_some_and(|leftover| leftover.hold_output) && self.survivors > 0;
        if self.phase == Phase::Starting || self.phase == Phase::Ended || !(self.leader_lives() || holds) {
            return;
        }
        self.printed.push_str(text);
        self.printed_at = now;
        self.stalled_total = None;
        if self.phase == Phase::Quiet {
            self.quiet_at = Some(now + DRAIN_QUIET);
        }
    }

    pub(super) fn exit(&mut self, code: u8, now: Millis) {
        if self.phase == Phase::Live {
            self.leader_ends(LeaderEnd::Code(code), self.would_leave(), now);
        }
    }

    fn would_leave(&self) -> u32 {
        self.plan.leftover.map_or(0, |leftover| leftover.count)
    }

    pub(super) fn end_leftovers(&mut self, now: Millis) {
        if self.survivors > 0 && self.phase != Phase::Ended {
            self.tree_empties(now);
        }
    }

    /// A stop reaches it.
    pub(super) fn stop(&mut self, kind: StopKind, by: Requester, grace: Millis, now: Millis) {
        if self.phase == Phase::Ended {
            return;
        }
        if !self.stop_requested {
            self.stop_requested = true;
            self.events.push(EventKind::StopRequested);
        }
        if self.phase == Phase::Starting {
            let (state, reason) = match kind {
                StopKind::Kill => (State::Killed, Reason::Killed),
                StopKind::Interrupt | StopKind::Terminate => (State::Terminated, Reason::Terminated),
            };
            let reason = if by == Requester::Shutdown { Reason::RunnerShutdown } else { reason };
            self.end(state, reason, now);
            return;
        }
        let repeated = match kind {
            StopKind::Interrupt => false,
            StopKind::Terminate => self.stopping,
            StopKind::Kill => self.killing,
        };
        if repeated {
            self.kill_at = self.kill_at.map(|at| at.min(now + grace));
            return;
        }
        let alive = self.leader_lives();
        if kind == StopKind::Interrupt {
            if alive {
                self.causes.delivered(kind, by);
                self.interrupt_until = Some(now + grace);
                self.react(self.plan.on_interrupt, SIGINT, self.would_leave(), now);
            }
            return;
        }
        if alive || self.plan.waits_for_leftovers {
            self.causes.delivered(kind, by);
        }
        self.stopping = true;
        if kind == StopKind::Kill {
            self.kill_at = None;
            self.killing = true;
            self.note_stop_while_settling(now);
            self.kill_tree(now);
            return;
        }
        let due = now + grace;
        self.kill_at = Some(self.kill_at.map_or(due, |at| at.min(due)));
        if alive {
            // The same signal ends those descendants that heed it.
            let survivors = if self.leftovers_heed_terminate() { 0 } else { self.would_leave() };
            self.react(self.plan.on_terminate, SIGTERM, survivors, now);
        } else {
            if self.leftovers_heed_terminate() {
                // They are gone before anybody counts them.
                self.survivors = 0;
            }
            self.note_stop_while_settling(now);
        }
    }

    /// What a stop changes on the way from the leader's end to the proof.
    fn note_stop_while_settling(&mut self, now: Millis) {
        let before = self.phase;
        match before {
            Phase::Quiet => {
                let counted = if self.killing { 0 } else { self.survivors };
                self.leftovers = (counted > 0).then_some((counted, LeftoverAction::Killed));
            }
            Phase::Waiting => {
                self.leftovers = self.leftovers.map(|(count, _)| (count, LeftoverAction::Killed));
            }
            Phase::Grace => {
                let until = self.grace_until.take();
                self.kill_at = self.kill_at.into_iter().chain(until).min().filter(|_| self.kill_at.is_some());
            }
            Phase::Starting | Phase::Live | Phase::Proving | Phase::Ended => return,
        }
        (self.quiet_at, self.cap_at) = (None, None);
        self.prove(now);
    }

    fn react(&mut self, reaction: Reaction, signal: SignalNumber, survivors: u32, now: Millis) {
        match reaction {
            Reaction::Die => self.leader_ends(LeaderEnd::Signal(signal), survivors, now),
            Reaction::Exit(code) => self.leader_ends(LeaderEnd::Code(code), survivors, now),
            Reaction::Ignore => {}
        }
    }

    fn kill_tree(&mut self, now: Millis) {
        if self.phase == Phase::Ended {
            return;
        }
        if self.leader_lives() {
            self.causes.leader_ended();
            self.leader = Some(LeaderEnd::Signal(SIGKILL));
        }
        self.tree_empties(now);
    }

    fn leader_ends(&mut self, end: LeaderEnd, survivors: u32, now: Millis) {
        self.leader = Some(end);
        self.causes.leader_ended();
        self.interrupt_until = None;
        self.survivors = survivors;
        if self.survivors > 0 {
            let after = self.plan.leftover.and_then(|leftover| leftover.end_after);
            self.leftovers_end =
                after.map(|after| now + Millis::try_from(after.as_millis()).unwrap_or(Millis::MAX));
        }
        if self.plan.waits_for_leftovers {
            if self.survivors > 0 {
                let action = if self.stopping { LeftoverAction::Killed } else { LeftoverAction::Waited };
                self.leftovers = Some((self.survivors, action));
                if !self.stopping {
                    self.phase = Phase::Waiting;
                    return;
                }
            }
            self.prove(now);
        } else if self.stopping || self.survivors == 0 {
            self.prove(now);
        } else {
            self.phase = Phase::Quiet;
            self.quiet_at = Some(now + DRAIN_QUIET);
            self.cap_at = Some(now + DRAIN_CAP);
        }
    }

    /// Nobody of the tree is left.
    fn tree_empties(&mut self, now: Millis) {
        self.survivors = 0;
        self.prove(now);
    }

    /// The end is near: kills what is left unless a stop has given it time.
    fn prove(&mut self, now: Millis) {
        if self.survivors > 0 && self.kill_at.is_some() {
            self.phase = Phase::Proving;
            return;
        }
        self.survivors = 0;
        let end = self.leader.unwrap_or(LeaderEnd::Unknown);
        let verdict = self.causes.decide(end);
        self.exit_code = verdict.exit_code;
        self.signal = verdict.signal;
        self.escalated = verdict.escalated;
        self.unread_input = self.input_pending();
        self.end(State::from(verdict.state), verdict.reason, now);
    }

    pub(super) fn end(&mut self, state: State, reason: Reason, now: Millis) {
        self.state = state;
        self.reason = Some(reason);
        self.finished_at = Some(now);
        self.used_at = now;
        self.stall_open = false;
        self.phase = Phase::Ended;
        let said = if state == State::LostOnRestore { EventKind::Lost } else { EventKind::Completed };
        self.events.push(said);
    }
}

impl Process {
    pub(super) fn lift_deadline(&mut self) {
        self.lifetime = None;
        self.deadline = None;
    }

    /// What the next supervisor makes of it.
    pub(super) fn restore(&mut self, now: Millis) {
        if !self.is_terminal() {
            (self.exit_code, self.signal, self.leftovers) = (None, None, None);
            (self.escalated, self.unread_input) = (false, 0);
            self.end(State::LostOnRestore, Reason::LostOnRestore, now);
        }
        self.native = false;
        self.learnt_before = self.told && !self.handed_over;
        self.used_at = 0;
        self.lifetime = None;
        self.stall_open = false;
    }
}
