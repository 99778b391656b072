//! What tests with procyard are made of, so that a suite can try every time what happens once in a thousand runs.
//!
//! | for | there is | feature |
//! |---|---|---|
//! | processes | [`ScriptedRunner`], which plays a [`Script`] for each: a stop that loses a race, a tree that cannot be proven empty, a runner that hangs, on a paused clock | |
//! | disks | [`LosingStore`], which loses at a power cut what was not synced, and [`PowerCuts`], which cuts at every step; [`FaultyDir`], whose calls fail when the test says so | |
//! | services | [`Journal`], which keeps what is published, or fails, panics or hangs; [`Loan`], a lease that says what became of it | `supervisor` |
//! | rules | [`assertions`]: one end, one notice, pages that compose, everything given back, nothing said to strangers | `supervisor` |
//! | a runner of your own | [`conformance`]: the runner contract as cases that any runner can be held against | |
//! | whatever may come | [`strategies`]: owners, scripts, output, limits for property tests | `proptest` |
//!
//! Both features are on by default. [`guide`] shows how to test a runner, an embedding of the supervisor and a store.
//!
//! ```
//! use procyard_core::{ExecutionId, LeaderEnd, Origin, WaitStatus};
//! use procyard_runner::{CommandSpec, ProcessRequest, Runner, Signal, TreeProof};
//! use procyard_testkit::{Reaction, Script, ScriptedRunner};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), procyard_runner::RunnerError> {
//! let origin = Origin { execution: ExecutionId::from_random([1; 16]) };
//! let runner = ScriptedRunner::new(Script::new().on_terminate(Reaction::Exit(3)));
//! let request = ProcessRequest::new(CommandSpec::Shell("serve".into()), "/", origin);
//! let process = runner.prepare(request).await?.start().await?;
//!
//! assert!(process.signal(Signal::Terminate).await?.leader_alive);
//! assert_eq!(process.wait().await.status.map(WaitStatus::end), Some(LeaderEnd::Code(3)));
//! assert_eq!(process.tree().await, TreeProof::Empty);
//! # Ok(())
//! # }
//! ```
//!
//! Not for showing that anything is contained: only real processes can show that. Nor for showing that a file system
//! keeps its word: the store says what a program may rely on, and shows that it relies on no more.

#[cfg(feature = "supervisor")]
pub mod assertions;
pub mod conformance;
#[cfg(all(feature = "supervisor", feature = "proptest"))]
pub mod guide;
#[cfg(feature = "proptest")]
pub mod strategies;

mod faults;
#[cfg(feature = "supervisor")]
mod journal;
#[cfg(feature = "supervisor")]
mod loan;
mod losing;
mod played;
mod runner;
mod script;

pub use faults::{Failure, Fault, Faults, FaultyDir, Operation};
#[cfg(feature = "supervisor")]
pub use journal::Journal;
#[cfg(feature = "supervisor")]
pub use loan::Loan;
pub use losing::{Cut, Cuts, LosingStore, Loss, PowerCuts};
pub use played::{DEADLINE, Played};
pub use runner::ScriptedRunner;
pub use script::{Leftover, Reaction, Script, SignalFault, StartFault};
