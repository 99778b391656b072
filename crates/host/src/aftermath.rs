//! What the supervisor does itself after its guardian was killed: it ends what no shim is left to end.
//!
//! In cgroups it sweeps the dead guardian's base. Where this process is a subreaper
//! ([`HostOptions::adopt_orphans`](crate::HostOptions::adopt_orphans)), what dead shims left comes to it, is found among
//! its children, ended, and proven gone. Which child is what is told by its session, which no process can join:
//!
//! - one in this process's own session was started by the program that embeds this crate, and is left alone: no
//!   descendant of a leader, which has a session of its own, can be there;
//! - one in the session of a guardian that has ended is a shim, which is left to end its tree, for a while;
//! - any other that is no guardian is an orphan of a tree.
//!
//! Not for as long as the guardian lives: orphans are its.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cgroup::Base;
use crate::controllers;
use crate::sweep;
use crate::sys::{self, Pid};
use crate::tree::{Round, Stat, own_children};

/// How long shims have to end their trees before they are ended with them.
const SHIMS_GRACE: Duration = Duration::from_secs(5);
/// Between two looks.
const REST_MIN: Duration = Duration::from_millis(2);
const REST_MAX: Duration = Duration::from_secs(1);

/// The guardians of this process, whoever in it started them.
#[derive(Debug)]
pub(crate) struct Guardians {
    /// Unreaped children.
    pub(crate) living: BTreeSet<Pid>,
    /// Reaped; their numbers are those of their sessions, and given to nobody else while a shim is in one.
    pub(crate) ended: BTreeSet<Pid>,
}

/// Locked while a guardian is forked or reaped and while children are told apart and reaped: a guardian that was just born
/// is not taken for an orphan, and nobody else reaps between a look and what is concluded from it. Never held across
/// an await.
pub(crate) fn guardians() -> MutexGuard<'static, Guardians> {
    static GUARDIANS: Mutex<Guardians> =
        Mutex::new(Guardians { living: BTreeSet::new(), ended: BTreeSet::new() });
    GUARDIANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another step.
    Step,
    /// Another step after a rest.
    Rest(Duration),
    /// Nothing: all of it is gone.
    Done,
}

/// The ending of what a killed guardian left.
pub(crate) struct Aftermath {
    guardian: Pid,
    base: Option<PathBuf>,
    /// Whether orphans come to this process.
    adopts: bool,
    shims_until: Instant,
    round: Option<Round>,
    rest: Duration,
}

impl Aftermath {
    /// That of a guardian which is among [`Guardians::ended`] now.
    pub(crate) fn new(guardian: Pid, base: Option<PathBuf>, adopts: bool) -> Self {
        let shims_until = Instant::now() + SHIMS_GRACE;
        Self { guardian, base, adopts, shims_until, round: None, rest: REST_MIN }
    }

    /// Does a bounded step. Blocks while files of `/proc` and cgroups are read.
    pub(crate) fn step(&mut self) -> Next {
        if self.round.is_none() {
            let in_base = self.sweep();
            let among_children = self.adopts && Self::reap();
            if !in_base && !among_children {
                return Next::Done;
            }
            self.round = among_children.then(Round::new);
        }
        if let Some(round) = &mut self.round {
            let guardians = guardians();
            let shims_have_time = Instant::now() < self.shims_until;
            let spared = |pid| match kind(pid, &guardians) {
                Some(Kind::Orphan) => false,
                Some(Kind::Shim) => shims_have_time,
                Some(Kind::Foreign) | None => true,
            };
            if !round.step(&spared) {
                return Next::Step;
            }
            self.round = None;
        }
        let rest = self.rest;
        self.rest = (rest * 2).min(REST_MAX);
        Next::Rest(rest)
    }

    /// Ends what lives in the base, unless a shim still holds it; tells whether it is still there. The cgroups of limits
    /// that nobody holds go, too.
    fn sweep(&self) -> bool {
        controllers::sweep();
        let Some(path) = &self.base else { return false };
        if let Some(base) = Base::adopt(path.clone()) {
            sweep::end(&base);
        }
        // Only `rmdir` takes it away, and only when nothing lives in it.
        path.exists()
    }

    /// Reaps what is dead of what came to this process; tells whether there was anything, or cannot be told.
    ///
    /// When there was nothing, nothing lives: whatever lives has an ancestor among our children, and those are only
    /// reaped here, after all were looked at.
    fn reap() -> bool {
        let guardians = guardians();
        let Some(children) = own_children() else { return true };
        let mut any = false;
        for child in children {
            match kind(child, &guardians) {
                Some(Kind::Foreign) => {}
                Some(Kind::Shim | Kind::Orphan) => {
                    any = true;
                    sys::reap_pid(child);
                }
                None => any = true,
            }
        }
        any
    }
}

impl Drop for Aftermath {
    fn drop(&mut self) {
        guardians().ended.remove(&self.guardian);
    }
}

/// What a child of this process is.
enum Kind {
    /// A living guardian, or what the program that embeds this crate started.
    Foreign,
    Shim,
    Orphan,
}

/// `None` when it cannot be told.
fn kind(child: Pid, guardians: &Guardians) -> Option<Kind> {
    if guardians.living.contains(&child) {
        return Some(Kind::Foreign);
    }
    let session = Stat::read(child)?.session;
    let own = nix::unistd::getsid(None).ok()?.as_raw();
    Some(match session {
        session if session == own => Kind::Foreign,
        session if guardians.ended.contains(&session) => Kind::Shim,
        _ => Kind::Orphan,
    })
}
