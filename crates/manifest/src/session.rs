//! The private directory of one session, and the lock that makes its holder the only one who writes there.
//!
//! Not for what is in it: manifests are a [`ManifestStore`]'s, spools and journal are their own crates'.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use procyard_core::SessionId;
use procyard_store::{Access, Dir, EntryKind, File, FsDir, TEMPORARY_PREFIX};

use crate::anchor::{self, AnchorSettings};
use crate::error::SessionError;
use crate::store::ManifestStore;

const SESSIONS: &str = "sessions";
const LOCK: &str = "lock";

/// How long a wait for the lock sleeps between two looks: `flock` has no wait with a bound.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An open and locked session directory: `<data>/sessions/<session-id>/`.
///
/// The lock is given up when the value and every descriptor from [`SessionRoot::lock_descriptor`] are closed.
///
/// ```
/// use std::time::Duration;
/// use procyard_core::SessionId;
/// use procyard_manifest::{AnchorSettings, Ceilings, SessionError, SessionRoot};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let data = place.path();
/// let session = SessionId::from_random([1; 16]);
/// let ceilings = Ceilings { spool_bytes: 64 << 20, spool_bytes_total: 2 << 30 };
/// let settings = AnchorSettings { provider: "example".to_owned(), ceilings };
/// let root = SessionRoot::open_or_create(data, session, settings.clone(), Duration::ZERO)?;
/// assert!(root.manifests().scan()?.manifests.is_empty());
///
/// let second = SessionRoot::open_or_create(data, session, settings, Duration::ZERO);
/// assert!(matches!(second, Err(SessionError::Locked)), "one supervisor for each session");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SessionRoot {
    dir: Arc<dyn Dir>,
    lock: Arc<dyn File>,
    session: SessionId,
}

/// Whether a session that is not there is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    Make,
    Refuse,
}

impl SessionRoot {
    /// Opens the directory of a session below `data_dir`, made if it is not there, with mode 0700.
    ///
    /// The anchor is checked first; then the lock is waited for, at most `wait_for_lock`, since the guardian of a dead
    /// supervisor holds it until the trees of that supervisor are gone. Blocks for that long, looking every 20 ms.
    pub fn open_or_create(
        data_dir: &Path,
        session: SessionId,
        anchor: AnchorSettings,
        wait_for_lock: Duration,
    ) -> Result<Self, SessionError> {
        let sessions = FsDir::create_all(&data_dir.join(SESSIONS))?;
        Self::enter(&*sessions, session, &anchor, wait_for_lock, Absent::Make)
    }

