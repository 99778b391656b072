//! The window: the newest output in memory, a byte ring with a record for each chunk in it.
//!
//! Bytes and records share one budget, so that a stream of one-byte chunks costs no more memory than one of large
//! ones. Both grow with what is in them, and where the chunks change from large to small or back, one gives memory up
//! for the other.
//!
//! Not here: locking, and what is on disk.

use std::collections::VecDeque;

use procyard_core::{Stream, Timestamp};

use crate::page::PageBuilder;

/// What the record of a chunk is charged to the budget; at least its size.
const RECORD: usize = 32;
const _: () = assert!(size_of::<Chunk>() <= RECORD);

/// The least by which the ring and the records grow once they are not small: growing copies what is there.
const RING_STEP: usize = 32 << 10;
const RECORDS_STEP: usize = 1 << 10;

/// What may be allocated beyond the budget: more than both steps, so that it takes a change of what is appended to
/// exceed it, not one more append.
const SLACK: usize = 128 << 10;
const _: () = assert!(RING_STEP + RECORDS_STEP * RECORD < SLACK);

#[derive(Debug)]
pub(crate) struct Window {
    budget: usize,
    /// The bytes from `start` to `end`.
    ring: VecDeque<u8>,
    start: u64,
    end: u64,
    /// In order; a chunk ends where the next one begins.
    chunks: VecDeque<Chunk>,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    cursor: u64,
    at: Timestamp,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Output(Stream),
    Resize { rows: u16, cols: u16 },
}

impl Window {
    /// An empty window whose first byte will be at `cursor`. It allocates nothing yet.
    pub(crate) fn new(budget: usize, cursor: u64) -> Self {
        Self { budget, ring: VecDeque::new(), start: cursor, end: cursor, chunks: VecDeque::new() }
    }

    /// The oldest cursor that it serves; the end of the stream when it is empty.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Adds output at the end.
    pub(crate) fn push(&mut self, stream: Stream, at: Timestamp, bytes: &[u8]) {
        let kind = Kind::Output(stream);
        if !self.chunks.back().is_some_and(|last| last.kind == kind && last.at == at) {
            self.record(Chunk { cursor: self.end, at, kind });
        }
        let (before, oldest) = (self.end, self.start);
        self.end += bytes.len() as u64;
        self.trim();
        #[expect(clippy::cast_possible_truncation, reason = "no more than the ring has")]
        let dropped = (self.start - oldest).min(self.ring.len() as u64) as usize;
        self.ring.drain(..dropped);
        #[expect(clippy::cast_possible_truncation, reason = "no more than the bytes are")]
        let kept = &bytes[self.start.saturating_sub(before) as usize..];
        self.make_room(kept.len());
        self.ring.extend(kept);
    }

    /// Notes a change of the terminal's size at the end.
    pub(crate) fn push_resize(&mut self, at: Timestamp, rows: u16, cols: u16) {
        self.record(Chunk { cursor: self.end, at, kind: Kind::Resize { rows, cols } });
        let oldest = self.start;
        self.trim();
        #[expect(clippy::cast_possible_truncation, reason = "the ring is in memory")]
        self.ring.drain(..(self.start - oldest) as usize);
    }

