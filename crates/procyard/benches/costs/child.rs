//! This program as the child that is supervised: it writes as much as it is told, in the way it is told.
//!
//! Not for measuring: a child knows nothing of rounds or baselines.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// The first argument of a child that writes; bytes and bytes per write follow.
const WRITE: &str = "child-write";

/// A line of a log, so that the output is like what commands print.
const LINE: &[u8] = b"2026-01-05 12:00:00 INFO server: request 4711 took 12 ms, 200 OK\n";

/// Arguments that make this program a child that writes `bytes` to its standard output, `chunk` with each `write(2)`.
pub(crate) fn writer(bytes: u64, chunk: usize) -> anyhow::Result<Vec<String>> {
    Ok(vec![own_path()?, WRITE.to_owned(), bytes.to_string(), chunk.to_string()])
}

fn own_path() -> anyhow::Result<String> {
    let path: PathBuf = std::env::current_exe()?;
    path.into_os_string().into_string().map_err(|_| anyhow::anyhow!("the path of this program is not text"))
}

/// Does what a child is to do, when this is one.
pub(crate) fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()?.as_str() != WRITE {
        return None;
    }
    let bytes = arguments.next()?.parse().ok()?;
    let chunk = arguments.next()?.parse().ok()?;
    Some(if write(bytes, chunk).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(bytes: u64, chunk: usize) -> std::io::Result<()> {
    let chunk: Vec<u8> = LINE.iter().copied().cycle().take(chunk).collect();
    // The bare descriptor: standard output's own buffer would cut the chunks at lines.
    let mut stdout = std::fs::File::from(std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?);
    let mut left = bytes;
    while left > 0 {
        let now = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        stdout.write_all(&chunk[..now])?;
        left -= now as u64;
    }
    Ok(())
}
