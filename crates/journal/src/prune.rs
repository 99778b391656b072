//! Retention: what is old goes, a bounded number of rows at a time.
//!
//! Not for deciding when: the journal has no clock.

use procyard_core::Timestamp;
use rusqlite::{Connection, params};

use crate::row::to_column;
use crate::{Delivery, JournalError};

/// The most rows that one call of [`Journal::prune`](crate::Journal::prune) removes.
pub const PRUNE_MAX: usize = 10_000;

/// What a prune removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Pruned {
    /// Events, the oldest ones.
    pub events: usize,
    /// Notifications.
    pub notifications: usize,
    /// Whether the limit ended it, so that there may be more to remove.
    pub more: bool,
}

pub(crate) fn prune(
    database: &Connection,
    older_than: Timestamp,
    keep_unacknowledged: bool,
    max_rows: usize,
) -> Result<Pruned, JournalError> {
    let events = prune_events(database, older_than, max_rows)?;
    let mut notifications = 0;
    for state in Delivery::ALL {
        if state == Delivery::Acknowledged || !keep_unacknowledged {
            notifications +=
                prune_notifications(database, state, older_than, max_rows - events - notifications)?;
        }
    }
    Ok(Pruned { events, notifications, more: events + notifications == max_rows })
}

/// Removes the oldest events up to the first that is not old, so that those that stay have no gap.
fn prune_events(
    database: &Connection,
    older_than: Timestamp,
    max_rows: usize,
) -> Result<usize, JournalError> {
    let mut oldest = database.prepare_cached("SELECT sequence, at FROM event ORDER BY sequence LIMIT ?1")?;
    let mut rows = oldest.query([to_column(max_rows as u64)])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(1)? >= older_than.as_unix_micros() {
            break;
        }
        last = Some(row.get::<_, i64>(0)?);
    }
    drop(rows);
    let Some(last) = last else { return Ok(0) };
    database.prepare_cached("UPDATE position SET events_pruned = ?1")?.execute([last])?;
    Ok(database.prepare_cached("DELETE FROM event WHERE sequence <= ?1")?.execute([last])?)
}

fn prune_notifications(
    database: &Connection,
    state: Delivery,
    older_than: Timestamp,
    max_rows: usize,
) -> Result<usize, JournalError> {
    let text = "DELETE FROM notification WHERE number IN \
                (SELECT number FROM notification WHERE state = ?1 AND at < ?2 ORDER BY at LIMIT ?3)";
    Ok(database.prepare_cached(text)?.execute(params![
        state.as_str(),
        older_than.as_unix_micros(),
        to_column(max_rows as u64)
    ])?)
}
