//! The journal against plain maps: any sequence of calls, reopening among them, and any threads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use common::{Place, all_events, at, event, handle, notification, notification_id, owner};
use procyard_core::{LifecycleEvent, NotificationId, Owner, Timestamp};
use procyard_journal::{
    Appended, Delivery, EventBounds, EventFilter, InboxCounts, Journal, JournalError, Marked,
    NotificationRecord, Pruned, Put,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Append { number: u64, forged: bool },
    Put { of: u64, number: u64, forged: bool },
    Mark { of: u64, numbers: Vec<u64>, acknowledge: bool },
    Transfer { process: u64, from: u64, to: u64 },
    Prune { older_than: i64, keep: bool, max_rows: usize },
    Read { after: u64, limit: usize },
    Reopen,
}

const NUMBERS: u64 = 16;

fn step() -> impl Strategy<Value = Step> {
    let number = 0..NUMBERS;
    let of = 0..3_u64;
    let forged = prop::bool::weighted(0.2);
    prop_oneof![
        6 => (number.clone(), forged).prop_map(|(number, forged)| Step::Append { number, forged }),
        6 => (of.clone(), number.clone(), forged).prop_map(|(of, number, forged)| Step::Put { of, number, forged }),
        3 => (of.clone(), prop::collection::vec(number, 0..6), any::<bool>())
            .prop_map(|(of, numbers, acknowledge)| Step::Mark { of, numbers, acknowledge }),
        2 => (0..7_u64, of.clone(), of).prop_map(|(process, from, to)| Step::Transfer { process, from, to }),
        1 => (0..200_i64, any::<bool>(), 1..6_usize)
            .prop_map(|(older_than, keep, max_rows)| Step::Prune { older_than, keep, max_rows }),
        3 => (0..NUMBERS, 1..8_usize).prop_map(|(after, limit)| Step::Read { after, limit }),
        1 => Just(Step::Reopen),
    ]
}

/// What a journal is, without a disk.
#[derive(Default)]
struct Model {
    events: BTreeMap<u64, LifecycleEvent>,
    last: u64,
    inbox: BTreeMap<u64, Entry>,
    last_notification: u64,
}

struct Entry {
    put_for: Owner,
    owner: Owner,
    delivery: Delivery,
    record: NotificationRecord,
}

fn event_time(event: &LifecycleEvent) -> Timestamp {
    event.at.or(event.finished_at).or(event.started_at).unwrap_or(event.created_at)
}

fn notification_time(record: &NotificationRecord) -> Timestamp {
    record.finished_at.or(record.started_at).unwrap()
}

impl Model {
    fn append(&mut self, event: &LifecycleEvent) -> Option<Appended> {
        if let Some((sequence, known)) = self.events.iter().find(|(_, known)| known.id == event.id) {
            return (known == event).then_some(Appended { sequence: *sequence, appended: false });
        }
        self.last += 1;
        self.events.insert(self.last, event.clone());
        Some(Appended { sequence: self.last, appended: true })
    }

    fn put(&mut self, owner: Owner, record: &NotificationRecord) -> Option<Put> {
        if let Some((number, known)) = self.inbox.iter().find(|(_, known)| known.record.id == record.id) {
            let same = (known.put_for == owner || known.owner == owner) && known.record == *record;
            return same.then_some(Put { number: *number, put: false });
        }
        self.last_notification += 1;
        let entry = Entry { put_for: owner, owner, delivery: Delivery::Pending, record: record.clone() };
        self.inbox.insert(self.last_notification, entry);
        Some(Put { number: self.last_notification, put: true })
    }

    fn mark(&mut self, owner: Owner, ids: &BTreeSet<NotificationId>, to: Delivery) -> Marked {
        let mut marked = Marked::default();
        for entry in
            self.inbox.values_mut().filter(|entry| entry.owner == owner && ids.contains(&entry.record.id))
        {
            marked.known += 1;
            marked.changed += usize::from(entry.delivery < to);
            entry.delivery = entry.delivery.max(to);
        }
        marked
    }

