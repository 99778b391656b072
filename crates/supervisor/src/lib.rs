//! Supervises long-running commands on any runner: admits them within quotas, records them durably, reads their output
//! whether or not anybody polls, waits without polling, stops whole trees and proves them gone, and announces each
//! end once.
//!
//! A [`Supervisor`] belongs to one session. It is given prepared processes (`procyard-runner`) and never holds
//! a runner, so that whoever embeds it decides what may be started. The way of one process through the files of this
//! crate: `start` admits, records and spawns; an `actor` watches it, a `drain` reads it, and at its `course` those who
//! `wait` are woken; `settle` ends or awaits what outlived the leader and proves the tree empty; `finish` records the end
//! and announces it; `retain` keeps it until it is evicted; `restore` finds it again.
//!
//! ```
//! use std::time::Duration;
//! use procyard_core::{ExecutionId, Limits, LoopId, Origin, Owner, SessionId, State};
//! use procyard_manifest::CommandRecord;
//! use procyard_runner::{CommandSpec, ProcessRequest, Runner};
//! use procyard_store::FsDir;
//! use procyard_supervisor::{Lease, Services, StartOptions, Supervisor, Target, Until, WaitMode};
//! use procyard_testkit::{Script, ScriptedRunner};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! let session = SessionId::from_random([1; 16]);
//! let owner = Owner { session, loop_id: LoopId::from_random([2; 16]) };
//! let origin = Origin { execution: ExecutionId::from_random([3; 16]) };
//!
//! let supervisor = Supervisor::new(session, Limits::default(), FsDir::open(place.path())?);
//! supervisor.activate(Services::discard()).await?;
//!
//! // Any runner will do; this one plays a script.
//! let runner = ScriptedRunner::new(Script::new().stdout("hello\n").exit(0));
//! let prepared = runner.prepare(ProcessRequest::new(CommandSpec::Shell("greet".into()), "/", origin)).await?;
//! let options = StartOptions::new(CommandRecord::line("greet", "/"));
//! let handle = supervisor.start(owner, origin, prepared, Lease::none(), options).await?.handle();
//!
//! let target = Target { handle, cursor: 0, probe: None };
//! let waited = supervisor.wait(owner, WaitMode::All, Until::Exit, vec![target], Duration::from_secs(5)).await?;
//! let snapshot = waited[0].snapshot.as_ref().unwrap();
//! assert_eq!((snapshot.state, snapshot.total_bytes), (State::Exited, 6));
//! supervisor.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Not for starting anything, for text, or for a wire: those are other layers.

mod actor;
mod attend;
mod claims;
mod clock;
mod close_loop;
mod course;
mod drain;
mod entry;
mod error;
mod feed;
mod finish;
mod give;
mod input;
mod leases;
mod live;
mod notices;
mod options;
mod outbox;
mod read;
mod restore;
mod retain;
mod services;
mod sessions;
mod settle;
mod shared;
mod shutdown;
mod snapshot;
mod sound;
mod start;
mod stop;
mod supervisor;
mod sync;
mod telling;
mod transfer;
mod wait;
mod waiters;

pub use attend::Attendance;
pub use clock::{Clock, SystemClock};
pub use error::{StdinClosed, SupervisorError};
pub use leases::Leases;
pub use live::{LIVE_EVENTS_MAX, LiveEvent, Subscription};
pub use options::{
    InputAccepted, InputRequest, Lease, LeftoverPolicy, Pace, Probe, ReadFrom, ReadRequest, StartOptions,
    Started, StopRequest, Target, Until, WaitMode, Waited,
};
pub use procyard_manifest::{CommandRecord, IdempotencyRecord};
pub use procyard_spool::{Gap, Page, Resize, Span, StreamFilter};
pub use read::READ_MAX;
pub use restore::RestoreReport;
pub use services::{CompletionNotifier, LifecyclePublisher, Notice, NoticeKind, ServiceError, Services};
pub use sessions::Sessions;
pub use shutdown::ShutdownReport;
pub use snapshot::{Snapshot, StdinStatus};
pub use supervisor::Supervisor;
pub use telling::Telling;
pub use transfer::TransferReport;
pub use wait::{TARGETS_MAX, WaitPlace};
