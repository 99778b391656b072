//! Tests of the built `procyard` program, from outside, as a shell or a client runs it.
//!
//! Not for the crates that it is made of: each has tests of its own.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test builds on is there, or the test fails"
)]

mod client;
mod config;
mod dialects;
mod doctor;
mod journal;
mod json;
mod limits;
mod logs;
mod mcp;
mod mcp_batches;
mod mcp_ends;
mod mcp_lines;
mod mcp_memory;
mod mcp_resources;
mod mcp_revisions;
mod mcp_tasks;
mod pages;
mod recorded;
mod records;
mod run;
mod run_output;
mod run_stops;
mod running;
mod scene;
mod send;
mod served;
mod service;
mod service_ends;
mod service_limits;
mod service_places;
