//! Carries events and notices to their services, in order, retrying until each is taken.
//!
//! Not for durability: that the end of a process was published is marked in its manifest. What finds no room here is taken
//! from the records once there is some, and a restart publishes everything of each process whose end is not marked, with
//! the same ids.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use procyard_core::{Handle, LifecycleEvent, Owner};
use procyard_manifest::{Manifest, Transfer};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::entry::Entry;
use crate::shared::Shared;
use crate::sound::sound;
use crate::{CompletionNotifier, LifecyclePublisher, Notice, ServiceError};

const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// What waits for a service that does not take it. Beyond this nothing is queued: the records have it.
const CAPACITY: usize = 4096;

/// How often the records are looked through anew because something came up meanwhile.
const LOOKS: usize = 8;

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
    /// How many are about to come.
    coming: usize,
    /// How many items found no room since the records were looked through. Until then none is queued, so that their order
    /// stays.
    missed: u64,
}

/// Something that is about to be queued.
pub(crate) struct Coming<'o, T>(&'o Outbox<T>);

impl<T> Drop for Coming<'_, T> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.coming -= 1;
        if queue.is_idle() {
            self.0.idle.notify_waiters();
        }
    }
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

    /// Everything that was not taken yet as far as the records know, in order; some of it may have been taken.
    fn outstanding(&self) -> Vec<T>;
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
        if !item.event.kind.is_end() {
            return;
        }
        let mark = |manifest: &mut Manifest| manifest.published.completion = true;
        if let Err(error) = self.shared.note_told(&item.entry, mark).await {
            warn!(%error, "a published completion could not be marked; it may be published again");
        }
    }

    /// Of processes that were evicted before their ends were published, the next restore knows.
    fn outstanding(&self) -> Vec<EventItem> {
        let mut entries: Vec<_> = self.shared.registry().entries.values().cloned().collect();
        entries.sort_by_key(|entry| (entry.record().completion.unwrap_or(u64::MAX), entry.sequence));
        let mut items = Vec::new();
        for entry in entries {
            let events = {
                let record = entry.record();
                // An end that is not on disk yet is announced when it is.
                let open = !record.manifest.state.is_terminal() || record.announced;
                if open && !record.manifest.published.completion {
                    record.manifest.events()
                } else {
                    Vec::new()
                }
            };
            items.extend(events.into_iter().map(|event| EventItem { event, entry: Arc::clone(&entry) }));
        }
        items
    }
}

/// Takes notices to the notifier.
pub(crate) struct NoticeCourier {
    pub(crate) shared: Arc<Shared>,
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

    fn outstanding(&self) -> Vec<NoticeItem> {
        let mut entries: Vec<Arc<Entry>> = {
            let registry = self.shared.registry();
            registry.entries.values().chain(&registry.unclaimed).cloned().collect()
        };
        entries.sort_by_key(|entry| (entry.record().completion.unwrap_or(u64::MAX), entry.sequence));
        let mut items = Vec::new();
        for entry in entries {
            let record = entry.record();
            let notice = if record.announced { record.notice_due() } else { record.stall.clone() };
            let moved = |transfer: &Transfer| NoticeItem::Moved {
                handle: entry.handle,
                from: transfer.from,
                to: transfer.to,
            };
            items.extend(record.manifest.transfers.iter().map(moved));
            let owner = record.manifest.identity.owner;
            items.extend(notice.map(|notice| NoticeItem::Notice { owner, notice }));
        }
        items
    }
}

impl<T> Queue<T> {
    /// Whether everything was taken.
    fn is_idle(&self) -> bool {
        self.items.is_empty() && !self.busy && self.coming == 0 && self.missed == 0
    }
}

