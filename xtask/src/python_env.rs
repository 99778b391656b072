//! Python environments below `target/`, each with one pinned package, for checks with programs that others wrote.
//!
//! An environment that has its version already is left as it is. Not needed to build or to use procyard.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::command;

/// A package from the Python package index in an environment of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package {
    /// The folder below `target/`.
    pub(crate) folder: &'static str,
    /// Its name in the index.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Package {
    /// Makes the environment unless it is there, and gives the path of its Python.
    ///
    /// A half-made environment or another version is replaced. Needs `python3` with `venv`, and network
    /// access when there is something to install.
    pub(crate) fn ensure(self) -> anyhow::Result<PathBuf> {
        let environment = command::root().join("target").join(self.folder);
        let python = environment.join("bin").join("python");
        if self.is_in(&python) {
            return Ok(python);
        }
        command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))
            .with_context(|| format!("{} needs python3 with its venv module; install both", self.name))?;
        command::run(
            Command::new(&python)
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .arg(format!("{}=={}", self.name, self.version)),
        )
        .with_context(|| {
            format!("{} could not be installed; it comes from the Python package index", self.name)
        })?;
        Ok(python)
    }

    fn is_in(self, python: &Path) -> bool {
        // As Python's own package metadata has it.
        let ask = format!("import importlib.metadata as m; print(m.version('{}'))", self.name);
        command::answer(Command::new(python).args(["-c", &ask])).is_ok_and(|version| version == self.version)
    }
}
