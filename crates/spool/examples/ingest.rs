//! How fast output goes into window and spool, and what it takes: `ingest [total MiB] [ceiling MiB] [chunk KiB]`.
//!
//! Run it with `--release`. The directory is made below `TMPDIR`; put that on the disk that is to be measured.

use std::error::Error;
use std::time::Instant;

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Spool, SpoolOptions};
use procyard_store::FsDir;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut next = |default| arguments.next().unwrap_or(Ok(default));
    let (total, ceiling, chunk) = (next(4096)? << 20, next(64)? << 20, next(256)? << 10);

    let place = tempfile::tempdir()?;
    let options = SpoolOptions { ceiling, ..SpoolOptions::default() };
    let mut spool = Spool::create(FsDir::open(place.path())?, "ingest.spool", options);
    let bytes: Vec<u8> = (0..=255).cycle().take(usize::try_from(chunk)?).collect();
    let mut disk = 0;
    let began = Instant::now();
    let mut time = 0;
    while spool.total_bytes() < total {
        time += 1;
        spool.append(Stream::Stdout, Timestamp::from_unix_micros(time), &bytes);
        disk = disk.max(spool.reader().disk_bytes());
    }
    let took = began.elapsed().as_secs_f64();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{:.0} MiB in {took:.2} s: {:.0} MiB/s",
        mib(spool.total_bytes()),
        mib(spool.total_bytes()) / took
    );
    println!("disk at most {:.1} MiB of a ceiling of {:.0} MiB", mib(disk), mib(ceiling));
    let began = Instant::now();
    spool.sync()?;
    println!("sync {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
