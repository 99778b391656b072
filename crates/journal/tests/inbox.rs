//! The inbox: order, states, owners, transfer, retention.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use common::{Place, all_events, at, event, handle, notification, notification_id, owner};
use procyard_core::{Owner, Reason, State, Timestamp};
use procyard_journal::{
    Delivery, EventBounds, EventFilter, InboxCounts, InboxPage, Journal, JournalError, Marked,
    NotificationRecord, Pruned, Put,
};

fn numbers(page: &InboxPage) -> Vec<u64> {
    page.entries.iter().map(|entry| entry.number).collect()
}

fn pending(journal: &Journal, owner: Owner) -> Vec<u64> {
    numbers(&journal.pending(owner, 0, 1000).unwrap())
}

fn unacknowledged(journal: &Journal, owner: Owner) -> Vec<u64> {
    numbers(&journal.unacknowledged(owner, 0, 1000).unwrap())
}

/// A journal with notifications 1 to 6, the odd ones of owner 1, the even ones of owner 2.
fn six(place: &Place) -> Journal {
    let journal = place.open();
    for number in 1..=6 {
        let put = journal.put(owner(2 - number % 2), &notification(number)).unwrap();
        assert_eq!(put, Put { number, put: true });
    }
    journal
}

#[test]
fn each_owner_has_its_own_in_the_order_in_which_they_came() {
    let place = Place::new();
    let journal = six(&place);
    let page = journal.pending(owner(1), 0, 2).unwrap();
    assert!(page.more);
    assert_eq!(page.entries[0].record, notification(1));
    assert_eq!(page.entries[1].record, notification(3));
    assert!(page.entries.iter().all(|entry| entry.delivery == Delivery::Pending));
    let rest = journal.pending(owner(1), 3, 2).unwrap();
    assert!(!rest.more);
    assert_eq!(rest.entries[0].record, notification(5));
    assert_eq!(pending(&journal, owner(2)), [2, 4, 6]);
    assert!(journal.has_pending(owner(2)).unwrap());
    assert!(!journal.has_pending(owner(3)).unwrap());
    assert!(pending(&journal, owner(3)).is_empty());
}

#[test]
fn a_notification_only_goes_forward() {
    let place = Place::new();
    let journal = six(&place);
    let one = [notification_id(1)];
    let changed = |changed| Marked { known: 1, changed };
    assert_eq!(journal.delivered(owner(1), &one).unwrap(), changed(1));
    assert_eq!(journal.delivered(owner(1), &one).unwrap(), changed(0));
    assert_eq!(pending(&journal, owner(1)), [3, 5]);
    assert_eq!(unacknowledged(&journal, owner(1)), [1, 3, 5]);
    assert_eq!(journal.acknowledge(owner(1), &one).unwrap(), changed(1));
    assert_eq!(journal.acknowledge(owner(1), &one).unwrap(), changed(0));
    assert_eq!(journal.delivered(owner(1), &one).unwrap(), changed(0), "never backward");
    assert_eq!(unacknowledged(&journal, owner(1)), [3, 5]);
    // Acknowledged without a delivery, and again put by a retry: it does not come back.
    assert_eq!(journal.acknowledge(owner(1), &[notification_id(3)]).unwrap(), changed(1));
    let again = journal.put(owner(1), &notification(3)).unwrap();
    assert_eq!(again, Put { number: 3, put: false });
    drop(journal);
    let journal = place.open();
    assert_eq!(pending(&journal, owner(1)), [5]);
    let counts = InboxCounts { pending: 1, delivered: 0, acknowledged: 2 };
    assert_eq!(journal.counts(owner(1)).unwrap(), counts);
    assert_eq!(journal.counts(owner(2)).unwrap(), InboxCounts { pending: 3, ..InboxCounts::default() });
    assert_eq!(journal.counts(owner(3)).unwrap(), InboxCounts::default());
}

