//! A shim: the subreaper of one tree. It starts the leader, reaps everything that comes to it, signals the tree,
//! proves that it is empty, and ends it when its supervisor or its guardian is gone.
//!
//! One thread, one loop around `poll(2)`; forked from the guardian without exec, so that its private memory is a few
//! pages. Work on large trees is done in bounded steps between polls.
//!
//! Not for deciding when a tree should end: that is the supervisor's, as long as it lives.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;

use crate::cgroup::{Base, Entry, Leaf};
use crate::controllers::Controllers;
use crate::leader::{Program, Stdio, become_command, parse_failure};
use crate::limited::Limited;
use crate::limits::{Bounds, errno_of};
use crate::sys::{self, Pid, Reaped, Side};
use crate::tree::{Pass, Round, Sweep};
use crate::wire::{FromShim, Outbox, Received, Stage, StartBody, ToShim, WantedSignal, receive};

/// How long a freeze may take before signals go out without one.
const FREEZE_MAX: Duration = Duration::from_millis(50);
/// Between two rounds of killing what does not die.
const REST_MIN: Duration = Duration::from_millis(2);
const REST_MAX: Duration = Duration::from_secs(1);
/// How long `cgroup.kill` is given before the tree is looked through process by process.
const CGROUP_KILL_REST: Duration = Duration::from_millis(25);

/// Requests in work at the same time.
const JOBS_MAX: usize = 64;

/// What a shim takes over from its guardian.
pub(crate) struct Seed {
    pub(crate) tree: u64,
    pub(crate) body: OwnedFd,
    pub(crate) stdio: Stdio,
    pub(crate) control: OwnedFd,
    /// At end of file when the guardian is gone.
    pub(crate) lifeline: OwnedFd,
    /// Readable when a child of the reading process changed (`signalfd(2)`: inherited ones serve the new process).
    pub(crate) signals: SignalFd,
    pub(crate) base: Option<(Base, Entry)>,
    pub(crate) controllers: Controllers,
    /// Kept open for as long as the tree lives: a lock on one tells the next supervisor whether it does.
    pub(crate) held: Vec<OwnedFd>,
}

enum Leader {
    /// Forked; the pipe tells whether it gets to the command.
    Starting(Pid, File),
    Running(Pid),
    Reaped,
}

impl Leader {
    fn pid(&self) -> Option<Pid> {
        match self {
            Leader::Starting(pid, _) | Leader::Running(pid) => Some(*pid),
            Leader::Reaped => None,
        }
    }
}

/// One request in work. They are done in order, except that a kill overtakes.
enum Job {
    Interrupt { request: u64, pass: Pass },
    Terminate { request: u64, leader_alive: bool, sweep: Sweep, freeze: Freeze },
    Count { request: u64, pass: Pass },
}

/// Signals reach all members at one moment of theirs where the tree can be frozen.
enum Freeze {
    Wanted,
    Until(Instant),
    Done,
}

/// The ending of the tree, once it has begun.
struct Ending {
    /// `None` while what was killed is given time to die.
    round: Option<Round>,
    again_at: Instant,
    rest: Duration,
    /// Asked for by these requests, which are answered after the first round.
    requests: Vec<u64>,
    leader_alive: bool,
    reaped: bool,
}

struct Shim {
    control: Option<OwnedFd>,
    lifeline: Option<OwnedFd>,
    signals: SignalFd,
    leader: Leader,
    leaf: Option<Leaf>,
    limited: Limited,
    jobs: VecDeque<Job>,
    ending: Option<Ending>,
    outbox: Outbox,
    /// When the leaf, without members, could not be removed yet.
    retry_remove: Option<Instant>,
    remove_rest: Duration,
    base: Option<Base>,
    _held: Vec<OwnedFd>,
}

/// Runs a shim in a process that was just forked; ends with it.
pub(crate) fn run(seed: Seed) -> ! {
    // A panic must not unwind into the frames of the guardian, which this process only has a copy of.
    let _guard = EndOnUnwind;
    let _ = nix::sys::prctl::set_name(c"procyard-shim");
    // Stopped by somebody, it still notices the end of the guardian, which would continue it otherwise.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGCONT);
    match Shim::start(seed) {
        Some(shim) => shim.serve(),
        None => sys::exit_now(0),
    }
}

