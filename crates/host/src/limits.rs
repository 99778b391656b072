//! The caps of one command: what a leader sets for itself, and what is in force of all that was asked for.
//!
//! Not for what the kernel's controllers limit: see [`crate::controllers`].

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{SysconfVar, sysconf};
use procyard_core::{EffectiveLimits, Enforcement};
use procyard_runner::{ResourceLimits, RunnerError, RunnerErrorKind};
use serde::{Deserialize, Serialize};

use crate::controllers::Means;
use crate::descriptors;
use crate::wire::Stage;
use crate::{HostOptions, SignalScope, privileges, sys};

/// `proc_pid_oom_score_adj(5)`.
const OOM_SCORE_ADJ: &str = "/proc/self/oom_score_adj";
const OOM_SCORE_ADJ_MAX: i32 = 1000;

/// What every command of a runner gets unless it asks for something else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults {
    oom_score_adj: Option<i32>,
    no_core_dumps: bool,
    no_new_privs: bool,
    scope_signals: bool,
    descriptors: Option<u64>,
}

impl Defaults {
    /// `scope` says whether the kernel has signal scopes.
    pub(crate) fn new(options: &HostOptions, scope: &Result<(), String>) -> Self {
        Self {
            oom_score_adj: raised_score(options.oom_score_raise.0),
            no_core_dumps: !options.keep_core_dumps,
            no_new_privs: options.no_new_privs,
            scope_signals: options.signal_scope != SignalScope::Off && scope.is_ok(),
            descriptors: descriptors::of_commands(),
        }
    }
}

/// This process's score and so much; everybody may raise it. `None` where it is not raised, or cannot be.
fn raised_score(by: u16) -> Option<i32> {
    let own: i32 = std::fs::read_to_string(OOM_SCORE_ADJ).ok()?.trim().parse().ok()?;
    std::fs::OpenOptions::new().write(true).open(OOM_SCORE_ADJ).ok()?;
    (by > 0).then(|| (own + i32::from(by)).min(OOM_SCORE_ADJ_MAX))
}

/// The caps of one command, as its shim and its leader set them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    pub(crate) memory_max: Option<u64>,
    pub(crate) pids_max: Option<u32>,
    pub(crate) nice: Option<i32>,
    pub(crate) oom_score_adj: Option<i32>,
    pub(crate) no_core_dumps: bool,
    pub(crate) no_new_privs: bool,
    pub(crate) scope_signals: bool,
    /// The soft limit of open descriptors, where it is not inherited.
    pub(crate) descriptors: Option<u64>,
}

impl Bounds {
    /// What will be done for a request, and what is to be told of it.
    pub(crate) fn plan(asked: &ResourceLimits, defaults: Defaults, means: &Means) -> (Self, EffectiveLimits) {
        let page = page_size();
        let memory_max = asked.memory_max.map(|max| match &means.memory {
            // The kernel counts pages.
            Ok(_) => Enforcement::InForce(max - max % page),
            Err(why) => Enforcement::not(why),
        });
        let pids_max = asked.pids_max.map(|max| match &means.pids {
            Ok(_) => Enforcement::InForce(max),
            Err(why) => Enforcement::not(why),
        });
        let oom_score_adj = asked.oom_score_adj.or(defaults.oom_score_adj);
        let core_max = if defaults.no_core_dumps {
            Enforcement::InForce(0)
        } else {
            Enforcement::not("core dumps are left as they are set here")
        };
        let bounds = Self {
            memory_max: memory_max.as_ref().and_then(Enforcement::value),
            pids_max: pids_max.as_ref().and_then(Enforcement::value),
            nice: asked.nice,
            oom_score_adj,
            no_core_dumps: defaults.no_core_dumps,
            no_new_privs: defaults.no_new_privs,
            scope_signals: defaults.scope_signals,
            descriptors: defaults.descriptors,
        };
        let effective = EffectiveLimits {
            memory_max,
            pids_max,
            nice: asked.nice.map(Enforcement::InForce),
            oom_score_adj: oom_score_adj.map(Enforcement::InForce),
            core_max: Some(core_max),
        };
        (bounds, effective)
    }

