//! The place of one test: a data directory, a directory to work in, and a record of the processes that were there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::recorded::{RECORD, Recorded, STAY};
use crate::running::{Ended, Running};

/// Longer than anything here takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Within this long after procyard's sudden death nothing that it started lives.
pub(crate) const LIFELINE: Duration = Duration::from_secs(1);

/// The program under test.
pub(crate) const PROCYARD: &str = env!("CARGO_BIN_EXE_procyard");

/// A directory of its own for one test.
pub(crate) struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("pids"), "").unwrap();
        Self { directory }
    }

    /// The directory that commands work in.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path().join("data")
    }

    /// A command of procyard's with these arguments.
    pub(crate) fn procyard<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(PROCYARD);
        command.args(arguments);
        command
    }

    /// The same, with no signal ignored, as the tests' own starter may have left them: that would be inherited.
    pub(crate) fn procyard_heeding_signals<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = self.command("env");
        command.args(["--default-signal", PROCYARD]).args(arguments);
        command
    }

    /// A command of any program, with the environment that the tests' shell texts use.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("PROCYARD_DATA", self.data_dir())
            // No configuration of whoever runs the tests.
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env("PROCYARD", PROCYARD)
            .env("PIDS", self.path().join("pids"))
            .env("RECORD", RECORD)
            .env("STAY", STAY)
            .env_remove("PROCYARD_LOG");
        command
    }

    /// Runs `procyard run` with these arguments and nothing on its standard input.
    #[track_caller]
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ended {
        let mut command = self.procyard(["run"]);
        Running::spawn(command.args(arguments)).wait()
    }

    pub(crate) fn recorded(&self) -> Vec<Recorded> {
        let text = std::fs::read_to_string(self.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(Recorded::parse).map(|(recorded, _)| recorded).collect()
    }

    /// Waits until so many processes have recorded themselves.
    #[track_caller]
    pub(crate) fn wait_for_records(&self, at_least: usize) -> Vec<Recorded> {
        eventually("processes record themselves", || {
            let recorded = self.recorded();
            (recorded.len() >= at_least).then_some(recorded)
        })
    }

    pub(crate) fn survivors(&self) -> Vec<Recorded> {
        let recorded = self.recorded();
        assert!(!recorded.is_empty(), "a scene without processes proves nothing");
        recorded.into_iter().filter(Recorded::is_alive).collect()
    }

    /// Fails unless every recorded process is gone, now.
    #[track_caller]
    pub(crate) fn assert_no_survivor(&self) {
        let survivors = self.survivors();
        assert!(survivors.is_empty(), "survivors: {survivors:?}");
    }

    /// Fails unless every recorded process is gone within what the lifeline promises.
    #[track_caller]
    pub(crate) fn assert_the_lifeline_holds(&self) {
        let began = Instant::now();
        while !self.survivors().is_empty() {
            assert!(began.elapsed() < LIFELINE, "after {LIFELINE:?} there are: {:?}", self.survivors());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The session directories that are there.
    pub(crate) fn sessions(&self) -> Vec<PathBuf> {
        let entries = match std::fs::read_dir(self.data_dir().join("sessions")) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => panic!("{error}"),
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Only after a failure is there anything left.
        for recorded in self.recorded() {
            recorded.signal(Signal::SIGKILL);
        }
    }
}

/// Looks again and again until there is something, and fails at the deadline.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
