//! The outbox: events in their order, numbered from 1 without gaps.
//!
//! Not for threads or files: everything here works within a transaction of its caller.

use procyard_core::{Handle, LifecycleEvent, Owner};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};

use crate::JournalError;
use crate::row::{OwnerColumns, agree, checksum, from_column, handle_column, seal, to_column, unseal};

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Appended {
    /// The number that the event has, from 1. Numbers ascend without gaps and are never used again.
    pub sequence: u64,
    /// Whether it is new; `false` when the journal had it already.
    pub appended: bool,
}

/// Which events a reader wants. Who may see them is for the caller to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventFilter {
    owner: Option<Owner>,
    handle: Option<Handle>,
}

impl EventFilter {
    /// Every event of the session.
    pub const fn all() -> Self {
        Self { owner: None, handle: None }
    }

    /// Those that happened while this owner had the process: an event keeps the owner of its time.
    pub const fn of_owner(owner: Owner) -> Self {
        Self { owner: Some(owner), handle: None }
    }

    /// Those of one process, whoever owned it.
    pub const fn of_process(handle: Handle) -> Self {
        Self { owner: None, handle: Some(handle) }
    }

    /// Those that also happened while this owner had the process.
    #[must_use]
    pub const fn and_owner(self, owner: Owner) -> Self {
        Self { owner: Some(owner), ..self }
    }
}

/// What the journal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventBounds {
    /// The lowest number that can still be read; earlier ones were pruned. One more than `last` where there is none.
    pub retained_from: u64,
    /// The highest number given so far; 0 before the first.
    pub last: u64,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The events with their numbers, ascending. Reading goes on after the last of them.
    pub events: Vec<(u64, LifecycleEvent)>,
    /// Whether the filter admits more behind the last of them.
    pub more: bool,
    /// What the journal held when the page was read: a reader that asked for events after `n` has missed some when
    /// `retained_from` is greater than `n + 1`.
    pub bounds: EventBounds,
}

/// An event made ready by whoever appends it, so that the one thread that writes does as little as possible.
pub(crate) struct EventDraft {
    event: LifecycleEvent,
    id: String,
    owner: OwnerColumns,
    handle: String,
    at: i64,
    body: String,
}

impl EventDraft {
    pub(crate) fn of(event: &LifecycleEvent) -> Result<Self, JournalError> {
        event.check()?;
        let fits = |diagnostic: &String| diagnostic.len() <= procyard_core::DIAGNOSTIC_MAX;
        if !event.diagnostic.as_ref().is_none_or(fits) {
            return Err(JournalError::Invalid { field: "the diagnostic", problem: "is too long" });
        }
        Ok(Self {
            event: event.clone(),
            id: event.id.to_string(),
            owner: event.identity.owner.into(),
            handle: handle_column(&event.identity.handle),
            at: event.happened_at().as_unix_micros(),
            body: seal(event)?,
        })
    }
}

pub(crate) fn append(database: &Connection, draft: &EventDraft) -> Result<Appended, JournalError> {
    let known = database
        .prepare_cached("SELECT sequence, body, checksum FROM event WHERE id = ?1")?
        .query_row([&draft.id], |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?)))
        .optional()?;
    if let Some((sequence, body, sum)) = known {
        let known: LifecycleEvent = unseal(sequence, &body, sum)?;
        if known != draft.event {
            return Err(JournalError::Collision);
        }
        return Ok(Appended { sequence: from_column(sequence)?, appended: false });
    }
    let sequence = to_column(bounds(database)?.last) + 1;
    database
        .prepare_cached(
            "INSERT INTO event (sequence, id, session, loop, handle, at, body, checksum) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            sequence,
            draft.id,
            draft.owner.session,
            draft.owner.loop_id,
            draft.handle,
            draft.at,
            draft.body,
            checksum(sequence, &draft.body),
        ])?;
    Ok(Appended { sequence: from_column(sequence)?, appended: true })
}

pub(crate) fn bounds(database: &Connection) -> Result<EventBounds, JournalError> {
    let pruned: i64 =
        database.prepare_cached("SELECT events_pruned FROM position")?.query_row([], |row| row.get(0))?;
    // Two statements: each alone is one step to an end of the table, both together would walk it.
    let first: Option<i64> =
        database.prepare_cached("SELECT min(sequence) FROM event")?.query_row([], |row| row.get(0))?;
    let last: Option<i64> =
        database.prepare_cached("SELECT max(sequence) FROM event")?.query_row([], |row| row.get(0))?;
    if first.is_some_and(|first| first != pruned + 1) {
        return Err(JournalError::corrupt("its oldest events are missing"));
    }
    Ok(EventBounds { retained_from: from_column(pruned)? + 1, last: from_column(last.unwrap_or(pruned))? })
}

pub(crate) fn page_after(
    database: &Connection,
    after: u64,
    limit: usize,
    filter: &EventFilter,
) -> Result<EventPage, JournalError> {
    let bounds = bounds(database)?;
    let after = to_column(after);
    // One more than asked for tells whether there is more.
    let limit_column = to_column(limit as u64 + 1);
    let owner = filter.owner.map(OwnerColumns::from);
    let handle = filter.handle.as_ref().map(handle_column);
    let (wanted, parameters): (&str, Vec<&dyn ToSql>) = match (&owner, &handle) {
        (None, None) => ("", vec![]),
        (Some(owner), None) => ("AND session = ?3 AND loop = ?4", vec![&owner.session, &owner.loop_id]),
        (None, Some(handle)) => ("AND handle = ?3", vec![handle]),
        (Some(owner), Some(handle)) => (
            // A process has few events and an owner may have many: the sign keeps the engine to the former's index.
            "AND handle = ?3 AND +session = ?4 AND +loop = ?5",
            vec![handle, &owner.session, &owner.loop_id],
        ),
    };
    let text = format!(
        "SELECT sequence, id, session, loop, handle, at, body, checksum FROM event \
         WHERE sequence > ?1 {wanted} ORDER BY sequence LIMIT ?2"
    );
    let parameters: Vec<&dyn ToSql> =
        [&after as &dyn ToSql, &limit_column].into_iter().chain(parameters).collect();
    let mut statement = database.prepare_cached(&text)?;
    let mut rows = statement.query(parameters.as_slice())?;
    let mut events = Vec::new();
    let mut more = false;
    let mut expected = from_column(after)?.max(bounds.retained_from - 1);
    while let Some(row) = rows.next()? {
        if events.len() == limit {
            more = true;
            break;
        }
        let (sequence, event) = event_of(row)?;
        expected += 1;
        if wanted.is_empty() && sequence != expected {
            return Err(JournalError::corrupt(format!("event {expected} is missing")));
        }
        events.push((sequence, event));
    }
    Ok(EventPage { events, more, bounds })
}

fn event_of(row: &Row<'_>) -> Result<(u64, LifecycleEvent), JournalError> {
    let sequence: i64 = row.get("sequence")?;
    let event: LifecycleEvent = unseal(sequence, &row.get::<_, String>("body")?, row.get("checksum")?)?;
    let owner = OwnerColumns { session: row.get("session")?, loop_id: row.get("loop")? };
    agree(sequence, "id", row.get::<_, String>("id")? == event.id.to_string())?;
    agree(sequence, "owner", owner == event.identity.owner.into())?;
    agree(sequence, "handle", row.get::<_, String>("handle")? == handle_column(&event.identity.handle))?;
    agree(sequence, "time", row.get::<_, i64>("at")? == event.happened_at().as_unix_micros())?;
    Ok((from_column(sequence)?, event))
}
