//! Whether the client of one call is there to read the answer.
//!
//! A connection of HTTP can end while the session of its client goes on; an answer that is written then reaches nobody, and
//! what it tells would be lost. Not for noticing it: see `mcp_sessions`.

use std::sync::Arc;

use tokio::sync::watch;

/// The client of one call. A call without it has a client for as long as it runs.
#[derive(Debug, Clone)]
pub(crate) struct Presence(Arc<watch::Sender<bool>>);

impl Presence {
    /// A client that is there.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(true)))
    }

    /// The client has come back, or left.
    pub(crate) fn set(&self, present: bool) {
        self.0.send_replace(present);
    }

    /// Resolves when the client is there. Cancellation safe.
    pub(crate) async fn wait(&self) {
        // The sender is this, so it is not gone.
        let _ = self.0.subscribe().wait_for(|present| *present).await;
    }
}
