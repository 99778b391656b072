//! Live views: what happens to an owner's processes, as it happens.
//!
//! Not for keeping: the journal and the spool are the record. A view shows an event once its service has taken it and
//! output once it can be read, so that whoever subscribes first and reads the record second misses nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procyard_core::{Handle, LifecycleEvent, Owner};
use tokio::sync::Notify;

/// How many lifecycle events wait for a view that is behind; of more the oldest are lost, and counted.
pub const LIVE_EVENTS_MAX: usize = 1024;

/// What a live view shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveEvent {
    /// Something happened in a life.
    Lifecycle(LifecycleEvent),
    /// There is more output. A view that is behind sees the newest total only.
    Output {
        /// Of which process.
        handle: Handle,
        /// The cursor behind its last byte.
        total_bytes: u64,
    },
    /// So many lifecycle events were lost here, because the view was behind; the journal has them.
    Lagged(u64),
}

/// The views of a session.
#[derive(Default)]
pub(crate) struct Views {
    /// How many there are, so that output costs nothing where nobody looks.
    count: AtomicUsize,
    /// Guards the views; held to find those of an owner.
    by_owner: Mutex<HashMap<Seen, Vec<Arc<View>>>>,
}

/// Whose processes a view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Seen {
    Of(Owner),
    /// Everybody's: for whoever hosts the session.
    All,
}

struct View {
    /// Guards what waits; held to add or take one thing.
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    /// In the order in which things happened; output once for each process.
    items: VecDeque<Item>,
    events: usize,
    totals: BTreeMap<Handle, u64>,
    lost: u64,
    closed: bool,
}

enum Item {
    Event(Box<LifecycleEvent>),
    Output(Handle),
}

impl View {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn add(&mut self, event: &LifecycleEvent) {
        if self.events == LIVE_EVENTS_MAX
            && let Some(oldest) = self.items.iter().position(|item| matches!(item, Item::Event(_)))
        {
            self.items.remove(oldest);
            self.events -= 1;
            self.lost += 1;
        }
        self.items.push_back(Item::Event(Box::new(event.clone())));
        self.events += 1;
    }

    fn advance(&mut self, handle: Handle, total_bytes: u64) {
        if self.totals.insert(handle, total_bytes).is_none() {
            self.items.push_back(Item::Output(handle));
        }
    }

    fn take(&mut self) -> Option<LiveEvent> {
        if self.lost > 0 {
            return Some(LiveEvent::Lagged(std::mem::take(&mut self.lost)));
        }
        match self.items.pop_front()? {
            Item::Event(event) => {
                self.events -= 1;
                Some(LiveEvent::Lifecycle(*event))
            }
            Item::Output(handle) => {
                let total_bytes = self.totals.remove(&handle)?;
                Some(LiveEvent::Output { handle, total_bytes })
            }
        }
    }
}

impl Views {
    fn by_owner(&self) -> MutexGuard<'_, HashMap<Seen, Vec<Arc<View>>>> {
        self.by_owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, owner: Owner, change: impl Fn(&mut Waiting)) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let by_owner = self.by_owner();
        let seen = [Seen::Of(owner), Seen::All];
        for view in seen.iter().filter_map(|seen| by_owner.get(seen)).flatten() {
            change(&mut view.waiting());
            view.wake.notify_one();
        }
    }

    /// An event was taken by its service.
    pub(crate) fn show_event(&self, owner: Owner, event: &LifecycleEvent) {
        self.show(owner, |waiting| waiting.add(event));
    }

    /// A process has printed something that can be read.
    pub(crate) fn show_output(&self, owner: impl FnOnce() -> Owner, handle: Handle, total_bytes: u64) {
        if self.count.load(Ordering::Acquire) > 0 {
            self.show(owner(), |waiting| waiting.advance(handle, total_bytes));
        }
    }

    /// Ends the views of an owner, once they have shown what waits.
    pub(crate) fn close(&self, owner: Owner) {
        for view in self.by_owner().get(&Seen::Of(owner)).into_iter().flatten() {
            view.waiting().closed = true;
            view.wake.notify_one();
        }
    }

    /// Ends all views.
    pub(crate) fn close_all(&self) {
        for view in self.by_owner().values().flatten() {
            view.waiting().closed = true;
            view.wake.notify_one();
        }
    }
}

/// A live view of one owner's processes, or of everybody's. Dropping it ends it.
pub struct Subscription {
    views: Arc<Views>,
    seen: Seen,
    view: Arc<View>,
}

impl Subscription {
    pub(crate) fn begin(views: &Arc<Views>, owner: Owner) -> Self {
        Self::of(views, Seen::Of(owner))
    }

    pub(crate) fn begin_all(views: &Arc<Views>) -> Self {
        Self::of(views, Seen::All)
    }

    fn of(views: &Arc<Views>, seen: Seen) -> Self {
        let view = Arc::new(View { waiting: Mutex::default(), wake: Notify::new() });
        let views = Arc::clone(views);
        views.by_owner().entry(seen).or_default().push(Arc::clone(&view));
        views.count.fetch_add(1, Ordering::AcqRel);
        Self { views, seen, view }
    }

    /// The next thing that happens, in order; `None` when the session has ended or the loop was closed, and everything
    /// was shown. Cancellation safe: nothing is taken by a future that is dropped.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        loop {
            {
                let mut waiting = self.view.waiting();
                if let Some(event) = waiting.take() {
                    return Some(event);
                }
                if waiting.closed {
                    return None;
                }
            }
            // One that comes in between leaves a permit.
            self.view.wake.notified().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut by_owner = self.views.by_owner();
        if let Some(views) = by_owner.get_mut(&self.seen) {
            views.retain(|view| !Arc::ptr_eq(view, &self.view));
            if views.is_empty() {
                by_owner.remove(&self.seen);
            }
        }
        self.views.count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
