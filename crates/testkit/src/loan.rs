//! A lease that says what became of it.
//!
//! Not for who excludes whom: that is [`Leases`](procyard_supervisor::Leases)'.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use procyard_supervisor::Lease;

/// The lender's side of a [`Lease`]: counts how often it was given back.
///
/// ```
/// use procyard_testkit::Loan;
///
/// let (lease, loan) = Loan::new();
/// loan.assert_held();
/// drop(lease); // what a supervisor does once, at the end
/// loan.assert_released_once();
/// ```
#[derive(Debug, Clone)]
pub struct Loan {
    released: Arc<AtomicU32>,
}

impl Loan {
    /// A lease to start a process with, and its loan.
    pub fn new() -> (Lease, Self) {
        let released = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&released);
        let lease = Lease::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        (lease, Self { released })
    }

    /// How often it was given back.
    pub fn released(&self) -> u32 {
        self.released.load(Ordering::SeqCst)
    }

    /// # Panics
    ///
    /// When it was given back.
    #[track_caller]
    pub fn assert_held(&self) {
        let released = self.released();
        assert!(released == 0, "expected the lease to be held; it was given back {released} times");
    }

    /// # Panics
    ///
    /// When it is held still, or was given back more than once.
    #[track_caller]
    pub fn assert_released_once(&self) {
        let released = self.released();
        assert!(
            released == 1,
            "expected the lease to be given back once; it was given back {released} times"
        );
    }
}
