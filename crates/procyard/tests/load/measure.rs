//! What a service takes of the machine, as the kernel counts it.
//!
//! Not for what the service says of itself.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What is in use at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Resident memory of the service, in bytes.
    pub(crate) memory: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    /// Guardians and shims.
    pub(crate) keepers: usize,
    /// Their memory in bytes, what is shared divided among the sharers (Pss).
    pub(crate) keepers_memory: u64,
    /// All other processes below the service: the commands.
    pub(crate) commands: usize,
}

impl Footprint {
    pub(crate) fn of(service: i32) -> Self {
        let (mut keepers, mut keepers_memory, mut commands) = (0, 0, 0);
        let program = fs::read_link(format!("/proc/{service}/exe")).unwrap();
        for pid in descendants(service) {
            // One that has ended meanwhile is none.
            let Ok(runs) = fs::read_link(format!("/proc/{pid}/exe")) else { continue };
            if runs == program {
                keepers += 1;
                keepers_memory += kib(&format!("/proc/{pid}/smaps_rollup"), "Pss:").unwrap_or_default();
            } else {
                commands += 1;
            }
        }
        Self {
            memory: resident(service),
            descriptors: fs::read_dir(format!("/proc/{service}/fd")).unwrap().count(),
            threads: fs::read_dir(format!("/proc/{service}/task")).unwrap().count(),
            keepers,
            keepers_memory,
            commands,
        }
    }

    /// The most of each.
    pub(crate) fn or_more(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            keepers: self.keepers.max(other.keepers),
            keepers_memory: self.keepers_memory.max(other.keepers_memory),
            commands: self.commands.max(other.commands),
        }
    }
}

impl Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} MiB, {} descriptors, {} threads; {} guardians and shims of {:.1} MiB; {} processes of commands",
            mib(self.memory),
            self.descriptors,
            self.threads,
            self.keepers,
            mib(self.keepers_memory),
            self.commands
        )
    }
}

pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The resident memory of a process, in bytes.
pub(crate) fn resident(pid: i32) -> u64 {
    kib(&format!("/proc/{pid}/status"), "VmRSS:").unwrap()
}

/// The value of a line of a file of `/proc` that counts in KiB, in bytes.
fn kib(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|count| count * 1024)
}

/// Every process below this one.
fn descendants(of: i32) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or_default()).or_default().push(pid);
    }
    let (mut found, mut left) = (HashSet::new(), vec![of]);
    while let Some(pid) = left.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.insert(child);
            left.push(child);
        }
    }
    found
}

/// Does some work, and gives the most that the service took meanwhile.
pub(crate) async fn watched<T>(service: i32, work: impl Future<Output = T>) -> (T, Footprint) {
    let mut most = Footprint::of(service);
    let mut ticks = tokio::time::interval(Duration::from_millis(250));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return (done, most.or_more(Footprint::of(service))),
            _ = ticks.tick() => most = most.or_more(Footprint::of(service)),
        }
    }
}

/// What the service takes once it has come to rest: as many processes of commands, guardians and shims as `keepers`.
pub(crate) async fn at_rest(service: i32, keepers: usize) -> Footprint {
    let deadline = tokio::time::Instant::now() + crate::service::PATIENCE;
    loop {
        let now = Footprint::of(service);
        if now.commands == 0 && now.keepers == keepers {
            return now;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{keepers} guardians are to be left; there are: {now}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The bytes of all files below a directory whose names `wanted` admits, as they lie on the disk.
pub(crate) fn on_disk(directory: &Path, wanted: &impl Fn(&str) -> bool) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => on_disk(&entry.path(), wanted),
        Ok(found) if wanted(&entry.file_name().to_string_lossy()) => found.blocks() * 512,
        // Not asked for, or removed meanwhile.
        _ => 0,
    };
    entries.flatten().map(size).sum()
}

/// How much of the processors everything on this machine uses now, in per cent.
pub(crate) async fn busy() -> f64 {
    let ticks = || {
        let text = fs::read_to_string("/proc/stat").unwrap();
        let line = text.lines().next().unwrap();
        let counts: Vec<u64> =
            line.split_ascii_whitespace().skip(1).map(|count| count.parse().unwrap()).collect();
        (counts.iter().take(8).sum::<u64>(), counts[3] + counts[4])
    };
    let (all, idle) = ticks();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (all_then, idle_then) = ticks();
    100.0 * (1.0 - (idle_then - idle) as f64 / (all_then - all).max(1) as f64)
}
