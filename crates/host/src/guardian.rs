//! The guardian: one small process for each supervisor, above its shims. It forks a shim for every tree, notices the
//! death of the supervisor and of shims, and ends what they leave.
//!
//! One thread, one loop around `poll(2)`. It is a subreaper, so that what a dead shim leaves comes to it; it has a session
//! of its own and ignores what a terminal sends; it is in no leaf cgroup. It ends only when its last tree is gone, and
//! keeps the descriptors it was given to hold until then.
//!
//! Not for signalling living trees: that is their shims'.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::cgroup::{self, Base, Entry, Hierarchy};
use crate::controllers::{self, Controllers};
use crate::leader::Stdio;
use crate::namespace;
use crate::shim::{self, Seed};
use crate::sys::{self, Pid, Reaped, Side};
use crate::tree::{self, Round};
use crate::wire::{
    FromGuardian, FromShim, Hello, Outbox, PROTOCOL, Received, Stage, ToGuardian, WantedTier, receive,
};

/// How long shims have to end their trees after the supervisor's death, before the guardian ends shims and trees.
const SHIMS_GRACE: Duration = Duration::from_millis(400);
/// Between two rounds of killing what does not die.
const REST_MIN: Duration = Duration::from_millis(2);
const REST_MAX: Duration = Duration::from_secs(1);
/// How long the first message may take.
const SETUP_MS: u16 = 10_000;
/// Messages taken in before children are looked after again.
const MESSAGES_MAX: usize = 16;

/// What must not end or stop a guardian. A leader gets the defaults back.
const IGNORED: [i32; 12] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGWINCH,
];

/// Gives a leader the default dispositions. All others are the default already since the guardian began.
pub(crate) fn restore_signals() {
    for signal in IGNORED {
        sys::set_disposition(signal, false);
    }
}

/// Runs the guardian on the socket that is standard input; ends with it.
pub(crate) fn run() -> ! {
    let code = match Guardian::set_up() {
        Some(guardian) => guardian.serve(),
        None => 1,
    };
    sys::exit_now(code)
}

struct Guardian {
    /// `None` when the supervisor is gone.
    supervisor: Option<OwnedFd>,
    supervisor_life: OwnedFd,
    signals: SignalFd,
    lifeline_of_shims: OwnedFd,
    /// Never written to: its closing, however we end, is the message. `None` when shims were told to end.
    lifeline: Option<OwnedFd>,
    base: Option<(Base, Entry)>,
    controllers: Controllers,
    /// Trees get a PID namespace of this kind.
    namespace: Option<namespace::Kind>,
    held: Vec<OwnedFd>,
    shims: HashMap<Pid, u64>,
    /// Trees whose shims died before they were empty.
    orphaned: Vec<u64>,
    round: Option<Round>,
    again_at: Option<Instant>,
    rest: Duration,
    /// When the shims themselves are ended.
    shims_until: Option<Instant>,
    outbox: Outbox,
}

/// What a start message brings.
struct Request {
    tree: u64,
    body: OwnedFd,
    stdio: Stdio,
    control: OwnedFd,
}

