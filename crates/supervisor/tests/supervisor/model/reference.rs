//! What a supervisor should do, as plain data: processes, slots, keys, notices and waiting calls of one session, with a
//! number for a clock.
//!
//! Not for looking at a supervisor: see `check`.

use std::collections::{BTreeMap, BTreeSet};

use procyard_core::{ErrorCode, EventKind, Requester, State, StopKind};

use super::calls::{Answer, Call, Waits};
use super::process::{Phase, Process, Timer};
use super::steps::{Death, Plan, Until};

/// Milliseconds since the case began.
pub(super) type Millis = u64;

pub(super) const SECOND: Millis = 1_000;

/// The loops of the session.
pub(super) const LOOPS: usize = 3;

pub(super) const RUNNING_PER_LOOP: usize = 3;
pub(super) const RUNNING: usize = 5;
pub(super) const RETAINED: usize = 4;
pub(super) const WAITERS: usize = 3;
pub(super) const PENDING_INPUT: u64 = 80_000;
pub(super) const GRACE: Millis = 3 * SECOND;
pub(super) const DRAIN_QUIET: Millis = SECOND;
pub(super) const DRAIN_CAP: Millis = 4 * SECOND;
pub(super) const LEFTOVER_GRACE: Millis = 2 * SECOND;

/// What the input pipe of a process that reads nothing holds.
pub(super) const PIPE: u64 = 64 * 1024;

/// A reply under way.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) owner: usize,
    outcomes: BTreeSet<usize>,
    notices: BTreeSet<News>,
}

/// A notice: the end of a process, or one of its stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    End(usize),
    Stall(usize, u32),
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) now: Millis,
    pub(super) processes: Vec<Process>,
    /// Those that the runner brought up, in order.
    pub(super) launched: Vec<usize>,
    pub(super) calls: BTreeMap<usize, Call>,
    next_call: usize,
    pub(super) closed: BTreeSet<usize>,
    pub(super) shutting_down: bool,
    keys: BTreeMap<(usize, u8), (usize, u8)>,
    pub(super) replies: Vec<Reply>,
    /// Callers that stay with a process.
    pub(super) attending: Vec<(usize, usize)>,
    /// Notices that were pushed under the supervisor of now.
    pub(super) pushed: BTreeSet<News>,
}

impl Model {
    /// Whether calls of this loop are refused.
    pub(super) fn refuses(&self, owner: usize) -> Option<ErrorCode> {
        let refused = self.shutting_down || self.closed.contains(&owner);
        refused.then_some(ErrorCode::SupervisorShuttingDown)
    }

    /// The process, as a call of this owner finds it: used now.
    fn find(&mut self, owner: usize, id: usize) -> Result<&mut Process, ErrorCode> {
        if self.closed.contains(&owner) {
            return Err(ErrorCode::SupervisorShuttingDown);
        }
        let now = self.now;
        let process = self.processes.get_mut(id).filter(|process| process.owner == owner && !process.evicted);
        let process = process.ok_or(ErrorCode::NotFound)?;
        process.used_at = now;
        Ok(process)
    }

    /// The same, for a call that is refused in a session that ends.
    pub(super) fn call(&mut self, owner: usize, id: usize) -> Result<&mut Process, ErrorCode> {
        if self.shutting_down { Err(ErrorCode::SupervisorShuttingDown) } else { self.find(owner, id) }
    }

    /// Lets time pass: everything happens in its order.
    pub(super) fn advance(&mut self, to: Millis) {
        loop {
            let timer = self.processes.iter().filter_map(|process| {
                let (at, timer) = process.next_timer()?;
                Some((at, Some((process.id, timer))))
            });
            let due = self.calls.values().filter_map(|call| Some((self.due(call)?, None)));
            let next = timer.chain(due).min_by_key(|(at, _)| *at).filter(|(at, _)| *at <= to);
            let Some((at, what)) = next else { break };
            self.now = self.now.max(at);
            if let Some((id, timer)) = what {
                self.processes[id].fire(timer, self.now);
                if timer == Timer::Up {
                    self.launched.push(id);
                }
            }
            self.follow();
        }
        self.now = to;
    }

    /// What follows at once from what has happened: keys of starts that were given up are free, notices go out, calls are answered.
    pub(super) fn follow(&mut self) {
        let given_up = self.processes.iter().filter(|process| process.was_given_up());
        let given_up: BTreeSet<_> = given_up.map(|process| process.id).collect();
        self.keys.retain(|_, (id, _)| !given_up.contains(id));
        for process in &self.processes {
            if process.notice_due() {
                self.pushed.insert(News::End(process.id));
            }
            if process.stall_open {
                self.pushed.insert(News::Stall(process.id, process.stalls));
            }
        }
        let answers: Vec<_> = self
            .calls
            .iter()
            .filter(|(_, call)| call.answer.is_none())
            .filter_map(|(number, call)| Some((*number, self.answer(call)?)))
            .collect();
        for (number, answer) in answers {
            if let Some(call) = self.calls.get_mut(&number) {
                call.answer = Some((self.now, answer));
            }
        }
    }