    fn transfer(&mut self, process: u64, from: Owner, to: Owner) -> usize {
        let moves = |entry: &&mut Entry| {
            entry.owner == from
                && entry.delivery == Delivery::Pending
                && entry.record.handle == handle(process)
        };
        self.inbox.values_mut().filter(moves).map(|entry| entry.owner = to).count()
    }

    fn prune(&mut self, older_than: Timestamp, keep: bool, max_rows: usize) -> Pruned {
        let old: Vec<u64> = self
            .events
            .iter()
            .take_while(|(_, event)| event_time(event) < older_than)
            .take(max_rows)
            .map(|(sequence, _)| *sequence)
            .collect();
        self.events.retain(|sequence, _| !old.contains(sequence));
        let mut gone = Vec::new();
        for state in [Delivery::Pending, Delivery::Delivered, Delivery::Acknowledged] {
            if keep && state != Delivery::Acknowledged {
                continue;
            }
            let mut of_state: Vec<_> = self
                .inbox
                .iter()
                .filter(|(_, entry)| entry.delivery == state && notification_time(&entry.record) < older_than)
                .map(|(number, entry)| (notification_time(&entry.record), *number))
                .collect();
            of_state.sort_unstable();
            of_state.truncate(max_rows - old.len() - gone.len());
            gone.extend(of_state.into_iter().map(|(_, number)| number));
        }
        self.inbox.retain(|number, _| !gone.contains(number));
        let more = old.len() + gone.len() == max_rows;
        Pruned { events: old.len(), notifications: gone.len(), more }
    }

    fn bounds(&self) -> EventBounds {
        let first = self.events.keys().next().copied().unwrap_or(self.last + 1);
        EventBounds { retained_from: first, last: self.last }
    }

    fn assert_page(
        &self,
        journal: &Journal,
        after: u64,
        limit: usize,
        filter: &EventFilter,
        admits: impl Fn(&LifecycleEvent) -> bool,
    ) {
        let page = journal.events_after(after, limit, filter).unwrap();
        let mut expected: Vec<_> = self
            .events
            .range(after + 1..)
            .filter(|(_, event)| admits(event))
            .map(|(at, event)| (*at, event.clone()))
            .collect();
        assert_eq!(page.more, expected.len() > limit);
        expected.truncate(limit);
        assert_eq!((page.events, page.bounds), (expected, self.bounds()));
    }