#[test]
fn a_mark_of_what_another_owner_has_is_like_one_of_what_nobody_has() {
    let place = Place::new();
    let journal = six(&place);
    let (foreign, missing) = ([notification_id(2)], [notification_id(99)]);
    for ids in [foreign, missing] {
        assert_eq!(journal.delivered(owner(1), &ids).unwrap(), Marked::default());
        assert_eq!(journal.acknowledge(owner(1), &ids).unwrap(), Marked::default());
    }
    assert_eq!(pending(&journal, owner(2)), [2, 4, 6]);
    let mixed: Vec<_> = [1, 2, 3, 3, 99].into_iter().map(notification_id).collect();
    assert_eq!(journal.delivered(owner(1), &mixed).unwrap(), Marked { known: 2, changed: 2 });
    assert_eq!(journal.delivered(owner(1), &[]).unwrap(), Marked::default());
    let many = vec![notification_id(1); procyard_journal::MARK_MAX + 1];
    assert!(matches!(journal.delivered(owner(1), &many), Err(JournalError::Invalid { .. })));
}

#[test]
fn the_same_id_with_other_content_or_for_another_owner_is_a_collision() {
    let place = Place::new();
    let journal = six(&place);
    let collides = |owner, record: &NotificationRecord| {
        let refused = journal.put(owner, record);
        assert!(matches!(refused, Err(JournalError::Collision)), "{refused:?}");
    };
    collides(owner(1), &NotificationRecord { exit_code: Some(9), ..notification(1) });
    collides(owner(2), &notification(1));
    let next = journal.put(owner(1), &notification(8)).unwrap();
    assert_eq!(next, Put { number: 7, put: true }, "what was refused takes no number");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let place = Place::new();
    let journal = place.open();
    let (completed, stalled) = (notification(1), notification(3));
    for record in [
        NotificationRecord { finished_at: None, ..completed.clone() },
        NotificationRecord { reason: Some(Reason::Killed), ..completed.clone() },
        NotificationRecord { reason: None, ..completed.clone() },
        NotificationRecord { exit_code: None, ..completed.clone() },
        NotificationRecord { state: State::Killed, reason: Some(Reason::Killed), ..completed.clone() },
        NotificationRecord { state: State::Running, ..completed.clone() },
        NotificationRecord { state: State::Exited, ..stalled.clone() },
        NotificationRecord { reason: Some(Reason::Exited), ..stalled.clone() },
        NotificationRecord { exit_code: Some(0), ..stalled.clone() },
        NotificationRecord { finished_at: Some(at(1)), ..stalled.clone() },
    ] {
        let refused = journal.put(owner(1), &record);
        assert!(matches!(refused, Err(JournalError::Invalid { .. })), "{refused:?}");
    }
    let (state, reason) = (State::LostOnRestore, Some(Reason::LostOnRestore));
    journal.put(owner(1), &NotificationRecord { state, reason, exit_code: None, ..completed }).unwrap();
    journal.put(owner(1), &stalled).unwrap();
    assert_eq!(pending(&journal, owner(1)), [1, 2]);
}

#[test]
fn what_is_pending_follows_a_process_to_its_new_owner_and_keeps_its_place() {
    let place = Place::new();
    let journal = place.open();
    // Process 1 has 1, 8 and 15, process 2 has 2.
    for number in [1, 2, 8, 15] {
        journal.put(owner(1), &notification(number)).unwrap();
    }
    journal.put(owner(2), &notification(4)).unwrap();
    journal.delivered(owner(1), &[notification_id(8)]).unwrap();
    assert_eq!(journal.transfer(handle(1), owner(1), owner(2)).unwrap(), 2);
    assert_eq!(journal.transfer(handle(1), owner(1), owner(2)).unwrap(), 0);
    assert_eq!(pending(&journal, owner(1)), [2]);
    assert_eq!(unacknowledged(&journal, owner(1)), [2, 3], "what was told stays with who was told");
    assert_eq!(pending(&journal, owner(2)), [1, 4, 5]);
    assert_eq!(journal.delivered(owner(1), &[notification_id(1)]).unwrap(), Marked::default());
    // A retry of before and one of since; a third owner never had it.
    for of in [1, 2] {
        assert_eq!(journal.put(owner(of), &notification(1)).unwrap(), Put { number: 1, put: false });
    }
    assert!(matches!(journal.put(owner(3), &notification(1)), Err(JournalError::Collision)));
    drop(journal);
    let journal = place.open();
    assert_eq!(pending(&journal, owner(2)), [1, 4, 5]);
    journal.verify().unwrap();
}

