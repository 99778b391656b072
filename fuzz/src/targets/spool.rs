//! Spools of any content: opened, read from everywhere, recovered and written on.

use std::sync::Arc;

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Read, ReadError, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{Dir, FsDir};

use super::world::scratch;

const NAME: &str = "any.spool";

const OPTIONS: SpoolOptions = SpoolOptions { ceiling: 64 << 10, window: 256, head: 64 };

/// Reads that one pass makes at most.
const READS: usize = 4096;

thread_local! {
    // Of a thread, so that it is removed at the end.
    static PLACE: (tempfile::TempDir, Arc<dyn Dir>) = {
        let place = scratch();
        let dir: Arc<dyn Dir> = FsDir::open(place.path()).expect("the scratch directory opens");
        (place, dir)
    };
}

/// Segments one behind the other: two bytes of length and eight of the cursor in the name, then the content.
pub(crate) fn spool(data: &[u8]) {
    PLACE.with(|(place, dir)| try_in(place, dir, data));
}

fn try_in(place: &tempfile::TempDir, dir: &Arc<dyn Dir>, data: &[u8]) {
    let folder = place.path().join(NAME);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("the scratch directory is writable");
    let mut rest = data;
    while let Some((header, more)) = rest.split_first_chunk::<10>() {
        let length = usize::from(u16::from_le_bytes([header[0], header[1]])).min(more.len());
        let cursor = u64::from_le_bytes([
            header[2], header[3], header[4], header[5], header[6], header[7], header[8], header[9],
        ]);
        let (content, after) = more.split_at(length);
        std::fs::write(folder.join(format!("{cursor:020}.seg")), content).expect("it is writable");
        rest = after;
    }
    let Ok(reader) = SpoolReader::open(Arc::clone(dir), NAME, OPTIONS) else { return };
    let bounds = reader.bounds();
    assert!(bounds.retained_from <= bounds.total_bytes);
    let before = read_all(&reader);
    let _ = reader.tail(100, StreamFilter::Both);
    let _ = reader.tail_lines(3, 1024, StreamFilter::Only(Stream::Stdout));
    drop(reader);

    let Ok((mut spool, _)) = Spool::recover(Arc::clone(dir), NAME, OPTIONS) else { return };
    // What was whole is there, and what is appended comes behind it.
    assert!(spool.total_bytes() <= bounds.total_bytes);
    let from = spool.total_bytes();
    spool.append(Stream::Stderr, Timestamp::from_unix_micros(1), b"more");
    if spool.degraded() {
        return;
    }
    let reader = spool.finish();
    assert_eq!(reader.bounds().total_bytes, from + 4);
    let end = reader.tail(4, StreamFilter::Both).expect("what was just written reads");
    assert_eq!(end.bytes, b"more");
    let after = read_all(&reader);
    for (cursor, byte) in
        before.iter().filter(|(cursor, _)| (reader.bounds().retained_from..from).contains(cursor))
    {
        if let Ok(at) = after.binary_search_by_key(cursor, |(cursor, _)| *cursor) {
            assert_eq!(after[at].1, *byte, "byte {cursor} changed");
        }
    }
}

/// Every byte that reads, with its cursor, ascending.
fn read_all(reader: &SpoolReader) -> Vec<(u64, u8)> {
    let bounds = reader.bounds();
    let mut cursor = bounds.retained_from;
    let mut bytes = Vec::new();
    for _ in 0..READS {
        if cursor >= bounds.total_bytes {
            break;
        }
        match reader.read(&Read { cursor, max_bytes: 4096, streams: StreamFilter::Both }) {
            Ok(page) => {
                assert!(page.next_cursor > cursor && page.next_cursor <= page.total_bytes);
                for span in &page.spans {
                    assert!(
                        span.cursor >= cursor && span.cursor < page.next_cursor,
                        "a span outside its page"
                    );
                    let part = &page.bytes[span.offset..span.offset + span.len];
                    bytes.extend((span.cursor..).zip(part.iter().copied()));
                }
                cursor = page.next_cursor;
            }
            Err(ReadError::Corrupt { until, .. }) => {
                assert!(until > cursor, "damage ends where it begins");
                cursor = until;
            }
            Err(_) => break,
        }
    }
    bytes
}