    fn assert_inbox(&self, journal: &Journal, owner: Owner, after: u64, limit: usize) {
        let of_owner = |least: Delivery| {
            let mine = self
                .inbox
                .range(after + 1..)
                .filter(move |(_, entry)| entry.owner == owner && entry.delivery <= least);
            mine.map(|(number, entry)| (*number, entry.delivery, entry.record.clone())).collect::<Vec<_>>()
        };
        let pages = [
            (journal.pending(owner, after, limit).unwrap(), of_owner(Delivery::Pending)),
            (journal.unacknowledged(owner, after, limit).unwrap(), of_owner(Delivery::Delivered)),
        ];
        for (page, mut expected) in pages {
            assert_eq!(page.more, expected.len() > limit);
            expected.truncate(limit);
            let entries: Vec<_> =
                page.entries.into_iter().map(|entry| (entry.number, entry.delivery, entry.record)).collect();
            assert_eq!(entries, expected);
        }
        let count = |delivery| {
            self.inbox.values().filter(|entry| entry.owner == owner && entry.delivery == delivery).count()
                as u64
        };
        let counts = InboxCounts {
            pending: count(Delivery::Pending),
            delivered: count(Delivery::Delivered),
            acknowledged: count(Delivery::Acknowledged),
        };
        assert_eq!(journal.counts(owner).unwrap(), counts);
        assert_eq!(journal.has_pending(owner).unwrap(), counts.pending > 0);
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: Result<T, JournalError>, expected: Option<T>) {
    match (found, expected) {
        (Ok(found), Some(expected)) => assert_eq!(found, expected),
        (Err(JournalError::Collision), None) => {}
        (found, expected) => panic!("{found:?}, and not {expected:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_sequence_of_calls_does_what_plain_maps_do(steps in prop::collection::vec(step(), 1..50)) {
        let place = Place::new();
        let mut journal = place.open();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Append { number, forged } => {
                    let mut event = event(number);
                    if forged {
                        event.created_at = at(-1);
                    }
                    same(journal.append(&event), model.append(&event));
                }
                Step::Put { of, number, forged } => {
                    let mut record = notification(number);
                    if forged {
                        record.started_at = Some(at(-1));
                    }
                    same(journal.put(owner(of), &record), model.put(owner(of), &record));
                }
                Step::Mark { of, numbers, acknowledge } => {
                    let ids: Vec<_> = numbers.into_iter().map(notification_id).collect();
                    let (found, to) = if acknowledge {
                        (journal.acknowledge(owner(of), &ids), Delivery::Acknowledged)
                    } else {
                        (journal.delivered(owner(of), &ids), Delivery::Delivered)
                    };
                    same(found, Some(model.mark(owner(of), &ids.into_iter().collect(), to)));
                }
                Step::Transfer { process, from, to } => {
                    let found = journal.transfer(handle(process), owner(from), owner(to));
                    same(found, Some(model.transfer(process, owner(from), owner(to))));
                }
                Step::Prune { older_than, keep, max_rows } => {
                    let found = journal.prune(at(older_than), keep, max_rows);
                    same(found, Some(model.prune(at(older_than), keep, max_rows)));
                }
                Step::Read { after, limit } => {
                    model.assert_page(&journal, after, limit, &EventFilter::all(), |_| true);
                    let (of, process) = (owner(after % 3), handle(after % 7));
                    model.assert_page(&journal, after, limit, &EventFilter::of_owner(of), |event| event.identity.owner == of);
                    model.assert_page(&journal, after, limit, &EventFilter::of_process(process), |event| event.identity.handle == process);
                    model.assert_inbox(&journal, of, after, limit);
                }
                Step::Reopen => {
                    drop(journal);
                    journal = place.open();
                }
            }
        }
        for number in 0..3 {
            model.assert_inbox(&journal, owner(number), 0, 1000);
        }
        model.assert_page(&journal, 0, 1000, &EventFilter::all(), |_| true);
        journal.verify().unwrap();
    }

    #[test]
    fn any_threads_number_each_event_once_and_each_in_its_own_order(
        plans in prop::collection::vec(prop::collection::vec((0..24_u64, prop::bool::weighted(0.2)), 0..24), 2..6),
    ) {
        let place = Place::new();
        let journal = place.open();
        let outcomes: Vec<Vec<_>> = thread::scope(|scope| {
            let threads: Vec<_> = plans
                .iter()
                .map(|plan| {
                    let journal = &journal;
                    scope.spawn(move || {
                        let append = |(number, forged): &(u64, bool)| {
                            let mut event = event(*number);
                            if *forged {
                                event.created_at = at(-1);
                            }
                            (journal.append(&event), event)
                        };
                        plan.iter().map(append).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let held = all_events(&journal, 5);
        let named: BTreeSet<_> = plans.iter().flatten().map(|(number, _)| *number).collect();
        prop_assert_eq!(held.len(), named.len(), "each id once, whatever became of the others");
        let mut won = 0;
        for outcome in outcomes {
            let mut newest = 0;
            for (appended, event) in outcome {
                let kept = held.iter().find(|(_, held)| held.id == event.id).unwrap();
                match appended {
                    Ok(Appended { sequence, appended }) => {
                        prop_assert_eq!(&(sequence, event), kept);
                        if appended {
                            won += 1;
                            prop_assert!(sequence > newest, "a thread's own events keep its order");
                            newest = sequence;
                        }
                    }
                    Err(JournalError::Collision) => prop_assert_ne!(&event, &kept.1),
                    Err(error) => prop_assert!(false, "{}", error),
                }
            }
        }
        prop_assert_eq!(won, named.len(), "each was new to exactly one");
        let sequences: Vec<_> = held.iter().map(|(sequence, _)| *sequence).collect();
        prop_assert_eq!(sequences, (1..=held.len() as u64).collect::<Vec<_>>());
        drop(journal);
        prop_assert_eq!(all_events(&place.open(), 1000), held);
    }
}
