//! A procyard runner for this machine: pipes, terminals, and process trees that cannot escape.
//!
//! Every command is the leader of a tree. A *shim*, a subreaper, is above each tree, and a *guardian* above all shims of
//! one supervisor; where a cgroup can be made, each tree has a leaf of its own; where that is required, each has a PID
//! namespace. Whoever of supervisor, guardian and shims
//! dies, the others end the tree, and "empty" is only said when it is proven. `docs/containment.md` has the threat
//! model and the matrix of deaths.
//!
//! ```no_run
//! use procyard_core::{ExecutionId, Origin};
//! use procyard_host::{HostOptions, HostRunner};
//! use procyard_runner::{CommandSpec, ProcessRequest, Runner, Signal, TreeProof};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // First of all: in a process that was started as a guardian this never returns.
//! procyard_host::enter();
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let runner = HostRunner::start(HostOptions::default()).await?;
//! let origin = Origin { execution: ExecutionId::from_random([1; 16]) };
//! let command = CommandSpec::Shell("setsid sleep 1000 & exit 3".to_owned());
//! let process = runner.prepare(ProcessRequest::new(command, "/", origin)).await?.start().await?;
//! assert_eq!(process.wait().await.status.map(|status| status.0 >> 8), Some(3));
//! process.signal(Signal::Kill).await?;
//! assert_eq!(process.emptied().await, TreeProof::Empty, "the sleep is gone, too");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })
//! # }
//! ```
//!
//! Not for supervision: output, records, deadlines and retention are a supervisor's. Not for a sandbox against an
//! attacker with root.

mod enter;
mod options;

#[cfg(target_os = "linux")]
mod aftermath;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod controllers;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod environment;
#[cfg(target_os = "linux")]
mod guardian;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod leader;
#[cfg(target_os = "linux")]
mod limited;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod prepared;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod queries;
#[cfg(target_os = "linux")]
mod runner;
#[cfg(target_os = "linux")]
mod shim;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod sweep;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::HostRunner;
pub use enter::{bound_allocator, enter, survive_file_size_limit, use_all_descriptors};
pub use options::{
    CgroupVersion, ContainmentReport, GuardianProgram, HostError, HostOptions, OomScoreRaise, SECRET_NAMES,
    SignalScope, TierChoice,
};
#[cfg(target_os = "linux")]
pub use runner::{HostRunner, default_shell};
