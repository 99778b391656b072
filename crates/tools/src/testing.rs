//! Processes and streams made up for this crate's own tests.

use async_trait::async_trait;
use procyard_core::{
    ErrorCode, ExecutionId, Handle, Identity, LoopId, Origin, Outcome, Owner, PublicError, Reason, SessionId,
    State, Stream, Timestamp,
};
use procyard_supervisor::{
    CommandRecord, Gap, Page, ReadFrom, Resize, Snapshot, Span, StdinStatus, StreamFilter,
};

use crate::source::Source;

pub(crate) fn handle(of: u8) -> Handle {
    Handle::from_bytes([of; 16])
}

pub(crate) fn snapshot(command: &str, state: State) -> Snapshot {
    Snapshot {
        identity: Identity {
            handle: handle(1),
            owner: Owner { session: SessionId::from_random([7; 16]), loop_id: LoopId::from_random([8; 16]) },
            origin: Origin { execution: ExecutionId::from_random([9; 16]) },
        },
        command: CommandRecord::line(command, "/").into(),
        state,
        handed_over: false,
        created_at: Timestamp::from_unix_micros(0),
        started_at: Some(Timestamp::from_unix_micros(1_000_000)),
        finished_at: state.is_terminal().then(|| Timestamp::from_unix_micros(3_500_000)),
        deadline: None,
        outcome: state.is_terminal().then(|| Outcome {
            exit_code: (state == State::Exited).then_some(0),
            ..Outcome::diagnosed(Reason::Exited, "")
        }),
        total_bytes: 0,
        retained_from: 0,
        last_output_at: None,
        storage_degraded: false,
        teardown_failed: false,
        terminal: None,
        initial_terminal: None,
        stdin: StdinStatus::None,
        pending_input: 0,
        unread_input: 0,
        tier: "subreaper".into(),
        limits: None,
        memory_kills: 0,
        sequence: 1,
    }
}

/// A stream in memory: chunks in order, of which some bytes can be gone.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) bytes: Vec<(Stream, u8)>,
    /// Missing ranges, ascending and apart from each other.
    pub(crate) holes: Vec<(u64, u64)>,
    /// Bytes that are there and damaged: a read ends before them, and one that begins at them fails.
    pub(crate) damaged: Option<(u64, u64)>,
    pub(crate) retained_from: u64,
    pub(crate) state: State,
    pub(crate) streams: StreamFilter,
    /// Changes of the terminal's size: the cursor, rows and columns.
    pub(crate) resizes: Vec<(u64, u16, u16)>,
    /// No single read returns more.
    pub(crate) per_read: usize,
}

impl Recorded {
    pub(crate) fn new(chunks: &[(Stream, &[u8])]) -> Self {
        let bytes =
            chunks.iter().flat_map(|(stream, bytes)| bytes.iter().map(|byte| (*stream, *byte))).collect();
        Self {
            bytes,
            holes: Vec::new(),
            damaged: None,
            retained_from: 0,
            state: State::Exited,
            streams: StreamFilter::Both,
            resizes: Vec::new(),
            per_read: usize::MAX,
        }
    }

    pub(crate) fn stdout(bytes: &[u8]) -> Self {
        Self::new(&[(Stream::Stdout, bytes)])
    }

    fn total(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The end of what is missing at `cursor`, if it is.
    fn missing(&self, cursor: u64) -> Option<u64> {
        if cursor < self.retained_from {
            return Some(self.retained_from);
        }
        self.holes.iter().find(|(from, until)| (*from..*until).contains(&cursor)).map(|(_, until)| *until)
    }

    fn is_damaged(&self, cursor: u64) -> bool {
        self.damaged.is_some_and(|(from, until)| (from..until).contains(&cursor))
    }

    fn page(&self, cursor: u64, max: usize) -> Page {
        let at = Timestamp::from_unix_micros(0);
        let mut page = Page { start_cursor: cursor, next_cursor: cursor, ..Page::default() };
        page.total_bytes = self.total();
        page.retained_from = self.retained_from;
        while page.next_cursor < self.total() && page.bytes.len() < max.min(self.per_read) {
            let next = page.next_cursor;
            if self.is_damaged(next) {
                break;
            }
            if let Some(until) = self.missing(next) {
                page.gaps.push(Gap { offset: page.bytes.len(), from: next, until });
                if next == page.start_cursor {
                    page.start_cursor = until;
                }
                page.next_cursor = until;
                continue;
            }
            let resizes = self.resizes.iter().filter(|(cursor, ..)| *cursor == next);
            page.resizes.extend(resizes.map(|&(cursor, rows, cols)| Resize {
                offset: page.bytes.len(),
                cursor,
                at,
                rows,
                cols,
            }));
            let (stream, byte) = self.bytes[usize::try_from(next).unwrap()];
            if self.streams.accepts(stream) {
                page.spans.push(Span { offset: page.bytes.len(), cursor: next, len: 1, stream, at });
                page.bytes.push(byte);
            }
            page.next_cursor += 1;
        }
        page.gap = !page.gaps.is_empty();
        page
    }

    /// Where a read begins; of one stream, a tail counts that stream's bytes and lines only.
    fn start(&self, from: ReadFrom, max_bytes: usize) -> u64 {
        let (bytes, lines) = match from {
            ReadFrom::Cursor(cursor) => return cursor,
            ReadFrom::TailBytes(bytes) => (bytes, u64::MAX),
            ReadFrom::TailLines(lines) => (u64::MAX, lines),
        };
        let bytes = bytes.min(max_bytes as u64);
        let (mut have, mut newlines) = (0, 0);
        let mine =
            self.bytes.iter().enumerate().rev().filter(|(_, (stream, _))| self.streams.accepts(*stream));
        for (at, (_, byte)) in mine {
            newlines += u64::from(*byte == b'\n' && have > 0);
            if have == bytes || newlines == lines {
                return at as u64 + 1;
            }
            have += 1;
        }
        0
    }
}

#[async_trait]
impl Source for Recorded {
    async fn read(&self, from: ReadFrom, max_bytes: usize) -> Result<(Page, Snapshot), PublicError> {
        let cursor = self.start(from, max_bytes);
        if cursor > self.total() {
            return Err(PublicError::new(ErrorCode::CursorAhead, "beyond the end"));
        }
        if self.is_damaged(cursor) {
            return Err(PublicError::new(ErrorCode::SpoolCorrupt, "damaged"));
        }
        let snapshot = Snapshot {
            total_bytes: self.total(),
            retained_from: self.retained_from,
            ..snapshot("true", self.state)
        };
        Ok((self.page(cursor, max_bytes), snapshot))
    }

    async fn head(&self) -> Result<(Page, Snapshot), PublicError> {
        let kept = Self { retained_from: 0, ..self.clone() };
        let snapshot = Snapshot { total_bytes: self.total(), ..snapshot("true", self.state) };
        Ok((Page { retained_from: self.retained_from, ..kept.page(0, 16 << 10) }, snapshot))
    }

    async fn behind_damage(&self, cursor: u64) -> Option<u64> {
        self.damaged.filter(|_| self.is_damaged(cursor)).map(|(_, until)| until)
    }
}

/// Drives a future that waits for nothing to its end.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}
