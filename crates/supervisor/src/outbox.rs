//! Carries events and notices to their services, in order, retrying until each is taken.
//!
//! Not for durability: that a completion was published is marked in its manifest, and a restart publishes what
//! is not marked, with the same ids.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use procyard_core::{EventKind, Handle, LifecycleEvent, Owner};
use procyard_manifest::{Durability, Manifest};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::entry::Entry;
use crate::shared::Shared;
use crate::sound::sound;
use crate::{CompletionNotifier, LifecyclePublisher, Notice, ServiceError};

const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// What waits for a service that does not take it. Beyond this the oldest go: a completion among them is published
/// again by the next restore, since its manifest is not marked.
const CAPACITY: usize = 4096;

fn broke_down() -> ServiceError {
    ServiceError::from(Box::<dyn std::error::Error + Send + Sync>::from("it panicked"))
}

/// An ordered queue with one consumer.
pub(crate) struct Outbox<T> {
    /// Guards the queue; held for a push or a pop.
    queue: Mutex<Queue<T>>,
    wake: Notify,
    idle: Notify,
}

struct Queue<T> {
    items: VecDeque<T>,
    /// One item is on its way.
    busy: bool,
}

/// An event, and the process whose manifest is marked once a completion is taken.
pub(crate) struct EventItem {
    pub(crate) event: LifecycleEvent,
    pub(crate) entry: Arc<Entry>,
}

/// What the notifier learns.
pub(crate) enum NoticeItem {
    /// A notice and whom it is for.
    Notice { owner: Owner, notice: Notice },
    /// What is pending of a process is for another owner from here on.
    Moved { handle: Handle, from: Owner, to: Owner },
}

/// Takes items to their service.
#[async_trait]
pub(crate) trait Courier<T>: Send + Sync {
    /// Gives one; it is given again when this fails.
    async fn give(&self, item: &T) -> Result<(), ServiceError>;

    /// It was taken.
    async fn given(&self, item: T);
}

/// Takes events to the journal, and marks a completion in its manifest once it is taken.
pub(crate) struct EventCourier {
    pub(crate) shared: Arc<Shared>,
    pub(crate) publisher: Arc<dyn LifecyclePublisher>,
}

#[async_trait]
impl Courier<EventItem> for EventCourier {
    async fn give(&self, item: &EventItem) -> Result<(), ServiceError> {
        self.publisher.publish(&item.event).await
    }

    async fn given(&self, item: EventItem) {
        self.shared.views.show_event(item.entry.owner(), &item.event);
        if !matches!(item.event.kind, EventKind::Completed | EventKind::Lost) {
            return;
        }
        let mark = |manifest: &mut Manifest| manifest.published.completion = true;
        if let Err(error) = self.shared.update(&item.entry, Durability::Written, mark).await {
            warn!(%error, "a published completion could not be marked; it may be published again");
        }
    }
}

/// Takes notices to the notifier.
pub(crate) struct NoticeCourier {
    pub(crate) notifier: Arc<dyn CompletionNotifier>,
}

#[async_trait]
impl Courier<NoticeItem> for NoticeCourier {
    async fn give(&self, item: &NoticeItem) -> Result<(), ServiceError> {
        match item {
            NoticeItem::Notice { owner, notice } => self.notifier.notify(*owner, notice).await,
            NoticeItem::Moved { handle, from, to } => self.notifier.moved(*handle, *from, *to).await,
        }
    }

    async fn given(&self, _: NoticeItem) {}
}

impl<T> Outbox<T> {
    pub(crate) fn new() -> Self {
        let queue = Mutex::new(Queue { items: VecDeque::new(), busy: false });
        Self { queue, wake: Notify::new(), idle: Notify::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T) {
        {
            let mut queue = self.queue();
            if queue.items.len() >= CAPACITY {
                queue.items.pop_front();
                warn!("a service does not take what it is given; the oldest item was dropped");
            }
            queue.items.push_back(item);
        }
        self.wake.notify_one();
    }

    /// Resolves when everything was taken by the service.
    pub(crate) async fn flushed(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            // Enrolled before the look, so that nothing is missed in between.
            idle.as_mut().enable();
            {
                let queue = self.queue();
                if queue.items.is_empty() && !queue.busy {
                    return;
                }
            }
            idle.await;
        }
    }

    fn pop(&self) -> Option<T> {
        let mut queue = self.queue();
        let item = queue.items.pop_front();
        queue.busy = item.is_some();
        if item.is_none() {
            self.idle.notify_waiters();
        }
        item
    }

    /// Delivers until `stop`. What is not taken by then is left: a completion is published by the next restore.
    pub(crate) async fn deliver(&self, stop: CancellationToken, courier: impl Courier<T>) {
        loop {
            let Some(item) = self.pop() else {
                tokio::select! {
                    () = self.wake.notified() => continue,
                    () = stop.cancelled() => return,
                }
            };
            let mut pause = RETRY_FIRST;
            loop {
                let given = tokio::select! {
                    given = sound(courier.give(&item)) => given.unwrap_or_else(|| Err(broke_down())),
                    () = stop.cancelled() => return,
                };
                match given {
                    Ok(()) => {
                        courier.given(item).await;
                        break;
                    }
                    Err(error) => warn!(%error, "a service failed; it is asked again"),
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_LAST),
                    () = stop.cancelled() => return,
                }
            }
        }
    }
}