    /// As [`SessionRoot::open_or_create`], for a session that must be there.
    pub fn open(
        data_dir: &Path,
        session: SessionId,
        anchor: AnchorSettings,
        wait_for_lock: Duration,
    ) -> Result<Self, SessionError> {
        let sessions = match FsDir::open(&data_dir.join(SESSIONS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(SessionError::Missing),
            sessions => sessions?,
        };
        Self::enter(&*sessions, session, &anchor, wait_for_lock, Absent::Refuse)
    }

    /// As [`SessionRoot::open_or_create`], below a directory of any store.
    pub fn open_or_create_in(
        sessions: &dyn Dir,
        session: SessionId,
        anchor: AnchorSettings,
        wait_for_lock: Duration,
    ) -> Result<Self, SessionError> {
        Self::enter(sessions, session, &anchor, wait_for_lock, Absent::Make)
    }

    fn enter(
        sessions: &dyn Dir,
        session: SessionId,
        settings: &AnchorSettings,
        wait_for_lock: Duration,
        absent: Absent,
    ) -> Result<Self, SessionError> {
        settings.check()?;
        let dir = open_session(sessions, session, absent)?;
        anchor::verify(&*dir, session, settings)?;
        let lock = take_lock(&*dir, wait_for_lock)?;
        // Once more, now that nobody else can be writing it.
        match anchor::verify(&*dir, session, settings)? {
            // Whoever wrote it may have died before its name was there for good; what is saved from now on is to be no
            // safer than the anchor, or a power cut could leave records that are nobody's.
            Some(recorded) if recorded == settings.ceilings => dir.sync()?,
            Some(_) => anchor::write(&*dir, session, settings)?,
            None if is_fresh(&*dir)? => {
                // First that the directory is there for good, whoever made it.
                sessions.sync()?;
                anchor::write(&*dir, session, settings)?;
            }
            None => return Err(SessionError::AnchorMissing),
        }
        Ok(Self { dir, lock, session })
    }

    /// The directory, for the spools of the session.
    pub fn dir(&self) -> Arc<dyn Dir> {
        Arc::clone(&self.dir)
    }

    /// The manifests of the session; those of another session are refused.
    pub fn manifests(&self) -> ManifestStore {
        ManifestStore::over(self.dir(), Some(self.session))
    }

    /// Removes the session with everything in it; it stays locked until its directory is gone. The anchor goes last, so
    /// that a crash on the way leaves something that can be removed again. Blocks.
    pub fn remove(self, data_dir: &Path) -> io::Result<()> {
        self.remove_in(&*FsDir::open(&data_dir.join(SESSIONS))?)
    }

    /// As [`SessionRoot::remove`], for a session below a directory of any store.
    pub fn remove_in(self, sessions: &dyn Dir) -> io::Result<()> {
        for entry in self.dir.list()? {
            match entry.kind {
                EntryKind::Dir => {
                    let inner = self.dir.open_dir(&entry.name)?;
                    for file in inner.list()? {
                        inner.remove_file(&file.name)?;
                    }
                    self.dir.remove_dir(&entry.name)?;
                }
                _ if entry.name == LOCK || entry.name == anchor::ANCHOR => {}
                _ => self.dir.remove_file(&entry.name)?,
            }
        }
        // What goes last must not be gone first after a power cut.
        self.dir.sync()?;
        for last in [anchor::ANCHOR, LOCK] {
            match self.dir.remove_file(last) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        sessions.remove_dir(&self.session.to_string())?;
        sessions.sync()
    }

    /// The session.
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// A duplicate of the descriptor that holds the lock, for the guardian: the session stays locked until that is
    /// closed, too. `None` for a store without descriptors.
    pub fn lock_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.lock.descriptor()
    }

    /// The path of a session's directory, for what must be opened by path.
    pub fn path_of(data_dir: &Path, session: SessionId) -> PathBuf {
        data_dir.join(SESSIONS).join(session.to_string())
    }

    /// The sessions that have a directory below `data_dir`, in order; none where there is no `data_dir`.
    pub fn list_sessions(data_dir: &Path) -> io::Result<Vec<SessionId>> {
        let sessions = match FsDir::open(&data_dir.join(SESSIONS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            sessions => sessions?,
        };
        let mut found: Vec<SessionId> = sessions
            .list()?
            .into_iter()
            .filter(|entry| entry.kind == EntryKind::Dir)
            .filter_map(|entry| entry.name.parse().ok().filter(|id: &SessionId| id.to_string() == entry.name))
            .collect();
        found.sort_unstable();
        Ok(found)
    }
}

fn open_session(
    sessions: &dyn Dir,
    session: SessionId,
    absent: Absent,
) -> Result<Arc<dyn Dir>, SessionError> {
    let name = session.to_string();
    match (sessions.open_dir(&name), absent) {
        (Err(error), Absent::Refuse) if error.kind() == io::ErrorKind::NotFound => Err(SessionError::Missing),
        (Err(error), Absent::Make) if error.kind() == io::ErrorKind::NotFound => {
            match sessions.create_dir(&name) {
                Ok(dir) => Ok(dir),
                // Somebody else made it meanwhile; the lock decides whose it is.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(sessions.open_dir(&name)?),
                Err(error) => Err(error.into()),
            }
        }
        (opened, _) => Ok(opened?),
    }
}

fn take_lock(dir: &dyn Dir, wait: Duration) -> Result<Arc<dyn File>, SessionError> {
    let lock = match dir.create_file(LOCK) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            dir.open_file(LOCK, Access::ReadWrite)?
        }
        lock => lock?,
    };
    let began = Instant::now();
    while !lock.try_lock()? {
        let left = wait.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(SessionError::Locked);
        }
        thread::sleep(left.min(LOOK_AGAIN));
    }
    Ok(lock)
}

/// Whether a directory holds nothing but what a crash while it was made may have left.
fn is_fresh(dir: &dyn Dir) -> io::Result<bool> {
    let left = |name: &str| name == LOCK || name.starts_with(TEMPORARY_PREFIX);
    Ok(dir.list()?.iter().all(|entry| left(&entry.name)))
}
