//! The runner contract as cases that any runner can be held against.
//!
//! Whoever implements [`Runner`] writes two small things: a [`Subject`], which sets a [`Stage`] for each case, and on the
//! stage the request that makes a command behave like each [`Act`]. [`cases`] then gives every rule of the contract
//! as a case of its own, named by a sentence, to be run by whatever harness the crate has.
//!
//! - Each case gets a stage of its own, made in the runtime that runs the case.
//! - A case waits for events and has deadlines; it passes on a paused clock as well as on real processes.
//! - What a runner says is compared with what commands print, with when their streams end, and with
//!   [`Stage::living`], which the stage counts in its own way.
//! - That [`PreparedProcess::start`](procyard_runner::PreparedProcess::start) happens once, and that no PID is part of any
//!   type, holds by the types; there is no case for it.
//! - What needs a terminal is passed over where [`Capabilities`](procyard_runner::Capabilities) offer none; that
//!   such a runner refuses to prepare one is a case.
//!
//! A runner of real commands:
//!
//! ```no_run
//! use async_trait::async_trait;
//! use procyard_core::{ExecutionId, Origin};
//! use procyard_runner::{CommandSpec, ProcessRequest, Runner};
//! use procyard_testkit::conformance::{Act, Stage, Subject, cases};
//!
//! struct Containers;
//!
//! #[async_trait]
//! impl Subject for Containers {
//!     async fn stage(&self) -> Box<dyn Stage> {
//!         Box::new(Container { runner: open_a_container().await })
//!     }
//! }
//!
//! struct Container {
//!     runner: Box<dyn Runner>,
//! }
//!
//! impl Stage for Container {
//!     fn runner(&self) -> &dyn Runner {
//!         &*self.runner
//!     }
//!
//!     fn request(&self, act: &Act) -> ProcessRequest {
//!         let line = match act {
//!             Act::Stay => "echo ready; exec sleep 1000".to_owned(),
//!             Act::Die(signal) => format!("kill -{signal} $$"),
//!             Act::Echo => "exec cat".to_owned(),
//!             // and so on, until every act has a command
//!             # _ => String::new(),
//!         };
//!         let origin = Origin { execution: ExecutionId::from_random([1; 16]) };
//!         ProcessRequest::new(CommandSpec::Shell(line), "/", origin)
//!     }
//!
//!     fn living(&self) -> usize {
//!         // Not what the runner says, but what the machine does.
//!         processes_in_the_container()
//!     }
//! }
//! # async fn open_a_container() -> Box<dyn Runner> { unimplemented!() }
//! # fn processes_in_the_container() -> usize { unimplemented!() }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! for case in cases(Containers) {
//!     if let Err(broken) = case.check().await {
//!         panic!("{broken}");
//!     }
//! }
//! # }
//! ```
//!
//! A layer around another runner needs no commands: it is held against the suite with the scripted runner below it.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! use async_trait::async_trait;
//! use procyard_runner::{Capabilities, PreparedProcess, ProcessRequest, Runner, RunnerError};
//! use procyard_testkit::conformance::{Scripted, cases};
//!
//! /// Counts what is prepared.
//! struct Counting<R> {
//!     inner: R,
//!     prepared: AtomicUsize,
//! }
//!
//! #[async_trait]
//! impl<R: Runner> Runner for Counting<R> {
//!     fn capabilities(&self) -> Capabilities {
//!         self.inner.capabilities()
//!     }
//!
//!     async fn prepare(&self, request: ProcessRequest) -> Result<Box<dyn PreparedProcess>, RunnerError> {
//!         self.prepared.fetch_add(1, Ordering::Relaxed);
//!         self.inner.prepare(request).await
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # tokio::time::pause();
//! for case in cases(Scripted::below(|inner| Arc::new(Counting { inner, prepared: AtomicUsize::new(0) }))) {
//!     let rule = case.rule();
//!     assert_eq!(case.check().await, Ok(()), "{rule}");
//! }
//! # }
//! ```
//!
//! Not for what only real processes can show: containment, what a program finds around it, what sudden deaths leave.

mod act;
mod ends;
mod look;
mod prepare;
mod scripted;
mod signals;
mod starts;
mod streams;
mod terminals;
mod tree;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use procyard_runner::{ProcessRequest, Runner};

pub use act::Act;
use look::{Seen, Verdict};
pub use scripted::Scripted;

/// The tested side: sets the stage of each case.
#[async_trait]
pub trait Subject: Send + Sync {
    /// A new runner and whatever its commands need, for one case. Called in the runtime that runs the case.
    async fn stage(&self) -> Box<dyn Stage>;
}

/// The surroundings of one case.
pub trait Stage: Send + Sync {
    /// The runner under test: the same one again and again.
    fn runner(&self) -> &dyn Runner;

    /// A request with pipes, no standard input and the default limits, whose command does this. The suite adds standard
    /// input or a terminal where a case needs it. Requests are prepared in any order, at any time, or never.
    fn request(&self, act: &Act) -> ProcessRequest;

    /// A folder that commands of this stage may try to write to.
    fn workspace(&self) -> PathBuf {
        std::env::temp_dir()
    }

    /// How many processes of this stage's commands live now, leaders included, counted in another way than through
    /// the runner under test.
    fn living(&self) -> usize;
}

/// A rule of the contract, to be held against one subject.
pub struct Case {
    rule: &'static str,
    checking: Pin<Box<dyn Future<Output = Result<(), Broken>> + Send>>,
}

impl Case {
    /// The rule, as a sentence that is a name.
    pub const fn rule(&self) -> &'static str {
        self.rule
    }

    /// Holds the subject against the rule. Needs a tokio runtime with time, and with I/O if the runner does. A rule that is
    /// broken by never getting anywhere ends at a deadline of 30 seconds.
    pub async fn check(self) -> Result<(), Broken> {
        self.checking.await
    }
}

/// A rule that does not hold, and what was seen instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {seen}")]
pub struct Broken {
    /// The rule.
    pub rule: &'static str,
    /// What was seen.
    pub seen: String,
}

type Checking<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// A rule and how it is checked.
struct Rule {
    name: &'static str,
    check: for<'a> fn(&'a dyn Stage) -> Checking<'a>,
}

/// Makes the rules of a file: each is named as its function is.
macro_rules! rules {
    ($($name:ident),+ $(,)?) => {
        pub(super) const RULES: &[super::Rule] =
            &[$(super::Rule { name: stringify!($name), check: |stage| Box::pin($name(stage)) }),+];
    };
}
use rules;

/// Every rule of the contract, as a case for this subject. Nothing happens until a case is checked; they may be checked
/// in any order, some only, or at the same time.
pub fn cases(subject: impl Subject + 'static) -> Vec<Case> {
    let subject: Arc<dyn Subject> = Arc::new(subject);
    let all = [
        prepare::RULES,
        starts::RULES,
        streams::RULES,
        ends::RULES,
        signals::RULES,
        tree::RULES,
        terminals::RULES,
    ];
    let case = |rule: &'static Rule| {
        let subject = Arc::clone(&subject);
        let checking = async move {
            let stage = subject.stage().await;
            let verdict = (rule.check)(&*stage).await;
            verdict.map_err(|Seen(seen)| Broken { rule: rule.name, seen })
        };
        Case { rule: rule.name, checking: Box::pin(checking) }
    };
    all.into_iter().flatten().map(case).collect()
}
