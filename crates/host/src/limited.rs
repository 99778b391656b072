//! The limits of one tree, as they are set, and what they have ended.
//!
//! A limit of memory is one of memory and swap together: none of the swap of version 2, and the sum of version 1. Where
//! the kernel counts no swap, what is swapped out is not limited.
//!
//! Not for where limits can be set: see [`crate::controllers`].

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::cgroup::{Base, DEPTH_MAX, Leaf, nested, write_to};
use crate::controllers::{Controller, Place, Version, give, offers};
use crate::limits::errno_of;

/// The limits of one tree.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    /// Its cgroups of version 1, each held by its lock. Those who are forked hold it, too.
    groups: Vec<Base>,
    /// Where deaths by the memory limit are counted.
    memory: Option<(Version, PathBuf)>,
    kills: u32,
}

impl Limited {
    pub(crate) fn limit_pids(&mut self, place: &Place, leaf: Option<&Leaf>, max: u32) -> io::Result<()> {
        let (_, path) = self.place(Controller::Pids, place, leaf)?;
        write_to(&path.join("pids.max"), &max.to_string())
    }

    pub(crate) fn limit_memory(&mut self, place: &Place, leaf: Option<&Leaf>, max: u64) -> io::Result<()> {
        let (version, path) = self.place(Controller::Memory, place, leaf)?;
        limit_memory(version, &path, max)?;
        self.memory = Some((version, path));
        Ok(())
    }

