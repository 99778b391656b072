//! PID namespaces (`pid_namespaces(7)`): how one is made for a tree, and whether that is possible here.
//!
//! The caller's *children* are born in the namespace, the caller itself stays outside and sees them by numbers of its
//! own. The first child is the [`init`]; when it ends, the kernel kills whatever else is in the
//! namespace, also what is in namespaces below, and what entered it from outside.
//!
//! Where this user may not make one, it is made below a user namespace (`user_namespaces(7)`) in which the
//! own user and group are what they were and every other is `nobody`.
//!
//! Not for who lives in one: see [`crate::shim`].

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid, pipe2};

use crate::init::{self, Forked};
use crate::sys::{self, Side};

/// How long trying one may take.
const PROBE_MS: u16 = 5_000;

/// With whose privileges a namespace is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Those that this process has.
    Plain,
    /// Those that it has in a user namespace of its own.
    Mapped,
}

/// What was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    step: Step,
    pub(crate) errno: Errno,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    UserNamespace,
    Ids,
    PidNamespace,
    Processes,
    Mounts,
    Proc,
    /// `/proc` was mounted and shows another namespace.
    View,
}

impl Step {
    const ALL: [Step; 7] = [
        Step::UserNamespace,
        Step::Ids,
        Step::PidNamespace,
        Step::Processes,
        Step::Mounts,
        Step::Proc,
        Step::View,
    ];

    fn refused(self, errno: Errno) -> Refused {
        Refused { step: self, errno }
    }
}

/// Lets the children of the calling process be born in a new PID namespace. The process has one thread.
pub(crate) fn enter(kind: Kind) -> Result<(), Refused> {
    if kind == Kind::Mapped {
        // In the new namespace they are nobody's until they are mapped.
        let (user, group) = (geteuid(), getegid());
        unshare(CloneFlags::CLONE_NEWUSER).map_err(|errno| Step::UserNamespace.refused(errno))?;
        map_ids(&format!("{user} {user} 1"), &format!("{group} {group} 1"))
            .map_err(|error| Step::Ids.refused(errno_of(&error)))?;
    }
    unshare(CloneFlags::CLONE_NEWPID).map_err(|errno| Step::PidNamespace.refused(errno))
}

fn map_ids(users: &str, groups: &str) -> std::io::Result<()> {
    // Without this an ordinary user may map no group: dropping one could open what is closed to its members.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", users)?;
    std::fs::write("/proc/self/gid_map", groups)
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Gives the calling process, which is in the namespace, mounts of its own with a `/proc` that shows the namespace.
///
/// What is mounted and unmounted outside later is so inside, too; what is mounted inside is nowhere else.
pub(crate) fn mount_proc() -> Result<(), Refused> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| Step::Mounts.refused(errno))?;
    let downwards = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount(None::<&str>, "/", None::<&str>, downwards, None::<&str>)
        .map_err(|errno| Step::Mounts.refused(errno))?;
    let usual = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), usual, None::<&str>).map_err(|errno| Step::Proc.refused(errno))
}

/// Really makes a namespace with an init, a process beside it and a `/proc`, and ends it, because privileges, sysctls,
/// security modules and container engines refuse in ways that only trying tells.
///
/// Called from a process with one thread. Blocks for some milliseconds.
pub(crate) fn probe() -> Result<Kind, String> {
    let Err(plain) = attempt(Kind::Plain) else { return Ok(Kind::Plain) };
    if !matches!(plain.errno, Errno::EPERM | Errno::EACCES) {
        return Err(plain.in_words());
    }
    attempt(Kind::Mapped).map(|()| Kind::Mapped).map_err(Refused::in_words)
}

