//! How much is held for one client, so that it can be bounded.
//!
//! Not for what is done when it is too much: see `lines`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// All that is held, in bytes. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Weight(Arc<Total>);

#[derive(Default)]
struct Total {
    bytes: AtomicUsize,
    /// Told when it is less than before.
    less: Notify,
}

impl Weight {
    /// Resolves when so much is held at most. Cancellation safe.
    pub(crate) async fn at_most(&self, bytes: usize) {
        loop {
            let less = self.0.less.notified();
            if self.0.bytes.load(Ordering::Relaxed) <= bytes {
                return;
            }
            less.await;
        }
    }

    /// Holds so much more, for as long as what is returned lives.
    pub(crate) fn hold(&self, bytes: usize) -> Share {
        let mut share = Share { of: self.clone(), bytes: 0 };
        share.grow(bytes);
        share
    }
}

/// A part of what is held. Dropping it lets go of it.
pub(crate) struct Share {
    of: Weight,
    bytes: usize,
}

impl Share {
    /// Holds so much more.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.of.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Lets go of everything.
    pub(crate) fn shrink(&mut self) {
        self.of.0.bytes.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
        self.of.0.less.notify_waiters();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_for_less_is_told_when_a_share_goes() {
        let weight = Weight::default();
        let mut first = weight.hold(1);
        let second = weight.hold(2);
        first.grow(4);
        let mut room = std::pin::pin!(weight.at_most(2));
        assert!(futures_util::poll!(&mut room).is_pending());
        drop(second);
        assert!(futures_util::poll!(&mut room).is_pending(), "five are held");
        drop(first);
        assert!(futures_util::poll!(&mut room).is_ready());
    }
}