    /// The cgroup for the limits of a controller; one of version 1 is made, once where two controllers share it.
    fn place(
        &mut self,
        controller: Controller,
        place: &Place,
        leaf: Option<&Leaf>,
    ) -> io::Result<(Version, PathBuf)> {
        match (place, leaf) {
            (Place::Leaf, Some(leaf)) => {
                // The base gives it to its leaves only now, so that those without limits cost nothing.
                if !offers(leaf.path(), controller.name())
                    && let Some(base) = leaf.path().parent()
                {
                    give(base, controller.name())?;
                }
                Ok((Version::Two, leaf.path().to_owned()))
            }
            (Place::Below(own), _) => {
                let made = self.groups.iter().find(|group| group.path().parent() == Some(own.as_path()));
                let path = if let Some(group) = made {
                    group.path().to_owned()
                } else {
                    let group = Base::create(own)?;
                    let path = group.path().to_owned();
                    self.groups.push(group);
                    path
                };
                Ok((Version::One, path))
            }
            (Place::Leaf | Place::Nowhere(_), _) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Moves the calling process into the cgroups of version 1; into its leaf it gets by other ways.
    pub(crate) fn enter(&self) -> Result<(), Errno> {
        self.groups.iter().try_for_each(|group| {
            write_to(&group.path().join("cgroup.procs"), "0").map_err(|error| errno_of(&error))
        })
    }

    /// Looks how many the memory limit has killed; tells it when there are more than before.
    pub(crate) fn new_kills(&mut self) -> Option<u32> {
        let (version, path) = self.memory.as_ref()?;
        let found = match version {
            Version::Two => kills_of_version_2(path),
            Version::One => kills_of_version_1(path),
        };
        (found > self.kills).then(|| {
            self.kills = found;
            found
        })
    }

    /// Removes the cgroups of version 1 that nothing lives in; true when none is left.
    pub(crate) fn remove(&mut self) -> bool {
        self.groups.retain(|group| group.remove().is_err());
        self.groups.is_empty()
    }
}

/// The number behind a name in a file of such lines.
fn number(path: &Path, file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path.join(file)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Those below are counted in. Of a shortage of the whole machine, or of a cgroup above, it is not said that this limit was
/// reached.
fn kills_of_version_2(path: &Path) -> u32 {
    const FILE: &str = "memory.events";
    match (number(path, FILE, "oom"), number(path, FILE, "oom_kill")) {
        (Some(1..), Some(kills)) => u32::try_from(kills).unwrap_or(u32::MAX),
        _ => 0,
    }
}

/// Each cgroup counts its own, so those that the command made below are gone through; they are limited by this one. The peak
/// of use tells whether this limit was reached: counts of failures are 0 on newer kernels. Before Linux 4.13 there is no
/// count of kills.
fn kills_of_version_1(path: &Path) -> u32 {
    /// What is asked for at a time, at most, where its failure kills.
    const ORDER_MAX: u64 = 64 << 10;
    let value = |file: &str| std::fs::read_to_string(path.join(file)).ok()?.trim().parse::<u64>().ok();
    let reached = ["memory", "memory.memsw"].into_iter().any(|kind| {
        let peak = value(&format!("{kind}.max_usage_in_bytes"));
        let limit = value(&format!("{kind}.limit_in_bytes"));
        peak.zip(limit).is_some_and(|(peak, limit)| peak >= limit.saturating_sub(ORDER_MAX))
    });
    if reached { u32::try_from(kills_below(path, DEPTH_MAX)).unwrap_or(u32::MAX) } else { 0 }
}

fn kills_below(path: &Path, depth: usize) -> u64 {
    let own = number(path, "memory.oom_control", "oom_kill").unwrap_or(0);
    let below = nested(path, depth).unwrap_or_default();
    own + below.iter().map(|path| kills_below(path, depth - 1)).sum::<u64>()
}

/// Memory and, where the kernel counts it, swap: together not more than `max` bytes.
fn limit_memory(version: Version, path: &Path, max: u64) -> io::Result<()> {
    let (limit, swap, of_swap) = match version {
        // Swap of its own kind: none of it.
        Version::Two => ("memory.max", "memory.swap.max", 0),
        // Memory and swap in one number, which may not be less than that of memory alone.
        Version::One => (Controller::Memory.limit_file(), "memory.memsw.limit_in_bytes", max),
    };
    write_to(&path.join(limit), &max.to_string())?;
    match write_to(&path.join(swap), &of_swap.to_string()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        set => set,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    fn text(directory: &tempfile::TempDir, name: &str) -> String {
        std::fs::read_to_string(directory.path().join(name)).unwrap()
    }

    #[test]
    fn memory_and_swap_together_are_limited_in_both_versions() {
        let two = directory(&[("memory.max", ""), ("memory.swap.max", "")]);
        limit_memory(Version::Two, two.path(), 8192).unwrap();
        assert_eq!((text(&two, "memory.max"), text(&two, "memory.swap.max")), ("8192".into(), "0".into()));
        let one = directory(&[("memory.limit_in_bytes", ""), ("memory.memsw.limit_in_bytes", "")]);
        limit_memory(Version::One, one.path(), 8192).unwrap();
        assert_eq!(text(&one, "memory.limit_in_bytes"), "8192");
        assert_eq!(text(&one, "memory.memsw.limit_in_bytes"), "8192");
        let swapless = directory(&[("memory.max", "")]);
        limit_memory(Version::Two, swapless.path(), 8192).unwrap();
        assert!(limit_memory(Version::One, swapless.path(), 8192).is_err(), "no limit, no start");
    }

    #[test]
    fn deaths_count_only_where_this_limit_was_reached() {
        let kills = |events| kills_of_version_2(directory(&[("memory.events", events)]).path());
        assert_eq!(kills("low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 0\n"), 3);
        assert_eq!(kills("low 0\nhigh 0\nmax 0\noom 0\noom_kill 3\n"), 0, "a shortage elsewhere");
        assert_eq!(kills(""), 0);
        let kills = |peak, control| {
            let files = [
                ("memory.limit_in_bytes", "1048576\n"),
                ("memory.max_usage_in_bytes", peak),
                ("memory.oom_control", control),
            ];
            kills_of_version_1(directory(&files).path())
        };
        assert_eq!(kills("1048576\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), 1);
        assert_eq!(
            kills("1044480\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
            1,
            "some pages at once"
        );
        assert_eq!(
            kills("524288\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
            0,
            "a shortage elsewhere"
        );
        assert_eq!(kills("1048576\n", "oom_kill_disable 0\nunder_oom 0\n"), 0, "an old kernel");
    }

    #[test]
    fn with_swap_the_limit_of_both_together_may_be_the_one_that_was_reached() {
        let group = directory(&[
            ("memory.limit_in_bytes", "1048576"),
            ("memory.max_usage_in_bytes", "524288"),
            ("memory.memsw.limit_in_bytes", "1048576"),
            ("memory.memsw.max_usage_in_bytes", "1048576"),
            ("memory.oom_control", "oom_kill 1\n"),
        ]);
        assert_eq!(kills_of_version_1(group.path()), 1);
    }

    #[test]
    fn deaths_in_what_the_command_made_below_are_counted_in() {
        let group = directory(&[
            ("memory.limit_in_bytes", "8192"),
            ("memory.max_usage_in_bytes", "8192"),
            ("memory.oom_control", "oom_kill 1\n"),
        ]);
        let below = group.path().join("below");
        std::fs::create_dir(&below).unwrap();
        std::fs::write(below.join("memory.oom_control"), "oom_kill 2\n").unwrap();
        assert_eq!(kills_of_version_1(group.path()), 3);
    }
}
