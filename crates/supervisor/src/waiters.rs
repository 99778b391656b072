//! Who waits for one thing, and where each of them stands in the row.
//!
//! Not for locking: a row lies behind the lock of what is waited for.

use std::task::Waker;

use slab::Slab;

/// The wakers of those who wait for one thing.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    row: Slab<Waker>,
    /// How often the row was called: whoever registered before that has left it.
    calls: u64,
}

/// A place in a row, until the row is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    key: usize,
    calls: u64,
}

impl Waiters {
    /// Registers a waker in this place, or in a new one when the row was called meanwhile. Gives back the waker that it
    /// replaces: dropping one can run foreign code, which must not happen under the lock.
    pub(crate) fn register(&mut self, place: &mut Option<Place>, waker: &Waker) -> Option<Waker> {
        if let Some(held) = place.and_then(|place| self.held(place)) {
            return (!held.will_wake(waker)).then(|| std::mem::replace(held, waker.clone()));
        }
        *place = Some(Place { key: self.row.insert(waker.clone()), calls: self.calls });
        None
    }

    fn held(&mut self, place: Place) -> Option<&mut Waker> {
        // After a call somebody else has the place.
        (place.calls == self.calls).then(|| self.row.get_mut(place.key)).flatten()
    }

    /// Gives a place back, with its waker if the row was not called meanwhile.
    pub(crate) fn leave(&mut self, place: Place) -> Option<Waker> {
        (place.calls == self.calls).then(|| self.row.try_remove(place.key)).flatten()
    }

    /// Calls everybody: the wakers of all who wait, who have left by that.
    pub(crate) fn call(&mut self) -> Slab<Waker> {
        self.calls += 1;
        std::mem::take(&mut self.row)
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.row.len()
    }
}
