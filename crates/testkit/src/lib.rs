//! Test doubles for procyard, so that a suite can try every time what happens once in a thousand runs.
//!
//! - A runner and processes that play scripts ([`ScriptedRunner`]): a stop that loses a race, a tree that cannot be
//!   proven empty, a runner that hangs, on a paused clock.
//! - A store that loses at a power cut what was not synced ([`LosingStore`]), and [`PowerCuts`], which cuts at every
//!   step of whatever is stored.
//! - A store whose calls fail when the test says so ([`FaultyDir`]): a full disk, a broken one, a read-only one.
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
//! [`conformance`] has the rules of the runner contract as cases that any runner can be held against.
//!
//! Not for showing that anything is contained: only real processes can show that. Nor for showing that a file system
//! keeps its word: the store says what a program may rely on, and shows that it relies on no more.

pub mod conformance;

mod faults;
mod losing;
mod played;
mod runner;
mod script;

pub use faults::{Failure, Fault, Faults, FaultyDir, Operation};
pub use losing::{Cut, Cuts, LosingStore, Loss, PowerCuts};
pub use played::{DEADLINE, Played};
pub use runner::ScriptedRunner;
pub use script::{Leftover, Reaction, Script, SignalFault, StartFault};