/// In a child, because a process cannot leave what it has entered.
#[expect(unsafe_code, reason = "forks the child that tries")]
fn attempt(kind: Kind) -> Result<(), Refused> {
    let (report, failure) =
        pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|errno| Step::Processes.refused(errno))?;
    // SAFETY: the caller has one thread.
    let prober = match unsafe { sys::fork() }.map_err(|errno| Step::Processes.refused(errno))? {
        Side::Child => {
            drop(report);
            let _guard = sys::EndOnUnwind;
            let failure = File::from(failure);
            let refused = make_one(kind, &failure).err();
            if let Some(refused) = refused {
                refused.tell(&failure);
            }
            sys::exit_now(i32::from(refused.is_some()))
        }
        Side::Parent(prober) => prober,
    };
    drop(failure);
    let hangs =
        poll(&mut [PollFd::new(report.as_fd(), PollFlags::POLLIN)], PollTimeout::from(PROBE_MS)) == Ok(0);
    if hangs {
        // With it everything in its namespace ends; it is our unreaped child.
        let _ = sys::signal_child(prober, libc::SIGKILL);
    }
    // Otherwise it ends by itself, and collects what it has started first.
    let status = sys::wait_for(prober);
    match first_report(report) {
        _ if hangs => Err(Step::Processes.refused(Errno::ETIMEDOUT)),
        Some(refused) => Err(refused),
        None if status == Ok(0) => Ok(()),
        None => Err(Step::Processes.refused(Errno::ECHILD)),
    }
}

/// What a prober or its leader says went wrong; `None` where nothing did.
fn first_report(report: OwnedFd) -> Option<Refused> {
    let mut bytes = [0; 5];
    let length = File::from(report).read(&mut bytes).unwrap_or(0);
    (length > 0).then(|| Refused::parse(bytes))
}

/// What a shim does, with a leader that only looks.
#[expect(unsafe_code, reason = "forks an init")]
fn make_one(kind: Kind, failure: &File) -> Result<(), Refused> {
    let processes = |errno| Step::Processes.refused(errno);
    enter(kind)?;
    // SAFETY: the prober has one thread.
    let mut init = match unsafe { init::fork() }.map_err(processes)? {
        Forked::Inside(duty) => duty.serve(),
        Forked::Outside(init) => init,
    };
    let looked = look_from_inside(failure);
    match looked {
        Ok(()) => init.leader_is_reaped(),
        Err(_) => init.kill(),
    }
    sys::wait_for(init.pid()).map_err(processes)?;
    looked
}

/// In a process of the namespace, which tells itself what was refused.
#[expect(unsafe_code, reason = "forks a process into the namespace")]
fn look_from_inside(failure: &File) -> Result<(), Refused> {
    let processes = |errno| Step::Processes.refused(errno);
    // SAFETY: the prober has one thread.
    match unsafe { sys::fork() }.map_err(processes)? {
        Side::Child => {
            let looked = mount_proc().and_then(|()| {
                let own = nix::unistd::getpid();
                let shown = std::fs::read_link("/proc/self").ok();
                let is_shown = shown.is_some_and(|shown| shown == Path::new(&own.to_string()));
                if is_shown { Ok(()) } else { Err(Step::View.refused(Errno::ENOENT)) }
            });
            if let Err(refused) = looked {
                refused.tell(failure);
            }
            sys::exit_now(0)
        }
        Side::Parent(leader) => match sys::wait_for(leader).map_err(processes)? {
            0 => Ok(()),
            _ => Err(processes(Errno::ECHILD)),
        },
    }
}

impl Refused {
    fn tell(self, mut to: &File) {
        let mut bytes = [u8::try_from(self.step as usize).unwrap_or(0); 5];
        bytes[1..].copy_from_slice(&(self.errno as i32).to_ne_bytes());
        let _ = to.write_all(&bytes);
    }

    fn parse(bytes: [u8; 5]) -> Self {
        let [step, errno @ ..] = bytes;
        let step = Step::ALL.get(usize::from(step)).copied().unwrap_or(Step::Processes);
        step.refused(Errno::from_raw(i32::from_ne_bytes(errno)))
    }

