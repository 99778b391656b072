//! Where sessions are kept.
//!
//! Not for what is in there: that is the session directory's own format.

use std::path::PathBuf;

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
