//! The HTTP service over real sockets, with scripted processes. Every answer is held against the service's own `OpenAPI`
//! document.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is a failed test")]

mod attach;
mod client;
mod connections;
mod document;
mod errors;
mod events;
mod guide;
mod host;
mod host_field;
mod inbox;
mod linger;
mod logs;
mod ownership;
mod processes;
mod revoked;
mod scene;
mod sessions;
mod stop;
mod tools;
