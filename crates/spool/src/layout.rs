//! Lays what is to be recorded out as frames at the end of a segment, as one vectored write.
//!
//! Not here: the write itself, and what happens when it fails (`writer`).

use std::io::IoSlice;
use std::ops::Range;

use procyard_core::{Stream, Timestamp};

use crate::format::{
    self, BLOCK, FRAME_HEADER, HOLE_PAYLOAD, LONGEST_PAYLOAD, RESIZE_PAYLOAD, SEGMENT_HEADER,
};

/// Payloads up to this length are copied beside their headers; longer ones are written from where they are.
const COPIED: usize = 256;
/// Buffers of one write; the kernel takes 1,024.
const MOST_PARTS: usize = 1000;
/// Headers and copied payloads of one write.
const MOST_INLINE: usize = 256 << 10;

/// Something to record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Item<'a> {
    Output { stream: Stream, at: Timestamp, bytes: &'a [u8] },
    Hole { at: Timestamp, until: u64 },
    Resize { at: Timestamp, rows: u16, cols: u16 },
}

/// Why a batch takes no more of an item.
#[derive(Debug)]
pub(crate) enum Full<'a> {
    /// The segment is full: this is left for the next one.
    Segment(Item<'a>),
    /// The write has as many buffers as it may: this is left for the next one.
    Write(Item<'a>),
}

/// One vectored write at the end of a segment.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    start: u64,
    limit: u64,
    position: u64,
    frame_start: u64,
    cursor: u64,
    inline: Vec<u8>,
    parts: Vec<Part<'a>>,
    frames: Vec<FrameEnd>,
}

#[derive(Debug)]
enum Part<'a> {
    Inline(Range<usize>),
    Payload(&'a [u8]),
}

/// Where a frame of a batch ends, and whether it is the first of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameEnd {
    pub(crate) position: u64,
    pub(crate) cursor: u64,
    /// The cursor of the frame, when it is the first of its block.
    pub(crate) opens_block: Option<u64>,
}

impl<'a> Batch<'a> {
    /// A batch that begins at `position` of the segment's file and `cursor` of the stream, for a segment that may
    /// become `limit` bytes long. At position 0 it begins with the segment's header.
    pub(crate) fn new(position: u64, cursor: u64, limit: u64) -> Self {
        let mut batch = Self {
            start: position,
            limit,
            position,
            frame_start: position,
            cursor,
            inline: Vec::new(),
            parts: Vec::new(),
            frames: Vec::new(),
        };
        if position == 0 {
            batch.inline(&format::segment_header(cursor));
        }
        batch
    }

    /// Adds an item, or what of it fits.
    pub(crate) fn add(&mut self, item: Item<'a>) -> Result<(), Full<'a>> {
        match item {
            Item::Output { stream, at, bytes } => self.add_output(stream, at, bytes),
            Item::Hole { at, until } => {
                self.open_frame(HOLE_PAYLOAD).map_err(|full| full.with(item))?;
                let payload = until.to_le_bytes();
                self.inline(&format::hole_header(at, self.cursor, payload));
                self.inline(&payload);
                self.close_frame(until);
                Ok(())
            }
            Item::Resize { at, rows, cols } => {
                self.open_frame(RESIZE_PAYLOAD).map_err(|full| full.with(item))?;
                let ([r0, r1], [c0, c1]) = (rows.to_le_bytes(), cols.to_le_bytes());
                let payload = [r0, r1, c0, c1];
                self.inline(&format::resize_header(at, self.cursor, payload));
                self.inline(&payload);
                self.close_frame(self.cursor);
                Ok(())
            }
        }
    }

    fn add_output(&mut self, stream: Stream, at: Timestamp, mut bytes: &'a [u8]) -> Result<(), Full<'a>> {
        while !bytes.is_empty() {
            let room = self.open_frame(1).map_err(|full| full.with(Item::Output { stream, at, bytes }))?;
            let (payload, rest) = bytes.split_at(bytes.len().min(room));
            self.inline(&format::output_header(stream, at, self.cursor, payload));
            if payload.len() <= COPIED {
                self.inline(payload);
            } else {
                self.position += payload.len() as u64;
                self.parts.push(Part::Payload(payload));
            }
            self.close_frame(self.cursor + payload.len() as u64);
            bytes = rest;
        }
        Ok(())
    }

    /// Finds the place for a frame with at least `payload` bytes and says how many it can have.
    fn open_frame(&mut self, payload: usize) -> Result<usize, NoPlace> {
        if self.parts.len() + 2 > MOST_PARTS || self.inline.len() > MOST_INLINE {
            return Err(NoPlace::Write);
        }
        #[expect(clippy::cast_possible_truncation, reason = "less than a block")]
        let mut room = (BLOCK - self.position % BLOCK) as usize;
        let padding = if room < FRAME_HEADER + payload { room } else { 0 };
        if padding > 0 {
            room = LONGEST_PAYLOAD + FRAME_HEADER;
        }
        if self.position + (padding + FRAME_HEADER + payload) as u64 > self.limit {
            return Err(NoPlace::Segment);
        }
        self.inline(&[0; FRAME_HEADER + HOLE_PAYLOAD][..padding]);
        self.frame_start = self.position;
        #[expect(clippy::cast_possible_truncation, reason = "bounded by the block")]
        let left = (self.limit - self.position).min(room as u64) as usize;
        Ok(left - FRAME_HEADER)
    }

    fn close_frame(&mut self, cursor: u64) {
        // The first frame of a block begins at its border, or behind the segment's header.
        let first = self.frame_start.is_multiple_of(BLOCK) || self.frame_start == SEGMENT_HEADER as u64;
        let opens_block = first.then_some(self.cursor);
        self.cursor = cursor;
        self.frames.push(FrameEnd { position: self.position, cursor, opens_block });
    }

    fn inline(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let from = self.inline.len();
        self.inline.extend_from_slice(bytes);
        let until = self.inline.len();
        self.position += bytes.len() as u64;
        match self.parts.last_mut() {
            Some(Part::Inline(last)) => last.end = until,
            _ => self.parts.push(Part::Inline(from..until)),
        }
    }

    /// Whether there is no frame to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Where in the file it begins.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// How many bytes of file it is.
    pub(crate) fn len(&self) -> u64 {
        self.position - self.start
    }

    /// Its frames, in order.
    pub(crate) fn frames(&self) -> &[FrameEnd] {
        &self.frames
    }

    /// The bytes, for a vectored write.
    pub(crate) fn slices(&self) -> Vec<IoSlice<'_>> {
        let slice = |part: &'_ Part<'a>| match part {
            Part::Inline(range) => IoSlice::new(&self.inline[range.clone()]),
            Part::Payload(bytes) => IoSlice::new(bytes),
        };
        self.parts.iter().map(slice).collect()
    }
}

#[derive(Debug, Clone, Copy)]
enum NoPlace {
    Segment,
    Write,
}

impl NoPlace {
    fn with(self, item: Item<'_>) -> Full<'_> {
        match self {
            Self::Segment => Full::Segment(item),
            Self::Write => Full::Write(item),
        }
    }
}
