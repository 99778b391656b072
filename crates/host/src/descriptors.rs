//! How many descriptors this program may have open, and that its commands do not notice.
//!
//! Whoever serves many sessions has many open. The soft limit of 1024 that programs are commonly started with is the most
//! that `select(2)` takes, so a program that does not use it raises its own to the hard limit, and what it starts gets
//! back what it was started with. Not for the hard limit, which stays what it is.

use std::io;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The soft limit that this program was started with, once it is raised.
static ORIGINAL: OnceLock<u64> = OnceLock::new();

/// Raises the soft limit to the hard one.
pub(crate) fn raise() -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        // The first is the original; one that is set by hand in between is nobody's to give back.
        let _ = ORIGINAL.set(soft);
    }
    Ok(())
}

/// What commands get back; nothing where nothing was raised.
pub(crate) fn original() -> Option<u64> {
    ORIGINAL.get().copied()
}

/// Lowers the soft limit of this process again, in a leader.
pub(crate) fn lower(soft: u64) -> Result<(), Errno> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, soft.min(hard), hard)
}
