//! The wire types of procyard: arguments and results of the model-facing tools, notifications, errors, and the bodies of
//! the HTTP service ([`http`]).
//!
//! The doc comments on the arguments are what a model reads: they become the descriptions of the generated JSON
//! schemas. Timestamps on the wire are RFC 3339 in UTC with milliseconds ([`Time`]); a process is named by its handle;
//! an optional field of a result is absent when there is no value for it.
//!
//! ```
//! use procyard_api::{BashArguments, input_schema};
//!
//! let arguments: BashArguments = serde_json::from_str(r#"{"command": "cargo test", "timeout": 300}"#).unwrap();
//! assert_eq!(arguments.timeout, Some(300));
//! assert!(serde_json::from_str::<BashArguments>(r#"{"command": "true", "timeuot": 3}"#).is_err());
//! assert_eq!(input_schema::<BashArguments>()["type"], "object");
//! ```
//!
//! Not for rules that span several fields, and not for doing anything: `procyard-tools` checks and carries out.

mod bash;
mod error;
pub mod http;
mod input;
mod list;
mod notification;
mod output;
mod schema;
mod stop;
mod time;

pub use bash::{BashArguments, BashResult, LeftoverChoice, LeftoversReport, LimitReport, LimitsReport};
pub use error::ErrorBody;
pub use input::{DataEncoding, InputArguments, InputResult};
pub use list::{ListArguments, ListEntry, ListResult};
pub use notification::{Notification, NotificationKind};
pub use output::{
    Artifact, Encoding, Matched, OutputArguments, OutputEntry, OutputReply, OutputResult, OutputResults,
    StdinState, StreamChoice, UntilChoice, View, WaitChoice,
};
pub use schema::{input_schema, output_schema, result_schema};
pub use stop::{StopArguments, StopMode, StopResult};
pub use time::Time;
