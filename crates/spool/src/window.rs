//! The window: the newest output in memory, a byte ring with a record for each chunk in it.
//!
//! Bytes and records share one budget, so that a stream of one-byte chunks costs no more memory than one of large
//! ones. The ring grows with what is in it and wraps once it has its full size.
//!
//! Not here: locking, and what is on disk.

use std::collections::VecDeque;

use procyard_core::{Stream, Timestamp};

use crate::page::PageBuilder;

/// What the record of a chunk is charged to the budget; at least its size.
const RECORD: usize = 32;
const _: () = assert!(size_of::<Chunk>() <= RECORD);

#[derive(Debug)]
pub(crate) struct Window {
    budget: usize,
    /// The byte at `cursor` is at `(cursor - origin) % budget`; shorter than the budget until the first wrap.
    ring: Vec<u8>,
    origin: u64,
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
        Self { budget, ring: Vec::new(), origin: cursor, start: cursor, end: cursor, chunks: VecDeque::new() }
    }

    /// The oldest cursor that it serves; the end of the stream when it is empty.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Adds output at the end.
    pub(crate) fn push(&mut self, stream: Stream, at: Timestamp, bytes: &[u8]) {
        let kind = Kind::Output(stream);
        if !self.chunks.back().is_some_and(|last| last.kind == kind && last.at == at) {
            self.chunks.push_back(Chunk { cursor: self.end, at, kind });
        }
        self.end += bytes.len() as u64;
        self.store(bytes);
        self.trim();
    }

    /// Notes a change of the terminal's size at the end.
    pub(crate) fn push_resize(&mut self, at: Timestamp, rows: u16, cols: u16) {
        self.chunks.push_back(Chunk { cursor: self.end, at, kind: Kind::Resize { rows, cols } });
        self.trim();
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

    /// The bytes of a run that is not empty, in order.
    fn slices(&self, from: u64, until: u64) -> [&[u8]; 2] {
        let (first, last) = (self.place(from), self.place(until));
        if first < last { [&self.ring[first..last], &[]] } else { [&self.ring[first..], &self.ring[..last]] }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a remainder of the budget, which is a usize")]
    fn place(&self, cursor: u64) -> usize {
        ((cursor - self.origin) % self.budget as u64) as usize
    }

    /// Copies what was just counted into `end`, or as much of its tail as the ring can hold.
    fn store(&mut self, bytes: &[u8]) {
        if bytes.len() >= self.budget {
            let kept = &bytes[bytes.len() - self.budget..];
            self.ring.clear();
            self.grow(kept.len());
            self.ring.extend_from_slice(kept);
            self.start = self.end - kept.len() as u64;
            self.origin = self.start;
            return;
        }
        let from = self.end - bytes.len() as u64;
        // What the new bytes overwrite is gone.
        self.start = self.start.max(self.end.saturating_sub(self.budget as u64));
        let mut rest = bytes;
        if self.ring.len() < self.budget {
            self.grow(rest.len());
            let (fits, wraps) = rest.split_at(rest.len().min(self.budget - self.ring.len()));
            self.ring.extend_from_slice(fits);
            rest = wraps;
        }
        if !rest.is_empty() {
            let place = self.place(from + (bytes.len() - rest.len()) as u64);
            let (first, second) = rest.split_at(rest.len().min(self.budget - place));
            self.ring[place..place + first.len()].copy_from_slice(first);
            self.ring[..second.len()].copy_from_slice(second);
        }
    }

    /// Makes room for `more` bytes at the end of a ring that has not wrapped, as far as the budget goes.
    fn grow(&mut self, more: usize) {
        if self.ring.len() + more <= self.ring.capacity() {
            return;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the dropped bytes are still in the ring")]
        let dropped = ((self.start - self.origin) as usize).min(self.ring.len());
        if dropped > 0 && dropped >= self.ring.len() / 2 {
            self.ring.drain(..dropped);
            self.origin += dropped as u64;
            if self.ring.len() + more <= self.ring.capacity() {
                return;
            }
        }
        let wanted = (self.ring.len() + more).max(self.ring.capacity() * 2).min(self.budget);
        if wanted > self.ring.capacity() {
            self.ring.reserve_exact(wanted - self.ring.len());
        }
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
    fn one_byte_chunks_do_not_grow_the_ring_to_its_budget() {
        let mut window = Window::new(1 << 20, 0);
        for time in 0..2_000_000 {
            window.push(Stream::Stdout, at(time), b"x");
        }
        assert!(window.ring.capacity() <= 128 << 10, "{}", window.ring.capacity());
        assert!(window.chunks.len() * RECORD <= 1 << 20);
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