    /// For a person: what is missing and what would make it available.
    fn in_words(self) -> String {
        let what = match self.step {
            Step::UserNamespace => "this user may make no user namespace",
            Step::Ids => "the ids of this user cannot be mapped into a user namespace",
            Step::PidNamespace => "no PID namespace can be made",
            Step::Processes => "no process can be started in a new PID namespace",
            Step::Mounts => "no mount namespace can be made for a new PID namespace",
            Step::Proc => "no /proc can be mounted for a new PID namespace",
            Step::View => "a /proc that is mounted for a new PID namespace does not show it",
        };
        format!(
            "{what} ({}){}",
            self.errno.desc(),
            self.remedy(&sysctl).map_or_else(String::new, |r| format!("; {r}"))
        )
    }

    fn remedy(self, sysctl: &dyn Fn(&str) -> Option<String>) -> Option<&'static str> {
        let is = |name: &str, value: &str| sysctl(name).is_some_and(|set| set == value);
        match self.step {
            _ if self.errno == Errno::ENOSPC => Some(
                "the sysctls user.max_pid_namespaces, user.max_mnt_namespaces and user.max_user_namespaces limit them",
            ),
            Step::UserNamespace if is("kernel/unprivileged_userns_clone", "0") => {
                Some("the sysctl kernel.unprivileged_userns_clone=1 allows it")
            }
            _ if is("kernel/apparmor_restrict_unprivileged_userns", "1") => Some(
                "an AppArmor profile with `userns,` for this program allows it, or the sysctl kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            Step::UserNamespace | Step::PidNamespace
                if matches!(self.errno, Errno::EPERM | Errno::EACCES) =>
            {
                Some(
                    "in a container CAP_SYS_ADMIN allows it, or a seccomp profile that lets user namespaces be made",
                )
            }
            Step::UserNamespace | Step::PidNamespace => {
                Some("the kernel must have CONFIG_USER_NS and CONFIG_PID_NS")
            }
            Step::Proc => Some(
                "parts of the present /proc are covered, as container engines do; one that is not masked allows it",
            ),
            Step::Ids | Step::Processes | Step::Mounts | Step::View => None,
        }
    }
}

fn sysctl(name: &str) -> Option<String> {
    let value = std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(step: Step, errno: Errno, set: Option<(&str, &str)>, expect: Option<&str>) {
        let sysctl = |name: &str| set.filter(|(set, _)| *set == name).map(|(_, value)| value.to_owned());
        let remedy = step.refused(errno).remedy(&sysctl);
        match (remedy, expect) {
            (Some(remedy), Some(expect)) => assert!(remedy.contains(expect), "{remedy}"),
            (remedy, expect) => assert_eq!(remedy, expect),
        }
    }

    #[test]
    fn what_is_missing_is_said_with_what_would_allow_it() {
        let off = Some(("kernel/unprivileged_userns_clone", "0"));
        let restricted = Some(("kernel/apparmor_restrict_unprivileged_userns", "1"));
        check(Step::UserNamespace, Errno::EPERM, off, Some("unprivileged_userns_clone=1"));
        check(Step::UserNamespace, Errno::EPERM, None, Some("seccomp"));
        check(Step::UserNamespace, Errno::ENOSPC, None, Some("max_user_namespaces"));
        check(Step::UserNamespace, Errno::EINVAL, None, Some("CONFIG_USER_NS"));
        check(Step::Mounts, Errno::EACCES, restricted, Some("AppArmor"));
        check(Step::Mounts, Errno::EACCES, None, None);
        check(Step::Proc, Errno::EPERM, None, Some("masked"));
        let words = Step::Proc.refused(Errno::EPERM).in_words();
        assert!(
            words.starts_with("no /proc can be mounted for a new PID namespace (Operation not permitted)"),
            "{words}"
        );
    }

    #[test]
    fn a_report_reads_back() {
        for (place, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, place);
            let (report, failure) = std::io::pipe().unwrap();
            step.refused(Errno::ENOSPC).tell(&File::from(OwnedFd::from(failure)));
            assert_eq!(first_report(report.into()), Some(step.refused(Errno::ENOSPC)));
        }
    }
}
