//! How far a process has come, and those who wait for it to go on: the one place where an append or a transition meets
//! its waiters.
//!
//! A waiter looks and registers under one lock, which an append or a transition takes, too, so nothing that happens in
//! between is missed; each registered waiter is woken once, after the lock was let go. Of what processes there are this
//! knows nothing, and it uses nothing but a mutex and wakers, so that its tests explore every interleaving of it.
//!
//! Not for the record of a process: what is seen here is on disk already.

use std::future::poll_fn;
use std::ops::Deref;
use std::task::{Context, Poll, Waker};

use procyard_core::{Owner, State};
use slab::Slab;
use tokio::time::Instant;

use super::sync::{Mutex, MutexGuard, PoisonError};
use super::waiters::{Place, Waiters};

/// How far the output has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// Bytes appended.
    pub(crate) total_bytes: u64,
    /// When the last of them came; the start, before any.
    pub(crate) at: Instant,
}

/// How far the life has come. Terminal only once the terminal manifest is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) state: State,
    /// Whose it is now; whoever waits for another owner waits no longer.
    pub(crate) owner: Owner,
    pub(crate) teardown_failed: bool,
}

/// Where a process stands at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) progress: Progress,
    pub(crate) life: Life,
    /// The session is over: nothing here changes any more that anybody could wait for.
    pub(crate) closed: bool,
}

impl Standing {
    /// The end of the output, when it is another one than was seen.
    pub(crate) fn output_beyond(&self, seen: u64) -> Option<u64> {
        (self.progress.total_bytes != seen).then_some(self.progress.total_bytes)
    }
}

/// What a waiter is woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Output, and what happens to the life.
    ForOutput,
    /// What happens to the life alone: output does not wake it.
    ForLife,
}

/// The course of one process.
pub(crate) struct Course {
    /// Guards where the process stands and who waits; held for a look, a change or a place in a row, never while anybody is
    /// woken.
    inner: Mutex<Inner>,
}

struct Inner {
    standing: Standing,
    for_output: Waiters,
    for_life: Waiters,
}

impl Inner {
    fn row(&mut self, waits: Waits) -> &mut Waiters {
        match waits {
            Waits::ForOutput => &mut self.for_output,
            Waits::ForLife => &mut self.for_life,
        }
    }
}

impl Course {
    pub(crate) fn new(progress: Progress, life: Life) -> Self {
        let standing = Standing { progress, life, closed: false };
        let inner = Inner { standing, for_output: Waiters::default(), for_life: Waiters::default() };
        Self { inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Changes are assignments of plain values: a panic leaves none of them half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it stands now.
    pub(crate) fn standing(&self) -> Standing {
        self.inner().standing
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        let inner = self.inner();
        inner.for_output.len() + inner.for_life.len()
    }

    /// There is more output, and it can be read. Whether anybody waited for it.
    pub(crate) fn append(&self, total_bytes: u64, at: Instant) -> bool {
        let mut inner = self.inner();
        inner.standing.progress = Progress { total_bytes, at };
        let woken = inner.for_output.call();
        drop(inner);
        let any = !woken.is_empty();
        wake(woken);
        any
    }

    /// What there is of the output turned out to be another amount.
    pub(crate) fn correct(&self, total_bytes: u64) {
        self.change(|standing| {
            standing.progress.total_bytes = total_bytes;
            true
        });
    }

    /// Silence counts from here on, and not from before.
    pub(crate) fn rest_from(&self, at: Instant) {
        self.change(|standing| {
            standing.progress.at = at;
            true
        });
    }

    /// The command was executed.
    pub(crate) fn runs(&self) {
        self.change(|standing| {
            let starts = !standing.life.state.is_terminal();
            if starts {
                standing.life.state = State::Running;
            }
            starts
        });
    }

    /// The process is terminal. Whoever comes first says how it ended, for good: false for all others.
    pub(crate) fn end(&self, state: State) -> bool {
        self.change(|standing| {
            let first = !standing.life.state.is_terminal();
            if first {
                standing.life.state = state;
                standing.life.teardown_failed = false;
            }
            first
        })
    }

    /// It has another owner from here on.
    pub(crate) fn give(&self, owner: Owner) {
        self.change(|standing| {
            standing.life.owner = owner;
            true
        });
    }

    /// Whether its tree could not be proven empty in time.
    pub(crate) fn set_teardown_failed(&self, failed: bool) {
        self.change(|standing| std::mem::replace(&mut standing.life.teardown_failed, failed) != failed);
    }

    /// The session is over.
    pub(crate) fn close(&self) {
        self.change(|standing| !std::mem::replace(&mut standing.closed, true));
    }

    /// Changes where it stands; everybody is woken when `change` says that it did, which this passes on.
    fn change(&self, change: impl FnOnce(&mut Standing) -> bool) -> bool {
        let mut inner = self.inner();
        let changed = change(&mut inner.standing);
        if changed {
            let (for_output, for_life) = (inner.for_output.call(), inner.for_life.call());
            drop(inner);
            wake(for_output);
            wake(for_life);
        }
        changed
    }
}

fn wake(woken: Slab<Waker>) {
    for (_, waker) in woken {
        waker.wake();
    }
}

impl AsRef<Course> for Course {
    fn as_ref(&self) -> &Course {
        self
    }
}

/// One who waits at a course. It stands in a row from a look that did not satisfy it until it is woken, satisfied or
/// dropped.
pub(crate) struct CourseWaiter<C: Deref<Target: AsRef<Course>>> {
    course: C,
    waits: Waits,
    place: Option<Place>,
}

impl<C: Deref<Target: AsRef<Course>>> CourseWaiter<C> {
    pub(crate) fn new(course: C, waits: Waits) -> Self {
        Self { course, waits, place: None }
    }

    /// Looks; the waker of `context` is woken at the next thing that is waited for, unless `look` is satisfied now. `look`
    /// runs under the lock.
    pub(crate) fn poll<R>(
        &mut self,
        context: &Context<'_>,
        look: impl FnOnce(&Standing) -> Option<R>,
    ) -> Poll<R> {
        let mut inner = self.course.as_ref().inner();
        let found = look(&inner.standing);
        let row = inner.row(self.waits);
        let unused = match &found {
            Some(_) => self.place.take().and_then(|place| row.leave(place)),
            None => row.register(&mut self.place, context.waker()),
        };
        drop(inner);
        // Foreign code, which may come back here.
        drop(unused);
        found.map_or(Poll::Pending, Poll::Ready)
    }

    /// Resolves with what `look` finds, as soon as it finds something. Cancellation safe.
    pub(crate) async fn until<R>(&mut self, mut look: impl FnMut(&Standing) -> Option<R>) -> R {
        poll_fn(|context| self.poll(context, &mut look)).await
    }
}

impl<C: Deref<Target: AsRef<Course>>> Drop for CourseWaiter<C> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let mut inner = self.course.as_ref().inner();
            let unused = inner.row(self.waits).leave(place);
            drop(inner);
            drop(unused);
        }
    }
}
