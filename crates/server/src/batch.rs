//! Batches: messages that came in one line, whose answers go out in one.
//!
//! JSON-RPC 2.0 has them in §6. Revision 2024-11-05 of MCP takes that over as it is, revision 2025-03-26 asks for them by
//! name, and the later ones have none. Each message is carried out like one on a line of its own. Whatever is going to answer
//! one holds the batch, and when the last of these lets go, what was gathered is sent: a request that is cancelled lets go
//! without an answer, and nobody waits for it. Not for what a message is answered: see `lines`.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::outbox::Outbox;
use crate::weight::{Share, Weight};

/// So many bytes of answers do not wait for the others: they go out in an array of their own, from which a client knows
/// each by its id.
const GATHERED_MAX: usize = 32 * 1024 * 1024;

/// The answers to the messages of one batch. Dropping it sends them.
pub(crate) struct Batch {
    outbox: Outbox,
    /// Guards what was gathered; held to add to it.
    gathered: Mutex<Gathered>,
}

struct Gathered {
    /// An array without its end; empty while there is no answer.
    array: Vec<u8>,
    share: Share,
}

impl Batch {
    /// A batch without answers. They go to `outbox` together, and weigh as much as they are long until then.
    pub(crate) fn new(outbox: Outbox, weight: &Weight) -> Self {
        let gathered = Gathered { array: Vec::new(), share: weight.hold(0) };
        Self { outbox, gathered: Mutex::new(gathered) }
    }

    /// Adds the answer to one message, as JSON.
    pub(crate) fn add(&self, answer: &[u8]) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if gathered.array.is_empty() { b'[' } else { b',' };
        gathered.array.push(before);
        gathered.array.extend_from_slice(answer);
        gathered.share.grow(answer.len() + 1);
        if gathered.array.len() >= GATHERED_MAX {
            gathered.send(&self.outbox);
        }
    }
}

impl Gathered {
    fn send(&mut self, outbox: &Outbox) {
        // Where nothing was asked, or all of it was cancelled, nothing is said: an empty array is no answer.
        if self.array.is_empty() {
            return;
        }
        let mut array = std::mem::take(&mut self.array);
        array.push(b']');
        self.share.shrink();
        // Nobody waits until it is read.
        drop(outbox.post(array));
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.gathered.get_mut().unwrap_or_else(PoisonError::into_inner).send(&self.outbox);
    }
}

/// The messages of a batch that were not looked at yet; at least one.
pub(crate) struct Unread {
    messages: std::vec::IntoIter<Value>,
    batch: Arc<Batch>,
    weight: usize,
}

impl Unread {
    /// The messages of a line of so many bytes. `None` where there are none.
    pub(crate) fn new(messages: Vec<Value>, line: usize, batch: Batch) -> Option<Self> {
        let weight = line.checked_div(messages.len())?;
        Some(Self { messages: messages.into_iter(), batch: Arc::new(batch), weight })
    }

    /// The next message, its part of the line, the batch that it belongs to, and the rest.
    pub(crate) fn next(mut self) -> (Option<Value>, usize, Arc<Batch>, Option<Self>) {
        let message = self.messages.next();
        let (weight, batch) = (self.weight, Arc::clone(&self.batch));
        // When none is left, the batch is held by those that are carried out alone.
        let rest = (!self.messages.as_slice().is_empty()).then_some(self);
        (message, weight, batch, rest)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};

    use super::*;

    /// What is sent for the answers of one batch.
    async fn sent(answers: &[&str]) -> String {
        let (mut client, server) = tokio::io::duplex(1024);
        let (outbox, task) = Outbox::new(server);
        let weight = Weight::default();
        let batch = Arc::new(Batch::new(outbox, &weight));
        for answer in answers {
            Arc::clone(&batch).add(answer.as_bytes());
        }
        let over = futures_util::poll!(Box::pin(weight.at_most(0)));
        assert_eq!(over.is_ready(), answers.is_empty(), "{answers:?} weigh something");
        drop(batch);
        weight.at_most(0).await;
        task.await.unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        said
    }

    #[tokio::test]
    async fn what_was_gathered_is_sent_as_one_array_and_nothing_as_nothing() {
        for (answers, expected) in
            [(&[][..], ""), (&["1"], "[1]\n"), (&["{}", "2", "\"x\""], "[{},2,\"x\"]\n")]
        {
            assert_eq!(sent(answers).await, expected);
        }
    }

    #[tokio::test]
    async fn what_is_very_much_goes_out_before_the_rest() {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (outbox, task) = Outbox::new(server);
        let weight = Weight::default();
        let batch = Batch::new(outbox, &weight);
        batch.add(&vec![b'1'; GATHERED_MAX]);
        weight.at_most(0).await;
        batch.add(b"2");
        drop(batch);
        let mut lines = tokio::io::BufReader::new(client).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap().len(), GATHERED_MAX + 2);
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("[2]"));
        task.await.unwrap();
    }
}
