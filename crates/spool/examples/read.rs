//! What reading 32 KiB at a random cursor costs beside a bare `pread`, for spools of 1 MiB, 64 MiB and 1 GiB.
//!
//! Both are measured in turns, and the best turn of each counts, so that other load on the machine does not. Run it
//! with `--release`. The directory is made below `TMPDIR`; put that on the disk that is to be measured.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Read, Spool, SpoolOptions, SpoolReader, StreamFilter, remove};
use procyard_store::{Dir, File, FsDir};

const PAGE: usize = 32 << 10;
const TURNS: usize = 20;
const READS: u32 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    for mib in [1_u64, 64, 1024] {
        let size = mib << 20;
        let place = tempfile::tempdir()?;
        let dir = FsDir::open(place.path())?;
        let file = dir.create_file("bare")?;
        let block = vec![b'x'; 1 << 20];
        for index in 0..mib {
            file.write_all_at(&block, index << 20)?;
        }
        for chunk in [256 << 10, 4 << 10, 80] {
            let reader = filled(&dir, size, chunk);
            let mut random = Random(7);
            let (mut bare, mut spool) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..TURNS {
                bare = bare.min(preads(&*file, &mut random)?);
                spool = spool.min(reads(&reader, &mut random)?);
            }
            let ratio = spool / bare;
            println!(
                "{mib:5} MiB, chunks of {chunk:6}: {spool:6.2} µs a read, {bare:5.2} µs a pread: {ratio:.2} ×"
            );
            drop(reader);
            remove(&*dir, "spool")?;
        }
    }
    Ok(())
}

/// A spool of `size` bytes of a finished process: it has no window, so every read goes to the files.
fn filled(dir: &std::sync::Arc<dyn Dir>, size: u64, chunk: usize) -> SpoolReader {
    let options = SpoolOptions { ceiling: size, ..SpoolOptions::default() };
    let mut spool = Spool::create(dir.clone(), "spool", options);
    let bytes = vec![b'x'; chunk];
    let mut time = 0;
    while spool.total_bytes() < size {
        time += 1;
        spool.append(Stream::Stdout, Timestamp::from_unix_micros(time), &bytes);
    }
    spool.finish()
}

/// Microseconds of one read.
fn reads(reader: &SpoolReader, random: &mut Random) -> Result<f64, Box<dyn Error>> {
    let bounds = reader.bounds();
    let range = bounds.total_bytes - bounds.retained_from - PAGE as u64;
    let began = Instant::now();
    for _ in 0..READS {
        let cursor = bounds.retained_from + random.next() % range;
        let page = reader.read(&Read { cursor, max_bytes: PAGE, streams: StreamFilter::Both })?;
        assert_eq!(black_box(page).bytes.len(), PAGE);
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(READS))
}

/// Microseconds of one `pread` of the same size, into a new buffer, as whoever returns the bytes needs one.
fn preads(file: &dyn File, random: &mut Random) -> Result<f64, Box<dyn Error>> {
    let range = file.len()? - PAGE as u64;
    let began = Instant::now();
    for _ in 0..READS {
        let mut buf = vec![0; PAGE];
        file.read_at(&mut buf, random.next() % range)?;
        black_box(buf);
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(READS))
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
