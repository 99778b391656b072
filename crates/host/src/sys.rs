//! The system calls that have no safe wrapper fit for a process between `fork` and `exec`, and what the C library has for its
//! allocator: all of the crate's `unsafe` is here, but for calls of what here is unsafe to call, which are the forks and the
//! guardian's taking over of its standard input.
//!
//! Not for policy: which process is forked, signalled or waited for is decided by the callers.

#![expect(
    unsafe_code,
    reason = "fork, clone3, execve, waitpid, pidfds and mallopt; each block says why it is sound"
)]

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::SigSet;

/// A process number. Only ever used while something holds it: a parent that has not reaped it, or a pidfd.
pub(crate) type Pid = libc::pid_t;

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Parent(Pid),
    Child,
}

/// Forks.
///
/// # Safety
/// The calling process has one thread, so that the child owns every lock (the allocator's too) and may run any
/// code.
pub(crate) unsafe fn fork() -> Result<Side, Errno> {
    // SAFETY: the caller has one thread.
    let pid = Errno::result(unsafe { libc::fork() })?;
    Ok(if pid == 0 { Side::Child } else { Side::Parent(pid) })
}

/// The first version of `struct clone_args` that can name a cgroup (`clone3(2)`, `CLONE_ARGS_SIZE_VER2`).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks a child that is a member of `cgroup` from its first instruction (Linux 5.7).
///
/// # Safety
/// As for [`fork`]; besides, the child only prepares and calls `execve` or `_exit`, because the C library is not
/// told of this fork and still caches the parent's thread id.
pub(crate) unsafe fn fork_into(cgroup: BorrowedFd<'_>) -> Result<Side, Errno> {
    let args = CloneArgs {
        flags: CLONE_INTO_CGROUP,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: u64::try_from(cgroup.as_raw_fd()).map_err(|_| Errno::EBADF)?,
        ..CloneArgs::default()
    };
    // SAFETY: `args` is a valid clone_args of the size that is passed; without CLONE_VM and with no stack the child
    // runs on a copy of this stack, as after fork. The caller has one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    let pid = Errno::result(pid)?;
    Ok(if pid == 0 { Side::Child } else { Side::Parent(Pid::try_from(pid).map_err(|_| Errno::EOVERFLOW)?) })
}

/// Bounds the number of places that threads allocate from, which glibc calls arenas (`mallopt(3)`).
#[cfg(target_env = "gnu")]
pub(crate) fn bound_arenas(most: i32) {
    // SAFETY: no memory is passed; glibc takes its own lock. It cannot fail for a positive number.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, most) };
}

/// What `waitpid` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// A child, now released, and its raw wait status.
    Child(Pid, i32),
    /// There are children, and none has ended.
    NoneEnded,
    /// There is no child of any kind.
    Childless,
}

/// Collects one ended child, of any kind (`__WALL`: also one that was cloned without SIGCHLD). Never blocks.
pub(crate) fn reap() -> Reaped {
    reap_pid(-1)
}

/// As [`reap`], for one child.
pub(crate) fn reap_pid(pid: Pid) -> Reaped {
    reap_with(pid, 0, &mut |_| {})
}

/// As [`reap`]; children that somebody stopped are told to `stopped`, once for each stop.
pub(crate) fn reap_and_see_stopped(stopped: &mut dyn FnMut(Pid)) -> Reaped {
    reap_with(-1, libc::WUNTRACED, stopped)
}

fn reap_with(pid: Pid, options: i32, stopped: &mut dyn FnMut(Pid)) -> Reaped {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for writing during the call.
        let found = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::__WALL | options) };
        match Errno::result(found) {
            Ok(0) => return Reaped::NoneEnded,
            Ok(pid) if libc::WIFSTOPPED(status) => stopped(pid),
            Ok(pid) => return Reaped::Child(pid, status),
            Err(Errno::ECHILD) => return Reaped::Childless,
            // EINVAL cannot be: the options are those of waitpid(2).
            Err(_) => {}
        }
    }
}

/// Waits for one child of ours to end.
pub(crate) fn wait_for(pid: Pid) -> Result<i32, Errno> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for writing during the call.
        match Errno::result(unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) }) {
            Err(Errno::EINTR) => {}
            found => return found.map(|_| status),
        }
    }
}

/// Holds the process that has this number now, so that it can be told apart from a later one (Linux 5.3).
pub(crate) fn pidfd_open(pid: Pid) -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is passed.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel just made this descriptor, close-on-exec, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Signals the process that `pidfd` holds; 0 asks whether it is still unreaped.
pub(crate) fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo is allowed, and then the kernel fills one as for kill(2).
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, no_info, 0) };
    Errno::result(sent).map(drop)
}

/// Signals an unreaped child of ours.
pub(crate) fn signal_child(child: Pid, signal: i32) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    Errno::result(unsafe { libc::kill(child, signal) }).map(drop)
}

/// Signals the process group of an unreaped child of ours that leads it.
pub(crate) fn signal_group_of_child(leader: Pid, signal: i32) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    Errno::result(unsafe { libc::killpg(leader, signal) }).map(drop)
}