impl Guardian {
    fn set_up() -> Option<Self> {
        let _ = nix::unistd::setsid();
        let _ = nix::sys::prctl::set_name(c"procyard-guard");
        let _ = nix::unistd::chdir("/");
        // Stopped by somebody, it still notices the end of the supervisor.
        let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGCONT);
        let supervisor = own_socket()?;
        // Held before it is asked whether it still is our parent: then the number was its own when it was taken.
        let parent = nix::unistd::getppid();
        let supervisor_life = sys::pidfd_open(parent.as_raw());
        if nix::unistd::getppid() != parent {
            return None;
        }
        let Wanted { tier, try_pid_namespace, held } = first_message(&supervisor)?;
        let mut outbox = Outbox::default();
        let refused = |outbox: &mut Outbox, reason: String| {
            outbox.send(supervisor.as_fd(), &FromGuardian::Refused { reason });
            None::<Self>
        };
        let supervisor_life = match supervisor_life {
            Ok(life) => life,
            Err(errno) => return refused(&mut outbox, format!("pidfds are not to be had: {errno}")),
        };
        for signal in 1..=sys::last_signal() {
            sys::set_disposition(signal, IGNORED.contains(&signal));
        }
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        let ready = sys::set_signal_mask(&mask)
            .and_then(|()| nix::sys::prctl::set_child_subreaper(true))
            .and_then(|()| SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
            .and_then(|signals| Ok((signals, nix::unistd::pipe2(OFlag::O_CLOEXEC)?)));
        let (signals, (lifeline_of_shims, lifeline)) = match ready {
            Ok(ready) => ready,
            Err(errno) => return refused(&mut outbox, format!("no subreaper: {errno}")),
        };
        let own = nix::unistd::getpid().as_raw();
        if tree::Stat::read(own).is_none_or(|stat| stat.parent != parent.as_raw()) {
            return refused(&mut outbox, "/proc does not show this PID namespace".to_owned());
        }
        let namespaced = tier == WantedTier::PidNamespace;
        let probed = (namespaced || try_pid_namespace).then(namespace::probe);
        let namespace = match &probed {
            Some(Ok(kind)) if namespaced => Some(*kind),
            Some(Err(reason)) if namespaced => return refused(&mut outbox, reason.clone()),
            _ => None,
        };
        let (base, no_cgroup) = match tier {
            WantedTier::Subreaper => (None, None),
            WantedTier::Strongest | WantedTier::Cgroup | WantedTier::PidNamespace => {
                match prepare_cgroups() {
                    Ok(base) => (Some(base), None),
                    Err(reason) if tier == WantedTier::Cgroup => return refused(&mut outbox, reason),
                    Err(reason) => (None, Some(reason)),
                }
            }
        };
        let controllers = Controllers::find(base.as_ref().map(|(base, _)| base));
        let hello = Hello {
            base: base.as_ref().map(|(base, _)| base.path().as_os_str().as_bytes().to_vec()),
            no_cgroup,
            namespaced,
            pid_namespace: probed.map(|probed| probed.map(drop)),
            proc_children: tree::kernel_lists_children(),
            clone_into_cgroup: base.as_ref().is_some_and(|(_, entry)| *entry == Entry::Cloned),
            means: controllers.means(),
        };
        outbox.send(supervisor.as_fd(), &FromGuardian::Hello(hello));
        Some(Self {
            supervisor: Some(supervisor),
            supervisor_life,
            signals,
            lifeline_of_shims,
            lifeline: Some(lifeline),
            base,
            controllers,
            namespace,
            held,
            shims: HashMap::new(),
            orphaned: Vec::new(),
            round: None,
            again_at: None,
            rest: REST_MIN,
            shims_until: None,
            outbox,
        })
    }

    fn serve(mut self) -> i32 {
        loop {
            let childless = self.reap();
            self.settle_orphans(childless);
            if childless && self.supervisor.is_none() {
                return self.finish();
            }
            let more = self.work();
            if let Some(request) = self.wait(more) {
                self.become_shim(request)
            }
        }
    }

    /// In the child of a fork: gives up what is the guardian's, above all its end of the lifeline.
    fn become_shim(self, request: Request) -> ! {
        let Guardian {
            supervisor,
            supervisor_life,
            signals,
            lifeline_of_shims,
            lifeline,
            base,
            controllers,
            namespace,
            held,
            ..
        } = self;
        drop((supervisor, supervisor_life, lifeline));
        let Request { tree, body, stdio, control } = request;
        let lifeline = lifeline_of_shims;
        shim::run(Seed { tree, body, stdio, control, lifeline, signals, base, controllers, namespace, held })
    }

