//! MCP over streamable HTTP, at the level of requests and streams: sessions, owners, connections that vanish, names.
//!
//! Not for what the tools do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is a failed test")]

mod client;
mod ending;
mod names;
mod refusals;
mod scene;
mod sessionless;
mod sessions;
