//! Holds a supervisor against the reference, after every step: states, outcomes, slots, leases, waiters, keys, notices,
//! events, answers, and what other owners see.
//!
//! Not for making anything happen.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use procyard_core::{ErrorCode, EventKind, Handle};
use procyard_manifest::ManifestStore;
use procyard_supervisor::{LiveEvent, Snapshot, StdinStatus};

use super::calls::{Answer, Waits};
use super::process::Process;
use super::reference::{LOOPS, News, RETAINED, WAITERS};
use super::services::Pushed;
use super::world::{Raw, World, key_record, loop_of, timestamp};

impl World {
    /// Nothing is otherwise than the reference says.
    pub(super) fn look(&mut self) {
        self.check_processes();
        self.check_leases_and_places();
        self.check_keys();
        self.check_strangers();
        self.check_notices();
        let since = self.seen.events;
        self.check_events();
        self.check_views(since);
        self.check_pushes();
        self.check_answers();
    }

    fn check_processes(&mut self) {
        let mut listed = BTreeSet::new();
        for number in 0..LOOPS {
            let list = self.supervisor.list(loop_of(number));
            for snapshot in list.iter().rev() {
                let id: usize = snapshot.command.line.as_ref().unwrap().parse().unwrap();
                if id == self.handles.len() {
                    self.handles.push(snapshot.identity.handle);
                }
                assert_eq!(self.handles[id], snapshot.identity.handle);
                assert!(listed.insert(id), "it is listed once");
                check_snapshot(&self.model.processes[id], number, snapshot);
            }
            let ids: Vec<usize> = list
                .iter()
                .map(|snapshot| snapshot.command.line.as_ref().unwrap().parse().unwrap())
                .collect();
            assert!(ids.windows(2).all(|pair| pair[0] > pair[1]), "the newest first: {ids:?}");
        }
        assert_eq!(self.handles.len(), self.model.processes.len(), "each start left a record");
        self.check_eviction(Some(&listed));
        for process in &self.model.processes {
            let visible = !process.evicted && !self.model.closed.contains(&process.owner);
            assert_eq!(listed.contains(&process.id), visible, "{process:?}");
        }
    }

    /// The least recently used are evicted, and as many as are too many; of those used in the same instant any.
    /// Without a list the store tells.
    pub(super) fn check_eviction(&mut self, listed: Option<&BTreeSet<usize>>) {
        let retained = self.model.retained();
        let surplus = retained.len().saturating_sub(RETAINED);
        if surplus == 0 {
            return;
        }
        let records = ManifestStore::new(self.store.root());
        let gone: Vec<usize> = retained
            .keys()
            .copied()
            .filter(|id| {
                // Of a closed loop nothing is listed anyway.
                let open = !self.model.closed.contains(&self.model.processes[*id].owner);
                match listed.filter(|_| open) {
                    Some(listed) => !listed.contains(id),
                    None => records.load(&self.handles[*id]).map_or(true, |manifest| manifest.evicted),
                }
            })
            .collect();
        assert_eq!(gone.len(), surplus, "as many as are too many: {gone:?} of {retained:?}");
        for id in &gone {
            let kept = retained.iter().filter(|(other, _)| !gone.contains(other));
            assert!(kept.map(|(_, used)| used).all(|used| retained[id] <= *used), "{id} of {retained:?}");
        }
        self.model.evict(&gone);
    }

    fn check_leases_and_places(&self) {
        for (released, holder) in &self.leases {
            let held = holder.is_some_and(|id| !self.model.processes[id].is_terminal());
            // Those of a supervisor that died go with it.
            let native = holder.is_none_or(|id| self.model.processes[id].native);
            let released = released.load(Ordering::SeqCst);
            assert!(released <= 1, "a lease is given back once");
            assert!(!native || (released == 0) == held, "the lease of {holder:?}");
        }
        if !self.model.shutting_down {
            let place = self.supervisor.reserve_wait();
            assert_eq!(place.is_ok(), self.model.waiting() < WAITERS, "places of waiters");
        }
    }

