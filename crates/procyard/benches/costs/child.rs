//! This program as the child that is supervised: it writes as much as it is told, in the way it is told.
//!
//! Not for measuring: a child knows nothing of rounds or baselines.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The first argument of a child that writes; bytes and bytes per write follow.
const WRITE: &str = "child-write";

/// The first argument of a child that writes the time now and then; how often follows.
const TICK: &str = "child-tick";

/// Bytes of a time as a ticker writes it.
pub(crate) const STAMP: usize = 21;

/// How long a ticker rests.
const REST: Duration = Duration::from_millis(1);

/// A line of a log, so that the output is like what commands print.
const LINE: &[u8] = b"2026-01-05 12:00:00 INFO server: request 4711 took 12 ms, 200 OK\n";

/// Arguments that make this program a child that writes `bytes` to its standard output, `chunk` with each `write(2)`.
pub(crate) fn writer(bytes: u64, chunk: usize) -> anyhow::Result<Vec<String>> {
    Ok(vec![own_path()?, WRITE.to_owned(), bytes.to_string(), chunk.to_string()])
}

/// Arguments that make this program a child that writes what [`monotonic`] says, `times` times, [`STAMP`] bytes each.
pub(crate) fn ticker(times: u32) -> anyhow::Result<Vec<String>> {
    Ok(vec![own_path()?, TICK.to_owned(), times.to_string()])
}

/// Nanoseconds of a clock that all processes share.
pub(crate) fn monotonic() -> anyhow::Result<u64> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    Ok(u64::try_from(now.as_nanos())?)
}

/// The processor time that this process has used.
pub(crate) fn processor_time() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

fn own_path() -> anyhow::Result<String> {
    let path: PathBuf = std::env::current_exe()?;
    path.into_os_string().into_string().map_err(|_| anyhow::anyhow!("the path of this program is not text"))
}

/// Does what a child is to do, when this is one.
pub(crate) fn enter() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [WRITE, bytes, chunk] => write(bytes.parse().ok()?, chunk.parse().ok()?),
        [TICK, times] => tick(times.parse().ok()?),
        _ => return None,
    };
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn stdout() -> std::io::Result<std::fs::File> {
    // The bare descriptor: standard output's own buffer would cut chunks at lines.
    Ok(std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?))
}

fn tick(times: u32) -> anyhow::Result<()> {
    let mut stdout = stdout()?;
    for _ in 0..times {
        std::thread::sleep(REST);
        let stamp = format!("{:0width$}\n", monotonic()?, width = STAMP - 1);
        stdout.write_all(stamp.as_bytes())?;
    }
    Ok(())
}

fn write(bytes: u64, chunk: usize) -> anyhow::Result<()> {
    let chunk: Vec<u8> = LINE.iter().copied().cycle().take(chunk).collect();
    let mut stdout = stdout()?;
    let mut left = bytes;
    while left > 0 {
        let now = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        stdout.write_all(&chunk[..now])?;
        left -= now as u64;
    }
    Ok(())
}
