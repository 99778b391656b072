//! Memory and wake-ups, as the kernel counts them (proc(5)).
//!
//! Not for what is shared: pages of the program itself count for nobody here.

use std::path::PathBuf;

use anyhow::Context as _;

/// Forgets the peak of this process so far, so that the next one is of what is measured (`proc_pid_clear_refs(5)`).
pub(crate) fn forget_peak() -> anyhow::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("the peak of memory cannot be reset")
}

/// Bytes of memory that this process has in use now, and the most since the last [`forget_peak`].
pub(crate) fn resident_and_peak() -> anyhow::Result<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    Ok((kib(&status, "VmRSS:")? * 1024, kib(&status, "VmHWM:")? * 1024))
}

/// Bytes of memory that this process alone has.
pub(crate) fn of(task: &Task) -> anyhow::Result<u64> {
    let rollup = std::fs::read_to_string(task.path("smaps_rollup"))?;
    Ok((kib(&rollup, "Private_Clean:")? + kib(&rollup, "Private_Dirty:")?) * 1024)
}

fn kib(text: &str, name: &str) -> anyhow::Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// A process of this machine that is ours.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    pid: u32,
    parent: u32,
}

impl Task {
    /// This process.
    pub(crate) fn own() -> &'static Self {
        static OWN: std::sync::OnceLock<Task> = std::sync::OnceLock::new();
        OWN.get_or_init(|| Self { name: String::new(), pid: std::process::id(), parent: 0 })
    }

    fn read(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some(Self { name: field("Name:")?.to_owned(), pid, parent: field("PPid:")?.parse().ok()? })
    }

    /// The descendants that have one of these names and only such ancestors below this process.
    pub(crate) fn descendants(&self, names: &[&str]) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok());
            all.extend(pid.and_then(Self::read).filter(|task| names.contains(&task.name.as_str())));
        }
        let mut found: Vec<Self> = Vec::new();
        loop {
            let is_known = |pid| pid == self.pid || found.iter().any(|task| task.pid == pid);
            let (next, rest): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|task: &Self| is_known(task.parent));
            if next.is_empty() {
                return Ok(found);
            }
            found.extend(next);
            all = rest;
        }
    }

    /// How often its threads went to sleep, which is how often they were woken.
    pub(crate) fn switches(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for thread in std::fs::read_dir(self.path("task"))? {
            let status = std::fs::read_to_string(thread?.path().join("status"))?;
            for line in status.lines().filter(|line| line.starts_with("voluntary_ctxt_switches")) {
                sum += line
                    .split_ascii_whitespace()
                    .nth(1)
                    .and_then(|count| count.parse::<u64>().ok())
                    .unwrap_or(0);
            }
        }
        Ok(sum)
    }

    fn path(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.pid))
    }
}
