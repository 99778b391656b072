//! Testing a runner of your own.
//!
//! What a supervisor relies on is written at the traits of `procyard-runner`, and every rule of it is a case of
//! [`conformance`](crate::conformance). A suite says how each [`Act`](crate::conformance::Act) is done by a real command,
//! and how to count the living in another way than through the runner. Then it runs [`cases`], one test for each,
//! with whatever harness it has. A layer around another runner, for example one that asks for permission, needs no
//! commands: it is held against the same cases with scripted processes below.
//!
//! ```
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use procyard_runner::{Capabilities, PreparedProcess, ProcessRequest, Runner, RunnerError, RunnerErrorKind};
//! use procyard_testkit::conformance::{Scripted, cases};
//!
//! /// Lets nothing run in one folder.
//! struct Fenced {
//!     inner: Arc<dyn Runner>,
//! }
//!
//! #[async_trait]
//! impl Runner for Fenced {
//!     fn capabilities(&self) -> Capabilities {
//!         self.inner.capabilities()
//!     }
//!
//!     async fn prepare(&self, request: ProcessRequest) -> Result<Box<dyn PreparedProcess>, RunnerError> {
//!         if request.workdir.starts_with("/secret") {
//!             return Err(RunnerError::new(RunnerErrorKind::Setup, "nothing runs in this folder"));
//!         }
//!         self.inner.prepare(request).await
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! for case in cases(Scripted::below(|inner| Arc::new(Fenced { inner: Arc::new(inner) }))) {
//!     let rule = case.rule();
//!     assert_eq!(case.check().await, Ok(()), "{rule}");
//! }
//! # }
//! ```
//!
//! A case that does not hold says what was seen. To see what a case asks for, read it by its name in
//! `conformance/`: each is a function of a few lines.
//!
//! What the cases cannot know is how *your* runner contains a tree: that a `setsid`, a double fork or the death of the
//! runner itself lets nothing out. That takes real processes that try.
//!
//! [`cases`]: crate::conformance::cases