/// Sets what a signal does to the default, or to being ignored. KILL and STOP stay what they are.
pub(crate) fn set_disposition(signal: i32, ignored: bool) {
    // SAFETY: SIG_DFL and SIG_IGN are no code of ours.
    let set = unsafe { libc::signal(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL }) };
    if set == libc::SIG_ERR && !ignored {
        // The C library keeps two signals to itself, which may yet have come ignored from whoever started us.
        let default = [0_u64; 4];
        // SAFETY: to the kernel a struct sigaction of zeros is SIG_DFL without flags; none is longer than this
        // with the mask size of 8.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const default, std::ptr::null_mut::<u64>(), 8)
        };
    }
}

/// The highest signal number.
pub(crate) fn last_signal() -> i32 {
    libc::SIGRTMAX()
}

/// Makes `mask` the thread's signal mask.
pub(crate) fn set_signal_mask(mask: &SigSet) -> Result<(), Errno> {
    mask.thread_set_mask()
}

/// Closes every descriptor from `first` on.
///
/// # Safety
/// Nothing in this process owns any of them.
pub(crate) unsafe fn close_from(first: u32) {
    // SAFETY: no memory is passed; the caller owns none of the descriptors.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if closed == 0 {
        return;
    }
    // Linux before 5.9.
    // SAFETY: no memory is passed.
    let limit = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    for fd in i64::from(first)..limit.clamp(1024, 1 << 20) {
        if let Ok(fd) = i32::try_from(fd) {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        }
    }
}

/// Marks every descriptor from `first` on close-on-exec; a no-op before Linux 5.11, where ours already are.
pub(crate) fn cloexec_from(first: u32) {
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
    // SAFETY: no memory is passed, nothing is closed.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOSE_RANGE_CLOEXEC) };
}

/// Takes over a descriptor by its number.
///
/// # Safety
/// It is open, and nothing else owns it.
pub(crate) unsafe fn own(fd: i32) -> OwnedFd {
    // SAFETY: by contract of the caller.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A null-terminated array of pointers to C strings, as `execve` wants it.
pub(crate) struct CArray<'a> {
    pointers: Vec<*const libc::c_char>,
    strings: std::marker::PhantomData<&'a CStr>,
}

impl<'a> CArray<'a> {
    pub(crate) fn new(strings: impl Iterator<Item = &'a CStr>) -> Self {
        let pointers = strings.map(CStr::as_ptr).chain(std::iter::once(std::ptr::null())).collect();
        Self { pointers, strings: std::marker::PhantomData }
    }
}

/// Executes `path`; comes back only with why it could not.
pub(crate) fn exec(path: &CStr, argv: &CArray<'_>, env: &CArray<'_>) -> Errno {
    // SAFETY: both arrays end with a null pointer and their strings outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.pointers.as_ptr(), env.pointers.as_ptr()) };
    Errno::last()
}

/// Ends this process at once: no destructors, no exit handlers, which belong to the process it was forked from.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit does not return and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Ends the process when it is dropped: the frames below it are copies of those of the process it was forked from, and a
/// panic must not unwind into them.
pub(crate) struct EndOnUnwind;

impl Drop for EndOnUnwind {
    fn drop(&mut self) {
        exit_now(101);
    }
}

/// Sets the CPU niceness of this process.
pub(crate) fn set_niceness(nice: i32) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }).map(drop)
}

/// Whether a file has this extended attribute with the value `1`.
pub(crate) fn is_marked(file: &Path, attribute: &CStr) -> bool {
    let Ok(file) = CString::new(file.as_os_str().as_bytes()) else { return false };
    let mut value = [0_u8; 2];
    // SAFETY: both names are C strings, and at most the length of `value` is written to it.
    let length =
        unsafe { libc::getxattr(file.as_ptr(), attribute.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    length == 1 && value[0] == b'1'
}

/// Sets the file mode creation mask of this process.
pub(crate) fn set_umask(mask: u32) {
    // SAFETY: umask always succeeds and passes no memory.
    unsafe { libc::umask(mask & 0o777) };
}

/// Takes over a descriptor that came with a message.
pub(crate) fn own_received(fd: i32) -> OwnedFd {
    // SAFETY: called for numbers that recvmsg(2) just made for this process, each once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Registers a descriptor with the runtime's reactor.
pub(crate) fn watched(
    fd: OwnedFd,
    interest: tokio::io::Interest,
) -> std::io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd stays open and the same for as long as it exists, and it moves in.
    unsafe { tokio::io::unix::AsyncFd::register_with_interest(fd, interest) }.map_err(Into::into)
}

/// Opens the other side of a pseudo-terminal without looking for its path (`TIOCGPTPEER`, Linux 4.13).
pub(crate) fn open_terminal_peer(master: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the argument of this request is a number, no pointer.
    let fd = Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) })?;
    // SAFETY: the kernel just made this descriptor, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a terminal's size in characters.
pub(crate) fn set_terminal_size(terminal: BorrowedFd<'_>, rows: u16, cols: u16) -> Result<(), Errno> {
    let size = libc::winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request reads one winsize.
    Errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }).map(drop)
}

/// Signals the foreground process group of the terminal whose master this is.
pub(crate) fn signal_terminal(master: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    // SAFETY: the argument of this request is a number, no pointer.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSIG, signal) }).map(drop)
}

/// Makes standard input the controlling terminal of this session leader.
pub(crate) fn take_terminal() -> Result<(), Errno> {
    // SAFETY: the argument of this request is a number, no pointer.
    Errno::result(unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) }).map(drop)
}
