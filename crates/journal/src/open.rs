//! Opening: the file, private before the engine sees it, and the two connections to it.
//!
//! Not for what is in it.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::JournalError;
use crate::schema::{self, Found};

/// Read and write for the user alone.
const PRIVATE: u32 = 0o600;

/// The smallest page of a database (<https://www.sqlite.org/fileformat.html>): a shorter file is empty to the engine.
const PAGE_MIN: u64 = 512;

/// How long a call waits for another program, such as a shell that a person reads with.
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// What the write-ahead log is cut down to when it was longer and has been moved into the database.
const LOG_BYTES: i64 = 4 * 1024 * 1024;

/// What each of the two connections keeps of the database in memory. The engine's own 2 MiB would be filled by a session that
/// lives long, and a service has hundreds of them; appending and reading in order need the ends of a few trees.
const CACHE_KIB: i64 = 256;

/// How a journal is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// The ceiling of the database, in bytes: a write beyond it is [`JournalError::Ceiling`]. The write-ahead log comes
    /// on top, about 4 MiB. An event takes about a kilobyte. Less than what is there counts as what is there.
    pub max_bytes: u64,
}

impl Default for JournalOptions {
    /// 256 MiB, some hundred thousand events.
    fn default() -> Self {
        Self { max_bytes: 256 * 1024 * 1024 }
    }
}

/// The connections of an open journal: one that writes, one that reads.
pub(crate) fn open(path: &Path, options: JournalOptions) -> Result<(Connection, Connection), JournalError> {
    let path = place(path)?;
    make_file(&path)?;
    check_file(&path)?;
    let writer = connect(&path)?;
    // Until it is known to be a journal of this version, not even the end of the connection may change anything.
    writer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let found = schema::look(&writer)?;
    use_write_ahead_log(&writer)?;
    if found == Found::Blank {
        schema::make(&writer)?;
    }
    if schema::look(&writer)? != Found::Journal {
        return Err(JournalError::corrupt("its tables went away"));
    }
    limit(&writer, options)?;
    crate::events::bounds(&writer)?;
    writer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    let reader = connect(&path)?;
    reader.pragma_update(None, "query_only", true)?;
    Ok((writer, reader))
}

/// The path without links, which the engine is told not to follow.
fn place(path: &Path) -> Result<PathBuf, JournalError> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    Ok(parent.canonicalize()?.join(name))
}

/// Makes the file where there is none. It is never opened here otherwise: closing a descriptor of it gives up whatever
/// locks this process has on it (POSIX, `fcntl(2)`), and those are the engine's.
fn make_file(path: &Path) -> Result<(), JournalError> {
    match OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path) {
        Ok(_) => {
            // The name is on disk before anything that is acknowledged.
            let parent = path.parent().unwrap_or(Path::new("/"));
            Ok(fs::File::open(parent)?.sync_all()?)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Refuses what the engine would take for a new database though it was one, and makes the file private.
fn check_file(path: &Path) -> Result<(), JournalError> {
    let file = fs::symlink_metadata(path)?;
    if !file.is_file() {
        return Err(JournalError::Foreign);
    }
    let holds_something = |ending| {
        let mut beside = OsString::from(path);
        beside.push(ending);
        fs::symlink_metadata(beside).is_ok_and(|beside| beside.len() > 0)
    };
    if file.len() == 0 && holds_something("-wal") {
        return Err(JournalError::corrupt("it is empty but for its log"));
    }
    // A crash while the first page was written leaves less than a page, and the means to undo it.
    if (1..PAGE_MIN).contains(&file.len()) && !holds_something("-journal") {
        return Err(JournalError::corrupt("it is shorter than the shortest database"));
    }
    if file.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(PRIVATE))?;
    }
    Ok(())
}

fn connect(path: &Path) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(BUSY_WAIT)?;
    // What is in the file is data: no function is called, and no page is believed, because it says so.
    database.pragma_update(None, "trusted_schema", false)?;
    database.pragma_update(None, "cell_size_check", true)?;
    if database.is_readonly("main")? {
        return Err(JournalError::ReadOnly);
    }
    // Negative: counted in KiB, not in pages. It reads the file, so that it has to be one that can be read.
    database.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(database)
}

/// Readers do not wait for writers, and a commit is one sync; every commit waits for it.
fn use_write_ahead_log(database: &Connection) -> Result<(), JournalError> {
    let mode: String = database.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(JournalError::Io("the file system has no shared memory for the write-ahead log".into()));
    }
    database.pragma_update(None, "synchronous", "FULL")?;
    database.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
    Ok(())
}

fn limit(database: &Connection, options: JournalOptions) -> Result<(), JournalError> {
    let page_size: i64 = database.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = i64::try_from(options.max_bytes).unwrap_or(i64::MAX) / page_size.max(1);
    database.pragma_update_and_check(None, "max_page_count", pages.clamp(1, 0xffff_fffe), |_| Ok(()))?;
    Ok(())
}
