//! What a command gives up before it begins, and nothing below it gets back: new privileges by set-user-ID programs, and
//! signals to processes outside its tree.
//!
//! A Landlock domain with a signal scope (`Documentation/userspace-api/landlock.rst`, ABI 6, Linux 6.12) and nothing else: no
//! file or network access is handled. Signals into the domain, from shim, guardian and supervisor, are not its concern.
//!
//! Not for files: a command writes what its user may.

use std::error::Error;
use std::io;

use landlock::{
    CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;

use crate::limits::errno_of;

fn scope() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement).scope(Scope::Signal)?.create()
}

/// Whether the kernel has signal scopes, or why not.
pub(crate) fn can_scope_signals() -> Result<(), String> {
    scope().map(drop).map_err(|error| {
        format!("signals cannot be scoped (that takes Linux 6.12 with Landlock in use): {error}")
    })
}

/// Gives up, for the calling process, which has one thread, and all its descendants. A scope takes `no_new_privs` with it:
/// the kernel wants that of users without privileges, and so it is the same for all.
pub(crate) fn give_up(new_privileges: bool, foreign_signals: bool) -> Result<(), Errno> {
    if new_privileges || foreign_signals {
        nix::sys::prctl::set_no_new_privs()?;
    }
    if foreign_signals {
        let domain = scope().and_then(|scope| scope.no_new_privs(false).restrict_self());
        domain.map_err(|error| errno_behind(&error))?;
    }
    Ok(())
}

fn errno_behind(error: &(dyn Error + 'static)) -> Errno {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return errno_of(error);
        }
        cause = error.source();
    }
    Errno::EIO
}
