//! What a spool may take: the ceiling, the window, the head, and what follows from them for its files.
//!
//! Not here: the format of the files, which no option changes.

/// The smallest segment: one block, so that any frame fits into any segment.
const SMALLEST_SEGMENT: u64 = crate::format::BLOCK;

/// The largest segment: opening a spool anew checks its newest segment whole, and this bounds what that takes.
const LARGEST_SEGMENT: u64 = 128 << 20;

/// The default of [`SpoolOptions::head`].
const HEAD: usize = 16 << 10;

/// How much output is kept, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Bytes of output that stay readable: the newest so many, exactly. At least 1; a 0 counts as 1.
    ///
    /// Disk use stays below 1.25 × the ceiling plus one segment (an eighth of the ceiling, at least 16 KiB and at
    /// most 128 MiB). Where many tiny chunks would exceed it, the oldest bytes go earlier and `retained_from` says so.
    pub ceiling: u64,
    /// Bytes of memory for the newest output, which are then read without touching the disk. It is allocated as it
    /// fills. The records of the chunks in it count, 32 bytes each. What grows takes up to 128 KiB more, and the index of
    /// the files 8 bytes for each 16 KiB of them. 0 keeps nothing in memory.
    pub window: usize,
    /// Bytes from the beginning of the stream that are kept in memory for good.
    pub head: usize,
}

impl Default for SpoolOptions {
    /// 64 MiB on disk, 1 MiB in memory, a head of 16 KiB.
    fn default() -> Self {
        Self { ceiling: 64 << 20, window: 1 << 20, head: HEAD }
    }
}

impl SpoolOptions {
    /// What the files of the spool stay below together, in bytes: 1.25 × the ceiling plus one segment.
    pub fn disk_bound(&self) -> u64 {
        self.ceiling().saturating_add(self.ceiling() / 4).saturating_add(self.segment())
    }

    pub(crate) fn ceiling(&self) -> u64 {
        self.ceiling.max(1)
    }

    /// Length at which a segment file is full, in bytes of file.
    pub(crate) fn segment(&self) -> u64 {
        (self.ceiling() / 8).next_multiple_of(crate::format::BLOCK).clamp(SMALLEST_SEGMENT, LARGEST_SEGMENT)
    }
}
