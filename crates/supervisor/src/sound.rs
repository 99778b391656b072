//! Foreign code that panics must not take a task of ours along.
//!
//! Not for our own code: a panic there is a fault, and is not carried on from.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// What the future gives, or `None` when it panics. Whatever it had begun is dropped before this resolves.
pub(crate) async fn sound<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |poll| poll.map(Some))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::sound;

    #[tokio::test]
    async fn a_panic_is_an_answer_also_after_an_await() {
        assert_eq!(sound(async { 3 }).await, Some(3));
        let breaks = async {
            tokio::task::yield_now().await;
            assert_eq!(1, 2, "it breaks");
        };
        assert_eq!(sound(breaks).await, None);
    }
}
