//! The contract between a supervisor of processes and what can start them.
//!
//! Starting has two phases, because a lease on the workspace must match what will really be enforced: a [`Runner`]
//! *prepares* (validates, reserves, tells the effective access, spawns nothing), and a [`PreparedProcess`] *starts*, once.
//! A [`Process`] gives its streams, its leader's status, signals to its whole tree, and a proof that the tree is
//! empty. No PID is part of any type here.
//!
//! Whoever wants another sandbox (a container, a virtual machine, a remote host) implements these three
//! traits and has the whole of the supervisor above them. The crate `procyard-testkit` has every rule of this contract as
//! a case that such a runner can be held against.
//!
//! ```
//! use procyard_core::{ExecutionId, Origin};
//! use procyard_runner::{CommandSpec, ProcessRequest, StdinMode};
//!
//! let origin = Origin { execution: ExecutionId::from_random([1; 16]) };
//! let request = ProcessRequest {
//!     stdin: StdinMode::Open,
//!     ..ProcessRequest::new(CommandSpec::Shell("wc -l".to_owned()), "/tmp", origin)
//! };
//! assert!(request.terminal.is_none(), "pipes unless a terminal is asked for");
//! ```
//!
//! Not for supervision: quotas, output, records, deadlines and retention are built on top of this, runner-free.

mod check;
mod contract;
mod error;
mod request;

pub use contract::{
    Activity, Capabilities, Delivery, ExitStatus, Input, Output, PreparedProcess, Process, Runner,
    RunnerResolver, Signal, StreamMode, Tier, TreeProof,
};
pub use error::{RunnerError, RunnerErrorKind, SpawnFailure};
pub use request::{
    CommandSpec, Environment, EnvironmentBase, ProcessRequest, ResourceLimits, StdinMode, TerminalSize,
};
