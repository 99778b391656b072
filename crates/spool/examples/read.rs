//! What reading 32 KiB at a random cursor costs beside a bare `pread`, for spools of 1 MiB, 64 MiB and 1 GiB.
//!
//! Run it with `--release`. The directory is made below `TMPDIR`; put that on the disk that is to be measured.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Read, Spool, SpoolOptions, StreamFilter};
use procyard_store::{Dir, FsDir};

const PAGE: usize = 32 << 10;
const READS: u64 = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    for mib in [1_u64, 64, 1024] {
        let size = mib << 20;
        let place = tempfile::tempdir()?;
        let dir = FsDir::open(place.path())?;
        let bare = bare(&*dir, size)?;
        for chunk in [256 << 10, 4 << 10, 80] {
            let options = SpoolOptions { ceiling: size, ..SpoolOptions::default() };
            let mut spool = Spool::create(dir.clone(), &format!("{chunk}.spool"), options);
            let bytes = vec![b'x'; chunk];
            let mut time = 0;
            while spool.total_bytes() < size {
                time += 1;
                spool.append(Stream::Stdout, Timestamp::from_unix_micros(time), &bytes);
            }
            // A finished spool has no window: every read goes to the files.
            let reader = spool.finish();
            let bounds = reader.bounds();
            let mut random = Random(7);
            let mut read_bytes = 0;
            let began = Instant::now();
            for _ in 0..READS {
                let range = bounds.total_bytes - bounds.retained_from - PAGE as u64;
                let cursor = bounds.retained_from + random.next() % range;
                let page = reader.read(&Read { cursor, max_bytes: PAGE, streams: StreamFilter::Both })?;
                read_bytes += black_box(page).bytes.len();
            }
            let each = began.elapsed().as_secs_f64() * 1e6 / READS as f64;
            assert_eq!(read_bytes as u64, READS * PAGE as u64);
            println!(
                "{mib:5} MiB, chunks of {chunk:6}: {each:6.2} µs a read, {bare:5.2} µs a pread: {:.2} ×",
                each / bare
            );
            procyard_spool::remove(&*dir, &format!("{chunk}.spool"))?;
        }
    }
    Ok(())
}

/// Microseconds of a `pread` of the same size at a random offset of one file of the same size.
fn bare(dir: &dyn Dir, size: u64) -> Result<f64, Box<dyn Error>> {
    let file = dir.create_file("bare")?;
    let block = vec![b'x'; 1 << 20];
    for index in 0..size >> 20 {
        file.write_all_at(&block, index << 20)?;
    }
    let mut random = Random(7);
    let began = Instant::now();
    for _ in 0..READS {
        // A new buffer each time, as whoever returns the bytes needs one.
        let mut buf = Vec::with_capacity(PAGE);
        buf.resize(PAGE, 0);
        let offset = if size > PAGE as u64 { random.next() % (size - PAGE as u64) } else { 0 };
        file.read_at(&mut buf, offset)?;
        black_box(buf);
    }
    let each = began.elapsed().as_secs_f64() * 1e6 / READS as f64;
    dir.remove_file("bare")?;
    Ok(each)
}

/// xorshift64 (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