    /// Sets, in the leader, what a process sets for itself.
    pub(crate) fn set_own(&self) -> Result<(), (Stage, Errno)> {
        if let Some(nice) = self.nice {
            sys::set_niceness(nice).map_err(|errno| (Stage::Niceness, errno))?;
        }
        if let Some(score) = self.oom_score_adj {
            std::fs::write(OOM_SCORE_ADJ, score.to_string())
                .map_err(|error| (Stage::OomScore, errno_of(&error)))?;
        }
        if self.no_core_dumps {
            // The hard limit stays: a command that wants a dump can say so.
            getrlimit(Resource::RLIMIT_CORE)
                .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_CORE, 0, hard))
                .map_err(|errno| (Stage::Prepare, errno))?;
        }
        if let Some(soft) = self.descriptors {
            descriptors::lower(soft).map_err(|errno| (Stage::Prepare, errno))?;
        }
        Ok(())
    }

    /// Gives up, in the leader, what its descendants cannot get back. Last of all that is set up.
    pub(crate) fn give_up_privileges(&self) -> Result<(), (Stage, Errno)> {
        privileges::give_up(self.no_new_privs, self.scope_signals).map_err(|errno| (Stage::Privileges, errno))
    }
}

pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

fn page_size() -> u64 {
    sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| u64::try_from(size).ok()).unwrap_or(4096)
}

/// Refuses what no kernel takes.
pub(crate) fn validate(limits: &ResourceLimits) -> Result<(), RunnerError> {
    let refuse = |message| Err(RunnerError::new(RunnerErrorKind::InvalidRequest("limits"), message));
    if limits.memory_max.is_some_and(|max| max < page_size()) {
        return refuse("a memory limit is at least one page");
    }
    if limits.pids_max == Some(0) {
        return refuse("a process limit is at least 1");
    }
    Ok(())
}

/// Why a start failed at a cap; `None` when it failed at something else.
pub(crate) fn start_error(stage: Stage, errno: Errno) -> Option<RunnerError> {
    let forbidden = matches!(errno, Errno::EACCES | Errno::EPERM);
    let message = match stage {
        Stage::Niceness if forbidden => {
            "this user may not run a command with so low a niceness; ask for a higher one"
        }
        Stage::OomScore if forbidden => {
            "this user may not run a command with so low an oom_score_adj; ask for a higher one"
        }
        Stage::Niceness => "the niceness could not be set",
        Stage::OomScore => "the oom_score_adj could not be set",
        Stage::Limits => "the memory or process limit could not be set; try again",
        Stage::Privileges => "the command could not be kept from new privileges, or from signalling others",
        Stage::SetUp | Stage::Namespace | Stage::Prepare | Stage::Workdir | Stage::Exec => return None,
    };
    Some(RunnerError::new(RunnerErrorKind::Setup, message).with_source(io::Error::from(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::Version;

    const DEFAULTS: Defaults = Defaults {
        oom_score_adj: Some(500),
        no_core_dumps: true,
        no_new_privs: false,
        scope_signals: false,
        descriptors: None,
    };

    fn means(memory: Result<Version, String>) -> Means {
        Means { memory, pids: Ok(Version::One) }
    }

    #[test]
    fn what_is_in_force_is_what_the_kernel_will_say() {
        let asked = ResourceLimits { memory_max: Some(page_size() * 3 + 1), ..ResourceLimits::default() };
        let (bounds, effective) = Bounds::plan(&asked, DEFAULTS, &means(Ok(Version::Two)));
        assert_eq!(bounds.memory_max, Some(page_size() * 3));
        assert_eq!(effective.memory_max, Some(Enforcement::InForce(page_size() * 3)));
        assert_eq!(effective.oom_score_adj, Some(Enforcement::InForce(500)));
        assert_eq!((effective.core_max, effective.pids_max), (Some(Enforcement::InForce(0)), None));
    }

    #[test]
    fn what_cannot_be_enforced_is_said_and_not_tried() {
        let asked = ResourceLimits {
            memory_max: Some(1 << 20),
            pids_max: Some(7),
            oom_score_adj: Some(1),
            ..ResourceLimits::default()
        };
        let kept = Defaults { no_core_dumps: false, ..DEFAULTS };
        let (bounds, effective) = Bounds::plan(&asked, kept, &means(Err("because".to_owned())));
        assert_eq!((bounds.memory_max, bounds.pids_max, bounds.oom_score_adj), (None, Some(7), Some(1)));
        assert_eq!(effective.memory_max, Some(Enforcement::not("because")));
        assert!(matches!(effective.core_max, Some(Enforcement::NotEnforced(_))));
    }

    #[test]
    fn every_stage_of_a_cap_has_words_of_its_own() {
        let mut told = Vec::new();
        for stage in [Stage::Niceness, Stage::OomScore, Stage::Limits, Stage::Privileges] {
            for errno in [Errno::EACCES, Errno::EIO] {
                told.push(start_error(stage, errno).unwrap().to_string());
            }
        }
        told.dedup();
        assert_eq!(told.len(), 6, "{told:?}");
        assert!(start_error(Stage::Exec, Errno::EACCES).is_none());
    }
}
