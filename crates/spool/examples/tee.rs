//! A tee that cannot fill the disk: passes its input on, keeps the newest bytes of it, and shows the last lines at the end.
//!
//! `make 2>&1 | cargo run -p procyard-spool --example tee -- DIRECTORY [CEILING_BYTES]`. Run again with the same
//! directory, it goes on behind what is there, also after it was killed.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::SystemTime;

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Spool, SpoolOptions, StreamFilter};
use procyard_store::FsDir;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: tee DIRECTORY [CEILING_BYTES]")?;
    let ceiling = arguments.next().map_or(Ok(1 << 20), |bytes| bytes.parse())?;
    let options = SpoolOptions { ceiling, ..SpoolOptions::default() };
    let parent = FsDir::create_all(Path::new(&directory))?;
    let (mut spool, found) = Spool::recover(parent, "input.spool", options)?;
    if found.total_bytes > 0 {
        eprintln!("going on at byte {}, {} of a torn write cut off", found.total_bytes, found.cut_bytes);
    }

    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = input.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        let now = Timestamp::from_system_time(SystemTime::now());
        // A full disk does not stop the pipe: the bytes become a hole, and what follows is kept again.
        if spool.append(Stream::Stdout, now, &buffer[..read]).degraded {
            eprintln!("some of this could not be kept");
        }
        output.write_all(&buffer[..read])?;
    }
    output.flush()?;
    spool.sync()?;

    let reader = spool.finish();
    let bounds = reader.bounds();
    eprintln!(
        "{} bytes in all, kept from byte {}; the last lines:",
        bounds.total_bytes, bounds.retained_from
    );
    let tail = reader.tail_lines(5, 64 << 10, StreamFilter::Both)?;
    std::io::stderr().write_all(&tail.bytes)?;
    Ok(())
}
