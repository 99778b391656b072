//! How far the caller of a dialect has read each process: its tools have no cursors, each result goes on where the one
//! before ended.
//!
//! In memory only. After a restart reading begins at the beginning again: nothing is missed, something may be shown
//! twice. Not for reading: see `unread`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procyard_core::Handle;

/// Below so many places nothing is looked through.
const FEW: usize = 64;

#[derive(Default)]
struct Marks {
    by_process: HashMap<Handle, u64>,
    /// How many there may be before those of processes that are gone are dropped.
    until: usize,
}

/// The places of one owner.
#[derive(Default)]
pub(crate) struct Places {
    /// Guards the marks; held for a look or a change.
    marks: Mutex<Marks>,
}

impl Places {
    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where reading goes on.
    pub(crate) fn of(&self, handle: &Handle) -> u64 {
        self.marks().by_process.get(handle).copied().unwrap_or(0)
    }

    /// A result is going to show what lies between two cursors. `None`: meanwhile another one has read on from there.
    ///
    /// `known` says whether there still is such a process; places of others are dropped now and then.
    pub(crate) fn claim(
        self: &Arc<Self>,
        handle: Handle,
        from: u64,
        to: u64,
        known: impl Fn(&Handle) -> bool,
    ) -> Option<Claim> {
        let mut marks = self.marks();
        if marks.by_process.get(&handle).copied().unwrap_or(0) != from {
            return None;
        }
        if marks.by_process.len() >= marks.until.max(FEW) {
            marks.by_process.retain(|handle, _| known(handle));
            marks.until = 2 * marks.by_process.len();
        }
        marks.by_process.insert(handle, to);
        drop(marks);
        Some(Claim { places: Arc::clone(self), handle, from, seen: AtomicBool::new(false) })
    }

    fn give_back(&self, handle: &Handle, from: u64) {
        if let Some(place) = self.marks().by_process.get_mut(handle) {
            *place = (*place).min(from);
        }
    }
}

/// Output that a result shows. Dropped without [`Claim::seen`] it was not seen: the next result shows it again.
pub(crate) struct Claim {
    places: Arc<Places>,
    handle: Handle,
    from: u64,
    seen: AtomicBool,
}

impl Claim {
    /// The result is on its way to the caller.
    pub(crate) fn seen(&self) {
        self.seen.store(true, Ordering::Relaxed);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.seen.load(Ordering::Relaxed) {
            self.places.give_back(&self.handle, self.from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::handle;

    #[test]
    fn what_was_seen_is_not_shown_again_and_what_was_not_is() {
        let places = Arc::new(Places::default());
        let one = handle(1);
        let claim = places.claim(one, 0, 10, |_| true).unwrap();
        assert_eq!(places.of(&one), 10);
        assert!(places.claim(one, 0, 12, |_| true).is_none(), "another result has it");
        claim.seen();
        drop(claim);
        assert_eq!(places.of(&one), 10);
        drop(places.claim(one, 10, 20, |_| true).unwrap());
        assert_eq!(places.of(&one), 10, "nobody saw it");
    }

    #[test]
    fn places_of_processes_that_are_gone_are_dropped() {
        let places = Arc::new(Places::default());
        for number in 0..=200 {
            places.claim(handle(number), 0, 1, |known| *known == handle(number)).unwrap().seen();
        }
        assert!(places.marks().by_process.len() <= FEW + 1);
    }
}
