//! Leaf cgroups (version 2): where they can be made, and what is done with one.
//!
//! A *base* directory `procyard-…` below our own cgroup belongs to one guardian and is marked as owned by a lock on it;
//! each tree gets a *leaf* in it. No controller is needed, so a version 2 hierarchy beside version 1 serves as well.
//! Files: `Documentation/admin-guide/cgroup-v2.rst` of the kernel.
//!
//! Not for limits ([`crate::controllers`]), and not for proving alone that a tree is empty: root can move itself elsewhere.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rand::TryRng as _;
use rand::rngs::SysRng;

use crate::sys::{self, Pid};
use crate::tree::Stat;

/// How a base directory's name begins.
pub(crate) const PREFIX: &str = "procyard-";
/// Nested deeper than a command would, shallower than a stack.
pub(crate) const DEPTH_MAX: usize = 64;

/// One of the hierarchies of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    /// Version 2, of which there is one.
    Unified,
    /// The one of version 1 that has this controller.
    Of(&'static str),
}

impl Hierarchy {
    /// What follows `ID:controllers:` in the line of `/proc/self/cgroup` that is about this hierarchy.
    fn own_path(self, line: &[u8]) -> Option<&[u8]> {
        match self {
            Hierarchy::Unified => line.strip_prefix(b"0::"),
            Hierarchy::Of(controller) => {
                let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
                let controllers = fields.next()?;
                lists(controllers, controller).then(|| fields.next())?
            }
        }
    }

    /// Whether a mount of this type and with these options shows it.
    fn is_mounted_as(self, kind: &[u8], options: &[u8]) -> bool {
        match self {
            Hierarchy::Unified => kind == b"cgroup2",
            Hierarchy::Of(controller) => kind == b"cgroup" && lists(options, controller),
        }
    }
}

impl std::fmt::Display for Hierarchy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Hierarchy::Unified => f.write_str("cgroup version 2 hierarchy"),
            Hierarchy::Of(controller) => write!(f, "cgroup version 1 hierarchy of {controller}"),
        }
    }
}

fn lists(words: &[u8], word: &str) -> bool {
    words.split(|byte| *byte == b',').any(|listed| listed == word.as_bytes())
}

/// The directory of our own cgroup, from `/proc/self/mountinfo` and `/proc/self/cgroup` (`cgroups(7)`).
pub(crate) fn own_directory(hierarchy: Hierarchy) -> Result<PathBuf, String> {
    let mounts =
        std::fs::read("/proc/self/mountinfo").map_err(|e| format!("mountinfo is not readable: {e}"))?;
    let cgroups =
        std::fs::read("/proc/self/cgroup").map_err(|e| format!("own cgroup is not readable: {e}"))?;
    directory_of(hierarchy, &mounts, &cgroups)
}

fn directory_of(hierarchy: Hierarchy, mounts: &[u8], cgroups: &[u8]) -> Result<PathBuf, String> {
    let own = cgroups
        .split(|byte| *byte == b'\n')
        .find_map(|line| hierarchy.own_path(line))
        .ok_or_else(|| format!("there is no {hierarchy}"))?;
    if own.starts_with(b"/..") {
        return Err("our cgroup is outside of the cgroup namespace".to_owned());
    }
    let own = Path::new(std::ffi::OsStr::from_bytes(own));
    for line in mounts.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ');
        let (Some(root), Some(point)) = (fields.nth(3), fields.next()) else { continue };
        let mut rest = fields.skip_while(|field| *field != b"-");
        let (Some(kind), Some(options)) = (rest.nth(1), rest.nth(1)) else { continue };
        if !hierarchy.is_mounted_as(kind, options) {
            continue;
        }
        let root = unescape(root);
        if let Ok(below) = own.strip_prefix(Path::new(std::ffi::OsStr::from_bytes(&root))) {
            let point = unescape(point);
            return Ok(Path::new(std::ffi::OsStr::from_bytes(&point)).join(below));
        }
    }
    Err(format!("no mounted {hierarchy} shows our cgroup"))
}