    fn check_keys(&self) {
        for (number, key, digest) in (0..LOOPS).flat_map(|n| [(n, 0, 0), (n, 0, 1), (n, 1, 0), (n, 1, 1)]) {
            let found = self.supervisor.find_idempotent(loop_of(number), &key_record(key, digest));
            let found = found.map_err(|error| error.code());
            let expected = match (self.model.refuses(number), self.model.key(number, key)) {
                (Some(code), _) => Err(code),
                (None, None) => Ok(None),
                (None, Some((id, known))) if known == digest => Ok(Some(self.handles[id])),
                (None, Some(_)) => Err(ErrorCode::Conflict),
            };
            assert_eq!(found, expected, "key {key} of loop {number}");
        }
    }

    fn check_strangers(&self) {
        for process in &self.model.processes {
            for number in (0..LOOPS).filter(|number| *number != process.owner) {
                let seen = self.supervisor.snapshot(loop_of(number), &self.handles[process.id]);
                let expected = self.model.refuses(number).unwrap_or(ErrorCode::NotFound);
                assert_eq!(seen.err().map(|error| error.code()), Some(expected));
            }
        }
    }

    fn check_notices(&mut self) {
        for number in 0..LOOPS {
            let notices = self.supervisor.notices(loop_of(number));
            let mut expected = self.model.notices(number);
            assert_eq!(self.supervisor.has_pending(loop_of(number)), !expected.is_empty());
            let mut found = Vec::new();
            for notice in &notices {
                let news = self.news(notice);
                let at = expected.iter().find(|(_, other)| *other == news).map(|(at, _)| *at);
                let at = at.unwrap_or_else(|| panic!("{news:?} was told, or is not due: {expected:?}"));
                found.push((at, news));
                assert_eq!(*self.seen.notice_ids.entry(news).or_insert(notice.id), notice.id, "a stable id");
                if let News::End(id) = news {
                    let process = &self.model.processes[id];
                    assert_eq!(
                        (notice.state, notice.reason, notice.exit_code),
                        (process.state, process.reason, process.exit_code)
                    );
                }
            }
            assert!(found.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in their order: {found:?}");
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "the notices of loop {number}");
        }
    }

    fn is_caught_up(&self) -> bool {
        self.caught_up.is_some_and(|since| since <= self.model.now)
    }

    /// Each event has one id and one content, and comes in its place; none is missing once the service takes them.
    pub(super) fn check_events(&mut self) {
        let taken = std::sync::Arc::clone(&self.taken);
        let taken = taken.lock().unwrap();
        for event in &taken.events[self.seen.events..] {
            let id = self.id_of(event.identity.handle);
            assert!(self.seen.said.insert(event.id), "published twice by one supervisor: {event:?}");
            if let Some(first) = self.seen.by_id.get(&event.id) {
                assert_eq!(first, event, "what is published again is what was published");
                continue;
            }
            self.seen.by_id.insert(event.id, event.clone());
            let kinds = self.seen.kinds.entry(id).or_default();
            kinds.push(event.kind);
            let process = &self.model.processes[id];
            assert!(process.events.starts_with(kinds), "{kinds:?} of {process:?}");
            if matches!(event.kind, EventKind::Completed | EventKind::Lost) {
                assert_eq!((event.state, event.reason), (process.state, process.reason));
                assert_eq!(event.finished_at, process.finished_at.map(timestamp));
            }
        }
        self.seen.events = taken.events.len();
        if self.is_caught_up() {
            for process in &self.model.processes {
                let kinds = self.seen.kinds.get(&process.id).map_or(&[][..], Vec::as_slice);
                assert_eq!(kinds, process.events, "{process:?}");
            }
        }
    }

