//! The built service under load, from outside: many clients at once, long runs, sudden ends, long streams, idle connections.
//!
//! Each part has a short setting that is in the suite, and a long one that is ignored there and is a verb of its own:
//! `cargo xtask nightly load`, `soak`, `restart`, `follow`. Every part checks what it was given, byte by byte and record by record, so
//! that a figure is never one of a service that was wrong. Not for single routes: the server crate tests those.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test builds on is there, or the test fails"
)]

mod announced;
mod commands;
mod descriptors;
mod follow;
mod idle;
mod jobs;
mod many;
mod measure;
mod request;
mod restart;
mod rounds;
mod service;
mod soak;
mod survivors;
mod tally;
