//! The inbox: notifications for each owner, in the order of completion, from pending to acknowledged.
//!
//! Not for deciding who is to be told what: whoever puts one in has decided that.

use procyard_core::{Handle, NotificationId, Owner};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

use crate::row::{OwnerColumns, agree, checksum, from_column, handle_column, seal, to_column, unseal};
use crate::{Delivery, JournalError, NotificationRecord};

/// What became of a notification that was put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Put {
    /// Its place in the order of all notifications, from 1, ascending, never used again.
    pub number: u64,
    /// Whether it is new; `false` when the inbox had it already, however far it has come since.
    pub put: bool,
}

/// A notification in the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxEntry {
    /// Its place in the order.
    pub number: u64,
    /// How far it has come.
    pub delivery: Delivery,
    /// What it says.
    pub record: NotificationRecord,
}

/// A page of an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxPage {
    /// The notifications in the order of completion. Reading goes on after the last number.
    pub entries: Vec<InboxEntry>,
    /// Whether there are more behind the last of them.
    pub more: bool,
}

/// What became of notifications that were marked. One that is not there and one of another owner are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Marked {
    /// How many of the ids this owner has, repeated ones once.
    pub known: usize,
    /// How many of those were moved forward by this call.
    pub changed: usize,
}

/// How many notifications of an owner have come how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct InboxCounts {
    /// Nobody was told.
    pub pending: u64,
    /// Handed to the owner's transport.
    pub delivered: u64,
    /// The owner has it.
    pub acknowledged: u64,
}

/// The body of a row: for whom it was put in, and what it says. The owner's columns follow transfers, this does not.
#[derive(Serialize, Deserialize)]
struct Body {
    owner: Owner,
    record: NotificationRecord,
}

/// A notification made ready by whoever puts it in.
pub(crate) struct NotificationDraft {
    body: Body,
    id: String,
    owner: OwnerColumns,
    handle: String,
    at: i64,
    text: String,
}

impl NotificationDraft {
    pub(crate) fn of(owner: Owner, record: &NotificationRecord) -> Result<Self, JournalError> {
        record.check()?;
        let body = Body { owner, record: record.clone() };
        Ok(Self {
            id: record.id.to_string(),
            owner: owner.into(),
            handle: handle_column(&record.handle),
            at: record.at().as_unix_micros(),
            text: seal(&body)?,
            body,
        })
    }
}

pub(crate) fn put(database: &Connection, draft: &NotificationDraft) -> Result<Put, JournalError> {
    let known = database
        .prepare_cached("SELECT number, session, loop, body, checksum FROM notification WHERE id = ?1")?
        .query_row([&draft.id], |row| {
            let owner = OwnerColumns { session: row.get("session")?, loop_id: row.get("loop")? };
            Ok((row.get("number")?, owner, row.get::<_, String>("body")?, row.get("checksum")?))
        })
        .optional()?;
    if let Some((number, owner, body, sum)) = known {
        let known: Body = unseal(number, &body, sum)?;
        // A retry names the owner of its time, whoever has been given the process since.
        let same_owner = known.owner == draft.body.owner || owner == draft.owner;
        if !same_owner || known.record != draft.body.record {
            return Err(JournalError::Collision);
        }
        return Ok(Put { number: from_column(number)?, put: false });
    }
    let number: i64 = database
        .prepare_cached(
            "UPDATE position SET last_notification = last_notification + 1 RETURNING last_notification",
        )?
        .query_row([], |row| row.get(0))?;
    database
        .prepare_cached(
            "INSERT INTO notification (number, id, session, loop, handle, at, state, body, checksum) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?7, ?8)",
        )?
        .execute(params![
            number,
            draft.id,
            draft.owner.session,
            draft.owner.loop_id,
            draft.handle,
            draft.at,
            draft.text,
            checksum(number, &draft.text),
        ])?;
    Ok(Put { number: from_column(number)?, put: true })
}

/// Which notifications a reader wants. Each has an index of its own, in the order of the numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    Pending,
    NotAcknowledged,
}

impl Wanted {
    /// The condition as the index has it, by which the engine knows that it may use it.
    const fn condition(self) -> &'static str {
        match self {
            Wanted::Pending => "state = 'pending'",
            Wanted::NotAcknowledged => "state <> 'acknowledged'",
        }
    }
}

