//! The services of a supervisor: they keep what they are given, refuse when a step says so, and hear nothing of the dead.
//!
//! Not for judging what they are given: see `check`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use procyard_core::{Handle, LifecycleEvent, Owner};
use procyard_supervisor::{CompletionNotifier, LifecyclePublisher, Notice, ServiceError};

/// What the services were given, over all supervisors.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) events: Vec<LifecycleEvent>,
    pub(super) news: Vec<Pushed>,
}

pub(super) enum Pushed {
    Notice(Owner, Notice),
    Moved(Handle, Owner, Owner),
}

/// The services of one supervisor.
pub(super) struct Tap {
    taken: Arc<Mutex<Taken>>,
    /// Its supervisor is dead: what it still says nobody hears.
    pub(super) cut: AtomicBool,
    pub(super) publisher_refuses: AtomicBool,
    pub(super) notifier_refuses: AtomicBool,
}

impl Tap {
    fn admit(&self, refuses: &AtomicBool) -> Result<(), ServiceError> {
        if self.cut.load(Ordering::SeqCst) || refuses.load(Ordering::SeqCst) {
            return Err(ServiceError::from(Box::<dyn std::error::Error + Send + Sync>::from("not now")));
        }
        Ok(())
    }
}

#[async_trait]
impl LifecyclePublisher for Tap {
    async fn publish(&self, event: &LifecycleEvent) -> Result<(), ServiceError> {
        self.admit(&self.publisher_refuses)?;
        self.taken.lock().unwrap().events.push(event.clone());
        Ok(())
    }
}

#[async_trait]
impl CompletionNotifier for Tap {
    async fn notify(&self, owner: Owner, notice: &Notice) -> Result<(), ServiceError> {
        self.admit(&self.notifier_refuses)?;
        self.taken.lock().unwrap().news.push(Pushed::Notice(owner, notice.clone()));
        Ok(())
    }

    async fn moved(&self, process: Handle, from: Owner, to: Owner) -> Result<(), ServiceError> {
        self.admit(&self.notifier_refuses)?;
        self.taken.lock().unwrap().news.push(Pushed::Moved(process, from, to));
        Ok(())
    }
}

impl Tap {
    pub(super) fn new(taken: &Arc<Mutex<Taken>>) -> Self {
        let (cut, publisher_refuses, notifier_refuses) = Default::default();
        Self { taken: Arc::clone(taken), cut, publisher_refuses, notifier_refuses }
    }
}
