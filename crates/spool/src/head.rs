//! The head: the first bytes of the stream, kept in memory for good, so that a result can show how a flood began.
//!
//! Not here: whether the same bytes are still on disk.

use procyard_core::{Stream, Timestamp};

use crate::page::{Bounds, Page, Span};

/// Alternating streams, one byte each, end the head here: spans are not to outweigh its bytes by far.
const MOST_SPANS: usize = 1024;

#[derive(Debug)]
pub(crate) struct Head {
    limit: usize,
    bytes: Vec<u8>,
    spans: Vec<Span>,
    full: bool,
}

impl Head {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new(), spans: Vec::new(), full: limit == 0 }
    }

    /// Adds output at `cursor`. Bytes that do not follow on what is there end the head, as a full head does.
    pub(crate) fn push(&mut self, stream: Stream, at: Timestamp, cursor: u64, bytes: &[u8]) {
        if self.full || bytes.is_empty() {
            return;
        }
        if cursor != self.bytes.len() as u64 {
            self.full = true;
            return;
        }
        let taken = &bytes[..bytes.len().min(self.limit - self.bytes.len())];
        // Times within the head matter little: a run keeps its first.
        if let Some(last) = self.spans.last_mut().filter(|last| last.stream == stream) {
            last.len += taken.len();
        } else if self.spans.len() == MOST_SPANS {
            self.full = true;
            return;
        } else {
            self.spans.push(Span { offset: self.bytes.len(), cursor, len: taken.len(), stream, at });
        }
        self.bytes.extend_from_slice(taken);
        self.full = self.bytes.len() == self.limit;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The head as a page from cursor 0.
    pub(crate) fn page(&self, bounds: Bounds) -> Page {
        Page {
            bytes: self.bytes.clone(),
            spans: self.spans.clone(),
            next_cursor: self.bytes.len() as u64,
            total_bytes: bounds.total_bytes,
            retained_from: bounds.retained_from,
            ..Page::default()
        }
    }
}
