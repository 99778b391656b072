//! Feeding a probe what a process prints: page by page, each byte once, told of what is missing, until the probe is
//! satisfied, the process has ended, or the time is over.
//!
//! Not for reading, and not for several targets: see `read` and `wait`.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use procyard_core::Owner;
use procyard_spool::{Page, StreamFilter};
use tokio::time::Instant;

use crate::course::{Standing, Waits};
use crate::entry::Entry;
use crate::read::read_entry;
use crate::shared::Shared;
use crate::wait::is_over;
use crate::{Probe, ReadFrom, ReadRequest, SupervisorError};

/// How much output a probe is fed at a time.
const FEED_BYTES: usize = 64 * 1024;

/// How many pages the probes of one wait are fed when its time is over: 16 MiB, which the faster ones have looked at in
/// some ten milliseconds.
const LATE_PAGES: usize = 256;

/// How long a probe is fed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    /// When the wait is over; `None`: never.
    end: Option<Instant>,
    /// How many pages may be fed after that.
    late: usize,
}

impl Time {
    /// The time of one of `targets` that are waited for together.
    pub(crate) fn new(end: Option<Instant>, targets: usize) -> Self {
        Self { end, late: LATE_PAGES / targets.max(1) }
    }

    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Whether one more page may be fed.
    fn takes_page(&mut self) -> bool {
        if !self.is_over() {
            return true;
        }
        let left = self.late.checked_sub(1);
        self.late = left.unwrap_or(0);
        left.is_some()
    }
}

/// One probe and what it is fed.
pub(crate) struct Feed<'w> {
    pub(crate) shared: &'w Arc<Shared>,
    pub(crate) entry: &'w Arc<Entry>,
    pub(crate) owner: Owner,
    /// How far the probe was fed.
    pub(crate) cursor: u64,
    pub(crate) probe: &'w mut dyn Probe,
    pub(crate) time: Time,
}

impl Feed<'_> {
    /// Resolves with true when the probe is satisfied or the process has ended; with false when the time is over, once the
    /// probe was fed what was there then, within a bound. Nobody wakes it when the time is over: whoever polls it has a
    /// timer for all targets.
    pub(crate) async fn run(mut self) -> bool {
        let mut news = self.entry.waiter(Waits::ForOutput);
        let mut fed = None;
        loop {
            let (owner, time) = (self.owner, self.time);
            let next = poll_fn(|context| {
                let more = |standing: &Standing| {
                    let total = standing.progress.total_bytes;
                    (fed != Some(total) || is_over(standing, owner) || standing.closed).then_some(*standing)
                };
                match news.poll(context, more) {
                    Poll::Pending if time.is_over() => Poll::Ready(None),
                    news => news.map(Some),
                }
            });
            // Looked at before the output is: what is fed now is the last then, however fast more comes.
            let last = time.is_over();
            let Some(Standing { progress, life, closed }) = next.await else { return false };
            if life.owner != owner {
                // From now on it is a process that is not there.
                return true;
            }
            // Output and state are of the same moment: what was printed before the end is fed before the end.
            if self.feed_to(progress.total_bytes).await {
                return true;
            }
            if life.state.is_terminal() {
                // A stored spool can turn out to have less than its record says.
                if self.cursor >= self.entry.course.standing().progress.total_bytes {
                    self.probe.finish();
                }
                return true;
            }
            if closed || last {
                return false;
            }
            fed = Some(progress.total_bytes);
            // A process that prints faster than the probe takes it in keeps this task busy, not its thread.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Feeds what was printed up to `total`; true when the probe is satisfied.
    async fn feed_to(&mut self, total: u64) -> bool {
        while self.cursor < total && self.time.takes_page() {
            let request = ReadRequest {
                from: ReadFrom::Cursor(self.cursor),
                max_bytes: FEED_BYTES,
                streams: StreamFilter::Both,
            };
            let satisfied = match read_entry(self.shared, self.entry, request).await {
                Ok(page) if page.next_cursor > self.cursor => {
                    self.cursor = page.next_cursor;
                    feed_page(self.probe, &page)
                }
                Err(SupervisorError::Damaged { until, .. }) if until > self.cursor => {
                    self.cursor = until;
                    self.probe.damaged(until)
                }
                // Output that does not read cannot satisfy anything; the end of the process will.
                Ok(_) | Err(_) => return false,
            };
            if satisfied {
                return true;
            }
            if self.cursor < total {
                // Pages from memory take no waiting: others have their turn, and the time its chance to pass.
                tokio::task::yield_now().await;
            }
        }
        false
    }
}

/// Feeds a page's bytes and gaps in the order of their cursors, then lets the probe look at them.
fn feed_page(probe: &mut dyn Probe, page: &Page) -> bool {
    let mut gaps = page.gaps.iter().peekable();
    for span in &page.spans {
        while let Some(gap) = gaps.next_if(|gap| gap.until <= span.cursor) {
            probe.gap(gap.until);
        }
        if probe.feed(span.cursor, span.stream, &page.bytes[span.offset..span.offset + span.len]) {
            return true;
        }
    }
    for gap in gaps {
        probe.gap(gap.until);
    }
    probe.look()
}
