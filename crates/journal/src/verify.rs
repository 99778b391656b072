//! A look at everything that a journal holds.
//!
//! Not for repair: what is damaged is left for a person to look at.

use rusqlite::Connection;

use crate::events::{EventFilter, page_after};
use crate::inbox::entry_of;
use crate::row::OwnerColumns;
use crate::{JournalError, PAGE_MAX};

/// Has the engine check its pages and indexes, then reads every row.
pub(crate) fn verify(database: &Connection) -> Result<(), JournalError> {
    let found: String = database.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(JournalError::corrupt(found));
    }
    let mut after = 0;
    loop {
        let page = page_after(database, after, PAGE_MAX, &EventFilter::all())?;
        match page.events.last() {
            Some((sequence, _)) if page.more => after = *sequence,
            _ => break,
        }
    }
    let mut every = database.prepare("SELECT * FROM notification ORDER BY number")?;
    let mut rows = every.query([])?;
    while let Some(row) = rows.next()? {
        entry_of(row)?;
        OwnerColumns { session: row.get("session")?, loop_id: row.get("loop")? }.owner()?;
    }
    Ok(())
}
