//! How many descriptors this process may have open: as many as it is allowed, while its commands get the limit that it began with.
//!
//! The soft limit is often 1,024, for the sake of programs that use `select(2)`, and a service with many connections and
//! commands needs more. Not for the hard limit, which only an administrator raises.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The soft limit that this process began with, once it was raised.
static BEFORE: OnceLock<u64> = OnceLock::new();

pub(crate) fn raise() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok()
    {
        // The first time is what counts: later the limit is the raised one.
        let _ = BEFORE.set(soft);
    }
}

/// The soft limit of commands; `None` where it is this process's own.
pub(crate) fn of_commands() -> Option<u64> {
    BEFORE.get().copied()
}

/// Sets the soft limit of this process, which is about to become a command.
pub(crate) fn lower(soft: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, soft.min(hard), hard)
}
