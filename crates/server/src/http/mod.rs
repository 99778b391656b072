//! The HTTP service: many sessions, each token the authority of one loop, over a Unix socket and, where it is asked for, TCP.
//!
//! [`serve`] is the whole of it. A request comes in through `serve`, is authenticated (`caller`), checked against its entry
//! in the table of routes (`routes`, from which the `OpenAPI` document is made, too), and carried out by the file that is
//! named after its subject. Every error has the body that a tool's error has.
//!
//! Not for composing: sessions come from a [`SessionHost`], and configuration, signals and sockets from whoever calls.

mod admin_token;
mod attach;
mod call;
mod caller;
mod details;
mod diagnostics;
mod dispatch;
mod ending;
mod events;
mod follow;
mod host;
mod host_field;
mod invoke;
mod json;
mod linger;
mod listener;
mod logs;
mod metrics;
mod notifications;
mod openapi;
mod openapi_mcp;
mod options;
mod problem;
mod processes;
mod query;
mod range;
mod read_ahead;
mod reading;
mod route;
mod routes;
mod serve;
mod service;
mod sessions;
mod stalled;
mod stream;
mod tokens;
mod tool;

pub use host::{HostError, HostedSession, Left, SessionHost};
pub use listener::{Connector, Handed, Listener};
pub use openapi::document as openapi_document;
pub use options::ServiceOptions;
pub use serve::{ServiceError, serve};