struct EndOnUnwind;

impl Drop for EndOnUnwind {
    fn drop(&mut self) {
        sys::exit_now(101);
    }
}

impl Shim {
    /// `None` when there is no tree; the reason has been told.
    fn start(seed: Seed) -> Option<Self> {
        let control = seed.control;
        let failed = |errno: Errno| {
            let failure = FromShim::Failed { stage: Stage::SetUp, errno: errno as i32 };
            Outbox::default().send(control.as_fd(), &failure);
        };
        let program = match read_program(seed.body) {
            Ok(program) => program,
            Err(errno) => {
                failed(errno);
                return None;
            }
        };
        if let Err(errno) = nix::sys::prctl::set_child_subreaper(true) {
            failed(errno);
            return None;
        }
        let leaf = match &seed.base {
            None => None,
            Some((base, entry)) => match base.leaf(seed.tree) {
                Ok(leaf) => Some((leaf, *entry)),
                Err(error) => {
                    failed(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)));
                    return None;
                }
            },
        };
        let Bounds { memory_max, pids_max, .. } = program.bounds;
        let in_leaf = leaf.as_ref().map(|(leaf, _)| leaf);
        let mut limited = match seed.controllers.limit(memory_max, pids_max, in_leaf) {
            Ok(limited) => limited,
            Err(error) => {
                let failure = FromShim::Failed { stage: Stage::Limits, errno: errno_of(&error) as i32 };
                Outbox::default().send(control.as_fd(), &failure);
                if let Some((leaf, _)) = leaf {
                    let _ = leaf.remove();
                }
                return None;
            }
        };
        match fork_leader(&program, &seed.stdio, leaf.as_ref(), &limited) {
            Ok((pid, report)) => Some(Self {
                control: Some(control),
                lifeline: Some(seed.lifeline),
                signals: seed.signals,
                leader: Leader::Starting(pid, report),
                leaf: leaf.map(|(leaf, _)| leaf),
                limited,
                jobs: VecDeque::new(),
                ending: None,
                outbox: Outbox::default(),
                retry_remove: None,
                remove_rest: REST_MIN,
                base: seed.base.map(|(base, _)| base),
                _held: seed.held,
            }),
            Err(errno) => {
                failed(errno);
                limited.remove();
                if let Some((leaf, _)) = leaf {
                    let _ = leaf.remove();
                }
                None
            }
        }
        // Here the shim's own copies of the child's output are closed: only the tree holds it now.
    }

    fn serve(mut self) -> ! {
        loop {
            self.reap();
            let more = self.work();
            self.wait(more);
        }
    }

    /// Collects what has ended. When nothing is left, the tree is empty once its cgroup agrees.
    fn reap(&mut self) {
        self.check_started();
        loop {
            match sys::reap() {
                Reaped::Child(pid, status) => {
                    if let Some(ending) = &mut self.ending {
                        ending.reaped = true;
                    }
                    if self.leader.pid() == Some(pid) {
                        self.check_started();
                        self.leader = Leader::Reaped;
                        self.tell_memory_kills();
                        self.tell(FromShim::Exited { status });
                    }
                }
                Reaped::NoneEnded => return,
                Reaped::Childless => return self.conclude(),
            }
        }
    }

    /// Looks whether the leader got to its command.
    fn check_started(&mut self) {
        let Leader::Starting(pid, report) = &mut self.leader else { return };
        let mut bytes = [0; 8];
        let told = match report.read(&mut bytes) {
            Ok(0) => FromShim::Started,
            Ok(length) => match parse_failure(&bytes[..length]) {
                Some((stage, errno)) => FromShim::Failed { stage, errno },
                None => FromShim::Failed { stage: Stage::Prepare, errno: libc::EIO },
            },
            // Nothing yet.
            Err(_) => return,
        };
        self.leader = Leader::Running(*pid);
        self.tell(told);
    }

    /// No child is left. A process that root moved to another cgroup was still a child; one that root took from us by
    /// other means may still be in the cgroup. Only when both agree is the tree empty.
    fn conclude(&mut self) {
        self.tell_memory_kills();
        if let Some(leaf) = &self.leaf
            && leaf.remove().is_err()
        {
            if self.ending.is_some() {
                let _ = leaf.kill();
                leaf.kill_leaderless();
            }
            self.retry_remove = Some(Instant::now() + self.remove_rest);
            self.remove_rest = (self.remove_rest * 2).min(REST_MAX);
            return;
        }
        for job in std::mem::take(&mut self.jobs) {
            self.give_up(&job);
        }
        if let Some(mut ending) = self.ending.take() {
            let processes = ending.round.as_ref().map_or(0, |round| round.killed);
            for request in std::mem::take(&mut ending.requests) {
                let leader_alive = ending.leader_alive;
                self.tell(FromShim::Delivered { request, leader_alive, processes });
            }
        }
        // What is not removed here, because a stranger was moved into it, is swept later.
        self.limited.remove();
        self.tell(FromShim::Empty);
        if let (None, Some(base)) = (&self.lifeline, &self.base) {
            // Without a guardian the last shim clears up.
            let _ = base.remove();
        }
        self.finish()
    }

    fn finish(&mut self) -> ! {
        while let (false, Some(control)) = (self.outbox.is_empty(), &self.control) {
            let mut fds = [PollFd::new(control.as_fd(), PollFlags::POLLOUT)];
            // The tree is gone, so there is nothing that this wait could hold up.
            if poll(&mut fds, PollTimeout::from(10_000_u16)) == Ok(0) {
                break;
            }
            self.outbox.flush(control.as_fd());
        }
        sys::exit_now(0)
    }

    /// Does a bounded step of what is to be done; true when more is to be done at once.
    fn work(&mut self) -> bool {
        if self.ending.is_some() && self.work_on_ending() {
            return true;
        }
        let Some(job) = self.jobs.front_mut() else { return false };
        let done = match job {
            // Counted before they are signalled: afterwards some are gone.
            Job::Interrupt { request, pass } => pass.step(&mut |_, _| {}).then(|| {
                // The leader is our unreaped child, so its number, which is its group's, is nobody else's.
                let leader = self.leader.pid();
                let reached = leader.filter(|pid| sys::signal_group_of_child(*pid, libc::SIGINT).is_ok());
                let of_group = |pid| pass.members.iter().filter(|member| member.stat.group == pid).count();
                FromShim::Delivered {
                    request: *request,
                    leader_alive: leader.is_some(),
                    processes: reached.map_or(0, |pid| u32::try_from(of_group(pid)).unwrap_or(u32::MAX)),
                }
            }),
            Job::Count { request, pass } => pass.step(&mut |_, _| {}).then(|| {
                // None seen, and yet there are children: they ended meanwhile, or cannot be read.
                let inside = self.leaf.as_ref().and_then(|leaf| leaf.members().ok()).unwrap_or(0);
                let living = u32::try_from(pass.members.len().max(inside)).unwrap_or(u32::MAX);
                FromShim::Living { request: *request, processes: (living > 0).then_some(living) }
            }),
            Job::Terminate { request, leader_alive, sweep, freeze } => {
                match (&*freeze, &self.leaf) {
                    (Freeze::Wanted, Some(leaf)) if leaf.freeze(true).is_ok() => {
                        *freeze = Freeze::Until(Instant::now() + FREEZE_MAX);
                        return true;
                    }
                    (Freeze::Until(until), Some(leaf)) if !leaf.is_frozen() && Instant::now() < *until => {
                        // A freeze takes as long as the slowest member needs to get out of the kernel.
                        std::thread::sleep(Duration::from_micros(200));
                        return true;
                    }
                    _ => *freeze = Freeze::Done,
                }
                sweep.step().then_some(FromShim::Delivered {
                    request: *request,
                    leader_alive: *leader_alive,
                    processes: sweep.signalled,
                })
            }
        };
        if let Some(answer) = done {
            if let Some(Job::Terminate { .. }) = self.jobs.pop_front() {
                self.thaw();
            }
            self.tell(answer);
        }
        !self.jobs.is_empty()
    }

    fn thaw(&self) {
        if let Some(leaf) = &self.leaf {
            let _ = leaf.freeze(false);
        }
    }

    fn work_on_ending(&mut self) -> bool {
        let Some(ending) = &mut self.ending else { return false };
        let Some(round) = &mut ending.round else {
            if Instant::now() < ending.again_at {
                return false;
            }
            if let Some(leaf) = &self.leaf {
                let _ = leaf.kill();
                // As long as deaths come in, there is no need to look for the living.
                if std::mem::take(&mut ending.reaped) && leaf.members().is_ok_and(|members| members > 0) {
                    ending.again_at = Instant::now() + CGROUP_KILL_REST;
                    return false;
                }
            }
            ending.round = Some(Round::new());
            return true;
        };
        if !round.step(&|_| false) {
            return true;
        }
        let killed = round.killed;
        ending.round = None;
        ending.again_at = Instant::now() + ending.rest;
        ending.rest = (ending.rest * 2).min(REST_MAX);
        let leader_alive = ending.leader_alive;
        for request in std::mem::take(&mut ending.requests) {
            self.tell(FromShim::Delivered { request, leader_alive, processes: killed });
        }
        false
    }

    /// Begins to end the tree, or begins anew what was slowing down.
    fn end(&mut self, request: Option<u64>) {
        let leader_alive = self.leader.pid().is_some();
        // How many live is still told, between two rounds.
        let (counts, overtaken) =
            std::mem::take(&mut self.jobs).into_iter().partition(|job| matches!(job, Job::Count { .. }));
        self.jobs = counts;
        let overtaken: VecDeque<Job> = overtaken;
        for job in &overtaken {
            self.give_up(job);
        }
        let fresh = Ending {
            round: None,
            again_at: Instant::now(),
            rest: REST_MIN,
            requests: Vec::new(),
            leader_alive,
            reaped: false,
        };
        let mut answered = None;
        let ending = self.ending.get_or_insert(fresh);
        ending.rest = REST_MIN;
        if let Some(leaf) = &self.leaf {
            let members = leaf.members().unwrap_or(0);
            if leaf.kill().is_ok() {
                ending.again_at = Instant::now() + CGROUP_KILL_REST;
                ending.rest = CGROUP_KILL_REST;
                answered = request.map(|request| FromShim::Delivered {
                    request,
                    leader_alive,
                    processes: u32::try_from(members).unwrap_or(u32::MAX),
                });
            }
        }
        match (answered, request) {
            (Some(answer), _) => self.tell(answer),
            (None, Some(request)) => ending.requests.push(request),
            (None, None) => {}
        }
    }

    /// Answers a job that a kill has overtaken.
    fn give_up(&mut self, job: &Job) {
        match job {
            Job::Terminate { request, leader_alive, sweep, .. } => {
                self.thaw();
                self.tell(FromShim::Delivered {
                    request: *request,
                    leader_alive: *leader_alive,
                    processes: sweep.signalled,
                });
            }
            Job::Interrupt { request, .. } => self.tell(FromShim::Delivered {
                request: *request,
                leader_alive: self.leader.pid().is_some(),
                processes: 0,
            }),
            Job::Count { request, .. } => self.tell(FromShim::Living { request: *request, processes: None }),
        }
    }

    /// Whether there is so much to answer that nothing more is taken in.
    fn is_behind(&self) -> bool {
        self.outbox.is_long() || self.jobs.len() >= JOBS_MAX
    }

    fn tell(&mut self, message: FromShim) {
        if let Some(control) = &self.control {
            self.outbox.send(control.as_fd(), &message);
        }
    }

    fn tell_memory_kills(&mut self) {
        if let Some(count) = self.limited.new_kills() {
            self.tell(FromShim::MemoryKills { count });
        }
    }

    /// Waits until there is something to do, and takes in requests.
    fn wait(&mut self, more: bool) {
        let timers =
            [self.ending.as_ref().filter(|e| e.round.is_none()).map(|e| e.again_at), self.retry_remove];
        let timeout = if more {
            PollTimeout::ZERO
        } else {
            timers.into_iter().flatten().min().map_or(PollTimeout::NONE, until)
        };
        self.retry_remove = None;
        let mut fds = Vec::with_capacity(4);
        fds.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
        if let Leader::Starting(_, report) = &self.leader {
            fds.push(PollFd::new(report.as_fd(), PollFlags::POLLIN));
        }
        let lifeline_at = self.lifeline.as_ref().map(|lifeline| {
            fds.push(PollFd::new(lifeline.as_fd(), PollFlags::POLLIN));
            fds.len() - 1
        });
        let control_at = self.control.as_ref().map(|control| {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::POLLIN, !self.is_behind());
            wanted.set(PollFlags::POLLOUT, !self.outbox.is_empty());
            fds.push(PollFd::new(control.as_fd(), wanted));
            fds.len() - 1
        });
        if poll(&mut fds, timeout).is_err() {
            return;
        }
        let happened = |at: Option<usize>| at.is_some_and(|at| fds[at].any().unwrap_or(true));
        let (signal, lifeline, control) = (happened(Some(0)), happened(lifeline_at), happened(control_at));
        drop(fds);
        if signal {
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
        if lifeline {
            self.lifeline = None;
            self.end(None);
        }
        if control {
            self.take_requests();
        }
    }

    fn take_requests(&mut self) {
        while let Some(control) = &self.control {
            self.outbox.flush(control.as_fd());
            if self.is_behind() {
                return;
            }
            match receive(control.as_fd()) {
                Received::Message(ToShim::Tree { request }, _) => {
                    self.jobs.push_back(Job::Count { request, pass: Pass::new(&|_| false) });
                }
                Received::Message(ToShim::Signal { request, signal }, _) => self.signal(request, signal),
                Received::Nothing => return,
                Received::End => {
                    self.control = None;
                    self.end(None);
                }
            }
        }
    }

    fn signal(&mut self, request: u64, signal: WantedSignal) {
        // What has already ended is known before it is signalled.
        self.reap();
        match signal {
            WantedSignal::Kill => self.end(Some(request)),
            _ if self.ending.is_some() => {
                let leader_alive = self.leader.pid().is_some();
                self.tell(FromShim::Delivered { request, leader_alive, processes: 0 });
            }
            WantedSignal::Interrupt => {
                self.jobs.push_back(Job::Interrupt { request, pass: Pass::new(&|_| false) });
            }
            WantedSignal::Terminate => {
                self.jobs.push_back(Job::Terminate {
                    request,
                    leader_alive: self.leader.pid().is_some(),
                    sweep: Sweep::new(&[libc::SIGTERM, libc::SIGCONT]),
                    freeze: Freeze::Wanted,
                });
            }
        }
    }
}

