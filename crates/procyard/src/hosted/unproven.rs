//! Sessions that were ended and of which something is not proven gone, until it is.
//!
//! The guardian of such a session goes on, and holds the session's lock until its last tree is gone: a lock that is free
//! is the proof. Not for open sessions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use procyard_core::{Limits, SessionId};
use procyard_manifest::{SessionError, SessionRoot};

use crate::session::anchor;

pub(crate) struct Unproven {
    data_dir: PathBuf,
    /// Guards how many trees were not proven gone, by session; held for a lookup.
    sessions: Mutex<BTreeMap<SessionId, usize>>,
}

impl Unproven {
    pub(crate) fn new(data_dir: PathBuf) -> Self {
        Self { data_dir, sessions: Mutex::default() }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionId, usize>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session was ended, with so many trees that are not proven gone.
    pub(crate) fn remember(&self, session: SessionId, count: usize) {
        if count > 0 {
            self.sessions().insert(session, count);
        }
    }

    /// A session is open again: its lock was free.
    pub(crate) fn forget(&self, session: SessionId) {
        self.sessions().remove(&session);
    }

    /// How many trees of a session are not proven gone. 0 is said once of a session that was remembered, then nothing.
    pub(crate) async fn left(&self, session: SessionId) -> Option<usize> {
        let count = self.sessions().get(&session).copied()?;
        let data_dir = self.data_dir.clone();
        let free = tokio::task::spawn_blocking(move || is_free(&data_dir, session)).await;
        if !free.unwrap_or(false) {
            return Some(count);
        }
        self.forget(session);
        Some(0)
    }

    /// The same of all sessions together.
    pub(crate) async fn total(&self) -> usize {
        let sessions: Vec<_> = self.sessions().keys().copied().collect();
        let mut total = 0;
        for session in sessions {
            total += self.left(session).await.unwrap_or(0);
        }
        total
    }
}

/// What cannot be looked at proves nothing.
fn is_free(data_dir: &Path, session: SessionId) -> bool {
    let opened = SessionRoot::open(data_dir, session, anchor(&Limits::default()), Duration::ZERO);
    matches!(opened, Ok(_) | Err(SessionError::Missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_counts_until_its_lock_is_free() {
        let place = tempfile::tempdir().unwrap();
        let [held, other] = [1, 2].map(|number| SessionId::from_random([number; 16]));
        let guardian =
            SessionRoot::open_or_create(place.path(), held, anchor(&Limits::default()), Duration::ZERO)
                .unwrap();
        let unproven = Unproven::new(place.path().to_owned());
        unproven.remember(held, 2);
        unproven.remember(other, 0);
        for _ in 0..2 {
            assert_eq!((unproven.left(held).await, unproven.left(other).await), (Some(2), None));
            assert_eq!(unproven.total().await, 2);
        }
        drop(guardian);
        assert_eq!((unproven.left(held).await, unproven.left(held).await), (Some(0), None));
        unproven.remember(other, 1);
        assert_eq!(unproven.total().await, 0, "its directory is gone, and its guardian before that");
    }
}
