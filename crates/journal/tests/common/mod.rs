//! Events and notifications that tell themselves apart by a number, for every test of this crate.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::PathBuf;

use procyard_core::{
    EventId, EventKind, ExecutionId, Handle, Identity, LifecycleEvent, LoopId, NotificationId, Origin, Owner,
    Reason, SIGKILL, SessionId, State, Timestamp,
};
use procyard_journal::{Journal, NotificationKind, NotificationRecord};

pub(crate) const FILE: &str = "journal.sqlite3";

/// A place for one journal.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join(FILE)
    }

    pub(crate) fn open(&self) -> Journal {
        Journal::open(&self.file()).unwrap()
    }
}

/// Sixteen bytes for each number and kind.
pub(crate) fn bytes(kind: u8, number: u64) -> [u8; 16] {
    let mut bytes = [kind; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_unix_micros(1_700_000_000_000_000 + micros)
}

pub(crate) fn owner(number: u64) -> Owner {
    Owner { session: SessionId::from_random(bytes(1, 0)), loop_id: LoopId::from_random(bytes(2, number)) }
}

pub(crate) fn handle(number: u64) -> Handle {
    Handle::from_bytes(bytes(3, number))
}

pub(crate) fn event_id(number: u64) -> EventId {
    EventId::from_random(bytes(4, number))
}

pub(crate) fn notification_id(number: u64) -> NotificationId {
    NotificationId::from_random(bytes(5, number))
}

/// Event `number`: one of five kinds, of one of seven processes, each of one of three owners.
pub(crate) fn event(number: u64) -> LifecycleEvent {
    let process = number % 7;
    let of = i64::try_from(number).unwrap() * 10;
    let identity = Identity {
        handle: handle(process),
        owner: owner(process % 3),
        origin: Origin { execution: ExecutionId::from_random(bytes(6, process)) },
    };
    let started = LifecycleEvent {
        id: event_id(number),
        identity,
        kind: EventKind::Started,
        state: State::Running,
        reason: None,
        created_at: at(of),
        started_at: Some(at(of + 1)),
        finished_at: None,
        at: None,
        exit_code: None,
        signal: None,
        diagnostic: None,
    };
    let ended = |state, reason| LifecycleEvent {
        kind: EventKind::Completed,
        state,
        reason: Some(reason),
        finished_at: Some(at(of + 2)),
        ..started.clone()
    };
    match number % 5 {
        0 => started,
        1 => LifecycleEvent { kind: EventKind::StopRequested, reason: Some(Reason::Terminated), ..started },
        2 => LifecycleEvent { exit_code: Some(3), ..ended(State::Exited, Reason::Exited) },
        3 => LifecycleEvent { signal: Some(SIGKILL), ..ended(State::Killed, Reason::RunnerShutdown) },
        _ => LifecycleEvent {
            kind: EventKind::Lost,
            started_at: None,
            diagnostic: Some("its \"supervisor\" ended\nwhile it ran: ☠".to_owned()),
            ..ended(State::LostOnRestore, Reason::LostOnRestore)
        },
    }
}

/// Notification `number`: a completion or, one in four, a stall.
pub(crate) fn notification(number: u64) -> NotificationRecord {
    let of = i64::try_from(number).unwrap() * 10;
    let completed = NotificationRecord {
        id: notification_id(number),
        handle: handle(number % 7),
        kind: NotificationKind::Completed,
        state: State::Exited,
        reason: Some(Reason::Exited),
        exit_code: Some(0),
        started_at: Some(at(of + 1)),
        finished_at: Some(at(of + 2)),
    };
    if number % 4 == 3 {
        let kind = NotificationKind::Stalled { quiet_ms: 5000, total_bytes: u64::MAX };
        let state = State::Running;
        NotificationRecord { kind, state, reason: None, exit_code: None, finished_at: None, ..completed }
    } else {
        completed
    }
}

/// Every event of a journal, in order, whatever the size of the pages.
#[track_caller]
pub(crate) fn all_events(journal: &Journal, page: usize) -> Vec<(u64, LifecycleEvent)> {
    let mut events: Vec<(u64, LifecycleEvent)> = Vec::new();
    loop {
        let after = events.last().map_or(0, |(sequence, _)| *sequence);
        let next = journal.events_after(after, page, &procyard_journal::EventFilter::all()).unwrap();
        assert!(next.events.len() <= page);
        events.extend(next.events);
        if !next.more {
            return events;
        }
    }
}
