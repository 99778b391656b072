//! One process of the owner by its handle, for transports that show processes in a form of their own: as resources, as
//! tasks.
//!
//! Not for tools: what a model asks for goes through [`Toolbox::call`].

use procyard_api::ListResult;
use procyard_core::{Handle, PublicError};
use procyard_supervisor::{Snapshot, StreamFilter, SupervisorError};

use crate::bash;
use crate::headtail::head_and_tail;
use crate::reply::Reply;
use crate::source::Supervised;
use crate::toolbox::Toolbox;

/// The beginning and the end of what a process has printed so far.
#[derive(Debug, Clone)]
pub struct Excerpt {
    /// Safe text. Where bytes are left out, one line says how many and the cursor where they begin.
    pub text: String,
    /// Bytes left out between the beginning and the end.
    pub omitted_bytes: Option<u64>,
    /// The cursor behind what is shown.
    pub next_cursor: u64,
    /// Bytes printed so far.
    pub total_bytes: u64,
    /// Whether some of what is not shown is no longer kept.
    pub gap: bool,
    /// Whether something was replaced or removed to make the text safe.
    pub normalized: bool,
    /// Whether it looks like binary.
    pub binary: bool,
    /// The process when it was read.
    pub snapshot: Snapshot,
}

impl Toolbox {
    /// A page of the owner's processes, newest first: at most `limit`, behind the `next_page` of an earlier page.
    pub fn processes(&self, page: Option<&str>, limit: usize) -> Result<ListResult, PublicError> {
        crate::list::some(self, page, limit)
    }

    /// The output of a process within the inline budget: a third for the beginning, the rest for the end. The same answer
    /// for a process that does not exist and for one of another owner. Cancellation safe.
    pub async fn excerpt(&self, handle: &Handle) -> Result<Excerpt, PublicError> {
        let output = head_and_tail(&self.source(*handle), self.inline_limit()).await?;
        Ok(Excerpt {
            text: output.shown.output,
            omitted_bytes: output.omitted,
            next_cursor: output.shown.next_cursor,
            total_bytes: output.shown.total_bytes,
            gap: output.shown.gap,
            normalized: output.shown.normalized,
            binary: output.shown.binary,
            snapshot: output.shown.snapshot,
        })
    }

    /// The result that the call which started a process would have given, had it stayed to the end; `None` while it runs.
    /// Carries no notices of other processes. Handing it to the transport means that its owner has learnt the outcome.
    /// Must be called within a runtime.
    pub async fn outcome(&self, handle: &Handle) -> Result<Option<Reply>, PublicError> {
        let mut telling = self.supervisor().telling(self.owner());
        telling.outcome(*handle);
        let looked = self.supervisor().snapshot(self.owner(), handle);
        let snapshot = looked.map_err(|error: SupervisorError| error.public())?;
        if !snapshot.state.is_terminal() {
            return Ok(None);
        }
        let answer = bash::ended(&self.source(*handle), &snapshot, self.inline_limit(), Vec::new()).await?;
        Ok(Some(Reply::of_one(telling, answer)))
    }

    fn source(&self, handle: Handle) -> Supervised<'_> {
        Supervised { supervisor: self.supervisor(), owner: self.owner(), handle, streams: StreamFilter::Both }
    }

    fn inline_limit(&self) -> usize {
        usize::try_from(self.supervisor().limits().inline_bytes).unwrap_or(usize::MAX)
    }
}
