//! Layer `spool`: bounded output on disk, addressed by cursors that never move.

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Read, Spool, SpoolOptions, StreamFilter};
use procyard_store::FsDir;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let options = SpoolOptions { ceiling: 1 << 20, ..SpoolOptions::default() };
    let mut spool = Spool::create(FsDir::open(place.path())?, "build.spool", options);
    let chunk = "compiling one more file of a very large project\n".repeat(100);
    for _ in 0..1000 {
        let now = Timestamp::from_system_time(std::time::SystemTime::now());
        spool.append(Stream::Stdout, now, chunk.as_bytes());
    }
    // Everything was counted, the newest MiB is kept, and a read before it says that there is a gap.
    let everything = StreamFilter::Both;
    let page = spool.reader().read(&Read { cursor: 0, max_bytes: 4096, streams: everything })?;
    println!("{} bytes printed, kept from {}, gap: {}", page.total_bytes, page.retained_from, page.gap);
    assert!(page.gap && page.start_cursor == page.total_bytes - (1 << 20));
    Ok(())
}