    /// A view shows what its owner's services took, and the newest total of what prints.
    fn check_views(&mut self, since: usize) {
        let taken = std::sync::Arc::clone(&self.taken);
        let taken = taken.lock().unwrap();
        let processes = &self.model.processes;
        self.seen.totals.resize(processes.len(), 0);
        let of = |owner: usize, handle: Handle| {
            let id = self.handles.iter().position(|known| *known == handle).unwrap();
            processes[id].owner == owner
        };
        for view in &mut self.views {
            let owner = view.owner;
            let mut events: Vec<_> =
                taken.events[since..].iter().filter(|event| of(owner, event.identity.handle)).collect();
            events.reverse();
            let mut totals: BTreeSet<(Handle, u64)> = processes
                .iter()
                .filter(|process| {
                    process.owner == owner && self.seen.totals[process.id] != process.printed.len()
                })
                .map(|process| (self.handles[process.id], process.printed.len() as u64))
                .collect();
            while let Some(shown) = now(view.subscription.next()).flatten() {
                match shown {
                    LiveEvent::Lifecycle(event) => assert_eq!(Some(&event), events.pop(), "in its order"),
                    LiveEvent::Output { handle, total_bytes } => {
                        assert!(totals.remove(&(handle, total_bytes)), "{handle:?} {total_bytes}");
                    }
                    LiveEvent::Lagged(lost) => panic!("{lost} events were lost"),
                }
            }
            assert!(events.is_empty() && totals.is_empty(), "a view misses nothing: {events:?} {totals:?}");
        }
        self.views.retain(|view| !self.model.closed.contains(&view.owner) && !self.model.shutting_down);
        self.seen.totals = processes.iter().map(|process| process.printed.len()).collect();
    }

    /// Each end is pushed once to whom it concerns, as long as this supervisor lives.
    pub(super) fn check_pushes(&mut self) {
        let taken = std::sync::Arc::clone(&self.taken);
        let taken = taken.lock().unwrap();
        for pushed in &taken.news[self.seen.news..] {
            match pushed {
                Pushed::Moved(handle, from, to) => {
                    let id = self.id_of(*handle);
                    if self.seen.inbox.get(&id) == Some(from) {
                        self.seen.inbox.insert(id, *to);
                    }
                }
                Pushed::Notice(owner, notice) => match self.news(notice) {
                    News::End(id) => {
                        assert!(self.model.pushed.contains(&News::End(id)), "the end of {id} is not due");
                        assert!(self.seen.pushed.insert(id), "the end of {id} is pushed once");
                        self.seen.inbox.insert(id, *owner);
                        let first = *self.seen.notice_ids.entry(News::End(id)).or_insert(notice.id);
                        assert_eq!(first, notice.id, "a stable id");
                    }
                    News::Stall(id, count) => {
                        assert!(count > 0, "{id} has not stalled");
                        assert!(self.seen.stalls.insert(notice.id), "a stall is pushed once");
                    }
                },
            }
        }
        self.seen.news = taken.news.len();
        // What comes up once a session has ended is told by the next one.
        if self.is_caught_up() && !self.model.shutting_down {
            for news in &self.model.pushed {
                if let News::End(id) = news {
                    assert!(self.seen.pushed.contains(id), "the end of {id} was not pushed");
                    assert_eq!(self.seen.inbox[id], loop_of(self.model.processes[*id].owner));
                }
            }
        }
    }

