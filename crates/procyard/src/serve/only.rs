//! The data directory of a service, and the lock that says that there is one service on it.
//!
//! Not for what is in there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use procyard_core::ErrorCode;

use crate::data_dir::others_can_write;
use crate::problem::refused;

const LOCK: &str = "service.lock";

/// Makes the data directory, private, and takes its lock: two services would take each other's sessions.
pub(super) fn one_service_on(data_dir: &Path) -> anyhow::Result<Flock<File>> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .with_context(|| format!("the data directory {} cannot be made", data_dir.display()))?;
    anyhow::ensure!(
        !others_can_write(data_dir),
        "others can write to the data directory {}; take that away (chmod go-w)",
        data_dir.display()
    );
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(data_dir.join(LOCK));
    let file =
        file.with_context(|| format!("the data directory {} cannot be written", data_dir.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((_, Errno::EWOULDBLOCK)) => Err(refused(
            ErrorCode::Conflict,
            format!(
                "a service runs on {} already; stop it, or name another directory with --data-dir",
                data_dir.display()
            ),
        )),
        Err((_, error)) => Err(error).context("the data directory cannot be locked"),
    }
}
