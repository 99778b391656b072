//! A file system of one's own: small, in memory, gone with the process.
//!
//! Not for hiding anything: it is only out of the way of others.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};

/// Where it is mounted, in the namespace of this process alone. Any directory that is always there will do.
const PLACE: &str = "/tmp";
/// How large it is.
pub(crate) const SIZE: u64 = 1 << 20;

/// Moves this process, which must have one thread, to where it may mount, and mounts; false, with the reason on stderr,
/// where that is not allowed.
pub(crate) fn enter() -> bool {
    let entered =
        unshare(CloneFlags::CLONE_NEWNS).map_err(io::Error::from).or_else(|_| enter_as_another_user());
    let mounted = entered.and_then(|()| {
        // Nothing that is mounted from here on is seen elsewhere.
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
        mount(Some("tmpfs"), PLACE, Some("tmpfs"), MsFlags::empty(), Some(format!("size={SIZE}").as_str()))?;
        Ok(())
    });
    if let Err(error) = &mounted {
        eprintln!("no file system of one's own: {error}");
    }
    mounted.is_ok()
}

/// Who may not mount may do so as the root of a user namespace (`user_namespaces(7)`).
fn enter_as_another_user() -> io::Result<()> {
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

pub(crate) fn path() -> PathBuf {
    PathBuf::from(PLACE)
}

fn filler() -> PathBuf {
    Path::new(PLACE).join("filler")
}

/// Takes all space but so many bytes.
pub(crate) fn fill_but(left: u64) {
    free();
    let file = File::create(filler()).unwrap();
    let page = [1; 4096];
    let mut len = 0;
    // Bounded by the size of the file system.
    while len + 4096 + left <= SIZE && file.write_all_at(&page, len).is_ok() {
        len += 4096;
    }
    if left == 0 {
        while file.write_all_at(&page, len).is_ok() {
            len += 4096;
        }
    }
}

/// Gives the space back.
pub(crate) fn free() {
    let _ = fs::remove_file(filler());
}

/// Makes it read-only, or writable again.
pub(crate) fn set_read_only(read_only: bool) {
    let flags = if read_only { MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY } else { MsFlags::MS_REMOUNT };
    mount(None::<&str>, PLACE, None::<&str>, flags, Some(format!("size={SIZE}").as_str())).unwrap();
}
