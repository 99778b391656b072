//! Processes that recorded themselves: looked for by number and start time, never by name.
//!
//! Not for asking the service: it would say what it believes.

use std::path::Path;
use std::time::{Duration, Instant};

/// Within this long after the sudden death of a service nothing that it started lives.
pub(crate) const LIFELINE: Duration = Duration::from_secs(1);

/// Shell text by which a process appends its own `/proc/self/stat` line to the file `pids`.
pub(crate) const RECORD: &str = r#"read -r line </proc/self/stat; echo "$line" >>pids"#;

/// Number and start time.
type Identity = (i32, u64);

/// From a line of `/proc/<pid>/stat`, with its state.
fn parse(line: &str) -> Option<(Identity, char)> {
    let (pid, rest) = line.split_once(' ')?;
    let fields: Vec<_> = rest.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(((pid.parse().ok()?, fields.get(19)?.parse().ok()?), fields.first()?.chars().next()?))
}

fn lives(process: Identity) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", process.0)).unwrap_or_default();
    parse(line.trim_end()).is_some_and(|(now, state)| now == process && !matches!(state, 'Z' | 'X'))
}

fn recorded(place: &Path) -> Vec<Identity> {
    let text = std::fs::read_to_string(place.join("pids")).unwrap_or_default();
    // A line whose writer was killed in the middle is of one that was killed.
    text.lines().filter_map(|line| Some(parse(line)?.0)).collect()
}

/// Waits until none of the recorded processes lives; how many there were. Fails after `within`.
pub(crate) async fn gone(place: &Path, within: Duration) -> usize {
    let began = Instant::now();
    let recorded = recorded(place);
    loop {
        let survivors: Vec<_> = recorded.iter().filter(|process| lives(**process)).collect();
        if survivors.is_empty() {
            return recorded.len();
        }
        assert!(began.elapsed() <= within, "after {within:?} there are {survivors:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
