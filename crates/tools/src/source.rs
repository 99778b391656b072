//! Where pages come from: raw reads of one process's output, as the owner may make them.
//!
//! A small trait, so that how pages compose is shown over any stream and not only over one that a process printed.
//! Not for text: what comes back are bytes with their cursors.

use async_trait::async_trait;
use procyard_core::{ErrorCode, Handle, Owner, PublicError};
use procyard_supervisor::{Page, ReadFrom, ReadRequest, Snapshot, StreamFilter, Supervisor, SupervisorError};

/// One process's output.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// At most `max_bytes` raw bytes, and the process as it was then. A tail reaches to the end of the stream and
    /// keeps its end when it is longer than `max_bytes`. Cancellation safe.
    async fn read(&self, from: ReadFrom, max_bytes: usize) -> Result<(Page, Snapshot), PublicError>;

    /// The beginning of the stream, kept whatever falls out later.
    async fn head(&self) -> Result<(Page, Snapshot), PublicError>;

    /// Where intact output begins again behind damage at `cursor`; `None` where there is no damage.
    async fn behind_damage(&self, cursor: u64) -> Option<u64>;
}

/// Whether output is damaged, and not just out of reach.
pub(crate) fn is_damage(error: &PublicError) -> bool {
    error.code == ErrorCode::SpoolCorrupt
}

/// The output of a supervised process.
pub(crate) struct Supervised<'s> {
    pub(crate) supervisor: &'s Supervisor,
    pub(crate) owner: Owner,
    pub(crate) handle: Handle,
    pub(crate) streams: StreamFilter,
}

#[async_trait]
impl Source for Supervised<'_> {
    async fn read(&self, from: ReadFrom, max_bytes: usize) -> Result<(Page, Snapshot), PublicError> {
        let request = ReadRequest { from, max_bytes, streams: self.streams };
        self.supervisor.read(self.owner, &self.handle, request).await.map_err(|error| error.public())
    }

    async fn head(&self) -> Result<(Page, Snapshot), PublicError> {
        self.supervisor.head(self.owner, &self.handle).await.map_err(|error| error.public())
    }

    async fn behind_damage(&self, cursor: u64) -> Option<u64> {
        let request = ReadRequest { from: ReadFrom::Cursor(cursor), max_bytes: 1, streams: self.streams };
        match self.supervisor.read(self.owner, &self.handle, request).await {
            Err(SupervisorError::Damaged { until, .. }) if until > cursor => Some(until),
            _ => None,
        }
    }
}
