//! Progress of a foreground command for whoever watches its call: how much it has printed, and its last line.
//!
//! Not for results: a report is lost without loss.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use procyard_api::Encoding;
use procyard_core::{Handle, Owner};
use procyard_supervisor::{StreamFilter, Supervisor};
use procyard_text::shorten;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::page::{Look, Tail, tail};
use crate::source::Supervised;

/// Time between two reports at least.
const EVERY: Duration = Duration::from_secs(1);

/// Bytes in which the last line is looked for.
const LAST_LINE: usize = 1024;

/// Characters of a last line that are shown.
const SHOWN: usize = 200;

/// Takes reports of progress. Called at most once a second for a call; must not block.
pub trait Progress: Send + Sync {
    /// So many bytes were printed so far, and this is the last line, as safe text of at most 200 characters.
    fn report(&self, bytes: u64, last_line: &str);
}

/// Reports while a call waits.
pub(crate) struct Reporter<'p> {
    progress: &'p Arc<dyn Progress>,
}

impl<'p> Reporter<'p> {
    pub(crate) fn new(progress: &'p Arc<dyn Progress>) -> Self {
        Self { progress }
    }

    /// Drives `waiting` to its end and reports what is new meanwhile.
    pub(crate) async fn during<T>(
        &self,
        waiting: impl Future<Output = T>,
        supervisor: &Supervisor,
        owner: Owner,
        handle: Handle,
    ) -> T {
        let mut waiting = std::pin::pin!(waiting);
        let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reported = 0;
        loop {
            tokio::select! {
                biased;
                result = &mut waiting => return result,
                _ = ticks.tick() => {}
            }
            let Ok(snapshot) = supervisor.snapshot(owner, &handle) else { continue };
            if snapshot.total_bytes == reported {
                continue;
            }
            reported = snapshot.total_bytes;
            let source = Supervised { supervisor, owner, handle, streams: StreamFilter::Both };
            let look = Look { limit: LAST_LINE, encoding: Encoding::SafeText, collapse: true };
            // The wait goes on while the line is read.
            let last = tokio::select! {
                biased;
                result = &mut waiting => return result,
                last = tail(&source, Tail::Bytes(LAST_LINE as u64), &look) => last,
            };
            if let Ok(last) = last {
                let line = last.output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                self.progress.report(reported, &shorten(line, SHOWN));
            }
        }
    }
}
