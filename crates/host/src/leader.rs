//! The child's side of a start: from the fork to the command's first instruction.
//!
//! Runs in a process with one thread that was just forked from a shim, so allocating and formatting are fine; but
//! nothing here may return into the shim's loop. What fails is written to a close-on-exec pipe as one byte of stage and
//! four of errno; an end of file there means that the command was executed.
//!
//! Not for choosing what is executed: see [`crate::environment`] and [`crate::runner`].

use std::ffi::{CStr, CString};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{AccessFlags, access, chdir, dup2_stderr, dup2_stdin, dup2_stdout, getppid, setsid};

use crate::cgroup::Leaf;
use crate::limited::Limited;
use crate::limits::Bounds;
use crate::namespace;
use crate::sys::{self, CArray, Pid};
use crate::wire::{Stage, StartBody};

/// Everything that a leader needs, made before the fork so that the fork is all that is left to fail.
pub(crate) struct Program {
    candidates: Vec<CString>,
    /// Whether it is looked for: then what is missing in one place may be in the next.
    searched: bool,
    argv: Vec<CString>,
    env: Vec<CString>,
    workdir: CString,
    terminal: bool,
    umask: Option<u32>,
    pub(crate) bounds: Bounds,
}

impl Program {
    /// Finds where the program may be: as `execvp(3)`, in the `PATH` of the child's own environment, where an empty
    /// entry is the working directory. `None` when something holds a NUL, which callers have refused before.
    pub(crate) fn new(body: StartBody) -> Option<Self> {
        let searched = !body.program.contains(&b'/');
        let candidates = if searched && !body.program.is_empty() {
            let places = body.path.split(|byte| *byte == b':');
            places.map(|place| joined(place, &body.program)).collect::<Option<_>>()?
        } else {
            vec![CString::new(body.program).ok()?]
        };
        let strings = |list: Vec<Vec<u8>>| list.into_iter().map(CString::new).collect::<Result<_, _>>().ok();
        Some(Self {
            candidates,
            searched,
            argv: strings(body.argv)?,
            env: strings(body.env)?,
            workdir: CString::new(body.workdir).ok()?,
            terminal: body.terminal,
            umask: body.umask,
            bounds: body.bounds,
        })
    }
}

fn joined(place: &[u8], program: &[u8]) -> Option<CString> {
    let mut path = Vec::with_capacity(place.len() + program.len() + 1);
    path.extend_from_slice(place);
    if !place.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(program);
    CString::new(path).ok()
}

/// The child's standard input, output and error.
pub(crate) struct Stdio {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// What ends a leader together with what is above it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bond {
    /// The death of this process, its parent: a belt besides the subreaper.
    Parent(Pid),
    /// That of the init of its PID namespace, which it is to see in `/proc`.
    Namespace,
}

/// Becomes the command, or tells why not and ends.
pub(crate) fn become_command(
    program: &Program,
    stdio: &Stdio,
    leaf_to_enter: Option<&Leaf>,
    limited: &Limited,
    bond: Bond,
    failure: OwnedFd,
) -> ! {
    let (stage, errno) = match prepare(program, stdio, leaf_to_enter, limited, bond) {
        Ok(()) => (Stage::Exec, execute(program)),
        Err(failed) => failed,
    };
    let mut report = [stage.to_byte(); 5];
    report[1..].copy_from_slice(&(errno as i32).to_ne_bytes());
    let _ = std::fs::File::from(failure).write_all(&report);
    sys::exit_now(127)
}

/// What a report of [`become_command`] says.
pub(crate) fn parse_failure(report: &[u8]) -> Option<(Stage, i32)> {
    let (stage, errno) = report.split_first()?;
    Some((Stage::from_byte(*stage), i32::from_ne_bytes(errno.try_into().ok()?)))
}

