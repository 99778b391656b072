//! Finding every descendant of a process, and signalling each without ever reaching a reused number.
//!
//! Descendants are found top-down from a *root* whose children only the root itself reaps: a shim, the guardian, or for
//! orphans that come to it the supervisor. A
//! child counts as found only while a pidfd holds it, its parent is the process whose list named it, and that
//! parent is held too. Signals go through the pidfd.
//!
//! Every walk goes in bounded steps, so that its caller stays responsive. Not for waiting: reaping is the root's.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use crate::sys::{self, Pid};

/// Processes looked at in one step: about two milliseconds.
const STEP: usize = 64;

/// A process, told apart from later ones of its number by its start time (clock ticks since boot).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) pid: Pid,
    pub(crate) start: u64,
}

/// The fields of `/proc/<pid>/stat` that matter here (`proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) parent: Pid,
    pub(crate) group: Pid,
    pub(crate) session: Pid,
    pub(crate) threads: u32,
    pub(crate) start: u64,
}

impl Stat {
    pub(crate) fn read(pid: Pid) -> Option<Self> {
        Self::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// That of the calling process, in the numbers of whichever namespace `/proc` shows.
    pub(crate) fn own() -> Option<Self> {
        Self::parse(&std::fs::read("/proc/self/stat").ok()?)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        // The name may hold anything, also parentheses: fields are counted after the last one.
        let after = line.iter().rposition(|byte| *byte == b')')? + 1;
        let mut fields = std::str::from_utf8(line.get(after..)?).ok()?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let threads = fields.nth(13)?.parse().ok()?;
        let start = fields.nth(1)?.parse().ok()?;
        Some(Self { state, parent, group, session, threads, start })
    }

    /// Whether it has ended. A process whose first thread has ended while others run looks like a zombie, too.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }

    /// Whether its first thread has ended while others run.
    pub(crate) fn is_leaderless(&self) -> bool {
        self.state == b'Z' && self.threads > 1
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// Whether the kernel lists children by thread (`CONFIG_PROC_CHILDREN`).
pub(crate) fn kernel_lists_children() -> bool {
    std::path::Path::new("/proc/thread-self/children").exists()
}

/// Where children are looked up.
enum Listing {
    /// `/proc/<pid>/task/<tid>/children`.
    Kernel,
    /// Every process of `/proc` by its parent, read once a pass.
    Scan(HashMap<Pid, Vec<Pid>>),
}

impl Listing {
    fn new() -> Self {
        if kernel_lists_children() { Listing::Kernel } else { Listing::Scan(scan().unwrap_or_default()) }
    }

    fn children(&self, pid: Pid, threads: u32, found: &mut Vec<Pid>) {
        found.clear();
        match self {
            Listing::Scan(by_parent) => found.extend(by_parent.get(&pid).into_iter().flatten()),
            // What is gone or cannot be read has no children that can be found.
            Listing::Kernel => drop(lists_of_threads(pid, threads, found)),
        }
    }
}

/// Whether this says that a process is gone, or is another user's and hidden.
fn is_gone_or_hidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::EACCES | libc::EPERM))
}

fn lists_of_threads(pid: Pid, threads: u32, found: &mut Vec<Pid>) -> io::Result<()> {
    if threads <= 1 {
        return list_of_thread(pid, pid, found);
    }
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Some(tid) = task?.file_name().to_str().and_then(|name| name.parse().ok()) {
            match list_of_thread(pid, tid, found) {
                Err(error) if !is_gone_or_hidden(&error) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

fn list_of_thread(pid: Pid, tid: Pid, found: &mut Vec<Pid>) -> io::Result<()> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"))?;
    found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<Pid>().ok()));
    Ok(())
}

