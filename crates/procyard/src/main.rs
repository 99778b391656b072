//! Run and supervise long-running commands for AI agents.
fn main() {}