fn prepare(
    program: &Program,
    stdio: &Stdio,
    leaf_to_enter: Option<&Leaf>,
    limited: &Limited,
    bond: Bond,
) -> Result<(), (Stage, Errno)> {
    let around = |errno| (Stage::Prepare, errno);
    // Before anything of the command can run: not one of its forks is outside.
    if let Some(leaf) = leaf_to_enter {
        leaf.enter().map_err(around)?;
    }
    limited.enter().map_err(|errno| (Stage::Limits, errno))?;
    setsid().map_err(around)?;
    match bond {
        // Cleared by exec of a setuid program and not inherited by forks.
        Bond::Parent(shim) => {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(around)?;
            if getppid().as_raw() != shim {
                return Err(around(Errno::ESRCH));
            }
        }
        Bond::Namespace => namespace::mount_proc().map_err(|refused| (Stage::Namespace, refused.errno))?,
    }
    dup2_stdin(stdio.stdin.as_fd()).map_err(around)?;
    dup2_stdout(stdio.stdout.as_fd()).map_err(around)?;
    dup2_stderr(stdio.stderr.as_fd()).map_err(around)?;
    if program.terminal {
        sys::take_terminal().map_err(around)?;
    }
    // Ours are all close-on-exec by birth; this is for what a program that embeds us may have leaked.
    sys::cloexec_from(3);
    program.bounds.set_own()?;
    if let Some(mask) = program.umask {
        sys::set_umask(mask);
    }
    chdir(program.workdir.as_c_str()).map_err(|errno| (Stage::Workdir, errno))?;
    crate::guardian::restore_signals();
    sys::set_signal_mask(&SigSet::empty()).map_err(around)?;
    program.bounds.give_up_privileges()
}

/// Tries each candidate as `execvp(3)` does. A file that the kernel does not take for a program is an error and never
/// handed to a shell: an argument vector never meets one.
fn execute(program: &Program) -> Errno {
    let argv = CArray::new(program.argv.iter().map(CString::as_c_str));
    let env = CArray::new(program.env.iter().map(CString::as_c_str));
    let mut denied = false;
    for candidate in &program.candidates {
        match sys::exec(candidate, &argv, &env) {
            // Unlike execvp(3), a directory of PATH that this user may not search is no program that may not run.
            Errno::EACCES => denied |= !program.searched || is_there(candidate),
            // A script whose interpreter is missing is found and still ENOENT.
            Errno::ENOENT if is_there(candidate) => return Errno::ENOEXEC,
            Errno::ENOENT | Errno::ENOTDIR | Errno::ENODEV | Errno::ESTALE | Errno::ETIMEDOUT => {}
            errno => return errno,
        }
        if !program.searched {
            break;
        }
    }
    if denied { Errno::EACCES } else { Errno::ENOENT }
}

fn is_there(path: &CStr) -> bool {
    access(path, AccessFlags::F_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(program: &str, path: &str, expect: &[&str]) {
        let body = StartBody {
            program: program.into(),
            argv: vec![program.into()],
            env: Vec::new(),
            path: path.into(),
            workdir: b"/".to_vec(),
            terminal: false,
            umask: None,
            bounds: Bounds::default(),
        };
        let found: Vec<_> =
            Program::new(body).unwrap().candidates.iter().map(|c| c.to_str().unwrap().to_owned()).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn programs_are_looked_for_in_the_childs_path_as_execvp_does() {
        check("ls", "/bin:/usr/bin", &["/bin/ls", "/usr/bin/ls"]);
        check("ls", "/bin::/x/", &["/bin/ls", "ls", "/x//ls"]);
        check("./ls", "/bin", &["./ls"]);
        check("/opt/ls", "/bin", &["/opt/ls"]);
        check("", "/bin", &[""]);
    }

    #[test]
    fn a_failure_report_reads_back() {
        let mut report = [Stage::Workdir.to_byte(); 5];
        report[1..].copy_from_slice(&2_i32.to_ne_bytes());
        assert_eq!(parse_failure(&report), Some((Stage::Workdir, 2)));
        assert_eq!(parse_failure(&report[..3]), None);
        assert_eq!(parse_failure(&[]), None);
    }
}
