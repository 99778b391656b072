//! The journal and the live view joined: each record exactly once and in its order, samples of output between.
//!
//! The view is begun before the journal is read, and only says that there is something new: what is sent comes from the
//! journal, which has every event before a view shows it. So nothing is lost or repeated at the join, and a view that is
//! behind loses nothing. Nothing is made ahead of whoever asks, so that a slow client costs one page. Not for the wire.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use procyard_api::OutputResult;
use procyard_api::http::{EventRecord, LagNotice, OutputSample, StreamEndReason};
use procyard_core::Handle;
use procyard_supervisor::{LiveEvent, Subscription};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::Scope;
use super::problem::Problem;
use super::tool;

/// Records read at a time.
const PAGE: usize = 64;

/// The time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// Bytes of output that a sample shows.
const SAMPLE_BYTES: u64 = 2048;

/// Something that a stream carries.
#[derive(Debug)]
pub(crate) enum Followed {
    Record(Box<EventRecord>),
    Sample(OutputSample),
    Lagged(LagNotice),
    End(StreamEndReason),
}

pub(crate) struct Follow {
    scope: Scope,
    view: Subscription,
    stop: CancellationToken,
    /// Everything up to here was sent, or is not for this caller.
    seen: u64,
    /// The journal may have more.
    behind: bool,
    ready: VecDeque<Followed>,
    /// Whether samples are sent.
    samples: bool,
    /// What has printed since it was sampled.
    printed: BTreeSet<Handle>,
    next_sample: Instant,
    over: bool,
}

impl Follow {
    /// Follows from now on, or behind a record, which the named field of the request says.
    pub(crate) async fn begin(
        scope: Scope,
        after: Option<(u64, &str)>,
        samples: bool,
        stop: CancellationToken,
    ) -> Result<Self, Problem> {
        let supervisor = scope.session.supervisor();
        let view = match scope.owner {
            Some(owner) => supervisor.subscribe(owner)?,
            None => supervisor.subscribe_all()?,
        };
        let last = scope.session.journal(procyard_journal::Journal::event_bounds).await?.last;
        let seen = match after {
            Some((after, field)) if after > last => return Err(Problem::ahead_of_journal(field)),
            Some((after, _)) => after,
            None => last,
        };
        Ok(Self {
            scope,
            view,
            stop,
            seen,
            behind: true,
            ready: VecDeque::new(),
            samples,
            printed: BTreeSet::new(),
            next_sample: Instant::now(),
            over: false,
        })
    }

    /// Whether the process that is followed has ended and everything of it was seen.
    pub(crate) async fn has_nothing_more(&self) -> Result<bool, Problem> {
        if self.scope.process.is_none() {
            return Ok(false);
        }
        let (filter, seen) = (self.scope.filter(), self.seen);
        // A life has a handful of records, and its end is the last.
        let events =
            self.scope.session.journal(move |journal| journal.events_after(0, PAGE, &filter)).await?.events;
        Ok(events.last().is_some_and(|(seq, event)| *seq <= seen && event.kind.is_end()))
    }

    /// The next thing; `None` at the end. Cancellation safe.
    pub(crate) async fn next(&mut self) -> Option<Followed> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.over {
                return None;
            }
            if self.stop.is_cancelled() {
                self.end(StreamEndReason::ShuttingDown);
            } else if self.behind {
                match self.read().await {
                    Ok(()) => {}
                    // The journal is closed with the session, which does not wait for whoever reads it.
                    Err(_) if self.scope.session.ending.is_cancelled() => self.end(self.closed()),
                    Err(problem) => {
                        tracing::warn!(error = %problem.into_error(), "a stream of events ends early");
                        self.end(StreamEndReason::Unavailable);
                    }
                }
            } else {
                self.listen().await;
            }
        }
    }

    fn end(&mut self, reason: StreamEndReason) {
        self.over = true;
        self.ready.push_back(Followed::End(reason));
    }

    /// Reads a page of the journal.
    async fn read(&mut self) -> Result<(), Problem> {
        let (filter, seen) = (self.scope.filter(), self.seen);
        let page =
            self.scope.session.journal(move |journal| journal.events_after(seen, PAGE, &filter)).await?;
        if page.bounds.retained_from > seen.saturating_add(1) {
            let lag = LagNotice { from_seq: seen + 1, until_seq: page.bounds.retained_from };
            self.ready.push_back(Followed::Lagged(lag));
            self.seen = page.bounds.retained_from - 1;
        }
        for (seq, event) in &page.events {
            let last = self.scope.process.is_some() && event.kind.is_end();
            if event.kind.is_end() && self.printed.remove(&event.identity.handle) {
                // What it printed at last is shown before its end.
                self.sample(event.identity.handle).await;
            }
            self.ready.push_back(Followed::Record(Box::new(self.scope.record(*seq, event))));
            self.seen = *seq;
            if last {
                self.over = true;
                return Ok(());
            }
        }
        self.behind = page.more;
        if !page.more {
            // What is between is not for this caller, and need not be asked for again.
            self.seen = self.seen.max(page.bounds.last);
        }
        Ok(())
    }

    /// Waits for something new.
    async fn listen(&mut self) {
        let due = self.next_sample;
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            event = self.view.next() => match event {
                Some(LiveEvent::Lifecycle(_) | LiveEvent::Lagged(_)) => self.behind = true,
                Some(LiveEvent::Output { handle, .. }) => {
                    if self.samples && self.scope.process.is_none_or(|process| process == handle) {
                        self.printed.insert(handle);
                    }
                }
                None => self.end(self.closed()),
            },
            () = tokio::time::sleep_until(due), if !self.printed.is_empty() => {
                if let Some(handle) = self.printed.pop_first() {
                    self.next_sample = Instant::now() + SAMPLE_EVERY;
                    self.sample(handle).await;
                }
            }
        }
    }

    /// What has ended the view.
    fn closed(&self) -> StreamEndReason {
        if self.loop_is_closed() { StreamEndReason::LoopClosed } else { StreamEndReason::SessionClosed }
    }

    fn loop_is_closed(&self) -> bool {
        self.scope.owner.is_some_and(|owner| self.scope.session.supervisor().is_closed(owner))
    }

    /// Makes a sample of what a process printed last; none of one that is gone, and none for a loop that is closed: its token
    /// is worth no output any more.
    async fn sample(&mut self, handle: Handle) {
        if self.loop_is_closed() {
            return;
        }
        let session = &self.scope.session;
        let toolbox = match self.scope.owner {
            Some(owner) => session.toolbox(owner),
            None => match session.overseer().owner_of(&handle) {
                Some(owner) => session.overseeing_toolbox(owner),
                None => return,
            },
        };
        let arguments =
            json!({ "process_id": handle, "tail_bytes": SAMPLE_BYTES, "limit_bytes": SAMPLE_BYTES });
        // The reply is dropped: a sample tells nobody how a process ended.
        let Ok(reply) = tool::call(&toolbox, "ProcessOutput", arguments).await else { return };
        let Ok(result) = serde_json::from_value::<OutputResult>(reply.structured.clone()) else { return };
        self.ready.push_back(Followed::Sample(OutputSample {
            process_id: handle,
            sample: true,
            text: result.output,
            start_cursor: result.start_cursor,
            total_bytes: result.total_bytes,
        }));
    }
}