/// Spaces and the like are three octal digits in mountinfo.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|d| byte == b'\\' && d.iter().all(|d| (b'0'..=b'7').contains(d)));
        if let Some(digits) = digits {
            plain.push(digits.iter().fold(0_u8, |sum, digit| sum.wrapping_mul(8) | (digit - b'0')));
            rest = &after[3..];
        } else {
            plain.push(byte);
            rest = after;
        }
    }
    plain
}

/// A directory for the leaves of one guardian.
#[derive(Debug)]
pub(crate) struct Base {
    path: PathBuf,
    /// Holds the lock that says that trees may live below; shims inherit it.
    dir: File,
}

impl Base {
    /// Makes a base below `own` and marks it as owned.
    pub(crate) fn create(own: &Path) -> io::Result<Self> {
        // A sweep can meet a directory between its making and its marking, and then takes it away.
        for _ in 0..8 {
            // Shims make some, too: forked from one guardian, they would all draw the same from a generator in memory.
            let name = SysRng.try_next_u64().map_err(io::Error::other)?;
            let path = own.join(format!("{PREFIX}{name:016x}"));
            DirBuilder::new().create(&path)?;
            let Ok(dir) = File::open(&path) else { continue };
            if dir.try_lock().is_ok() && path.metadata().is_ok_and(|met| is_same(&met, &dir)) {
                return Ok(Self { path, dir });
            }
            // Nobody is in it: it is ours to take back.
            let _ = std::fs::remove_dir(&path);
        }
        Err(io::Error::other("a new cgroup is always taken away by somebody"))
    }

    /// An abandoned base, taken over: nobody holds its lock.
    pub(crate) fn adopt(path: PathBuf) -> Option<Self> {
        let dir = File::open(&path).ok()?;
        let ours = dir.metadata().is_ok_and(|met| met.uid() == nix::unistd::geteuid().as_raw());
        (ours && dir.try_lock().is_ok()).then_some(Self { path, dir })
    }

    /// Makes the leaf of a tree.
    pub(crate) fn leaf(&self, tree: u64) -> io::Result<Leaf> {
        let path = self.path.join(tree.to_string());
        DirBuilder::new().create(&path)?;
        Leaf::open(path)
    }

    /// The leaf of a tree whose shim is gone.
    pub(crate) fn existing_leaf(&self, tree: u64) -> io::Result<Leaf> {
        Leaf::open(self.path.join(tree.to_string()))
    }

    /// Where it is, for who sweeps it when its owners are gone.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Kills everything below; process by process in version 1, which has no other way.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match write_to(&self.path.join("cgroup.kill"), "1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                kill_each(&self.path, DEPTH_MAX, &|_| true);
            }
            killed => {
                killed?;
                kill_leaderless(&self.path);
            }
        }
        Ok(())
    }

    /// Removes the base and what is below, if nothing lives there.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_nested(&self.path, DEPTH_MAX)
    }
}

