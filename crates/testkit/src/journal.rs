//! A journal in memory that keeps what a supervisor publishes, or fails, panics or hangs when a test says so.
//!
//! Not for what a real journal does with an id that it has: this one keeps every delivery, so that a test sees each.

use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use procyard_core::{EventId, Handle, LifecycleEvent, Owner};
use procyard_supervisor::{
    CompletionNotifier, LifecyclePublisher, Notice, NoticeKind, ServiceError, Services,
};
use tokio::sync::watch;

use crate::DEADLINE;

/// Both services of a session at once.
///
/// ```
/// use procyard_core::{Limits, SessionId};
/// use procyard_supervisor::Supervisor;
/// use procyard_testkit::{Journal, LosingStore};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), procyard_supervisor::SupervisorError> {
/// let journal = Journal::new();
/// journal.fail_events(3); // the first three publications are refused, and asked for again
/// let session = SessionId::from_random([1; 16]);
/// let supervisor = Supervisor::new(session, Limits::default(), LosingStore::new().root());
/// supervisor.activate(journal.services()).await?;
/// // ... start something, and wait for what is published of it:
/// # supervisor.shutdown().await;
/// assert!(journal.events().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Journal {
    /// Guards what was taken and what is to go wrong; held to add or copy.
    state: Mutex<State>,
    /// Whether publications hang; changes whenever there is something new to look at.
    news: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    events: Vec<LifecycleEvent>,
    notices: Vec<(Owner, Notice)>,
    moves: Vec<(Handle, Owner, Owner)>,
    failing_events: u32,
    panicking_events: u32,
    failing_notices: u32,
}

/// Counts down; true while there was something to count.
fn counts_down(left: &mut u32) -> bool {
    let counts = *left > 0;
    *left -= u32::from(counts);
    counts
}

fn refusal() -> ServiceError {
    ServiceError::from(Box::<dyn std::error::Error + Send + Sync>::from("not now"))
}

impl Journal {
    /// One that is empty and takes everything.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// This journal as the services of a session.
    pub fn services(self: &Arc<Self>) -> Services {
        Services::new(Arc::<Self>::clone(self), Arc::<Self>::clone(self))
    }

    /// Refuses the next `count` events.
    pub fn fail_events(&self, count: u32) {
        self.state().failing_events = count;
    }

    /// Panics at the next `count` events.
    pub fn panic_at_events(&self, count: u32) {
        self.state().panicking_events = count;
    }

    /// Refuses the next `count` notices.
    pub fn fail_notices(&self, count: u32) {
        self.state().failing_notices = count;
    }

    /// Lets no publication return, until [`resume`](Self::resume). Notices go their own way.
    pub fn hang(&self) {
        self.news.send_replace(true);
    }

    /// Takes what hangs, and what comes.
    pub fn resume(&self) {
        self.news.send_replace(false);
    }

    /// The events that were taken, in order, each as often as it was.
    pub fn events(&self) -> Vec<LifecycleEvent> {
        self.state().events.clone()
    }

    /// Those of one process.
    pub fn events_of(&self, process: Handle) -> Vec<LifecycleEvent> {
        let state = self.state();
        let mine = state.events.iter().filter(|event| event.identity.handle == process);
        mine.cloned().collect()
    }

    /// The ids of those that tell the end of a process.
    pub fn ends_of(&self, process: Handle) -> Vec<EventId> {
        let state = self.state();
        let ends =
            state.events.iter().filter(|event| event.identity.handle == process && event.kind.is_end());
        ends.map(|event| event.id).collect()
    }

    /// The notices that were taken and whom they were for, in order, each as often as it was.
    pub fn notices(&self) -> Vec<(Owner, Notice)> {
        self.state().notices.clone()
    }

    /// Those that were for this owner.
    pub fn notices_for(&self, owner: Owner) -> Vec<Notice> {
        let state = self.state();
        let notices = state.notices.iter().filter(|(whose, _)| *whose == owner);
        notices.map(|(_, notice)| notice.clone()).collect()
    }

    /// Of which processes the end was noticed, in order, each as often as it was.
    pub fn noticed(&self) -> Vec<Handle> {
        let state = self.state();
        let ends = state.notices.iter().filter(|(_, notice)| notice.kind == NoticeKind::Completed);
        ends.map(|(_, notice)| notice.handle).collect()
    }

    /// The moves of processes from one owner to another that it was told of, in order.
    pub fn moves(&self) -> Vec<(Handle, Owner, Owner)> {
        self.state().moves.clone()
    }

    /// Resolves when this holds, looking again after whatever is taken.
    ///
    /// # Panics
    ///
    /// When it does not within [`DEADLINE`].
    #[track_caller]
    pub fn until<'a>(
        &'a self,
        what: &'a str,
        mut holds: impl FnMut(&Self) -> bool + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let asked = Location::caller();
        async move {
            let mut news = self.news.subscribe();
            let holding = async {
                while !holds(self) {
                    // The sender lives as long as this journal.
                    let _ = news.changed().await;
                }
            };
            let held = tokio::time::timeout(DEADLINE, holding).await;
            assert!(
                held.is_ok(),
                "this never came true: {what} (asked at {asked}); taken were {:?} and {:?}",
                self.events().iter().map(|event| (event.kind, event.state)).collect::<Vec<_>>(),
                self.notices().iter().map(|(_, notice)| (notice.kind, notice.state)).collect::<Vec<_>>(),
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.news.send_modify(|_| {});
    }
}

#[async_trait]
impl LifecyclePublisher for Journal {
    async fn publish(&self, event: &LifecycleEvent) -> Result<(), ServiceError> {
        // The sender lives as long as this journal.
        let _ = self.news.subscribe().wait_for(|hangs| !hangs).await;
        let (panics, fails) = {
            let mut state = self.state();
            let panics = counts_down(&mut state.panicking_events);
            (panics, !panics && counts_down(&mut state.failing_events))
        };
        assert!(!panics, "the test asks for this");
        if fails {
            return Err(refusal());
        }
        self.take(|state| state.events.push(event.clone()));
        Ok(())
    }
}

#[async_trait]
impl CompletionNotifier for Journal {
    async fn notify(&self, owner: Owner, notice: &Notice) -> Result<(), ServiceError> {
        if counts_down(&mut self.state().failing_notices) {
            return Err(refusal());
        }
        self.take(|state| state.notices.push((owner, notice.clone())));
        Ok(())
    }

    async fn moved(&self, process: Handle, from: Owner, to: Owner) -> Result<(), ServiceError> {
        self.take(|state| state.moves.push((process, from, to)));
        Ok(())
    }
}
