//! Testing a program that embeds the supervisor.
//!
//! # A life, driven by the test
//!
//! A [`ScriptedRunner`](crate::ScriptedRunner) plays a [`Script`](crate::Script) for each process that is started through
//! it, and [`Played`](crate::Played) drives one that runs: it prints, exits, or proves its tree empty when the test says
//! so. The rest is the real supervisor.
//!
//! ```
//! use std::time::Duration;
//!
//! use procyard_core::{ExecutionId, Limits, LoopId, Origin, Owner, SessionId, State, StopKind};
//! use procyard_runner::{CommandSpec, ProcessRequest, Runner};
//! use procyard_supervisor::{CommandRecord, StartOptions, StopRequest, Supervisor};
//! use procyard_testkit::assertions::{
//!     assert_noticed_once, assert_pages_compose, assert_released, assert_same_for_stranger, assert_terminal_once,
//! };
//! use procyard_testkit::{Journal, Loan, LosingStore, Reaction, Script, ScriptedRunner};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let session = SessionId::from_random([1; 16]);
//! let owner = Owner { session, loop_id: LoopId::from_random([2; 16]) };
//! let stranger = Owner { session, loop_id: LoopId::from_random([3; 16]) };
//! let origin = Origin { execution: ExecutionId::from_random([4; 16]) };
//!
//! // The session is in memory, and its journal refuses twice before it takes anything.
//! let supervisor = Supervisor::new(session, Limits::default(), LosingStore::new().root());
//! let journal = Journal::new();
//! journal.fail_events(2);
//! supervisor.activate(journal.services()).await?;
//!
//! // A server that will not go when it is told to.
//! let runner = ScriptedRunner::new(Script::new().stdout("listening\n").on_terminate(Reaction::Ignore));
//! let prepared = runner.prepare(ProcessRequest::new(CommandSpec::Shell("serve".into()), "/", origin)).await?;
//! let (lease, loan) = Loan::new();
//! let options = StartOptions { background: true, ..StartOptions::new(CommandRecord::line("serve", "/")) };
//! let process = supervisor.start(owner, origin, prepared, lease, options).await?.handle();
//! runner.last().expect("it was started").stderr("a warning\n").await;
//! supervisor.quiet(owner, &process, Duration::from_secs(1), Duration::from_secs(9)).await?;
//! loan.assert_held();
//! assert_same_for_stranger(&supervisor, owner, stranger, process).await;
//!
//! let stop = StopRequest { kind: StopKind::Terminate, grace: Some(Duration::from_secs(60)) };
//! assert_eq!(supervisor.stop(owner, &process, stop).await?.state, State::Killed);
//!
//! // What holds of every end:
//! loan.assert_released_once();
//! journal.until("the end is noticed", |journal| journal.noticed() == [process]).await;
//! journal.until("and published", |journal| !journal.ends_of(process).is_empty()).await;
//! assert_terminal_once(&journal.events(), process);
//! let notice = assert_noticed_once(&journal.notices_for(owner), process);
//! assert_eq!(supervisor.notices(owner), [notice]);
//! let output = assert_pages_compose(&supervisor, owner, process, &[1, 3]).await;
//! assert_eq!(output.len(), "listening\na warning\n".len());
//! assert_released(&supervisor, owner).await;
//! # Ok(())
//! # }
//! ```
//!
//! A minute of grace passed in no time, because the clock was paused and everybody waited.
//!
//! # Every fault when you want it
//!
//! | what goes wrong | how |
//! |---|---|
//! | the program is missing; a start takes long, hangs or panics | [`Script::start_fault`](crate::Script::start_fault) |
//! | signals are late, fail, hang or panic | [`Script::signal_fault`](crate::Script::signal_fault) |
//! | descendants outlive the leader, ignore SIGTERM, hold the output | [`Script::leaves`](crate::Script::leaves) |
//! | the tree cannot be proven empty, for now | [`Script::unprovable`](crate::Script::unprovable), [`Played::prove`](crate::Played::prove) |
//! | the disk is full, broken or read-only, at any call | [`FaultyDir`](crate::FaultyDir) over the session's directory |
//! | the power goes | [`LosingStore`](crate::LosingStore), [`PowerCuts`](crate::PowerCuts) |
//! | the journal refuses, panics or hangs | [`Journal`](crate::Journal) |
//! | your program dies | drop nothing: make a second supervisor over the same store, and activate it |
//!
//! # Whatever comes
//!
//! With [`strategies`](crate::strategies) the same assertions hold of lives that nobody thought of:
//!
//! ```
//! use procyard_testkit::strategies::{scripts, stop_kinds};
//! use proptest::test_runner::{Config, TestRunner};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `proptest!` does the same for a function with #[test].
//! let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(8) });
//! runner.run(&(scripts(), stop_kinds()), |(script, kind)| {
//!     let clock = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
//!     clock.block_on(async {
//!         // start `script`, stop it by `kind`, kill it if it is still there, and ask the rules
//!         # let _ = (script, kind);
//!     });
//!     Ok(())
//! })?;
//! # Ok(())
//! # }
//! ```