impl AsFd for Base {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

fn is_same(met: &std::fs::Metadata, dir: &File) -> bool {
    dir.metadata().is_ok_and(|own| own.ino() == met.ino() && own.dev() == met.dev())
}

pub(crate) fn write_to(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// `rmdir` from the innermost outwards; fails while anything lives below.
fn remove_nested(path: &Path, depth: usize) -> io::Result<()> {
    match std::fs::remove_dir(path) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) && depth > 0 => {
            for entry in std::fs::read_dir(path)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    remove_nested(&entry.path(), depth - 1)?;
                }
            }
            std::fs::remove_dir(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The cgroup of one tree.
#[derive(Debug)]
pub(crate) struct Leaf {
    path: PathBuf,
    dir: File,
}

impl Leaf {
    fn open(path: PathBuf) -> io::Result<Self> {
        let dir = File::open(&path)?;
        Ok(Self { path, dir })
    }

    /// Where it is, for limits.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What a fork straight into this cgroup needs.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Moves the calling process into it.
    pub(crate) fn enter(&self) -> Result<(), Errno> {
        write_to(&self.path.join("cgroup.procs"), "0")
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Kills every member, also of nested cgroups; atomic against forks (Linux 5.14). Passes over what
    /// [`Leaf::kill_leaderless`] is for.
    pub(crate) fn kill(&self) -> io::Result<()> {
        write_to(&self.path.join("cgroup.kill"), "1")
    }

    /// Kills the members whose first thread has ended while others run: `cgroup.kill` signals that thread, which
    /// wakes no other.
    pub(crate) fn kill_leaderless(&self) {
        kill_leaderless(&self.path);
    }

    /// Stops or continues every member in place.
    pub(crate) fn freeze(&self, frozen: bool) -> io::Result<()> {
        write_to(&self.path.join("cgroup.freeze"), if frozen { "1" } else { "0" })
    }

    /// Whether every member is frozen.
    pub(crate) fn is_frozen(&self) -> bool {
        event(&self.path, "frozen")
    }

    /// How many processes are in it and below, zombies apart.
    pub(crate) fn members(&self) -> io::Result<usize> {
        members_below(&self.path, DEPTH_MAX)
    }

    /// Removes it and what the command made below; fails while anything lives there. With `populated 1` it is a
    /// failure too: `rmdir` alone would succeed on a directory that somebody else already removed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        if event(&self.path, "populated") {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        remove_nested(&self.path, DEPTH_MAX)
    }
}

fn event(path: &Path, name: &str) -> bool {
    std::fs::read_to_string(path.join("cgroup.events")).is_ok_and(|events| {
        events.lines().any(|line| line.strip_prefix(name).is_some_and(|value| value.trim() == "1"))
    })
}

fn members_below(path: &Path, depth: usize) -> io::Result<usize> {
    let mut members = members_of(path)?.len();
    for nested in nested(path, depth)? {
        members += members_below(&nested, depth - 1)?;
    }
    Ok(members)
}

fn members_of(path: &Path) -> io::Result<Vec<Pid>> {
    let mut text = String::new();
    File::open(path.join("cgroup.procs"))?.read_to_string(&mut text)?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

pub(crate) fn nested(path: &Path, depth: usize) -> io::Result<Vec<PathBuf>> {
    let mut nested = Vec::new();
    // Each nested cgroup is one link more than the two of an empty directory.
    if depth > 0 && path.metadata()?.nlink() > 2 {
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                nested.push(entry.path());
            }
        }
    }
    Ok(nested)
}

fn kill_leaderless(path: &Path) {
    kill_each(path, DEPTH_MAX, &|stat| stat.is_leaderless());
}

fn kill_each(path: &Path, depth: usize, wanted: &dyn Fn(&Stat) -> bool) {
    for member in members_of(path).unwrap_or_default() {
        if Stat::read(member).is_some_and(|stat| wanted(&stat))
            && let Ok(held) = sys::pidfd_open(member)
            // What is held now is the member, unless its number was given away; then the number is not listed, or
            // what is held is gone.
            && members_of(path).is_ok_and(|members| members.contains(&member))
        {
            let _ = sys::pidfd_signal(held.as_fd(), libc::SIGKILL);
        }
    }
    for nested in nested(path, depth).unwrap_or_default() {
        kill_each(&nested, depth - 1, wanted);
    }
}

/// How a leader gets into its leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Forked into it.
    Cloned,
    /// Moves itself, before exec.
    Written,
}