    /// Calls are answered when and as they should be.
    fn check_answers(&mut self) {
        for (number, call) in std::mem::take(&mut self.calls) {
            let expected = &self.model.calls[&number];
            let slack = match expected.waits {
                // What it gives services that do not take anything.
                Waits::Shutdown { .. } if expected.answer.is_some() => 1_000,
                _ => 0,
            };
            let due = expected.answer.as_ref().is_some_and(|(at, _)| at + slack <= self.model.now);
            if !call.is_finished() {
                assert!(!due, "not answered: {expected:?}");
                self.calls.insert(number, call);
                continue;
            }
            let (at, raw) = now(call).expect("it is finished").unwrap();
            let Some((due, answer)) = &expected.answer else { panic!("answered too early: {expected:?}") };
            assert!((*due..=due + slack).contains(&at), "at {at}: {expected:?}");
            let given = match raw {
                Raw::Known(answer) => answer,
                Raw::Started(started) => {
                    let new = matches!(started, procyard_supervisor::Started::New(_));
                    Answer::Started { id: self.id_of(started.handle()), new }
                }
            };
            match (&given, answer, &expected.waits) {
                (Answer::Waited(given), Answer::Waited(answer), Waits::Wait { any: true, .. }) => {
                    // Of several in the same instant the first wakes.
                    let pairs = || given.iter().zip(answer);
                    assert!(pairs().all(|(given, answer)| given.1 == answer.1 && given.0 <= answer.0));
                    let any = |flags: &[(bool, bool)]| flags.iter().any(|(satisfied, _)| *satisfied);
                    assert_eq!(any(given), any(answer), "{expected:?}");
                }
                _ => assert_eq!(given, *answer, "{expected:?}"),
            }
        }
    }

    /// The store holds the records of what is retained, and nothing else.
    pub(super) fn check_disk(&self) {
        let scan = ManifestStore::new(self.store.root()).scan().unwrap();
        assert!(scan.corrupt.is_empty() && scan.newer.is_empty() && scan.orphan_spools.is_empty());
        for manifest in scan.manifests {
            let process = &self.model.processes[self.id_of(manifest.identity.handle)];
            assert_eq!(manifest.identity.owner, loop_of(process.owner));
            assert_eq!((manifest.state, manifest.evicted), (process.state, process.evicted));
            assert!(!process.evicted || process.notice_due(), "nothing is owed of it: {process:?}");
        }
    }
}

fn check_snapshot(process: &Process, number: usize, snapshot: &Snapshot) {
    assert_eq!(process.owner, number, "{process:?}");
    assert_eq!(snapshot.state, process.state, "{process:?}");
    assert_eq!(snapshot.handed_over, process.handed_over, "{process:?}");
    assert_eq!(snapshot.total_bytes, process.printed.len() as u64, "{process:?}");
    assert_eq!(snapshot.started_at, process.started_at.map(timestamp), "{process:?}");
    assert_eq!(snapshot.finished_at, process.finished_at.map(timestamp), "{process:?}");
    assert!(!snapshot.teardown_failed && !snapshot.storage_degraded, "{snapshot:?}");
    let lifetime = snapshot.deadline.map(|lifetime| u64::try_from(lifetime.as_millis()).unwrap());
    assert_eq!(lifetime, process.lifetime, "{process:?}");
    let stdin = match (process.plan.stdin, process.is_terminal() || process.input_ended) {
        (false, _) => StdinStatus::None,
        (true, false) => StdinStatus::Open,
        (true, true) => StdinStatus::Closed,
    };
    assert_eq!(snapshot.stdin, stdin, "{process:?}");
    let pending = if process.native { process.input_pending() } else { 0 };
    assert_eq!(snapshot.pending_input, pending, "{process:?}");
    assert_eq!(snapshot.outcome.is_some(), process.is_terminal());
    if let Some(outcome) = &snapshot.outcome {
        let leftovers = outcome.leftovers.map(|leftovers| (leftovers.count, leftovers.action));
        assert_eq!(
            (Some(outcome.reason), outcome.exit_code, outcome.signal, outcome.escalated, leftovers),
            (process.reason, process.exit_code, process.signal, process.escalated, process.leftovers),
            "{process:?}"
        );
        assert_eq!(outcome.unread_input, process.unread_input, "{process:?}");
    }
}

/// What a future gives at once.
fn now<F: Future>(future: F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