/// Every process that can be seen, by its parent. A failure when one may have been missed.
fn scan() -> io::Result<HashMap<Pid, Vec<Pid>>> {
    let mut by_parent: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        match std::fs::read(format!("/proc/{pid}/stat")) {
            Ok(line) => {
                let stat = Stat::parse(&line).ok_or(io::ErrorKind::InvalidData)?;
                by_parent.entry(stat.parent).or_default().push(pid);
            }
            Err(error) if is_gone_or_hidden(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(by_parent)
}

/// The children of the calling process itself; `None` when they cannot be told. Complete but for those that come to it
/// later: only it takes any off the list, and new ones are put at its end.
///
/// Where there are several threads, children go from the list of one that ends to another's, which may have been read
/// already; so all processes are looked through as well.
pub(crate) fn own_children() -> Option<Vec<Pid>> {
    let pid = nix::unistd::getpid().as_raw();
    let threads = Stat::read(pid)?.threads;
    let lists = kernel_lists_children();
    let mut found = Vec::new();
    if lists {
        lists_of_threads(pid, threads, &mut found).ok()?;
    }
    if !lists || threads > 1 {
        found.extend(scan().ok()?.remove(&pid).into_iter().flatten());
        found.sort_unstable();
        found.dedup();
    }
    Some(found)
}

/// A descendant as a walk met it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) identity: Identity,
    pub(crate) parent: Pid,
    pub(crate) stat: Stat,
}

/// One pass over all descendants of the calling process.
pub(crate) struct Pass {
    listing: Listing,
    /// One of ours, no member: only what is below it is.
    init: Option<Pid>,
    queue: VecDeque<Identity>,
    children: Vec<Pid>,
    /// The parent whose list is being gone through; `None` for the root.
    at: Option<(Pid, Option<OwnedFd>)>,
    /// Living members in the order found: parents before children.
    pub(crate) members: Vec<Member>,
}

impl Pass {
    /// Begins a pass from the calling process, through its child `init`, which is no member itself.
    pub(crate) fn new(init: Option<Pid>) -> Self {
        Self { init, ..Self::leaving_out(&|_| false) }
    }

    /// Begins a pass from the calling process, leaving out children in `skip` and what is below them.
    fn leaving_out(skip: &dyn Fn(Pid) -> bool) -> Self {
        let root = nix::unistd::getpid().as_raw();
        let listing = Listing::new();
        let mut children = Vec::new();
        let threads = Stat::read(root).map_or(1, |stat| stat.threads);
        listing.children(root, threads, &mut children);
        children.retain(|pid| !skip(*pid));
        let at = Some((root, None));
        Self { listing, init: None, queue: VecDeque::new(), children, at, members: Vec::new() }
    }

    /// Goes on for a bounded time; `act` sees each living member while a pidfd holds it, parents first. True when the
    /// pass is complete.
    pub(crate) fn step(&mut self, act: &mut dyn FnMut(&Member, &OwnedFd)) -> bool {
        for _ in 0..STEP {
            if let Some(pid) = self.children.pop() {
                self.visit(pid, act);
            } else if let Some(next) = self.queue.pop_front() {
                self.descend(next);
            } else {
                return true;
            }
        }
        false
    }

    fn visit(&mut self, pid: Pid, act: &mut dyn FnMut(&Member, &OwnedFd)) {
        let Some((parent, held)) = &self.at else { return };
        let Ok(pidfd) = sys::pidfd_open(pid) else { return };
        let Some(stat) = Stat::read(pid) else { return };
        // The number named our descendant only if its parent is the one whose list we read, and that one is still
        // there: it may have been reaped and its number given away.
        let parent_holds =
            held.as_ref().is_none_or(|fd| sys::pidfd_signal(fd.as_fd(), 0) != Err(Errno::ESRCH));
        if stat.parent != *parent || !parent_holds {
            return;
        }
        if stat.is_dead() {
            return;
        }
        let member = Member { identity: Identity { pid, start: stat.start }, parent: *parent, stat };
        self.queue.push_back(member.identity);
        if self.init == Some(pid) {
            return;
        }
        act(&member, &pidfd);
        self.members.push(member);
    }

    fn descend(&mut self, next: Identity) {
        self.at = None;
        self.children.clear();
        let Ok(pidfd) = sys::pidfd_open(next.pid) else { return };
        match Stat::read(next.pid) {
            Some(stat) if stat.start == next.start => {
                self.listing.children(next.pid, stat.threads, &mut self.children);
                self.at = Some((next.pid, Some(pidfd)));
            }
            _ => {}
        }
    }
}

/// Signals a member that an earlier pass found, if it is still the same child of the same parent.
fn signal_again(member: &Member, signal: i32) -> Result<(), Errno> {
    let pidfd = sys::pidfd_open(member.identity.pid)?;
    match Stat::read(member.identity.pid) {
        Some(stat) if stat.start == member.identity.start && stat.parent == member.parent => {
            sys::pidfd_signal(pidfd.as_fd(), signal)
        }
        _ => Err(Errno::ESRCH),
    }
}

/// Signals every descendant once, in passes until one finds nobody new.
pub(crate) struct Sweep {
    init: Option<Pid>,
    signals: &'static [i32],
    pass: Option<Pass>,
    passes: u32,
    reached: HashSet<Identity>,
    fresh: bool,
    /// How many were signalled.
    pub(crate) signalled: u32,
}

impl Sweep {
    /// More passes than this are only needed by what forks faster than it can be signalled.
    const PASSES_MAX: u32 = 64;

    /// Passes over `init`, which is none of the members.
    pub(crate) fn new(signals: &'static [i32], init: Option<Pid>) -> Self {
        Self { init, signals, pass: None, passes: 0, reached: HashSet::new(), fresh: false, signalled: 0 }
    }

    /// Goes on for a bounded time; true when it is complete.
    pub(crate) fn step(&mut self) -> bool {
        let pass = self.pass.get_or_insert_with(|| Pass::new(self.init));
        let (signals, reached, fresh, signalled) =
            (self.signals, &mut self.reached, &mut self.fresh, &mut self.signalled);
        let complete = pass.step(&mut |member, pidfd| {
            if reached.insert(member.identity) {
                *fresh = true;
                let sent = signals.iter().filter(|s| sys::pidfd_signal(pidfd.as_fd(), **s).is_ok()).count();
                *signalled += u32::from(sent > 0);
            }
        });
        if !complete {
            return false;
        }
        self.pass = None;
        self.passes += 1;
        !std::mem::take(&mut self.fresh) || self.passes >= Self::PASSES_MAX
    }
}

/// One round of ending all descendants: stops them in passes until a pass finds nobody new and running, because only
/// the children lists of stopped processes are complete, then kills them, children before parents, so that
/// none is given to another parent meanwhile.
pub(crate) struct Round {
    stage: Stage,
    stopped: HashSet<Identity>,
    passes: u32,
    fresh: bool,
    /// How many were killed.
    pub(crate) killed: u32,
    /// How many may not be signalled by us.
    pub(crate) refused: u32,
}

enum Stage {
    Begin,
    Stop(Pass),
    Kill(Vec<Member>),
}

impl Round {
    /// After so many passes what has been found is killed in any case; the next round goes on.
    const PASSES_MAX: u32 = 16;

    pub(crate) fn new() -> Self {
        Self { stage: Stage::Begin, stopped: HashSet::new(), passes: 0, fresh: false, killed: 0, refused: 0 }
    }

    /// Goes on for a bounded time; true when the round is complete. Children in `skip` and what is below them are
    /// left alone.
    pub(crate) fn step(&mut self, skip: &dyn Fn(Pid) -> bool) -> bool {
        match &mut self.stage {
            Stage::Begin => {
                self.stage = Stage::Stop(Pass::leaving_out(skip));
                false
            }
            Stage::Stop(pass) => {
                let (stopped, fresh) = (&mut self.stopped, &mut self.fresh);
                let complete = pass.step(&mut |member, pidfd| {
                    if stopped.insert(member.identity) {
                        *fresh = true;
                    } else if member.stat.is_stopped() {
                        return;
                    }
                    let _ = sys::pidfd_signal(pidfd.as_fd(), libc::SIGSTOP);
                });
                if complete {
                    self.passes += 1;
                    let again = std::mem::take(&mut self.fresh) && self.passes < Self::PASSES_MAX;
                    self.stage =
                        if again { Stage::Begin } else { Stage::Kill(std::mem::take(&mut pass.members)) };
                }
                false
            }
            Stage::Kill(members) => {
                for _ in 0..STEP {
                    let Some(member) = members.pop() else { return true };
                    match signal_again(&member, libc::SIGKILL) {
                        Ok(()) => self.killed += 1,
                        Err(Errno::EPERM) => self.refused += 1,
                        Err(_) => {}
                    }
                }
                members.is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_hides_no_field() {
        let line = b"42 (a) b (c) S 7 9 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 98765 1 2 3";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat, Stat { state: b'S', parent: 7, group: 9, session: 9, threads: 3, start: 98765 });
        assert!(Stat::parse(b"42 (cut").is_none());
        assert!(Stat::parse(b"42 (cut) S 1").is_none());
    }

    #[test]
    fn a_first_thread_that_ended_before_the_others_is_no_dead_process() {
        let dead = Stat { state: b'Z', parent: 1, group: 1, session: 1, threads: 1, start: 1 };
        assert!(dead.is_dead());
        let leaderless = Stat { threads: 2, ..dead };
        assert!(!leaderless.is_dead() && leaderless.is_leaderless() && !dead.is_leaderless());
        assert!(!Stat { state: b'S', ..dead }.is_dead());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child to be found")]
    fn children_are_found_with_and_without_the_kernels_lists() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::try_from(child.id()).unwrap();
        let own = nix::unistd::getpid().as_raw();
        assert!(scan().unwrap()[&own].contains(&pid));
        assert!(own_children().unwrap().contains(&pid));
        let mut listed = Vec::new();
        // More than one thread: the child is on the list of the thread that forked it.
        Listing::Kernel.children(own, 2, &mut listed);
        assert!(listed.contains(&pid) || !kernel_lists_children());
        Listing::Scan(scan().unwrap()).children(own, 2, &mut listed);
        assert!(listed.contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn own_stat_agrees_with_the_kernel() {
        let stat = Stat::read(nix::unistd::getpid().as_raw()).unwrap();
        assert_eq!(stat.parent, nix::unistd::getppid().as_raw());
        assert!(stat.start > 0);
    }
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child to be signalled")]
    fn a_number_that_names_another_process_now_is_not_signalled() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id().cast_signed();
        let stat = Stat::read(pid).unwrap();
        let met = Member { identity: Identity { pid, start: stat.start }, parent: stat.parent, stat };
        let earlier = Member { identity: Identity { pid, start: stat.start - 1 }, ..met };
        let of_another = Member { parent: 1, ..met };
        for member in [earlier, of_another] {
            assert_eq!(signal_again(&member, libc::SIGKILL), Err(Errno::ESRCH));
        }
        assert!(child.try_wait().unwrap().is_none(), "it lives");
        assert_eq!(signal_again(&met, libc::SIGKILL), Ok(()));
        child.wait().unwrap();
        assert_eq!(signal_again(&met, libc::SIGKILL), Err(Errno::ESRCH), "it is gone");
    }
}
