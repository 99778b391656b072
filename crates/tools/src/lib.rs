//! The model-facing tools over a procyard supervisor: Bash, `ProcessOutput`, `ProcessInput`, `ProcessStop` and
//! `ProcessList`.
//!
//! A [`Toolbox`] holds the tools of one owner. Arguments are checked completely before anything happens; results are
//! JSON and a short text that a model reads well; whatever ended since the last result is told with the next one. A
//! command that fails is a normal result, only a call that could not be carried out is an error.
//!
//! ```
//! use std::sync::Arc;
//! use procyard_core::{Limits, LoopId, Owner, SessionId};
//! use procyard_runner::{Runner, RunnerError, RunnerResolver};
//! use procyard_store::FsDir;
//! use procyard_supervisor::{Services, Supervisor};
//! use procyard_testkit::{Script, ScriptedRunner};
//! use procyard_tools::{CallContext, Toolbox, ToolboxOptions};
//! use serde_json::json;
//!
//! /// Any runner will do; this one plays a script.
//! struct Scripted(Arc<ScriptedRunner>);
//! impl RunnerResolver for Scripted {
//!     fn resolve(&self, _: Owner) -> Result<Arc<dyn Runner>, RunnerError> {
//!         Ok(self.0.clone())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! let session = SessionId::from_random([1; 16]);
//! let owner = Owner { session, loop_id: LoopId::from_random([2; 16]) };
//! let supervisor = Supervisor::new(session, Limits::default(), FsDir::open(place.path())?);
//! supervisor.activate(Services::discard()).await?;
//!
//! let runner = ScriptedRunner::new(Script::new().stdout("hello\n").exit(3));
//! let options = ToolboxOptions { workspace: "/".into(), ..ToolboxOptions::default() };
//! let tools = Toolbox::new(supervisor.clone(), Arc::new(Scripted(Arc::new(runner))), owner, options);
//!
//! let reply = tools.call("Bash", json!({"command": "greet"}), CallContext::default()).await;
//! reply.handed_to_transport();
//! assert_eq!((&reply.structured["output"], &reply.structured["exit_code"]), (&json!("hello\n"), &json!(3)));
//! assert!(!reply.is_error);
//! # supervisor.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Dialect`] gives the same tools in another vocabulary; each is a [`Surface`], and so are the native ones.
//!
//! Not for transports, sessions or authentication, and not for supervision: this translates between a model and a
//! supervisor, and holds no process state of its own.

mod arguments;
mod bash;
mod by_handle;
mod definitions;
mod dialect;
mod escape;
mod ground;
mod headtail;
mod input;
mod keys;
mod limits;
mod list;
mod matcher;
mod notices;
mod output;
mod page;
mod pattern;
mod plan;
mod progress;
mod question;
mod render;
mod reply;
mod screen;
mod segment;
mod shown;
mod source;
mod stop;
mod surface;
#[cfg(test)]
mod testing;
mod toolbox;
mod watch;
mod words;

pub use by_handle::Excerpt;
pub use definitions::{ToolAnnotations, ToolDefinition};
pub use dialect::{Dialect, UnknownDialect};
pub use progress::Progress;
pub use reply::Reply;
pub use shown::{leftovers_report, limits_report, list_entry, parse_arguments, select_page, stream_filter};
pub use surface::Surface;
pub use toolbox::{CallContext, CommandLines, Toolbox, ToolboxOptions};
pub use words::{NotWords, words};