pub(crate) fn page_after(
    database: &Connection,
    owner: Owner,
    after: u64,
    limit: usize,
    wanted: Wanted,
) -> Result<InboxPage, JournalError> {
    let owner = OwnerColumns::from(owner);
    let text = format!(
        "SELECT number, id, handle, at, state, body, checksum FROM notification \
         WHERE session = ?1 AND loop = ?2 AND {} AND number > ?3 ORDER BY number LIMIT ?4",
        wanted.condition()
    );
    let mut statement = database.prepare_cached(&text)?;
    let mut rows = statement.query(params![
        owner.session,
        owner.loop_id,
        to_column(after),
        to_column(limit as u64 + 1)
    ])?;
    let (mut entries, mut more) = (Vec::new(), false);
    while let Some(row) = rows.next()? {
        if entries.len() == limit {
            more = true;
            break;
        }
        entries.push(entry_of(row)?);
    }
    Ok(InboxPage { entries, more })
}

pub(crate) fn entry_of(row: &Row<'_>) -> Result<InboxEntry, JournalError> {
    let number: i64 = row.get("number")?;
    let body: Body = unseal(number, &row.get::<_, String>("body")?, row.get("checksum")?)?;
    let record = body.record;
    agree(number, "id", row.get::<_, String>("id")? == record.id.to_string())?;
    agree(number, "handle", row.get::<_, String>("handle")? == handle_column(&record.handle))?;
    agree(number, "time", row.get::<_, i64>("at")? == record.at().as_unix_micros())?;
    let delivery = Delivery::from_column(&row.get::<_, String>("state")?)?;
    Ok(InboxEntry { number: from_column(number)?, delivery, record })
}

pub(crate) fn has_pending(database: &Connection, owner: Owner) -> Result<bool, JournalError> {
    let owner = OwnerColumns::from(owner);
    Ok(database
        .prepare_cached(
            "SELECT 1 FROM notification WHERE session = ?1 AND loop = ?2 AND state = 'pending' LIMIT 1",
        )?
        .exists(params![owner.session, owner.loop_id])?)
}

pub(crate) fn counts(database: &Connection, owner: Owner) -> Result<InboxCounts, JournalError> {
    let owner = OwnerColumns::from(owner);
    let mut statement = database.prepare_cached(
        "SELECT state, count(*) FROM notification WHERE session = ?1 AND loop = ?2 GROUP BY state",
    )?;
    let mut rows = statement.query(params![owner.session, owner.loop_id])?;
    let mut counts = InboxCounts::default();
    while let Some(row) = rows.next()? {
        let count = from_column(row.get(1)?)?;
        match Delivery::from_column(&row.get::<_, String>(0)?)? {
            Delivery::Pending => counts.pending = count,
            Delivery::Delivered => counts.delivered = count,
            Delivery::Acknowledged => counts.acknowledged = count,
        }
    }
    Ok(counts)
}

/// Moves notifications of this owner forward, never backward.
pub(crate) fn mark(
    database: &Connection,
    owner: Owner,
    ids: &[NotificationId],
    to: Delivery,
) -> Result<Marked, JournalError> {
    let owner = OwnerColumns::from(owner);
    let mut look = database
        .prepare_cached("SELECT state FROM notification WHERE id = ?1 AND session = ?2 AND loop = ?3")?;
    let mut advance = database.prepare_cached("UPDATE notification SET state = ?2 WHERE id = ?1")?;
    let mut marked = Marked::default();
    for id in ids {
        let id = id.to_string();
        let state: Option<String> =
            look.query_row(params![id, owner.session, owner.loop_id], |row| row.get(0)).optional()?;
        let Some(state) = state else { continue };
        marked.known += 1;
        if Delivery::from_column(&state)? < to {
            marked.changed += advance.execute(params![id, to.as_str()])?;
        }
    }
    Ok(marked)
}

/// Gives what is pending of one process to another owner, and says how many that were.
pub(crate) fn transfer(
    database: &Connection,
    handle: &Handle,
    from: Owner,
    to: Owner,
) -> Result<usize, JournalError> {
    let (from, to) = (OwnerColumns::from(from), OwnerColumns::from(to));
    Ok(database
        .prepare_cached(
            "UPDATE notification SET session = ?4, loop = ?5 \
             WHERE session = ?1 AND loop = ?2 AND state = 'pending' AND handle = ?3",
        )?
        .execute(params![from.session, from.loop_id, handle_column(handle), to.session, to.loop_id])?)
}