    /// Gives up everything before the end and the memory it took.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.budget, self.end);
    }

    /// Adds what it has from where the page goes on, which must not lie before [`start`](Self::start).
    pub(crate) fn read_into(&self, page: &mut PageBuilder) {
        let after = self.chunks.partition_point(|chunk| chunk.cursor < page.cursor());
        #[expect(clippy::cast_possible_truncation, reason = "the window is in memory")]
        page.reserve((self.end - page.cursor()) as usize);
        for index in after.saturating_sub(1)..self.chunks.len() {
            if page.room() == 0 {
                break;
            }
            let chunk = self.chunks[index];
            match chunk.kind {
                Kind::Output(stream) => {
                    let end = self.chunks.get(index + 1).map_or(self.end, |next| next.cursor);
                    let from = chunk.cursor.max(page.cursor());
                    if from < end {
                        page.output_pieces(stream, chunk.at, from, self.slices(from, end));
                    }
                }
                Kind::Resize { rows, cols } => page.resize(chunk.at, chunk.cursor, rows, cols),
            }
        }
    }

    /// The bytes of a run, in order.
    fn slices(&self, from: u64, until: u64) -> [&[u8]; 2] {
        let (first, second) = self.ring.as_slices();
        #[expect(clippy::cast_possible_truncation, reason = "the window is in memory")]
        let (from, until) = ((from - self.start) as usize, (until - self.start) as usize);
        let wrap = first.len();
        [
            &first[from.min(wrap)..until.min(wrap)],
            &second[from.saturating_sub(wrap)..until.saturating_sub(wrap)],
        ]
    }

    /// Adds the record of a chunk.
    fn record(&mut self, chunk: Chunk) {
        let len = self.chunks.len();
        if len == self.chunks.capacity() {
            self.chunks.reserve_exact(len.clamp(4, RECORDS_STEP));
            self.give_up_unused(self.ring.len());
        }
        self.chunks.push_back(chunk);
    }

    /// Makes room for `more` bytes in the ring, which the budget has.
    fn make_room(&mut self, more: usize) {
        let (needed, capacity) = (self.ring.len() + more, self.ring.capacity());
        if needed > capacity {
            let share = self.budget.saturating_sub(self.chunks.len() * RECORD);
            let wanted = (capacity * 2).min(share).max(needed + needed.min(RING_STEP)).min(self.budget);
            self.ring.reserve_exact(wanted - self.ring.len());
            self.give_up_unused(needed);
        }
    }

    /// Gives memory back that what is appended now does not need, `needed` bytes of ring, when both together have more
    /// than they may.
    fn give_up_unused(&mut self, needed: usize) {
        if self.allocated() > self.budget + SLACK {
            self.chunks.shrink_to(self.chunks.len() + RECORDS_STEP);
            self.ring.shrink_to(needed + RING_STEP);
        }
    }

    fn allocated(&self) -> usize {
        self.ring.capacity() + self.chunks.capacity() * size_of::<Chunk>()
    }

    /// Drops from the front until bytes and records fit the budget.
    fn trim(&mut self) {
        loop {
            // Chunks that end before the start: their bytes are overwritten or dropped already.
            while let Some(second) = self.chunks.get(1)
                && second.cursor <= self.start
                && self.chunks[0].cursor < self.start
            {
                self.chunks.pop_front();
            }
            #[expect(clippy::cast_possible_truncation, reason = "at most the budget")]
            let used = (self.end - self.start) as usize + self.chunks.len() * RECORD;
            let Some(excess) = used.checked_sub(self.budget).filter(|&excess| excess > 0) else { return };
            let Some(first) = self.chunks.front() else { return };
            let end = self.chunks.get(1).map_or(self.end, |second| second.cursor);
            let drop = (end - first.cursor.max(self.start)).min(excess as u64);
            self.start += drop;
            if self.start >= end {
                self.chunks.pop_front();
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::page::{Bounds, Read, StreamFilter};

    fn at(time: i64) -> Timestamp {
        Timestamp::from_unix_micros(time)
    }

    fn bytes_from(window: &Window, cursor: u64) -> Vec<u8> {
        let read = Read { cursor, max_bytes: usize::MAX, streams: StreamFilter::Both };
        let bounds = Bounds { total_bytes: window.end, retained_from: window.start };
        let mut page = PageBuilder::new(&read, cursor, window.end, bounds);
        window.read_into(&mut page);
        let page = page.finish();
        assert_eq!(page.next_cursor, window.end);
        assert_eq!(page.spans.iter().map(|span| span.len).sum::<usize>(), page.bytes.len());
        page.bytes
    }

    #[test]
    fn the_newest_bytes_are_there_whatever_the_sizes() {
        for budget in [33, 40, 64, 100, 1000] {
            for size in [1u32, 2, 3, 7, 31, 64, 99, 150, 1001] {
                let mut window = Window::new(budget, 5);
                let mut model = Vec::new();
                for round in 0..200u32 {
                    let chunk: Vec<u8> = (0..size).map(|i| ((round * 31 + i) % 251) as u8).collect();
                    window.push(Stream::Stdout, at(i64::from(round)), &chunk);
                    model.extend_from_slice(&chunk);
                    assert_eq!(window.end, 5 + model.len() as u64);
                    let kept = (window.end - window.start) as usize;
                    assert!(kept + window.chunks.len() * RECORD <= budget);
                    assert_eq!(window.ring.len(), kept);
                    assert!(window.ring.capacity() <= budget);
                    assert_eq!(
                        bytes_from(&window, window.start),
                        model[model.len() - kept..],
                        "{budget} {size}"
                    );
                    let middle = window.start + kept as u64 / 2;
                    assert_eq!(bytes_from(&window, middle), model[model.len() - (kept - kept / 2)..]);
                }
            }
        }
    }

    #[test]
    fn an_empty_window_takes_no_memory_and_a_small_one_little() {
        let mut window = Window::new(1 << 20, 0);
        assert_eq!((window.ring.capacity(), window.chunks.capacity()), (0, 0));
        window.push(Stream::Stdout, at(0), b"hello");
        assert!(window.ring.capacity() + window.chunks.capacity() * size_of::<Chunk>() < 1024);
    }

    #[test]
    fn bytes_and_records_share_the_memory_whatever_the_chunks_are_and_become() {
        const BUDGET: usize = 1 << 20;
        let mut window = Window::new(BUDGET, 0);
        let mut time = 0;
        let bytes = vec![b'x'; 300 << 10];
        for size in [1, 80, 300 << 10, 1, 4096, 80, 33, 1, 300 << 10] {
            let mut moved = 0;
            let chunks = if size < 4096 { 100_000 } else { 3 * BUDGET / size + 3 };
            for _ in 0..chunks {
                time += 1;
                let before = window.allocated();
                window.push(Stream::Stdout, at(time), &bytes[..size]);
                moved += usize::from(window.allocated() != before);
                assert!(window.allocated() <= BUDGET + SLACK, "{size}: {}", window.allocated());
            }
            assert!(moved <= 100, "{size}: allocated anew {moved} times");
        }
    }

    #[test]
    fn a_window_of_nothing_keeps_nothing() {
        let mut window = Window::new(0, 0);
        window.push(Stream::Stdout, at(0), b"hello");
        window.push_resize(at(0), 1, 1);
        assert_eq!((window.start, window.end), (5, 5));
        assert!(bytes_from(&window, 5).is_empty());
    }

    #[test]
    fn equal_chunks_in_a_row_share_a_record() {
        let mut window = Window::new(1000, 0);
        for _ in 0..10 {
            window.push(Stream::Stdout, at(1), b"x");
        }
        assert_eq!(window.chunks.len(), 1);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Push(Stream, i64, usize),
        Resize(u16),
        Clear,
    }

    fn op() -> impl Strategy<Value = Op> {
        let streams = select(vec![Stream::Stdout, Stream::Stderr, Stream::Terminal]);
        let size = prop_oneof![4 => 0..8_usize, 3 => 8..200_usize, 1 => 200..3000_usize];
        prop_oneof![
            12 => (streams, 0..3_i64, size).prop_map(|(stream, time, size)| Op::Push(stream, time, size)),
            2 => (1..9_u16).prop_map(Op::Resize),
            1 => Just(Op::Clear),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn a_window_says_what_a_vector_says(
            budget in prop_oneof![0..64_usize, 64..400_usize, 400..5000_usize],
            first in prop_oneof![Just(0), Just(u64::MAX / 2), 1..5000_u64],
            ops in prop::collection::vec(op(), 1..120),
            places in prop::collection::vec(any::<prop::sample::Index>(), 3),
            max in prop_oneof![Just(usize::MAX), 1..300_usize],
        ) {
            let mut window = Window::new(budget, first);
            // Each byte with its stream and time; each change of size with its cursor.
            let (mut bytes, mut resizes) = (Vec::<(u8, Stream, i64)>::new(), Vec::<(u64, u16)>::new());
            for op in ops {
                let end = first + bytes.len() as u64;
                let before = window.start();
                match op {
                    Op::Push(stream, time, size) => {
                        let chunk: Vec<u8> = (0..size).map(|at| (bytes.len() + at) as u8).collect();
                        window.push(stream, at(time), &chunk);
                        bytes.extend(chunk.into_iter().map(|byte| (byte, stream, time)));
                    }
                    Op::Resize(rows) => {
                        window.push_resize(at(0), rows, 80);
                        resizes.push((end, rows));
                    }
                    Op::Clear => {
                        window.clear();
                        prop_assert_eq!(window.start(), end);
                        resizes.clear();
                    }
                }
                let end = first + bytes.len() as u64;
                prop_assert!(window.end == end && (before..=end).contains(&window.start()), "never backward");
                let kept = (end - window.start()) as usize;
                prop_assert!(kept + window.chunks.len() * RECORD <= budget);
                prop_assert!(window.ring.capacity() <= budget);
                for place in &places {
                    let cursor = window.start() + place.index(kept + 1) as u64;
                    let read = Read { cursor, max_bytes: max, streams: StreamFilter::Both };
                    let bounds = Bounds { total_bytes: end, retained_from: window.start() };
                    let mut page = PageBuilder::new(&read, cursor, end, bounds);
                    window.read_into(&mut page);
                    let page = page.finish();
                    let expected = &bytes[(cursor - first) as usize..];
                    let expected = &expected[..expected.len().min(max)];
                    let found: Vec<(u8, Stream, i64)> = page
                        .spans
                        .iter()
                        .flat_map(|span| {
                            let of = move |byte: &u8| (*byte, span.stream, span.at.as_unix_micros());
                            page.bytes[span.offset..][..span.len].iter().map(of)
                        })
                        .collect();
                    prop_assert_eq!(found.as_slice(), expected);
                    prop_assert_eq!(page.next_cursor, cursor + expected.len() as u64);
                    // What is told of sizes is true, in order, and complete behind the cursor where records are kept.
                    let told: Vec<(u64, u16)> =
                        page.resizes.iter().map(|resize| (resize.cursor, resize.rows)).collect();
                    let inside: Vec<(u64, u16)> = resizes
                        .iter()
                        .copied()
                        .filter(|(at, _)| (cursor..page.next_cursor).contains(at))
                        .collect();
                    prop_assert!(inside.ends_with(&told), "{:?} of {:?}", told, inside);
                    prop_assert!(cursor == window.start() || told == inside, "{:?} of {:?}", told, inside);
                }
            }
        }
    }
}
