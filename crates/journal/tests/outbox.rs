//! The outbox: order, idempotence, collisions, pages, filters.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use common::{Place, all_events, at, event, handle, owner};
use procyard_core::{LifecycleEvent, MatrixError, Reason};
use procyard_journal::{Appended, EventBounds, EventFilter, Journal, JournalError};

#[test]
fn a_stop_keeps_the_time_at_which_it_was_asked_for_and_ages_by_it() {
    let place = Place::new();
    let journal = place.open();
    let stop = LifecycleEvent { at: Some(at(10_000)), ..event(1) };
    journal.append(&event(0)).unwrap();
    journal.append(&stop).unwrap();
    drop(journal);
    let journal = place.open();
    journal.prune(at(9_000), true, 100).unwrap();
    assert_eq!(all_events(&journal, 10), [(2, stop)]);
}

/// The same id with other content.
fn forged(event: &LifecycleEvent) -> LifecycleEvent {
    LifecycleEvent { created_at: at(-1), ..event.clone() }
}

#[track_caller]
fn collides(journal: &Journal, event: &LifecycleEvent) {
    let refused = journal.append(event);
    assert!(matches!(refused, Err(JournalError::Collision)), "{refused:?}");
}

#[test]
fn events_are_numbered_from_one_and_read_in_their_order() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(journal.event_bounds().unwrap(), EventBounds { retained_from: 1, last: 0 });
    for number in 1..=20 {
        let appended = journal.append(&event(number)).unwrap();
        assert_eq!(appended, Appended { sequence: number, appended: true });
    }
    let expected: Vec<_> = (1..=20).map(|number| (number, event(number))).collect();
    for page in [1, 3, 20, 1000] {
        assert_eq!(all_events(&journal, page), expected);
    }
    assert_eq!(journal.event_bounds().unwrap(), EventBounds { retained_from: 1, last: 20 });
}

#[test]
fn an_event_that_comes_again_keeps_its_number_also_after_a_restart() {
    let place = Place::new();
    let journal = place.open();
    for number in [3, 1, 2] {
        journal.append(&event(number)).unwrap();
    }
    let again = |journal: &Journal| {
        for (number, sequence) in [(1, 2), (2, 3), (3, 1)] {
            let appended = journal.append(&event(number)).unwrap();
            assert_eq!(appended, Appended { sequence, appended: false });
        }
        assert_eq!(all_events(journal, 10).len(), 3);
    };
    again(&journal);
    drop(journal);
    let journal = place.open();
    again(&journal);
    assert_eq!(journal.append(&event(9)).unwrap(), Appended { sequence: 4, appended: true });
}

#[test]
fn the_same_id_with_other_content_is_a_collision_and_the_first_stands() {
    let place = Place::new();
    let journal = place.open();
    for number in 0..10 {
        journal.append(&event(number)).unwrap();
    }
    let before = all_events(&journal, 10);
    for number in 0..10 {
        collides(&journal, &forged(&event(number)));
        collides(&journal, &LifecycleEvent { id: event(number).id, ..event(number + 1) });
    }
    drop(journal);
    let journal = place.open();
    collides(&journal, &forged(&event(4)));
    assert_eq!(all_events(&journal, 10), before);
    let next = journal.append(&event(10)).unwrap();
    assert_eq!(next, Appended { sequence: 11, appended: true }, "what was refused takes no number");
}

