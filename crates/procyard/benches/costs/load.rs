//! How busy the machine is with other things.
//!
//! Not for correcting figures: it is reported beside them, for whoever reads them.

use std::time::{Duration, Instant};

use anyhow::Context as _;

/// How long one look takes.
const LOOK: Duration = Duration::from_millis(500);

/// The share of processor time in use below which the machine counts as idle.
const IDLE: f64 = 0.05;

/// Waits, at most `patience`, for the machine to be idle; the share of its processor time that was in use at the end.
pub(crate) fn settle(patience: Duration) -> anyhow::Result<f64> {
    let deadline = Instant::now() + patience;
    loop {
        let busy = look()?;
        if busy < IDLE || Instant::now() >= deadline {
            return Ok(busy);
        }
    }
}

fn look() -> anyhow::Result<f64> {
    let (busy_before, all_before) = times()?;
    std::thread::sleep(LOOK);
    let (busy, all) = times()?;
    Ok((busy - busy_before) / (all - all_before).max(1.0))
}

/// Ticks in use and ticks altogether, of all processors (`proc_stat(5)`).
fn times() -> anyhow::Result<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("/proc/stat is empty")?;
    let ticks: Vec<f64> =
        line.split_ascii_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let all: f64 = ticks.iter().take(8).sum();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    Ok((all - idle, all))
}