fn until(instant: Instant) -> PollTimeout {
    let left = instant.saturating_duration_since(Instant::now());
    // Rounded up: a timer that fires early would be polled for again and again.
    PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
}

fn read_program(body: OwnedFd) -> Result<Program, Errno> {
    let mut bytes = Vec::new();
    let mut file = File::from(body);
    std::io::Seek::rewind(&mut file).map_err(|_| Errno::EIO)?;
    file.read_to_end(&mut bytes).map_err(|_| Errno::EIO)?;
    let body: StartBody = postcard::from_bytes(&bytes).map_err(|_| Errno::EBADMSG)?;
    Program::new(body).ok_or(Errno::EINVAL)
}

/// Forks the leader; gives its number and the pipe that tells whether it got to the command.
#[expect(unsafe_code, reason = "forks the leader")]
fn fork_leader(
    program: &Program,
    stdio: &Stdio,
    leaf: Option<&(Leaf, Entry)>,
    limited: &Limited,
) -> Result<(Pid, File), Errno> {
    let (report, failure) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let shim = nix::unistd::getpid().as_raw();
    let (side, to_enter) = match leaf {
        // SAFETY: a shim has one thread; the child goes on to exec or ends.
        Some((leaf, Entry::Cloned)) => (unsafe { sys::fork_into(leaf.directory()) }?, None),
        // SAFETY: a shim has one thread.
        Some((leaf, Entry::Written)) => (unsafe { sys::fork() }?, Some(leaf)),
        // SAFETY: a shim has one thread.
        None => (unsafe { sys::fork() }?, None),
    };
    match side {
        Side::Child => become_command(program, stdio, to_enter, limited, shim, failure),
        Side::Parent(pid) => Ok((pid, File::from(report))),
    }
}
