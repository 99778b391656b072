//! Processes that recorded themselves: looked for by number and start time, never by name.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Shell text by which a process appends its own `/proc/self/stat` line to the scene's record.
pub(crate) const RECORD: &str = r#"read -r line </proc/self/stat; echo "$line" >>"$PIDS""#;

/// Shell text of a process that records itself and stays.
pub(crate) const STAY: &str = r#"eval "$RECORD"; exec sleep 1000"#;

/// Shell text that starts a descendant in a session of its own, below a parent that is gone at once.
pub(crate) const ESCAPE: &str = r#"(setsid bash -c "$STAY" </dev/null >/dev/null 2>&1 &)"#;

/// A process as it recorded itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) pid: i32,
    start: u64,
}

impl Recorded {
    /// From a line of `/proc/<pid>/stat`, with the state that it tells.
    pub(crate) fn parse(line: &str) -> Option<(Self, char)> {
        let (pid, rest) = line.split_once(' ')?;
        let fields: Vec<_> = rest.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let recorded = Self { pid: pid.parse().ok()?, start: fields.get(19)?.parse().ok()? };
        Some((recorded, fields.first()?.chars().next()?))
    }

    /// Whether this process, and not a later one of its number, still lives.
    pub(crate) fn is_alive(&self) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", self.pid))
            .ok()
            .and_then(|line| Self::parse(line.trim_end()))
            .is_some_and(|(now, state)| now == *self && !matches!(state, 'Z' | 'X'))
    }

    /// Signals this process if it is still the one that was recorded.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.is_alive() {
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }
}
