//! What an earlier supervisor, its guardian and its shims left in our cgroups when all of them were killed at once.
//!
//! Taken only when it is ours (the directory's owner) and unowned: a guardian and each of its shims hold a lock on their
//! base directory, so a lock that can be had says that nobody is left to end what lives there.
//!
//! Not for trees that somebody still owns, and not for anything outside of cgroups.

use std::path::Path;
use std::time::Duration;

use crate::cgroup::{Base, PREFIX};

/// How long killed members may take to leave.
const PATIENCE: u32 = 200;

/// Ends and removes abandoned bases below `own`.
pub(crate) fn sweep(own: &Path) {
    for entry in std::fs::read_dir(own).into_iter().flatten().flatten() {
        let abandoned = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if let Some(base) = abandoned.then(|| Base::adopt(entry.path())).flatten() {
            end(&base);
        }
    }
}

/// Ends what lives in a base that was taken over, and removes it if that succeeds soon.
pub(crate) fn end(base: &Base) {
    for _ in 0..PATIENCE {
        if base.remove().is_ok() {
            return;
        }
        if base.kill().is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
