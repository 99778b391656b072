//! The two ways to use a journal: an outbox that is followed, and an inbox that is worked off.
//!
//! `cargo run -p procyard-journal --example outbox`. One thread publishes and loses some of the answers, as a crash
//! would; another follows from where it was, page by page; then an owner takes its notices.

use std::error::Error;
use std::thread;

use procyard_core::{
    EventId, EventKind, ExecutionId, Handle, Identity, LifecycleEvent, LoopId, NotificationId, Origin, Owner,
    Reason, SessionId, State, Timestamp,
};
use procyard_journal::{EventFilter, Journal, JournalError, NotificationKind, NotificationRecord};

const PROCESSES: u8 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let journal = Journal::open(&place.path().join("journal.sqlite3"))?;
    let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };

    let publisher = {
        let journal = journal.clone();
        thread::spawn(move || (1..=PROCESSES).try_for_each(|of| publish(&journal, owner, of)))
    };
    // A reader keeps one number: the last that it has dealt with.
    let mut seen = 0;
    while seen < u64::from(PROCESSES) {
        let page = journal.events_after(seen, 8, &EventFilter::of_owner(owner))?;
        if page.bounds.retained_from > seen + 1 {
            println!("events up to {} were pruned before they were read", page.bounds.retained_from - 1);
        }
        for (sequence, event) in page.events {
            println!("{sequence:>3} {:?} {:?} {}", event.identity.handle, event.kind, event.state);
            seen = sequence;
        }
        thread::yield_now();
    }
    publisher.join().map_err(|_| "the publisher panicked")??;

    // Delivered first, acknowledged when the owner says that it has them: a crash in between delivers again.
    let pending = journal.pending(owner, 0, 100)?;
    let ids: Vec<_> = pending.entries.iter().map(|entry| entry.record.id).collect();
    journal.delivered(owner, &ids)?;
    journal.acknowledge(owner, &ids)?;
    println!("{} notices told; pending: {}", ids.len(), journal.has_pending(owner)?);
    journal.close();
    Ok(())
}

/// Publishes the end of a process, and does it again, as whoever did not get the answer does.
fn publish(journal: &Journal, owner: Owner, of: u8) -> Result<(), JournalError> {
    let handle = Handle::from_bytes([of; 16]);
    let at = |micros| Timestamp::from_unix_micros(i64::from(of) * 1_000_000 + micros);
    let event = LifecycleEvent {
        // Minted and saved before the first try, the same in every other.
        id: EventId::from_random([of; 16]),
        identity: Identity {
            handle,
            owner,
            origin: Origin { execution: ExecutionId::from_random([of; 16]) },
        },
        kind: EventKind::Completed,
        state: State::Exited,
        reason: Some(Reason::Exited),
        created_at: at(0),
        started_at: Some(at(1)),
        finished_at: Some(at(2)),
        at: None,
        exit_code: Some(0),
        signal: None,
        diagnostic: None,
    };
    let first = journal.append(&event)?;
    let again = journal.append(&event)?;
    assert_eq!((first.sequence, again.appended), (again.sequence, false));
    let notice = NotificationRecord {
        id: NotificationId::from_random([of; 16]),
        handle,
        kind: NotificationKind::Completed,
        state: event.state,
        reason: event.reason,
        exit_code: event.exit_code,
        started_at: event.started_at,
        finished_at: event.finished_at,
    };
    journal.put(owner, &notice)?;
    Ok(())
}