#[test]
fn a_collision_among_threads_has_one_winner_and_no_victim() {
    const THREADS: u64 = 8;
    let place = Place::new();
    let journal = place.open();
    for round in 0..20_u64 {
        let barrier = Barrier::new(usize::try_from(THREADS).unwrap());
        let contested = event(round * 100);
        let outcomes: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (journal, barrier, contested) = (journal.clone(), &barrier, &contested);
                    scope.spawn(move || {
                        let own = event(round * 100 + 1 + thread);
                        let mine = LifecycleEvent {
                            created_at: at(-1 - i64::try_from(thread).unwrap()),
                            ..contested.clone()
                        };
                        barrier.wait();
                        // A neighbour of the same batch that has nothing to do with it.
                        let alone = journal.append(&own);
                        (mine.clone(), journal.append(&mine), alone)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut won = Vec::new();
        for (mine, appended, alone) in outcomes {
            assert!(alone.unwrap().appended);
            match appended {
                Ok(appended) => won.push((appended, mine)),
                Err(error) => assert!(matches!(error, JournalError::Collision), "{error}"),
            }
        }
        assert_eq!(won.len(), 1, "{won:?}");
        let (appended, winner) = won.remove(0);
        assert!(appended.appended);
        let page = journal.events_after(appended.sequence - 1, 1, &EventFilter::all()).unwrap();
        assert_eq!(page.events, [(appended.sequence, winner)]);
    }
    let events = all_events(&journal, 7);
    assert_eq!(events.len() as u64, 20 * (THREADS + 1));
    assert_eq!(events.last().unwrap().0, events.len() as u64, "no gaps");
}

#[test]
fn threads_that_publish_the_same_event_all_learn_the_same_number() {
    let place = Place::new();
    let journal = place.open();
    for number in 0..20 {
        let barrier = Barrier::new(6);
        let appended: Vec<Appended> = thread::scope(|scope| {
            let publish = || {
                barrier.wait();
                journal.append(&event(number)).unwrap()
            };
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(publish)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(appended.iter().filter(|appended| appended.appended).count(), 1);
        let sequences: BTreeSet<_> = appended.iter().map(|appended| appended.sequence).collect();
        assert_eq!(sequences, BTreeSet::from([number + 1]));
    }
}

#[test]
fn what_the_matrix_refuses_is_refused_and_takes_no_number() {
    let place = Place::new();
    let journal = place.open();
    let refused = journal.append(&LifecycleEvent { reason: Some(Reason::OutputLimit), ..event(0) });
    assert!(matches!(refused, Err(JournalError::Event(MatrixError::Combination))), "{refused:?}");
    let refused = journal.append(&LifecycleEvent { finished_at: None, ..event(2) });
    assert!(matches!(refused, Err(JournalError::Event(MatrixError::Missing(_)))), "{refused:?}");
    let long = Some("x".repeat(513));
    let refused = journal.append(&LifecycleEvent { diagnostic: long, ..event(4) });
    assert!(matches!(refused, Err(JournalError::Invalid { .. })), "{refused:?}");
    assert!(refused.unwrap_err().is_final());
    // The longest that there may be, in characters that JSON writes longest.
    let longest = Some("\u{1}".repeat(512));
    assert_eq!(journal.append(&LifecycleEvent { diagnostic: longest, ..event(4) }).unwrap().sequence, 1);
}

#[test]
fn a_filter_admits_what_it_names_and_pages_of_it_join() {
    let place = Place::new();
    let journal = place.open();
    for number in 1..=60 {
        journal.append(&event(number)).unwrap();
    }
    let check = |filter: &EventFilter, admits: &dyn Fn(&LifecycleEvent) -> bool| {
        let expected: Vec<_> =
            (1..=60).map(|number| (number, event(number))).filter(|(_, event)| admits(event)).collect();
        for limit in [1, 2, 7, 1000] {
            let (mut found, mut after) = (Vec::new(), 0);
            loop {
                let page = journal.events_after(after, limit, filter).unwrap();
                assert!(page.events.len() <= limit);
                assert_eq!(page.bounds, EventBounds { retained_from: 1, last: 60 });
                after = page.events.last().map_or(after, |(sequence, _)| *sequence);
                found.extend(page.events);
                if !page.more {
                    break;
                }
            }
            assert_eq!(found, expected, "{filter:?} by {limit}");
        }
    };
    check(&EventFilter::all(), &|_| true);
    for number in 0..4 {
        let owner = owner(number);
        check(&EventFilter::of_owner(owner), &|event| event.identity.owner == owner);
    }
    for number in 0..8 {
        let handle = handle(number);
        let of_handle = |event: &LifecycleEvent| event.identity.handle == handle;
        check(&EventFilter::of_process(handle), &of_handle);
        for number in 0..4 {
            let owner = owner(number);
            let both = |event: &LifecycleEvent| of_handle(event) && event.identity.owner == owner;
            check(&EventFilter::of_process(handle).and_owner(owner), &both);
        }
    }
}

#[test]
fn a_page_has_a_bound_and_reading_beyond_the_end_finds_nothing() {
    let place = Place::new();
    let journal = place.open();
    thread::scope(|scope| {
        for part in 0..8 {
            let journal = &journal;
            scope.spawn(move || {
                for number in part * 140..(part + 1) * 140 {
                    journal.append(&event(number)).unwrap();
                }
            });
        }
    });
    let page = |after, limit| journal.events_after(after, limit, &EventFilter::all()).unwrap();
    assert_eq!(page(0, usize::MAX).events.len(), procyard_journal::PAGE_MAX);
    assert_eq!(page(0, 0).events.len(), 1);
    assert!(page(1119, 10).events.len() == 1 && !page(1119, 10).more);
    for after in [1120, 1121, u64::MAX] {
        assert!(page(after, 10).events.is_empty() && !page(after, 10).more);
    }
}

#[test]
fn a_closed_journal_says_so_to_every_clone() {
    let place = Place::new();
    let journal = place.open();
    let clone = journal.clone();
    journal.append(&event(1)).unwrap();
    clone.close();
    clone.close();
    assert!(matches!(journal.append(&event(2)), Err(JournalError::Closed)));
    assert!(matches!(journal.event_bounds(), Err(JournalError::Closed)));
    assert_eq!(all_events(&place.open(), 10), [(1, event(1))]);
}

#[test]
fn two_journals_on_one_file_number_as_one() {
    let place = Place::new();
    let (one, other) = (place.open(), place.open());
    for number in 0..20 {
        let journal = if number % 3 == 0 { &one } else { &other };
        assert_eq!(journal.append(&event(number)).unwrap().sequence, number + 1);
    }
    collides(&one, &forged(&event(1)));
    assert_eq!(all_events(&one, 3), all_events(&other, 5));
}

#[test]
fn readers_and_writers_go_on_beside_a_shell_that_reads_and_wait_for_one_that_writes() {
    let place = Place::new();
    let journal = place.open();
    journal.append(&event(0)).unwrap();
    let shell = rusqlite::Connection::open(place.file()).unwrap();
    shell.execute_batch("BEGIN; SELECT * FROM event").unwrap();
    assert_eq!(journal.append(&event(1)).unwrap().sequence, 2);
    shell.execute_batch("COMMIT; BEGIN IMMEDIATE").unwrap();
    assert_eq!(all_events(&journal, 10).len(), 2, "a reader waits for nobody");
    let refused: Vec<_> = thread::scope(|scope| {
        let append = |number| {
            let journal = &journal;
            scope.spawn(move || journal.append(&event(number)))
        };
        let threads: Vec<_> = (2..10).map(append).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for refused in refused {
        assert!(matches!(refused, Err(JournalError::Busy)), "{refused:?}");
    }
    shell.execute_batch("COMMIT").unwrap();
    assert_eq!(journal.append(&event(2)).unwrap(), Appended { sequence: 3, appended: true });
}
