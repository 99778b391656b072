//! Strategies for property tests: what owners, commands and callers can come up with.
//!
//! They shrink to what is plain: one stream, short output, an exit with 0, a script that does nothing.
//!
//! ```
//! use procyard_testkit::strategies::{chunks, sizes};
//! use proptest::test_runner::TestRunner;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What `proptest!` does, without its macro:
//! TestRunner::default().run(&(chunks(24), sizes(40)), |(chunks, sizes)| {
//!     let printed: Vec<u8> = chunks.into_iter().flat_map(|(_, bytes)| bytes).collect();
//!     // ... what reads `printed` in pieces of `sizes` gives all of it
//!     # assert!(printed.len() < 1 << 16 && !sizes.is_empty());
//!     Ok(())
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! Not for what one suite alone knows: the steps of its own model are its own.

mod lives;
mod output;

use proptest::prelude::*;
use proptest::sample::select;

use procyard_core::{
    ExecutionId, Handle, Limits, LoopId, Origin, Owner, SessionId, SignalNumber, StopKind, WaitStatus,
};

pub use lives::scripts;
pub use output::{PARTS, chunks, sizes};

/// Any handle.
pub fn handles() -> impl Strategy<Value = Handle> {
    any::<[u8; 16]>().prop_map(Handle::from_bytes)
}

/// Any owner: any loop of any session.
pub fn owners() -> impl Strategy<Value = Owner> {
    (any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(session, loop_id)| Owner {
        session: SessionId::from_random(session),
        loop_id: LoopId::from_random(loop_id),
    })
}

/// Owners that are not this one: other loops of its session, the same loop of other sessions, and all others.
pub fn strangers(of: Owner) -> impl Strategy<Value = Owner> {
    let other = owners();
    let stranger = (0_u8..3, other).prop_map(move |(what, other)| match what {
        0 => Owner { session: of.session, ..other },
        1 => Owner { loop_id: of.loop_id, ..other },
        _ => other,
    });
    stranger.prop_filter("a stranger", move |stranger| *stranger != of)
}

/// Any origin.
pub fn origins() -> impl Strategy<Value = Origin> {
    any::<[u8; 16]>().prop_map(|bytes| Origin { execution: ExecutionId::from_random(bytes) })
}

/// How a leader can end: with any code, or by any signal.
pub fn wait_statuses() -> impl Strategy<Value = WaitStatus> {
    let signal = (1..=64_u8).prop_filter_map("1 to 64 are signals", SignalNumber::new);
    prop_oneof![
        3 => any::<u8>().prop_map(WaitStatus::exited),
        1 => signal.prop_map(WaitStatus::signalled),
    ]
}

/// Any kind of stop.
pub fn stop_kinds() -> impl Strategy<Value = StopKind> {
    select(vec![StopKind::Kill, StopKind::Terminate, StopKind::Interrupt])
}

/// Small limits that are valid: few slots and places, windows and spools of which not all fit, short times.
pub fn limits() -> impl Strategy<Value = Limits> {
    let counts = (1..4_u32, 1..5_u32, 1..4_u32, 1..4_u32);
    let sizes = (1..8_u64, 1..4_u64, 1..8_u64, 1..4_u64);
    (counts, sizes).prop_map(
        |((of_loop, of_session, retained, waiters), (window, windows, spool, spools))| Limits {
            running_per_loop: of_loop.min(of_session),
            running_per_session: of_session,
            retained_per_session: retained,
            waiters,
            window_bytes: window << 12,
            window_bytes_total: (window << 12) * windows,
            spool_bytes: spool << 14,
            spool_bytes_total: (spool << 14) * spools,
            ..Limits::default()
        },
    )
}

/// Several sequences as one, in any order that keeps each of them in its own; each item with the number of its sequence.
pub fn interleavings<T: Clone + std::fmt::Debug + 'static>(
    sequences: Vec<Vec<T>>,
) -> impl Strategy<Value = Vec<(usize, T)>> {
    let turns: Vec<usize> =
        sequences.iter().enumerate().flat_map(|(number, items)| vec![number; items.len()]).collect();
    Just(turns).prop_shuffle().prop_map(move |turns| {
        let mut left: Vec<_> = sequences.iter().map(|items| items.iter().cloned()).collect();
        let item = |number: usize| Some((number, left.get_mut(number)?.next()?));
        turns.into_iter().filter_map(item).collect()
    })
}
