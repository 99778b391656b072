//! Checks a whole segment: where each block begins in the stream, where its intact frames end, what is damaged.
//!
//! Not here: what to do about damage. A tear at the end of the newest segment is cut by whoever may write; damage
//! elsewhere is reported to readers.

use std::io;

use procyard_store::File;

use crate::format::{
    self, BLOCK, BLOCK_LEN, FRAME_HEADER, Frame, HeaderCheck, LEAP_MAX, SEGMENT_HEADER, Step,
};

/// How much is read at once.
const CHUNK: usize = 16 * BLOCK_LEN;

/// What a segment holds.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) header: HeaderCheck,
    /// The cursor at which each block begins. For a block whose first frame is damaged, it is where the intact frames
    /// before it end.
    pub(crate) blocks: Vec<u64>,
    /// The cursor after the last intact frame; the base when there is none.
    pub(crate) end: u64,
    /// The file offset after the last intact frame; 0 when there is none.
    pub(crate) len: u64,
    /// Whether intact frames come after damaged ones.
    pub(crate) damaged: bool,
    /// Whether there is a hole frame.
    pub(crate) holes: bool,
}

/// Reads the first `len` bytes of the segment that begins at `base` and holds no cursor from `limit` on.
pub(crate) fn scan(file: &dyn File, base: u64, len: u64, limit: u64) -> io::Result<Scan> {
    let mut scan = Scan {
        header: HeaderCheck::Damaged,
        blocks: Vec::new(),
        end: base,
        len: 0,
        damaged: false,
        holes: false,
    };
    let mut chunk = vec![0; CHUNK];
    let mut offset = 0;
    while offset < len {
        #[expect(clippy::cast_possible_truncation, reason = "at most a chunk")]
        let wanted = (len - offset).min(CHUNK as u64) as usize;
        let filled = read_full(file, &mut chunk[..wanted], offset)?;
        if offset == 0 {
            scan.header = format::check_segment_header(&chunk[..filled], base);
        }
        for (index, block) in chunk[..filled].chunks(BLOCK_LEN).enumerate() {
            scan.block(block, offset + index as u64 * BLOCK, limit);
        }
        if filled < wanted {
            break;
        }
        offset += wanted as u64;
    }
    // Blocks behind the last intact frame hold nothing.
    scan.blocks.truncate(usize::try_from(scan.len.div_ceil(BLOCK)).unwrap_or(usize::MAX));
    Ok(scan)
}

impl Scan {
    fn block(&mut self, block: &[u8], offset: u64, limit: u64) {
        let mut place = first_place(offset);
        let mut cursor = self.end;
        let leads_on = |&first: &u64| first > cursor && first < limit && first <= LEAP_MAX;
        if let Some(first) = first_cursor(block, place).filter(leads_on) {
            // Bytes are missing before this block.
            self.damaged = true;
            cursor = first;
        }
        self.blocks.push(cursor);
        while place <= block.len() {
            let Step::Frame(frame, size) = format::step(block, place, cursor) else { break };
            if frame.end(cursor) > limit {
                break;
            }
            self.holes |= matches!(frame, Frame::Hole { .. });
            cursor = frame.end(cursor);
            place += size;
            self.end = cursor;
            self.len = offset + place as u64;
        }
    }
}

/// Where in the block at `offset` of the file the first frame is.
pub(crate) fn first_place(offset: u64) -> usize {
    if offset == 0 { SEGMENT_HEADER } else { 0 }
}

/// The cursor of the frame at the beginning of a block, when it is intact.
fn first_cursor(block: &[u8], place: usize) -> Option<u64> {
    let claimed = block.get(place..place + FRAME_HEADER)?.get(8..16)?;
    let claimed = u64::from_le_bytes(claimed.try_into().ok()?);
    matches!(format::step(block, place, claimed), Step::Frame(..)).then_some(claimed)
}

/// Reads until `buf` is full or the file ends, and says how much there was.
pub(crate) fn read_full(file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match file.read_at(&mut buf[filled..], offset + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}
