//! Caps on memory and processes of a tree: where the kernel's controllers can be used, and what they count.
//!
//! Where our cgroup of version 2 has the controllers to give, a tree's own leaf gets the limits. Elsewhere a tree that has
//! limits, and no other, gets a cgroup in each version 1 hierarchy that we may write: directly below our own, named and locked
//! as a *base* is ([`crate::cgroup::Base`]), so that one that was abandoned is found and swept by the same rule.
//! Files: `cgroup-v2.rst`, `cgroup-v1/memory.rst` and `cgroup-v1/pids.rst` of the kernel's `Documentation/admin-guide`.
//!
//! Not for containment: a root process can move itself out of a version 1 cgroup, and is then out of the limit, not out
//! of its tree.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::cgroup::{Base, DEPTH_MAX, Hierarchy, Leaf, nested, own_directory, write_to};
use crate::sweep;

/// What a tree may be limited in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Memory,
    Pids,
}

impl Controller {
    const ALL: [Controller; 2] = [Controller::Memory, Controller::Pids];

    const fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
        }
    }

    /// The file of version 1 that holds the limit.
    const fn limit_file(self) -> &'static str {
        match self {
            Controller::Memory => "memory.limit_in_bytes",
            Controller::Pids => "pids.max",
        }
    }
}

/// Which version of cgroups enforces something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Version {
    One,
    Two,
}

/// By which means each cap is enforced, or why it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Means {
    pub(crate) memory: Result<Version, String>,
    pub(crate) pids: Result<Version, String>,
}

/// Where a controller's limits are set.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// In the leaf of the tree.
    Leaf,
    /// In a cgroup of its own, below this one of version 1.
    Below(PathBuf),
    Nowhere(String),
}

impl Place {
    fn find(controller: Controller, base: Option<&Base>) -> Self {
        let name = controller.name();
        if base.is_some_and(|base| {
            offers(base.path(), name) || (ask(base.path(), name) && offers(base.path(), name))
        }) {
            return Place::Leaf;
        }
        let unified = if base.is_some() {
            "our cgroup of version 2 has none to give"
        } else {
            "version 2 is not to be had"
        };
        match own_directory(Hierarchy::Of(name)) {
            Ok(own) => match try_below(&own, controller) {
                Ok(()) => Place::Below(own),
                Err(error) => {
                    Place::Nowhere(format!("no {name} controller: {unified}, and in version 1: {error}"))
                }
            },
            Err(why) => Place::Nowhere(format!("no {name} controller: {unified}, and {why}")),
        }
    }

    fn means(&self) -> Result<Version, String> {
        match self {
            Place::Leaf => Ok(Version::Two),
            Place::Below(_) => Ok(Version::One),
            Place::Nowhere(why) => Err(why.clone()),
        }
    }
}

/// Whether a cgroup of version 2 has the controller, and can give it to those below.
fn offers(cgroup: &Path, controller: &str) -> bool {
    std::fs::read_to_string(cgroup.join("cgroup.controllers"))
        .is_ok_and(|offered| offered.split_ascii_whitespace().any(|word| word == controller))
}

/// Has the cgroup above give the controller to those below it. The kernel refuses that where processes are in it, we
/// among them, unless it is the root.
fn ask(base: &Path, controller: &str) -> bool {
    base.parent().is_some_and(|own| offers(own, controller) && give(own, controller).is_ok())
}

fn give(cgroup: &Path, controller: &str) -> io::Result<()> {
    write_to(&cgroup.join("cgroup.subtree_control"), &format!("+{controller}"))
}

/// Really makes a cgroup and sets its limit, because permissions and delegation differ in ways that only trying tells.
fn try_below(own: &Path, controller: Controller) -> io::Result<()> {
    let tried = Base::create(own)?;
    // No limit, in the words of each.
    let none = if controller == Controller::Memory { "-1" } else { "max" };
    let set = write_to(&tried.path().join(controller.limit_file()), none);
    tried.remove()?;
    set
}

/// Ends and removes what dead supervisors and shims left in the version 1 hierarchies, below our own cgroup.
pub(crate) fn sweep() {
    for controller in Controller::ALL {
        if let Ok(own) = own_directory(Hierarchy::Of(controller.name())) {
            sweep::sweep(&own);
        }
    }
}

/// Where limits can be set here.
#[derive(Debug, Clone)]
pub(crate) struct Controllers {
    memory: Place,
    pids: Place,
}

impl Controllers {
    /// Looks and tries, with the base in which trees get their leaves.
    pub(crate) fn find(base: Option<&Base>) -> Self {
        sweep();
        Self { memory: Place::find(Controller::Memory, base), pids: Place::find(Controller::Pids, base) }
    }

    pub(crate) fn means(&self) -> Means {
        Means { memory: self.memory.means(), pids: self.pids.means() }
    }

    /// Sets the limits of a tree that is about to start. What cannot be set is a failure, and leaves nothing behind.
    pub(crate) fn limit(
        &self,
        memory_max: Option<u64>,
        pids_max: Option<u32>,
        leaf: Option<&Leaf>,
    ) -> io::Result<Limited> {
        let mut limited = Limited::default();
        let set = self.set(&mut limited, memory_max, pids_max, leaf);
        if set.is_err() {
            limited.remove();
        }
        set.map(|()| limited)
    }

    fn set(
        &self,
        limited: &mut Limited,
        memory_max: Option<u64>,
        pids_max: Option<u32>,
        leaf: Option<&Leaf>,
    ) -> io::Result<()> {
        if let Some(max) = pids_max {
            let (_, path) = limited.place(Controller::Pids, &self.pids, leaf)?;
            write_to(&path.join("pids.max"), &max.to_string())?;
        }
        if let Some(max) = memory_max {
            let (version, path) = limited.place(Controller::Memory, &self.memory, leaf)?;
            limit_memory(version, &path, max)?;
            limited.memory = Some((version, path));
        }
        Ok(())
    }
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
            write_to(&group.path().join("cgroup.procs"), "0")
                .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
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

    #[test]
    fn a_controller_is_offered_by_its_whole_name() {
        let cgroup = directory(&[
            ("cgroup.controllers", "cpu memory_recursive pids\n"),
            ("cgroup.subtree_control", ""),
        ]);
        assert!(offers(cgroup.path(), "pids") && !offers(cgroup.path(), "memory"));
        give(cgroup.path(), "pids").unwrap();
        assert_eq!(text(&cgroup, "cgroup.subtree_control"), "+pids");
        let base = cgroup.path().join("base");
        std::fs::create_dir(&base).unwrap();
        assert!(ask(&base, "pids"));
        assert!(!ask(&base, "memory"), "what is not there is not asked for");
    }
}
