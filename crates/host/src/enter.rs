//! Where a program that embeds this crate turns into a guardian.
//!
//! Not for starting one: see [`crate::HostRunner::start`].

/// The first argument that makes a program a guardian. Not for people.
#[cfg(target_os = "linux")]
pub(crate) const GUARDIAN_ARGUMENT: &str = "--procyard-guardian";

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