/// Really moves a child into a leaf and ends it by `cgroup.kill`, because permissions, delegation and kernels differ in
/// ways that only trying tells. Tells how a leader gets in.
///
/// Called from a process with one thread.
#[expect(unsafe_code, reason = "forks a child that only moves itself and waits for its end")]
pub(crate) fn probe(base: &Base) -> Result<Entry, String> {
    let told = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let leaf = base.leaf(0).map_err(|e| told("a leaf cgroup cannot be made", &e))?;
    // SAFETY: the guardian has one thread; the child only waits.
    let (side, entry) = match unsafe { sys::fork_into(leaf.directory()) } {
        Ok(side) => (side, Entry::Cloned),
        // SAFETY: as above.
        Err(_) => match unsafe { sys::fork() } {
            Ok(side) => (side, Entry::Written),
            Err(error) => return Err(told("no child to probe with", &error)),
        },
    };
    let sys::Side::Parent(child) = side else {
        if entry == Entry::Written && leaf.enter().is_err() {
            sys::exit_now(1);
        }
        loop {
            std::thread::park();
        }
    };
    // A child that moves itself needs a moment; one that cannot ends.
    let mut inside = false;
    for _ in 0..200 {
        if leaf.members().is_ok_and(|members| members == 1) {
            inside = true;
            break;
        }
        if let sys::Reaped::Child(..) = sys::reap_pid(child) {
            let _ = leaf.remove();
            return Err("a child cannot be moved into a leaf cgroup".to_owned());
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let killed = leaf.kill();
    if !inside || killed.is_err() {
        let _ = sys::signal_child(child, libc::SIGKILL);
    }
    let _ = sys::wait_for(child);
    let mut removed = leaf.remove();
    for _ in 0..100 {
        if removed.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        removed = leaf.remove();
    }
    killed.map_err(|e| told("cgroup.kill is not to be had", &e))?;
    removed.map_err(|e| told("an emptied leaf cgroup cannot be removed", &e))?;
    if inside { Ok(entry) } else { Err("a child cannot be moved into a leaf cgroup".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mounts: &str, cgroups: &str, expect: Result<&str, &str>) {
        check_of(Hierarchy::Unified, mounts, cgroups, expect);
    }

    #[track_caller]
    fn check_of(hierarchy: Hierarchy, mounts: &str, cgroups: &str, expect: Result<&str, &str>) {
        let found = directory_of(hierarchy, mounts.as_bytes(), cgroups.as_bytes());
        match expect {
            Ok(path) => assert_eq!(found.unwrap(), Path::new(path)),
            Err(part) => assert!(found.unwrap_err().contains(part)),
        }
    }

    #[test]
    fn own_cgroup_is_found_in_unified_hybrid_and_bind_mounted_hierarchies() {
        let unified = "24 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let hybrid = "30 1 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                      31 1 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let bound = "40 1 0:22 /a/b /mnt/our\\040cgroups rw - cgroup2 none rw\n";
        check(unified, "0::/user.slice/x\n", Ok("/sys/fs/cgroup/user.slice/x"));
        check(hybrid, "8:pids:/y\n0::/\n", Ok("/sys/fs/cgroup/unified/"));
        check(bound, "0::/a/b/c\n", Ok("/mnt/our cgroups/c"));
        check(bound, "0::/elsewhere\n", Err("no mounted"));
        check(unified, "0::/../outside\n", Err("namespace"));
        check(unified, "8:pids:/y\n", Err("version 2"));
        check("", "0::/\n", Err("no mounted"));
    }

    #[test]
    fn own_cgroup_of_a_controller_is_found_in_version_1_also_where_several_share_a_hierarchy() {
        let mounts = "30 1 0:26 / /sys/fs/cgroup/cpu,pids rw - cgroup cgroup rw,cpu,pids\n\
                      31 1 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      32 1 0:28 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let cgroups = "8:cpu,pids:/y:z\n4:memory:/docker/1/a\n3:name=memory:/b\n0::/\n";
        check_of(Hierarchy::Of("pids"), mounts, cgroups, Ok("/sys/fs/cgroup/cpu,pids/y:z"));
        check_of(Hierarchy::Of("memory"), mounts, cgroups, Ok("/sys/fs/cgroup/memory/a"));
        check_of(Hierarchy::Of("mem"), mounts, cgroups, Err("no cgroup version 1 hierarchy of mem"));
        check_of(Hierarchy::Of("memory"), mounts, "4:memory:/c\n", Err("shows our cgroup"));
        check(mounts, cgroups, Ok("/sys/fs/cgroup/unified/"));
    }
}
