//! Whether the client of one call is still there to read the answer.
//!
//! A connection of HTTP can end while the session of its client goes on; then an answer that is written reaches nobody, and
//! what it tells must be told again. Not for noticing it: see `mcp_sessions`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The client of one call. A call without it has a client for as long as it runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presence(Arc<AtomicBool>);

impl Presence {
    /// The client has left, or is back.
    pub(crate) fn set_absent(&self, absent: bool) {
        self.0.store(absent, Ordering::Release);
    }

    /// Whether nobody would read an answer now.
    pub(crate) fn is_absent(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