#[test]
fn what_is_old_goes_a_bounded_number_of_rows_at_a_time() {
    let place = Place::new();
    let journal = place.open();
    for number in 1..=10 {
        journal.append(&event(number)).unwrap();
        journal.put(owner(1), &notification(number)).unwrap();
    }
    let acknowledged: Vec<_> = (1..=4).map(notification_id).collect();
    journal.acknowledge(owner(1), &acknowledged).unwrap();

    // Rows 1 to 6 are older than this.
    let old = at(70);
    let pruned = |events, notifications, more| Pruned { events, notifications, more };
    assert_eq!(journal.prune(old, true, 4).unwrap(), pruned(4, 0, true));
    assert_eq!(journal.event_bounds().unwrap(), EventBounds { retained_from: 5, last: 10 });
    assert_eq!(journal.prune(old, true, 4).unwrap(), pruned(2, 2, true));
    assert_eq!(journal.prune(old, true, 100).unwrap(), pruned(0, 2, false));
    assert_eq!(journal.prune(old, true, 100).unwrap(), pruned(0, 0, false));
    assert_eq!(pending(&journal, owner(1)), [5, 6, 7, 8, 9, 10]);
    assert_eq!(journal.prune(old, false, 100).unwrap(), pruned(0, 2, false));
    assert_eq!(pending(&journal, owner(1)), [7, 8, 9, 10]);

    // A reader that is behind sees what it has missed.
    let page = journal.events_after(2, 100, &EventFilter::all()).unwrap();
    assert_eq!(page.bounds.retained_from, 7);
    assert_eq!(page.events.first().unwrap(), &(7, event(7)));
    journal.verify().unwrap();
}

#[test]
fn a_number_is_never_used_again() {
    let place = Place::new();
    let journal = place.open();
    let everything = Timestamp::from_unix_micros(i64::MAX);
    for round in 0..3 {
        for number in round * 10 + 1..=round * 10 + 10 {
            assert_eq!(journal.append(&event(number)).unwrap().sequence, number);
            assert_eq!(journal.put(owner(1), &notification(number)).unwrap().number, number);
        }
        assert_eq!(journal.prune(everything, false, 1000).unwrap().events, 10);
        assert_eq!(all_events(&journal, 10), []);
        let last = round * 10 + 10;
        assert_eq!(journal.event_bounds().unwrap(), EventBounds { retained_from: last + 1, last });
    }
    drop(journal);
    assert_eq!(place.open().append(&event(1)).unwrap().sequence, 31);
}

#[test]
fn an_event_that_is_not_old_keeps_those_behind_it() {
    let place = Place::new();
    let journal = place.open();
    for number in [50, 1, 2] {
        journal.append(&event(number)).unwrap();
    }
    assert_eq!(journal.prune(at(100), false, 10).unwrap(), Pruned::default());
    assert_eq!(all_events(&journal, 10).len(), 3);
}

#[test]
fn whoever_watches_is_told_of_what_is_put_in_and_moved() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let place = Place::new();
    let journal = place.open();
    let told = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&told);
    let watched = journal.clone();
    assert!(journal.watch_inbox(move || {
        counts.fetch_add(1, Ordering::SeqCst);
    }));
    assert!(!watched.watch_inbox(|| ()), "one watcher for all clones");
    watched.put(owner(1), &notification(1)).unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 1);
    journal.delivered(owner(1), &[notification_id(1)]).unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 1, "that shows nobody anything");
    journal.transfer(handle(1), owner(1), owner(2)).unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 2);
}