impl<T> Outbox<T> {
    pub(crate) fn new() -> Self {
        let queue = Mutex::new(Queue { items: VecDeque::new(), busy: false, coming: 0, missed: 0 });
        Self { queue, wake: Notify::new(), idle: Notify::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is about to be queued: until what this gives is dropped, not everything was taken.
    pub(crate) fn coming(&self) -> Coming<'_, T> {
        self.queue().coming += 1;
        Coming(self)
    }

    pub(crate) fn push(&self, item: T) {
        {
            let mut queue = self.queue();
            if queue.missed > 0 || queue.items.len() >= CAPACITY {
                if queue.missed == 0 {
                    warn!("a service does not take what it is given; from now on the records have to do");
                }
                queue.missed += 1;
            } else {
                queue.items.push_back(item);
            }
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
                if queue.is_idle() {
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
        if queue.is_idle() {
            self.idle.notify_waiters();
        }
        item
    }

    /// Queues what found no room, from the records. Whether there was any.
    fn catch_up(&self, courier: &impl Courier<T>) -> bool {
        let mut missed = self.queue().missed;
        if missed == 0 {
            return false;
        }
        for look in 1..=LOOKS {
            let outstanding = courier.outstanding();
            let mut queue = self.queue();
            // What came up meanwhile may be in what was found, or not: one more look tells.
            if queue.missed == missed || look == LOOKS {
                queue.items.extend(outstanding);
                queue.missed = queue.missed.saturating_sub(missed);
                break;
            }
            missed = queue.missed;
        }
        true
    }

    /// Delivers until `stop`. What is not taken by then is left: a completion is published by the next restore.
    pub(crate) async fn deliver(&self, stop: CancellationToken, courier: impl Courier<T>) {
        loop {
            let Some(item) = self.pop() else {
                if self.catch_up(&courier) {
                    continue;
                }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A service for numbers: it refuses at first, and its records know every number below `recorded`.
    #[derive(Default)]
    struct Numbers {
        accepts: AtomicBool,
        recorded: Mutex<u64>,
        taken: Mutex<Vec<u64>>,
    }

    #[async_trait]
    impl Courier<u64> for Arc<Numbers> {
        async fn give(&self, _: &u64) -> Result<(), ServiceError> {
            if self.accepts.load(Ordering::SeqCst) {
                return Ok(());
            }
            Err(ServiceError::from(Box::<dyn std::error::Error + Send + Sync>::from("not now")))
        }

        async fn given(&self, item: u64) {
            self.taken.lock().unwrap().push(item);
        }

        fn outstanding(&self) -> Vec<u64> {
            let taken = self.taken.lock().unwrap().len() as u64;
            (taken..*self.recorded.lock().unwrap()).collect()
        }
    }

    impl Numbers {
        fn happen(&self, outbox: &Outbox<u64>, count: u64) {
            for _ in 0..count {
                let mut recorded = self.recorded.lock().unwrap();
                outbox.push(*recorded);
                *recorded += 1;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_finds_no_room_is_given_from_the_records_in_its_order() {
        let outbox = Arc::new(Outbox::new());
        let (numbers, stop) = (Arc::new(Numbers::default()), CancellationToken::new());
        let count = CAPACITY as u64 + 500;
        let delivering = {
            let (outbox, numbers, stop) = (Arc::clone(&outbox), Arc::clone(&numbers), stop.clone());
            tokio::spawn(async move { outbox.deliver(stop, numbers).await })
        };
        numbers.happen(&outbox, count);
        assert!(outbox.queue().items.len() <= CAPACITY, "a service that takes nothing costs no more memory");
        numbers.accepts.store(true, Ordering::SeqCst);
        outbox.flushed().await;
        numbers.happen(&outbox, 3);
        outbox.flushed().await;
        assert_eq!(
            *numbers.taken.lock().unwrap(),
            (0..count + 3).collect::<Vec<_>>(),
            "each once and in order"
        );
        stop.cancel();
        delivering.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_when_there_is_room_again_waits_behind_what_found_none() {
        let outbox = Arc::new(Outbox::new());
        let (numbers, stop) = (Arc::new(Numbers::default()), CancellationToken::new());
        numbers.happen(&outbox, CAPACITY as u64 + 1);
        for number in 0..10 {
            assert_eq!(outbox.pop(), Some(number));
            numbers.given(number).await;
        }
        numbers.happen(&outbox, 3);
        numbers.accepts.store(true, Ordering::SeqCst);
        let delivering = {
            let (outbox, numbers, stop) = (Arc::clone(&outbox), Arc::clone(&numbers), stop.clone());
            tokio::spawn(async move { outbox.deliver(stop, numbers).await })
        };
        outbox.flushed().await;
        assert_eq!(*numbers.taken.lock().unwrap(), (0..CAPACITY as u64 + 4).collect::<Vec<_>>());
        stop.cancel();
        delivering.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_about_to_come_is_waited_for_like_what_has_come() {
        let outbox = Arc::new(Outbox::new());
        let (numbers, stop) = (Arc::new(Numbers::default()), CancellationToken::new());
        numbers.accepts.store(true, Ordering::SeqCst);
        let delivering = {
            let (outbox, numbers, stop) = (Arc::clone(&outbox), Arc::clone(&numbers), stop.clone());
            tokio::spawn(async move { outbox.deliver(stop, numbers).await })
        };
        let coming = outbox.coming();
        let mut flushed = std::pin::pin!(outbox.flushed());
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut flushed).await.is_err());
        numbers.happen(&outbox, 1);
        drop(coming);
        flushed.await;
        assert_eq!(*numbers.taken.lock().unwrap(), [0]);
        // Nothing came after all.
        let coming = outbox.coming();
        let ((), ()) = tokio::join!(outbox.flushed(), async { drop(coming) });
        stop.cancel();
        delivering.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_takes_nothing_for_ever_ends_with_the_session() {
        let outbox = Arc::new(Outbox::new());
        let (numbers, stop) = (Arc::new(Numbers::default()), CancellationToken::new());
        numbers.happen(&outbox, CAPACITY as u64 * 2);
        let delivering = {
            let (outbox, stop) = (Arc::clone(&outbox), stop.clone());
            tokio::spawn(async move { outbox.deliver(stop, numbers).await })
        };
        tokio::time::sleep(Duration::from_secs(600)).await;
        stop.cancel();
        delivering.await.unwrap();
    }
}
