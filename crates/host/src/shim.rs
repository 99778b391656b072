//! A shim: the subreaper of one tree. It starts the leader, reaps everything that comes to it, signals the tree,
//! proves that it is empty, and ends it when its supervisor or its guardian is gone.
//!
//! One thread, one loop around `poll(2)`; forked from the guardian without exec, so that its private memory is a few
//! pages. Work on large trees is done in bounded steps between polls. In the order of a tree's life:
//!
//! - [`start`]: from what the guardian handed over to a forked leader;
//! - [`requests`]: waiting, and taking in what the supervisor asks;
//! - [`jobs`]: interrupting, terminating and counting a living tree;
//! - [`ending`]: killing it;
//! - [`reap`]: collecting what ended, and the proof that nothing is left.
//!
//! Not for deciding when a tree should end: that is the supervisor's, as long as it lives.

mod ending;
mod jobs;
mod reap;
mod requests;
mod start;

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::signalfd::SignalFd;

use self::ending::Ending;
use self::jobs::Job;
use self::start::Leader;
use crate::cgroup::{Base, Entry, Leaf};
use crate::controllers::Controllers;
use crate::init::Init;
use crate::leader::Stdio;
use crate::limited::Limited;
use crate::namespace;
use crate::sys::{self, Pid};
use crate::wire::{FromShim, Outbox};

/// Between two rounds of killing what does not die.
const REST_MIN: Duration = Duration::from_millis(2);
const REST_MAX: Duration = Duration::from_secs(1);

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
    /// The tree lives in a PID namespace of this kind.
    pub(crate) namespace: Option<namespace::Kind>,
    /// Kept open for as long as the tree lives: a lock on one tells the next supervisor whether it does.
    pub(crate) held: Vec<OwnedFd>,
}

struct Shim {
    control: Option<OwnedFd>,
    lifeline: Option<OwnedFd>,
    signals: SignalFd,
    leader: Leader,
    leaf: Option<Leaf>,
    limited: Limited,
    /// That of the tree's PID namespace, as long as it is not reaped.
    init: Option<Init>,
    /// The mounts of the leader's namespace, never looked at. Whoever lets go of them last has them unmounted, which takes
    /// milliseconds: this way it is not the leader, whose end would be known that much later.
    mounts: Option<File>,
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
    let _guard = sys::EndOnUnwind;
    let _ = nix::sys::prctl::set_name(c"procyard-shim");
    // Stopped by somebody, it still notices the end of the guardian, which would continue it otherwise.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGCONT);
    match Shim::start(seed) {
        Some(shim) => shim.serve(),
        None => sys::exit_now(0),
    }
}

impl Shim {
    fn serve(mut self) -> ! {
        loop {
            self.reap();
            let more = self.work();
            self.wait(more);
        }
    }

    /// Whose children are looked at without being a member itself.
    fn init_pid(&self) -> Option<Pid> {
        self.init.as_ref().map(Init::pid)
    }

    fn tell_memory_kills(&mut self) {
        if let Some(count) = self.limited.new_kills() {
            self.tell(FromShim::MemoryKills { count });
        }
    }

    fn tell(&mut self, message: FromShim) {
        if let Some(control) = &self.control {
            self.outbox.send(control.as_fd(), &message);
        }
    }
}
