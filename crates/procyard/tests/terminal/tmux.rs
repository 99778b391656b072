//! A terminal with a person at it: a window of a tmux server of its own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::running::Running;
use crate::scene::{Scene, eventually};

/// Whether there is this program here.
pub(crate) fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|directory| directory.join(program).is_file())
}

/// The window. Its server ends with it.
pub(crate) struct Window<'s> {
    scene: &'s Scene,
    /// Its own: the server of the window before may still be on its way out.
    socket: PathBuf,
}

/// How many windows there were.
static WINDOWS: AtomicUsize = AtomicUsize::new(0);

impl<'s> Window<'s> {
    /// A window of 24 rows and 80 columns that runs this shell line, and stays when it has ended.
    #[track_caller]
    pub(crate) fn open(scene: &'s Scene, line: &str) -> Self {
        Self::open_of(scene, 24, 80, line)
    }

    /// The same, of so many rows and columns.
    #[track_caller]
    pub(crate) fn open_of(scene: &'s Scene, rows: u16, cols: u16, line: &str) -> Self {
        let number = WINDOWS.fetch_add(1, Ordering::Relaxed);
        let window = Self { scene, socket: scene.path().join(format!("tmux-{number}")) };
        let (rows, cols) = (rows.to_string(), cols.to_string());
        let options = ["-f", "/dev/null", "new-session", "-d", "-x", &cols, "-y", &rows];
        let mut command = window.tmux();
        // A pane that is gone could not be looked at.
        command.args(options).arg(format!("{line}; echo [left $?]; exec sleep 1000"));
        assert_eq!(Running::spawn(&mut command).wait().code(), 0);
        window
    }

    fn tmux(&self) -> Command {
        let mut command = self.scene.command("tmux");
        // Its socket is in the scene's place, whatever the tests' own starter is in.
        command.arg("-S").arg(&self.socket).env_remove("TMUX").env("TERM", "xterm-256color");
        command
    }

    /// Types keys, as tmux names them.
    #[track_caller]
    pub(crate) fn keys(&self, keys: &[&str]) {
        let mut command = self.tmux();
        assert_eq!(Running::spawn(command.arg("send-keys").args(keys)).wait().code(), 0);
    }

    #[track_caller]
    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        let (rows, cols) = (rows.to_string(), cols.to_string());
        let mut command = self.tmux();
        command.args(["resize-window", "-x", &cols, "-y", &rows]);
        assert_eq!(Running::spawn(&mut command).wait().code(), 0);
    }

    /// What the person sees.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        Running::spawn(self.tmux().args(["capture-pane", "-p"])).wait().stdout()
    }

    /// The same with colours and other attributes, as escape sequences.
    #[track_caller]
    pub(crate) fn text_with_colours(&self) -> String {
        Running::spawn(self.tmux().args(["capture-pane", "-p", "-e"])).wait().stdout()
    }

    /// Whether a full-screen program has the window.
    #[track_caller]
    pub(crate) fn is_on_the_alternate_screen(&self) -> bool {
        let mut command = self.tmux();
        command.args(["display-message", "-p", "#{alternate_on}"]);
        Running::spawn(&mut command).wait().stdout().trim() == "1"
    }

    /// Whether the cursor is hidden.
    #[track_caller]
    pub(crate) fn cursor_is_hidden(&self) -> bool {
        let mut command = self.tmux();
        command.args(["display-message", "-p", "#{cursor_flag}"]);
        Running::spawn(&mut command).wait().stdout().trim() == "0"
    }

    /// Waits until the person sees this.
    #[track_caller]
    pub(crate) fn wait_for(&self, wanted: &str) -> String {
        eventually(wanted, || Some(self.text()).filter(|text| text.contains(wanted)))
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let _ = Running::spawn(self.tmux().arg("kill-server")).wait();
    }
}
