//! What this process takes of memory.
//!
//! Not for other processes.

use anyhow::Context as _;

/// Forgets the peak so far, so that the next one is of what is measured (proc_pid_clear_refs(5)).
pub(crate) fn forget_peak() -> anyhow::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("the peak of memory cannot be reset")
}

/// Bytes of memory in use now.
pub(crate) fn resident() -> anyhow::Result<u64> {
    field("VmRSS:")
}

/// The most bytes in use since the last [`forget_peak`].
pub(crate) fn peak() -> anyhow::Result<u64> {
    field("VmHWM:")
}

fn field(name: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such field")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
