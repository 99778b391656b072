//! Where a program that embeds this crate turns into a guardian.
//!
//! Not for starting one: see [`crate::HostRunner::start`].

/// The first argument that makes a program a guardian. Not for people.
#[cfg(target_os = "linux")]
pub(crate) const GUARDIAN_ARGUMENT: &str = "--procyard-guardian";

/// Lets a write beyond a file size limit (`RLIMIT_FSIZE`, `ulimit -f`) fail with an error, as it does on a full disk, where
/// otherwise the kernel ends the program (SIGXFSZ, setrlimit(2)). For programs that keep what others print; the commands
/// that a runner starts have the default again.
pub fn survive_file_size_limit() {
    #[cfg(target_os = "linux")]
    crate::sys::set_disposition(libc::SIGXFSZ, true);
}

/// Raises the soft limit of open descriptors (`RLIMIT_NOFILE`, `ulimit -n`) to the hard one, for programs that hold many
/// connections and commands. Commands that a runner starts get the limit back that was there before: a program that uses
/// select(2) must not be given a descriptor above 1,023. Call it before the first runner is started.
pub fn use_all_descriptors() {
    #[cfg(target_os = "linux")]
    crate::descriptors::raise();
}

/// Keeps the memory of a program that runs for months near to what it uses: with the C library's defaults each of many
/// threads allocates from a place of its own, up to eight for each processor core, and none of them gives back what it once
/// took as long as anything in it is in use. Two are enough for what moves bytes and waits. What a person has set
/// (`MALLOC_ARENA_MAX`, `GLIBC_TUNABLES`) is left as it is. Call it before there are threads; nothing happens where the C
/// library is not glibc (`M_ARENA_MAX`, mallopt(3)).
pub fn bound_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"].iter().all(|name| std::env::var_os(name).is_none()) {
        crate::sys::bound_arenas(2);
    }
}

/// Must be called first in `main`, before threads, files and argument parsing, by every program that starts a
/// [`HostRunner`](crate::HostRunner) with [`GuardianProgram::CurrentExe`](crate::GuardianProgram::CurrentExe). Does nothing
/// in an ordinary run; in a process that was started as a guardian it never returns.
///
/// ```
/// procyard_host::enter();
/// // The program itself.
/// ```
pub fn enter() {
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|argument| argument == GUARDIAN_ARGUMENT) {
        crate::guardian::run();
    }
}