    pub(super) fn running_of(&self, owner: usize) -> usize {
        self.living().filter(|process| process.owner == owner).count()
    }

    fn living(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| !process.is_terminal())
    }

    /// How many places of waiters are taken.
    pub(super) fn waiting(&self) -> usize {
        let waits = |call: &&Call| matches!(call.waits, Waits::Wait { .. } | Waits::Quiet { .. });
        self.calls.values().filter(waits).filter(|call| call.answer.is_none()).count()
    }

    /// Begins a call; its number.
    pub(super) fn begin(&mut self, waits: Result<Waits, Answer>) -> usize {
        let number = self.next_call;
        self.next_call += 1;
        let (waits, answer) = match waits {
            Ok(waits) => (waits, None),
            Err(answer) => (Waits::Close { owner: 0, living: Vec::new() }, Some((self.now, answer))),
        };
        self.calls.insert(number, Call { waits, answer });
        number
    }

    /// Starts a process, or says why not.
    pub(super) fn start(&mut self, plan: &Plan) -> Result<Waits, Answer> {
        if let Some(code) = self.refuses(plan.owner) {
            return Err(Answer::Refused(code));
        }
        if let Some((key, digest)) = plan.key
            && let Some((id, known)) = self.keys.get(&(plan.owner, key)).copied()
        {
            let same = known == digest;
            return Err(if same {
                Answer::Started { id, new: false }
            } else {
                Answer::Refused(ErrorCode::Conflict)
            });
        }
        if self.running_of(plan.owner) >= RUNNING_PER_LOOP || self.living().count() >= RUNNING {
            return Err(Answer::Refused(ErrorCode::ProcessQuotaExceeded));
        }
        let id = self.processes.len();
        let process = Process::begin(id, plan.clone(), self.now);
        if process.phase == Phase::Live {
            self.launched.push(id);
        }
        if let Some((key, digest)) = plan.key {
            self.keys.insert((plan.owner, key), (id, digest));
        }
        self.processes.push(process);
        Ok(Waits::Start { id })
    }

    /// The caller of a start goes away before it is answered.
    pub(super) fn cancel_start(&mut self, id: usize) {
        let now = self.now;
        let stays = self.attending.iter().any(|(_, other)| *other == id);
        let process = &mut self.processes[id];
        process.starter_gone = true;
        // Others that have joined the start have it from now on.
        if !stays && !process.joined {
            process.end(State::Failed, procyard_core::Reason::Failed, now);
        }
    }

    pub(super) fn stop(
        &mut self,
        owner: usize,
        id: usize,
        kind: StopKind,
        grace: Millis,
    ) -> Result<Waits, Answer> {
        let now = self.now;
        let process = self.call(owner, id).map_err(Answer::Refused)?;
        process.stop(kind, Requester::Owner, grace, now);
        let until = (kind == StopKind::Interrupt).then_some(now + grace);
        Ok(Waits::Stop { id, owner, until })
    }

    pub(super) fn wait(
        &mut self,
        owner: usize,
        targets: Vec<(usize, usize)>,
        any: bool,
        until: Until,
        timeout: Millis,
    ) -> Result<Waits, Answer> {
        self.take_place(owner)?;
        let mut found = Vec::new();
        for (id, cursor) in targets {
            let there = self.find(owner, id).is_ok();
            found.push((if there { id } else { usize::MAX }, cursor));
        }
        Ok(Waits::Wait { owner, targets: found, any, until, end: self.now + timeout })
    }

    pub(super) fn quiet(
        &mut self,
        owner: usize,
        id: usize,
        quiet: Millis,
        within: Millis,
    ) -> Result<Waits, Answer> {
        if self.shutting_down {
            return Err(Answer::Refused(ErrorCode::SupervisorShuttingDown));
        }
        if self.waiting() >= WAITERS {
            return Err(Answer::Refused(ErrorCode::OutputQuotaExceeded));
        }
        self.call(owner, id).map_err(Answer::Refused)?;
        Ok(Waits::Quiet { id, owner, quiet, end: self.now + within })
    }

    fn take_place(&self, owner: usize) -> Result<(), Answer> {
        if self.shutting_down {
            return Err(Answer::Refused(ErrorCode::SupervisorShuttingDown));
        }
        if self.waiting() >= WAITERS {
            return Err(Answer::Refused(ErrorCode::OutputQuotaExceeded));
        }
        self.refuses(owner).map_or(Ok(()), |code| Err(Answer::Refused(code)))
    }

    pub(super) fn room(&mut self, owner: usize, id: usize) -> Result<Waits, Answer> {
        self.call(owner, id).map_err(Answer::Refused)?;
        Ok(Waits::Room { id, owner })
    }

    /// How much is pending then, or the refusal.
    pub(super) fn input(&mut self, owner: usize, id: usize, bytes: u64, eof: bool) -> Result<u64, ErrorCode> {
        let process = self.call(owner, id)?;
        if !process.plan.stdin || process.is_terminal() || process.input_ended {
            return Err(ErrorCode::StdinClosed);
        }
        if process.input_pending() + bytes > PENDING_INPUT {
            return Err(ErrorCode::InputBackpressure);
        }
        let pending = process.input_pending() + bytes;
        process.input_accepted += bytes;
        process.input_ended = eof;
        Ok(pending)
    }

    pub(super) fn hand_over(&mut self, owner: usize, id: usize, lift: bool) -> Result<(), ErrorCode> {
        let process = self.call(owner, id)?;
        if lift {
            process.lift_deadline();
        }
        process.joined |= process.phase == Phase::Starting;
        if !process.handed_over && !process.is_terminal() {
            process.handed_over = true;
            if process.phase != Phase::Starting {
                process.events.push(EventKind::Backgrounded);
            }
        }
        Ok(())
    }

    pub(super) fn attend(&mut self, owner: usize, id: usize) {
        // One that attends to nothing is kept, too.
        let there = self.find(owner, id).is_ok();
        self.attending.push((owner, if there { id } else { usize::MAX }));
    }

    /// A caller that stayed with a process leaves it.
    pub(super) fn leave(&mut self, which: usize, released: bool) {
        let (owner, id) = self.attending.remove(which);
        let last = !self.attending.iter().any(|(_, other)| *other == id);
        let now = self.now;
        let held = self.processes.get(id).is_some_and(|process| {
            let starting = process.phase == Phase::Starting;
            (!process.handed_over || starting) && !process.joined && (!starting || process.starter_gone)
        });
        if last
            && !released
            && held
            && let Ok(process) = self.find(owner, id)
        {
            process.handed_over = true;
            process.stop(StopKind::Terminate, Requester::Owner, GRACE, now);
        }
    }

    /// What this owner was not told, with the time that orders it; stalls after ends.
    pub(super) fn notices(&self, owner: usize) -> Vec<(Millis, News)> {
        if self.closed.contains(&owner) {
            return Vec::new();
        }
        let claimed = |news: &News| self.replies.iter().any(|reply| reply.notices.contains(news));
        let told_as_outcome =
            |id: usize| self.replies.iter().any(|reply| reply.owner == owner && reply.outcomes.contains(&id));
        let mine = || self.processes.iter().filter(|process| process.owner == owner);
        let ends = mine().filter(|process| process.notice_due() && !told_as_outcome(process.id));
        let ends = ends.map(|process| (process.finished_at.unwrap_or(0), News::End(process.id)));
        let mut notices: Vec<_> = ends.collect();
        notices.sort_unstable();
        let stalls = mine().filter(|process| process.stall_open);
        notices.extend(stalls.map(|process| (Millis::MAX, News::Stall(process.id, process.stalls))));
        notices.retain(|(_, news)| !claimed(news));
        notices
    }

    /// These were told.
    pub(super) fn delivered(&mut self, owner: usize, told: &BTreeSet<News>) {
        if self.closed.contains(&owner) {
            return;
        }
        for process in self.processes.iter_mut().filter(|process| process.owner == owner) {
            if told.contains(&News::End(process.id)) && process.is_terminal() {
                process.told = true;
            } else if told.contains(&News::Stall(process.id, process.stalls)) {
                process.stall_open = false;
            }
        }
    }

    /// The owner knows how these ended.
    pub(super) fn learnt(&mut self, owner: usize, ids: &BTreeSet<usize>) {
        for id in ids {
            if self.closed.contains(&owner) {
                return;
            }
            let found = self.find(owner, *id).is_ok();
            let process = &mut self.processes[*id];
            if (found || (process.evicted && process.owner == owner)) && process.is_terminal() {
                process.told = true;
            }
        }
    }

    /// A reply begins; `taken` are the notices that it was given.
    pub(super) fn tell(&mut self, owner: usize, outcome: Option<usize>) {
        self.replies.push(Reply { owner, outcomes: outcome.into_iter().collect(), notices: BTreeSet::new() });
    }

    pub(super) fn claim(&mut self, taken: &[News]) {
        if let Some(reply) = self.replies.last_mut() {
            reply.notices.extend(taken.iter().copied());
        }
    }

    pub(super) fn end_reply(&mut self, which: usize, handed_over: bool) {
        let reply = self.replies.remove(which);
        if handed_over {
            self.delivered(reply.owner, &reply.notices);
            self.learnt(reply.owner, &reply.outcomes);
        }
    }

    pub(super) fn transfer(&mut self, from: usize, to: usize) -> Result<Vec<usize>, ErrorCode> {
        if self.shutting_down {
            return Err(ErrorCode::SupervisorShuttingDown);
        }
        if from == to {
            return Ok(Vec::new());
        }
        if self.closed.contains(&to) {
            return Err(ErrorCode::SupervisorShuttingDown);
        }
        let running = self.running_of(from);
        if running > 0 && self.running_of(to) + running > RUNNING_PER_LOOP {
            return Err(ErrorCode::ProcessQuotaExceeded);
        }
        let mut moved = Vec::new();
        // Of what was evicted and told nobody knows anything any more.
        let known = |process: &&mut Process| !process.evicted || process.notice_due();
        for process in self.processes.iter_mut().filter(|process| process.owner == from).filter(known) {
            process.owner = to;
            process.given_at = self.now;
            if !process.evicted {
                moved.push(process.id);
            }
        }
        let keys: Vec<_> =
            self.keys.iter().filter(|((of, _), _)| *of == from).map(|(k, v)| (*k, *v)).collect();
        for (key, named) in keys {
            self.keys.remove(&key);
            // One that the other loop uses itself stays with what it started there.
            self.keys.entry((to, key.1)).or_insert(named);
        }
        Ok(moved)
    }

    pub(super) fn close_loop(&mut self, owner: usize) -> Waits {
        self.closed.insert(owner);
        let living: Vec<_> =
            self.living().filter(|process| process.owner == owner).map(|process| process.id).collect();
        self.end_all(&living, StopKind::Terminate, Requester::Owner, GRACE);
        Waits::Close { owner, living }
    }

    pub(super) fn shutdown(&mut self) -> Waits {
        self.shutting_down = true;
        let living: Vec<_> = self.living().map(|process| process.id).collect();
        self.end_all(&living, StopKind::Terminate, Requester::Shutdown, GRACE);
        Waits::Shutdown { living }
    }

    fn end_all(&mut self, living: &[usize], kind: StopKind, by: Requester, grace: Millis) {
        let now = self.now;
        for id in living {
            let process = &mut self.processes[*id];
            process.input_ended = true;
            process.stop(kind, by, grace, now);
        }
    }

    /// These were evicted.
    pub(super) fn evict(&mut self, ids: &[usize]) {
        for id in ids {
            self.processes[*id].evicted = true;
            self.keys.retain(|_, (named, _)| named != id);
        }
    }

    /// What is retained, with what orders its eviction: the last use; of what nobody used since a restart its end.
    pub(super) fn retained(&self) -> BTreeMap<usize, (Millis, Millis)> {
        let retained = self.processes.iter().filter(|process| process.is_terminal() && !process.evicted);
        retained
            .map(|process| {
                (
                    process.id,
                    (process.used_at, process.finished_at.filter(|_| process.used_at == 0).unwrap_or(0)),
                )
            })
            .collect()
    }

    /// The supervisor goes. Everybody who was with it goes along.
    pub(super) fn die(&mut self, death: Death) {
        self.calls.clear();
        self.replies.clear();
        self.attending.clear();
        if death == Death::Dropped {
            let living: Vec<_> = self.living().map(|process| process.id).collect();
            self.shutting_down = true;
            self.end_all(&living, StopKind::Kill, Requester::Shutdown, 0);
            self.follow();
        }
    }

    /// The next one finds what was recorded.
    pub(super) fn restore(&mut self) {
        let now = self.now;
        self.shutting_down = false;
        self.closed.clear();
        self.pushed.clear();
        for process in &mut self.processes {
            process.restore(now);
        }
        self.keys.clear();
        for process in self.processes.iter().filter(|process| !process.evicted && !process.was_given_up()) {
            let Some((key, digest)) = process.plan.key else { continue };
            let place = (process.owner, key);
            let holder = self.keys.get(&place).map(|(id, _)| &self.processes[*id]);
            // What the owner started itself, the latest of that; else what it was given first.
            let own = process.plan.owner == process.owner;
            let stays = holder.is_some_and(|holder| {
                let also_own = holder.plan.owner == process.owner;
                !own && (also_own || holder.given_at <= process.given_at)
            });
            if !stays {
                self.keys.insert(place, (process.id, digest));
            }
        }
        self.follow();
    }
}

impl Model {
    /// The process that a key names, and the digest of its arguments.
    pub(super) fn key(&self, owner: usize, key: u8) -> Option<(usize, u8)> {
        self.keys.get(&(owner, key)).copied()
    }
}
