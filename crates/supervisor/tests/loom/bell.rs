//! A thread that waits for a future, and counts how often it was woken.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Notify;

/// Wakes the thread that sleeps at it.
pub(crate) struct Bell {
    notify: Notify,
    /// Not one of loom's: it is looked at when all threads have ended.
    rings: AtomicUsize,
}

impl Bell {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { notify: Notify::new(), rings: AtomicUsize::new(0) })
    }

    pub(crate) fn rings(&self) -> usize {
        self.rings.load(Ordering::Relaxed)
    }

    /// Drives a future to its end, asleep while it is pending.
    pub(crate) fn sleep_until<T>(self: &Arc<Self>, future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(found) = future.as_mut().poll(&mut context) {
                return found;
            }
            self.notify.wait();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.fetch_add(1, Ordering::Relaxed);
        self.notify.notify();
    }
}
