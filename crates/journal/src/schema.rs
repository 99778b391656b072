//! The tables, and how a database is told to be a journal of this version.
//!
//! A later version adds its own step from this one to that one; databases of version 1 are read for ever. The text of
//! the tables is part of the format: a database whose tables differ is not opened.
//!
//! Not for files.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::JournalError;

/// The version of the format that this crate writes, SQLite's `user_version`.
pub const VERSION: i64 = 1;

/// `PRCJ`, SQLite's `application_id`: what `file(1)` and others tell a journal by.
const APPLICATION: i64 = 0x5052_434a;

const TABLES: &str = "
CREATE TABLE event (
  sequence INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL,
  loop TEXT NOT NULL,
  handle TEXT NOT NULL,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX event_by_owner ON event (session, loop);
CREATE INDEX event_by_handle ON event (handle);
CREATE TABLE notification (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL,
  loop TEXT NOT NULL,
  handle TEXT NOT NULL,
  at INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'acknowledged')),
  body TEXT NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX notification_pending ON notification (session, loop) WHERE state = 'pending';
CREATE INDEX notification_open ON notification (session, loop) WHERE state <> 'acknowledged';
CREATE INDEX notification_by_age ON notification (state, at);
CREATE TABLE position (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  events_pruned INTEGER NOT NULL,
  last_notification INTEGER NOT NULL
) STRICT;
INSERT INTO position VALUES (1, 0, 0);
";

/// What a database is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing yet: a new file, or one whose making a crash interrupted.
    Blank,
    /// A journal of this version.
    Journal,
}

/// Tells what a database is, without changing it.
pub(crate) fn look(database: &Connection) -> Result<Found, JournalError> {
    let pragma = |name| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let objects = objects(database)?;
    match (application, version) {
        (0, 0) if objects.is_empty() => Ok(Found::Blank),
        (APPLICATION, VERSION) => {
            let made = Connection::open_in_memory()?;
            made.execute_batch(TABLES)?;
            if objects == self::objects(&made)? {
                Ok(Found::Journal)
            } else {
                Err(JournalError::corrupt("its tables are not those of its version"))
            }
        }
        (APPLICATION, version) if version > VERSION => Err(JournalError::Newer { version }),
        (APPLICATION, _) => Err(JournalError::corrupt("its version is none")),
        _ => Err(JournalError::Foreign),
    }
}

/// Makes the tables in a blank database, unless somebody else has done so meanwhile.
pub(crate) fn make(database: &Connection) -> Result<(), JournalError> {
    let making = Transaction::new_unchecked(database, TransactionBehavior::Immediate)?;
    if look(&making)? == Found::Blank {
        making.execute_batch(TABLES)?;
        making.pragma_update(None, "application_id", APPLICATION)?;
        making.pragma_update(None, "user_version", VERSION)?;
    }
    making.commit()?;
    Ok(())
}

/// Kind, name and text of every table and index; what `ANALYZE` leaves is nobody's business.
fn objects(database: &Connection) -> Result<Vec<(String, String, Option<String>)>, JournalError> {
    let listed =
        "SELECT type, name, sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_stat*' ORDER BY type, name";
    let mut statement = database.prepare(listed)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
