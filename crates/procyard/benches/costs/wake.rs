//! `wake`: from the write of a child to the moment at which whoever waits for output has it.
//!
//! Not for throughput: the child writes a line, rests, writes the next.

use std::io::Read as _;
use std::process::{Command, Stdio};

use procyard_core::{Handle, LimitSettings};
use procyard_host::TierChoice;
use procyard_supervisor::{ReadFrom, ReadRequest, StreamFilter, Target, Until, WaitMode};

use crate::child::{self, STAMP, monotonic};
use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{PATIENCE, Place, Scene};
use crate::spread::Spread;

const ROUNDS: usize = 9;
/// Writes of a child in a round, whose sample is their median.
const WRITES: u32 = 300;

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let scene = Scene::open(place, TierChoice::Strongest, LimitSettings::default()).await?;
    let argv = child::ticker(WRITES)?;
    let (mut woken, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let ticking = argv.clone();
        raw.push(tokio::task::spawn_blocking(move || raw_reads(&ticking)).await??);
        let handle = scene.start(&argv).await?;
        let (supervisor, owner) = (scene.supervisor.clone(), scene.owner);
        // A task, as servers have it, not the thread that runs the runtime.
        let waiting = tokio::spawn(async move { waits(&supervisor, owner, handle).await });
        woken.push(waiting.await??);
        scene.exited(handle).await?;
    }
    scene.close().await?;
    let figure = Figure::ratio("written to had by the waiter", Unit::Seconds, &woken, "raw read", &raw);
    let work = format!("a line, then a rest, {ROUNDS} rounds of {WRITES}");
    Ok(Report::new("wake", work, vec![figure.must(Must::AtMost(2.0))]))
}

async fn waits(
    supervisor: &procyard_supervisor::Supervisor,
    owner: procyard_core::Owner,
    handle: Handle,
) -> anyhow::Result<f64> {
    let (mut cursor, mut took) = (0, Vec::new());
    loop {
        let target = Target { handle, cursor, probe: None };
        supervisor.wait(owner, WaitMode::Any, Until::Probe, vec![target], PATIENCE).await?;
        let request = ReadRequest {
            from: ReadFrom::Cursor(cursor),
            max_bytes: 64 * STAMP,
            streams: StreamFilter::Both,
        };
        let (page, snapshot) = supervisor.read(owner, &handle, request).await?;
        let now = monotonic()?;
        cursor = page.next_cursor;
        took.extend(since(&page.bytes, now));
        if snapshot.state.is_terminal() && cursor == snapshot.total_bytes {
            return Ok(Spread::of(&took).median);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the baseline is a bare process and its pipe")]
fn raw_reads(argv: &[String]) -> anyhow::Result<f64> {
    let mut child = Command::new(&argv[0]).args(&argv[1..]).stdout(Stdio::piped()).spawn()?;
    let mut took = Vec::new();
    if let Some(output) = &mut child.stdout {
        let mut buffer = [0; 64 * STAMP];
        loop {
            let count = output.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            let now = monotonic()?;
            took.extend(since(&buffer[..count], now));
        }
    }
    child.wait()?;
    Ok(Spread::of(&took).median)
}

/// Seconds since each of the stamps.
fn since(stamps: &[u8], now: u64) -> Vec<f64> {
    let at = |stamp: &[u8]| std::str::from_utf8(stamp).ok()?.trim().parse::<u64>().ok();
    stamps.chunks_exact(STAMP).filter_map(at).map(|at| now.saturating_sub(at) as f64 / 1e9).collect()
}
