//! What is fuzzed: functions that take any bytes and panic when something does not hold.
//!
//! The same files are part of a test of the main workspace, which replays the kept corpus. Not for making inputs: the
//! engine does.

mod answers;
mod arguments;
mod http;
mod manifest;
mod mcp;
mod service;
mod spool;
mod text;
mod world;

/// A target: its name, which its folder in the corpus has, too, and what it does with an input.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// Every target.
pub(crate) const ALL: [Target; 6] = [
    ("text", text::text),
    ("spool", spool::spool),
    ("manifest", manifest::manifest),
    ("arguments", arguments::arguments),
    ("mcp", mcp::mcp),
    ("http", http::http),
];
