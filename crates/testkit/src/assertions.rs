//! What holds of every supervisor that is well, as assertions for a suite: each says what was expected and what was
//! seen, and at which line it was asked.
//!
//! | assertion | holds when |
//! |---|---|
//! | [`assert_terminal_once`] | events tell one end of a process, under one id, and nothing after it |
//! | [`assert_noticed_once`], [`assert_no_notice`] | notices tell one end of a process under one id, or none |
//! | [`assert_pages_compose`] | pages of any sizes give each byte once, at its cursor, of its stream |
//! | [`assert_released`] | slots and waiters' places are all free again |
//! | [`assert_same_for_stranger`] | a process of somebody else is a missing one, in answers and effects |
//!
//! Of leases a [`Loan`](crate::Loan) tells.
//!
//! Not for what differs from suite to suite: states, codes and texts are compared with `assert_eq`.

mod announced;
mod pages;
mod released;
mod stranger;

use std::panic::Location;

pub use announced::{assert_no_notice, assert_noticed_once, assert_terminal_once};
pub use pages::assert_pages_compose;
pub use released::assert_released;
pub use stranger::assert_same_for_stranger;

/// What was seen instead of what was expected, in words.
type Verdict<T = ()> = Result<T, String>;

/// Panics with what was seen. A future has no caller to track, so it is told where it was made.
fn hold<T>(asked: &Location<'_>, verdict: Verdict<T>) -> T {
    verdict.unwrap_or_else(|seen| panic!("{seen} (asserted at {asked})"))
}