    fn finish(self) -> i32 {
        // A cgroup that was just emptied may need a moment until it can be removed.
        for _ in 0..50 {
            if self.base.as_ref().is_none_or(|(base, _)| base.remove().is_ok()) {
                break;
            }
            if let Some((base, _)) = &self.base {
                let _ = base.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        0
    }

    /// Collects shims and what they left, and continues shims that somebody stopped; true when there is no child.
    fn reap(&mut self) -> bool {
        loop {
            let shims = &self.shims;
            let reaped = sys::reap_and_see_stopped(&mut |pid| {
                if shims.contains_key(&pid) {
                    let _ = sys::signal_child(pid, libc::SIGCONT);
                }
            });
            match reaped {
                Reaped::Child(pid, status) => {
                    if let Some(tree) = self.shims.remove(&pid) {
                        // A shim ends by itself, with 0, only when its tree is proven empty.
                        if status != 0 {
                            self.orphaned.push(tree);
                            self.rest = REST_MIN;
                            self.again_at.get_or_insert_with(Instant::now);
                        }
                    }
                }
                Reaped::NoneEnded => return false,
                Reaped::Childless => return true,
            }
        }
    }

    /// When every child is a living shim, nothing of an orphaned tree lives: each of its processes would have an
    /// ancestor among our other children.
    fn settle_orphans(&mut self, childless: bool) {
        if self.orphaned.is_empty() {
            return;
        }
        let is_shim = |pid: &Pid| self.shims.contains_key(pid);
        if !childless && !tree::own_children().is_some_and(|children| children.iter().all(is_shim)) {
            return;
        }
        controllers::sweep();
        let (base, supervisor, outbox) = (&self.base, &self.supervisor, &mut self.outbox);
        self.orphaned.retain(|tree| {
            let removed = base.as_ref().is_none_or(|(base, _)| match base.existing_leaf(*tree) {
                Ok(leaf) => {
                    leaf.remove().is_ok() || {
                        let _ = leaf.kill();
                        leaf.kill_leaderless();
                        false
                    }
                }
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            });
            if let (true, Some(supervisor)) = (removed, supervisor) {
                outbox.send(supervisor.as_fd(), &FromGuardian::Orphaned { tree: *tree, proven: true });
            }
            !removed
        });
        if self.orphaned.is_empty() && self.supervisor.is_some() {
            self.again_at = None;
            self.round = None;
        }
    }

    /// Does a bounded step of ending what nobody owns; true when more is to be done at once.
    fn work(&mut self) -> bool {
        let now = Instant::now();
        if self.shims_until.is_some_and(|until| now >= until) {
            // They are our unreaped children, so their numbers are theirs. A stopped one dies, too.
            for shim in self.shims.keys() {
                let _ = sys::signal_child(*shim, libc::SIGKILL);
            }
            self.shims_until = None;
            self.again_at = Some(now);
            self.rest = REST_MIN;
        }
        if self.round.is_none() && self.again_at.is_some_and(|at| now >= at) {
            if let Some((base, _)) = &self.base {
                for tree in &self.orphaned {
                    let _ = base.existing_leaf(*tree).and_then(|leaf| leaf.kill());
                }
            }
            self.round = Some(Round::new());
        }
        let Some(round) = &mut self.round else { return false };
        let shims = &self.shims;
        if !round.step(&|pid| shims.contains_key(&pid)) {
            return true;
        }
        self.round = None;
        self.again_at = Some(now + self.rest);
        self.rest = (self.rest * 2).min(REST_MAX);
        false
    }

    /// Waits until there is something to do; gives a request in a process that is now its shim.
    fn wait(&mut self, more: bool) -> Option<Request> {
        let timer = self.again_at.filter(|_| self.round.is_none()).into_iter().chain(self.shims_until).min();
        let timeout = if more {
            PollTimeout::ZERO
        } else {
            timer.map_or(PollTimeout::NONE, |at| {
                let left = at.saturating_duration_since(Instant::now()).as_millis() + 1;
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            })
        };
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if let Some(supervisor) = &self.supervisor {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::POLLIN, !self.outbox.is_long());
            wanted.set(PollFlags::POLLOUT, !self.outbox.is_empty());
            fds.push(PollFd::new(supervisor.as_fd(), wanted));
            fds.push(PollFd::new(self.supervisor_life.as_fd(), PollFlags::POLLIN));
        }
        if poll(&mut fds, timeout).is_err() {
            return None;
        }
        let happened = |at: usize| fds.get(at).is_some_and(|fd| fd.any().unwrap_or(true));
        let (signal, message, death) = (happened(0), happened(1), happened(2));
        drop(fds);
        if signal {
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
        if death {
            self.supervisor_is_gone();
        } else if message {
            return self.take_messages();
        }
        None
    }

    fn supervisor_is_gone(&mut self) {
        self.supervisor = None;
        self.lifeline = None;
        self.shims_until = Some(Instant::now() + SHIMS_GRACE);
    }

    fn take_messages(&mut self) -> Option<Request> {
        for _ in 0..MESSAGES_MAX {
            let supervisor = self.supervisor.as_ref()?;
            self.outbox.flush(supervisor.as_fd());
            match receive(supervisor.as_fd()) {
                Received::Message(ToGuardian::Start { tree }, fds) => {
                    if let Some(request) = self.start(tree, fds) {
                        return Some(request);
                    }
                }
                Received::Nothing => return None,
                Received::Message(ToGuardian::SetUp { .. }, _) | Received::End => {
                    self.supervisor_is_gone();
                    return None;
                }
            }
        }
        None
    }

    /// Forks a shim; gives the request back in the child.
    #[expect(unsafe_code, reason = "forks a shim")]
    fn start(&mut self, tree: u64, fds: Vec<OwnedFd>) -> Option<Request> {
        // The control socket is closed when something is missing, which is an answer.
        let [body, stdin, stdout, stderr, control] = <[OwnedFd; 5]>::try_from(fds).ok()?;
        // SAFETY: the guardian has one thread.
        match unsafe { sys::fork() } {
            Ok(Side::Parent(shim)) => {
                self.shims.insert(shim, tree);
                None
            }
            Ok(Side::Child) => Some(Request { tree, body, stdio: Stdio { stdin, stdout, stderr }, control }),
            Err(errno) => {
                let failure = FromShim::Failed { stage: Stage::SetUp, errno: errno as i32 };
                Outbox::default().send(control.as_fd(), &failure);
                None
            }
        }
    }
}

/// Takes the socket from standard input, puts `/dev/null` on the three standard descriptors and closes all others.
#[expect(unsafe_code, reason = "takes over standard input, closes what was inherited")]
fn own_socket() -> Option<OwnedFd> {
    // SAFETY: this runs before anything in this process has opened a descriptor.
    unsafe { sys::close_from(3) };
    let socket = nix::fcntl::fcntl(std::io::stdin(), nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3)).ok()?;
    // SAFETY: it was just made, for us alone.
    let socket = unsafe { sys::own(socket) };
    nix::sys::socket::getsockname::<nix::sys::socket::UnixAddr>(socket.as_raw_fd()).ok()?;
    let null = File::options().read(true).write(true).open("/dev/null").ok()?;
    nix::unistd::dup2_stdin(&null).ok()?;
    nix::unistd::dup2_stdout(&null).ok()?;
    nix::unistd::dup2_stderr(&null).ok()?;
    Some(socket)
}

/// What the first message brings.
struct Wanted {
    tier: WantedTier,
    try_pid_namespace: bool,
    held: Vec<OwnedFd>,
}

fn first_message(supervisor: &OwnedFd) -> Option<Wanted> {
    poll(&mut [PollFd::new(supervisor.as_fd(), PollFlags::POLLIN)], PollTimeout::from(SETUP_MS)).ok()?;
    match receive(supervisor.as_fd()) {
        Received::Message(ToGuardian::SetUp { protocol: PROTOCOL, tier, try_pid_namespace }, held) => {
            Some(Wanted { tier, try_pid_namespace, held })
        }
        Received::Message(ToGuardian::SetUp { protocol, .. }, _) => {
            let reason = format!("the guardian program speaks protocol {PROTOCOL}, not {protocol}");
            Outbox::default().send(supervisor.as_fd(), &FromGuardian::Refused { reason });
            None
        }
        _ => None,
    }
}

fn prepare_cgroups() -> Result<(Base, Entry), String> {
    let own = cgroup::own_directory(Hierarchy::Unified)?;
    let beside = controllers::beside(&own);
    for place in beside.iter().chain([&own]) {
        crate::sweep::sweep(place);
    }
    // Where limits can be set, if there is such a place; trees are contained as well in either.
    beside.and_then(|place| base_in(&place).ok()).map_or_else(|| base_in(&own), Ok)
}

fn base_in(place: &Path) -> Result<(Base, Entry), String> {
    let base = Base::create(place).map_err(|error| format!("no cgroup can be made below ours: {error}"))?;
    match cgroup::probe(&base) {
        Ok(entry) => Ok((base, entry)),
        Err(reason) => {
            let _ = base.remove();
            Err(reason)
        }
    }
}
