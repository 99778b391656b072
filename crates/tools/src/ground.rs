//! Where a reader has come to that has read everything so far: the last place, up to the end of the output, at which the
//! stream is between two of its units. What lies behind it was shown to nobody yet.
//!
//! Found from the end, however much was printed: `ESC` begins a sequence whatever was before, so that what comes behind one
//! is known without the beginning. Not for reading on: a page knows where it ends.

use procyard_supervisor::ReadFrom;
use procyard_text::{PageBuilder, PageRequest, SEQUENCE_LIMIT};

use crate::segment::last_segment;
use crate::source::{Source, is_damage};

/// Raw bytes of the first look.
const STEP: u64 = 4 << 10;

/// Raw bytes of the last one. Every unit of the stream ends within this many.
const BACK_MAX: u64 = SEQUENCE_LIMIT as u64 + 4;

const ESC: u8 = 0x1B;

/// The place where collapsed pages that were read up to `end` end, while the process runs. `end` itself where the output
/// before it cannot be read. Cancellation safe.
pub(crate) async fn ground_before(source: &dyn Source, end: u64) -> u64 {
    look_back(source, end, STEP).await
}

/// The same, with another size of the first look.
pub(crate) async fn look_back(source: &dyn Source, end: u64, step: u64) -> u64 {
    let mut back = step.min(end);
    loop {
        let Some(seen) = Seen::from(source, end - back, end).await else { return end };
        if let Some(ground) = seen.ground(back == BACK_MAX.min(end)) {
            return ground;
        }
        back = (back * 16).min(BACK_MAX).min(end);
    }
}

/// The bytes before the end.
struct Seen {
    bytes: Vec<u8>,
    start: u64,
    /// Nothing comes before them: they begin the stream, or stand behind bytes that are missing or damaged, where reading
    /// begins anew.
    begins: bool,
}

impl Seen {
    /// What is there between two cursors, behind the last gap.
    async fn from(source: &dyn Source, from: u64, end: u64) -> Option<Self> {
        let mut seen = Self { bytes: Vec::new(), start: from, begins: from == 0 };
        let mut at = from;
        while at < end {
            let most = usize::try_from(end - at).unwrap_or(usize::MAX);
            let page = match source.read(ReadFrom::Cursor(at), most).await {
                Ok((page, _)) => page,
                Err(error) if is_damage(&error) => {
                    at = source.behind_damage(at).await?;
                    seen = Self { bytes: Vec::new(), start: at, begins: true };
                    continue;
                }
                Err(_) => return None,
            };
            let part = last_segment(&page);
            if part.behind_gap {
                seen = Self { bytes: Vec::new(), start: part.start_cursor, begins: true };
            }
            seen.bytes.extend_from_slice(part.bytes);
            if page.next_cursor <= at {
                return None;
            }
            at = page.next_cursor;
        }
        // Over a gap a page reaches further.
        let within = end.checked_sub(seen.start)?;
        seen.bytes.truncate(usize::try_from(within).unwrap_or(usize::MAX));
        Some(seen)
    }

    /// The place, unless it depends on what comes before all of these bytes; then it is guessed when they are the last that
    /// are looked at.
    fn ground(&self, last: bool) -> Option<u64> {
        let from = match self.bytes.iter().position(|byte| *byte == ESC) {
            _ if self.begins => 0,
            // Whatever it is inside of ends there.
            Some(escape) => escape,
            None if last => 0,
            None => return None,
        };
        let request = PageRequest { collapse: true, resync: self.start > 0, ..PageRequest::new(usize::MAX) };
        let mut builder = PageBuilder::new(&request);
        builder.feed(&self.bytes[from..]);
        let text = builder.finish(false);
        // A carriage return before all of it is held back until something is shown behind it.
        let settled = self.begins || last || !text.text.is_empty();
        settled.then_some(self.start + (from + text.consumed) as u64)
    }
}

#[cfg(test)]
mod tests {
    use procyard_core::State;

    use super::*;
    use crate::testing::{Recorded, now};

    fn check(stream: &[u8], ground: u64) {
        let source = Recorded { state: State::Running, ..Recorded::stdout(stream) };
        let end = stream.len() as u64;
        for step in [1, 2, 5, 64, STEP] {
            assert_eq!(
                now(look_back(&source, end, step)),
                ground,
                "{step}: {:?}",
                String::from_utf8_lossy(stream)
            );
        }
    }

    #[test]
    fn it_is_in_front_of_what_is_not_complete() {
        check(b"", 0);
        check(b"text", 4);
        check(b"text\x1b", 4);
        check(b"text\x1b[3", 4);
        check(b"text\x1b[31m", 9);
        check(b"\x1b[1mtext\x1b[3", 8);
        check(b"text\x1b]0;title", 4);
        check(b"text\x1b]0;title\x1b", 4);
        check(b"text\x1b]0;title\x1b\\", 15);
        check(b"text\x1b]0;title\x07", 14);
        check("日本".as_bytes(), 6);
        check(&"日本".as_bytes()[..5], 3);
        check(&"日本".as_bytes()[..4], 3);
        check(b"text\r", 4);
        check(b"text\r\n", 6);
        check(b"text\r\x1b[3", 4);
        check(b"text\r\x1b[1m\x1b[3", 9);
    }

    #[test]
    fn a_long_sequence_is_followed_to_its_beginning() {
        let long = [b"text\x1b]52;c;".to_vec(), vec![b'A'; 300_000]].concat();
        check(&long, 4);
        check(&[long, b"\x1b".to_vec()].concat(), 4);
        check(&vec![b'x'; 2 << 20], 2 << 20);
    }

    #[test]
    fn where_nothing_can_be_read_it_is_the_end() {
        let source = Recorded { damaged: Some((0, 12)), ..Recorded::stdout(b"text text\x1b[3") };
        assert_eq!(now(ground_before(&source, 12)), 12);
        let source = Recorded { damaged: Some((0, 5)), ..source };
        assert_eq!(now(ground_before(&source, 12)), 9, "what is intact behind it begins anew");
        let source = Recorded { retained_from: 12, ..Recorded::stdout(b"text text\x1b[3") };
        assert_eq!(now(ground_before(&source, 12)), 12);
    }
}
