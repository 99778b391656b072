//! Where sessions are kept.
//!
//! Not for what is in there: that is the session directory's own format.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::cli::DataDir;

impl DataDir {
    /// The directory that is named, else the one of the environment, else the user's own.
    pub(crate) fn resolve(&self) -> anyhow::Result<PathBuf> {
        if let Some(named) = &self.data_dir {
            return std::path::absolute(named).context("the data directory's path is not usable");
        }
        let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(named) = from("PROCYARD_DATA") {
            return std::path::absolute(named).context("PROCYARD_DATA is not usable");
        }
        // The base directory specification: a relative path there is to be ignored.
        if let Some(state) = from("XDG_STATE_HOME").filter(|path| path.is_absolute()) {
            return Ok(state.join("procyard"));
        }
        match from("HOME").filter(|path| path.is_absolute()) {
            Some(home) => Ok(home.join(".local/state/procyard")),
            None => bail!("there is no HOME to keep sessions in; name a directory with --data-dir"),
        }
    }
}

/// Whether others than its user can write to the directory: they could put a socket of their own in the place of a
/// service's. One that is not there is nobody's yet. Blocking.
pub(crate) fn others_can_write(data_dir: &Path) -> bool {
    data_dir.metadata().is_ok_and(|found| found.mode() & 0o022 != 0)
}
