//! How to test what you build on procyard: a page for each thing that one builds.
//!
//! | you build | read | you get |
//! |---|---|---|
//! | a runner: a sandbox, a container, a remote machine, a layer around another runner | [`runner`] | every rule of the contract as a case, run against yours |
//! | a program that embeds the supervisor | [`embedding`] | lives of processes in no time, and every fault when you want it |
//! | a store, or something that is kept in one | [`store`] | failures at any call, power cuts at every step |
//!
//! Three habits make such tests quick and honest:
//!
//! - **Pause the clock.** Under `#[tokio::test(start_paused = true)]` time passes when everything waits, so ten minutes of
//!   deadline cost nothing, and what happens first is always the same.
//! - **Wait for what must happen, with a deadline.** [`Journal::until`](crate::Journal::until) and
//!   `Supervisor::wait` do, up to [`DEADLINE`](crate::DEADLINE). A sleep that hopes is a test that sometimes fails.
//! - **Ask the rules at the end.** What a test is about it asserts itself; what holds of every life is asserted by
//!   [`assertions`](crate::assertions) in a line each.
//!
//! Not for what only real processes and real disks show: run a few tests on those too.

pub mod embedding;
pub mod runner;
pub mod store;
