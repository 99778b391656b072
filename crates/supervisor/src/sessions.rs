//! The sessions of a program by key: each is made once, whoever asks first.
//!
//! Not for what a session is: any value will do, usually a supervisor with what belongs to it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A registry of sessions by key. Cheap to clone; the clones share one registry.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::convert::Infallible;
/// use procyard_supervisor::Sessions;
///
/// let sessions = Sessions::<u32, String>::new();
/// let make = |name: &str| {
///     let name = name.to_owned();
///     async move { Ok::<_, Infallible>(name) }
/// };
/// assert_eq!(sessions.get_or_create(7, || make("first")).await.unwrap(), "first");
/// assert_eq!(sessions.get_or_create(7, || make("second")).await.unwrap(), "first");
/// assert!(sessions.close(&7, |session| async move { drop(session) }).await);
/// assert_eq!(sessions.get_or_create(7, || make("third")).await.unwrap(), "third");
/// # }
/// ```
#[derive(Debug)]
pub struct Sessions<K, S> {
    /// Guards the registry; held for a lookup, never across an await.
    slots: Arc<Mutex<HashMap<K, Slot<S>>>>,
}

#[derive(Debug)]
struct Slot<S> {
    session: Arc<OnceCell<S>>,
    /// Once the session is being closed: cancelled when that is done.
    closing: Option<CancellationToken>,
}

impl<K, S> Clone for Sessions<K, S> {
    fn clone(&self) -> Self {
        Self { slots: Arc::clone(&self.slots) }
    }
}

impl<K, S> Default for Sessions<K, S> {
    fn default() -> Self {
        Self { slots: Arc::default() }
    }
}

impl<K: Eq + Hash + Clone, S: Clone> Sessions<K, S> {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<K, Slot<S>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of this key. `factory` makes it if there is none; of concurrent callers one runs its factory, and the
    /// others wait for that. When it fails, its caller has the error and the next caller's factory is run. A session that
    /// is being closed is waited for, and then made anew.
    ///
    /// Cancellation safe: when the caller whose factory runs goes away, another one's is run.
    pub async fn get_or_create<E, F>(&self, key: K, factory: impl FnOnce() -> F) -> Result<S, E>
    where
        F: Future<Output = Result<S, E>>,
    {
        loop {
            match self.ask(&key) {
                Ok(asked) => return asked.session.get_or_try_init(factory).await.cloned(),
                Err(closing) => closing.cancelled().await,
            }
        }
    }

    /// A place among those who wait for the session or make it; the closing of an earlier one, where that is under way.
    fn ask<'a>(&'a self, key: &'a K) -> Result<Asked<'a, K, S>, CancellationToken> {
        let mut slots = self.slots();
        let open = || Slot { session: Arc::default(), closing: None };
        let slot = slots.entry(key.clone()).or_insert_with(open);
        match &slot.closing {
            Some(closing) => Err(closing.clone()),
            None => Ok(Asked { sessions: self, key, session: Arc::clone(&slot.session) }),
        }
    }

    /// The session of this key, if it is there and not being closed.
    pub fn get(&self, key: &K) -> Option<S> {
        let slots = self.slots();
        slots.get(key).filter(|slot| slot.closing.is_none())?.session.get().cloned()
    }

    /// All sessions that are there and not being closed, in no order.
    pub fn all(&self) -> Vec<(K, S)> {
        let slots = self.slots();
        let open = slots.iter().filter(|(_, slot)| slot.closing.is_none());
        open.filter_map(|(key, slot)| Some((key.clone(), slot.session.get()?.clone()))).collect()
    }

    /// Takes a session out: from now on nobody is given it, and whoever wants one of this key waits until `end`, which
    /// usually shuts it down, has resolved. `false` when there is none, or somebody else is closing it.
    ///
    /// Cancelled, it drops `end` where it is; the key is free then.
    pub async fn close<F>(&self, key: &K, end: impl FnOnce(S) -> F) -> bool
    where
        F: Future<Output = ()>,
    {
        let (session, closed) = {
            let mut slots = self.slots();
            let Some(slot) = slots.get_mut(key) else { return false };
            let (Some(session), None) = (slot.session.get().cloned(), &slot.closing) else { return false };
            let closed = CancellationToken::new();
            slot.closing = Some(closed.clone());
            (session, closed)
        };
        let _closing = Closing { sessions: self, key, _closed: closed.drop_guard() };
        end(session).await;
        true
    }

    /// Resolves when the session of this key that somebody is closing is closed; `false` at once where nobody is closing
    /// one. Cancellation safe.
    pub async fn closed(&self, key: &K) -> bool {
        let closing = self.slots().get(key).and_then(|slot| slot.closing.clone());
        match closing {
            Some(closing) => {
                closing.cancelled().await;
                true
            }
            None => false,
        }
    }

    /// Resolves when all sessions are closed that are being closed now. Cancellation safe.
    pub async fn all_closed(&self) {
        let closing: Vec<_> = self.slots().values().filter_map(|slot| slot.closing.clone()).collect();
        for closing in closing {
            closing.cancelled().await;
        }
    }
}

/// A caller that waits for a session or makes it. The last one that leaves without one takes the slot away.
struct Asked<'a, K: Eq + Hash + Clone, S: Clone> {
    sessions: &'a Sessions<K, S>,
    key: &'a K,
    session: Arc<OnceCell<S>>,
}

impl<K: Eq + Hash + Clone, S: Clone> Drop for Asked<'_, K, S> {
    fn drop(&mut self) {
        let mut slots = self.sessions.slots();
        // The slot's own and this one: nobody else is there, and nobody can come while the lock is held.
        let last = Arc::strong_count(&self.session) == 2;
        let same = slots.get(self.key).is_some_and(|slot| Arc::ptr_eq(&slot.session, &self.session));
        if last && same && !self.session.initialized() {
            slots.remove(self.key);
        }
    }
}

/// Frees the key when the session was closed. The token goes after it, so that whoever waits finds the key free.
struct Closing<'a, K: Eq + Hash + Clone, S: Clone> {
    sessions: &'a Sessions<K, S>,
    key: &'a K,
    _closed: DropGuard,
}

impl<K: Eq + Hash + Clone, S: Clone> Drop for Closing<'_, K, S> {
    fn drop(&mut self) {
        self.sessions.slots().remove(self.key);
    }
}
