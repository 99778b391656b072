//! `start`: from the call to the terminal state of `true`, whose record is then on disk.
//!
//! Not for what a tool call adds.

use std::process::{Command, Stdio};
use std::time::Instant;

use procyard_core::LimitSettings;
use procyard_host::TierChoice;
use procyard_runner::Tier;
use procyard_store::{FsDir, replace_file};

use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{Place, Scene};
use crate::spread::Spread;

const ROUNDS: usize = 20;
/// Starts of each kind in a round, which take turns; the round's sample is their median.
const STARTS: usize = 15;
/// A start saves two records that must be on disk: the first and the last one.
const DURABLE_SAVES: usize = 2;
/// About the size of a record.
const RECORD: usize = 1400;

const TRUE: &str = "/bin/true";

/// Places of the baselines among the series; those of the tiers come behind them, on disk and in memory.
const BARE: usize = 0;
const SAVES: usize = 1;
const FREE_SAVES: usize = 2;

/// The sessions of one tier.
struct Contained {
    on_disk: Scene,
    in_memory: Scene,
}

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let memory = Place::in_memory()?;
    let mut tiers = Vec::new();
    for tier in [Tier::CGROUP, Tier::SUBREAPER, Tier::PIDNS] {
        let open = |place| Scene::open(place, TierChoice::Require(tier.clone()), LimitSettings::default());
        // A tier that this machine does not have is not measured.
        if let (Ok(on_disk), Ok(in_memory)) = (open(place).await, open(&memory).await) {
            tiers.push(Contained { on_disk, in_memory });
        }
    }
    let mut series: Vec<Vec<f64>> = vec![Vec::new(); 3 + 2 * tiers.len()];
    for round in 0..=ROUNDS {
        let mut turns: Vec<Vec<f64>> = vec![Vec::new(); series.len()];
        for _ in 0..STARTS {
            turns[BARE].push(bare_start()?);
            turns[SAVES].push(durable_saves(place)?);
            turns[FREE_SAVES].push(durable_saves(&memory)?);
            for (tier, turns) in tiers.iter().zip(turns[3..].chunks_exact_mut(2)) {
                turns[0].push(start(&tier.on_disk).await?);
                turns[1].push(start(&tier.in_memory).await?);
            }
        }
        // The first round warms caches.
        if round > 0 {
            for (series, turns) in series.iter_mut().zip(&turns) {
                series.push(Spread::of(turns).median);
            }
        }
    }
    let mut contained = series.split_off(3).into_iter();
    let [bare, saves, free_saves] = [BARE, SAVES, FREE_SAVES].map(|kind| std::mem::take(&mut series[kind]));
    let syncs: Vec<f64> = saves.iter().zip(&free_saves).map(|(disk, memory)| disk - memory).collect();
    let mut figures = vec![Figure::plain("fsyncs of two records", Unit::Seconds, Spread::of(&syncs))];
    for tier in tiers {
        let name = tier.on_disk.tier();
        let (disk, memory) = (contained.next().unwrap_or_default(), contained.next().unwrap_or_default());
        let without: Vec<f64> = disk.iter().zip(&syncs).map(|(all, syncs)| all - syncs).collect();
        let bare_is = "bare spawn and wait";
        let over_bare = |what: &str, series| {
            let figure = Figure::ratio(format!("{name}: {what}"), Unit::Seconds, series, bare_is, &bare);
            // Whoever requires namespaces pays for making and ending them.
            if name == Tier::PIDNS.as_str() { figure } else { figure.must(Must::AtMost(3.0)) }
        };
        figures.extend([
            Figure::plain(format!("{name}: start to exited"), Unit::Seconds, Spread::of(&disk)),
            over_bare("the same less its fsyncs", &without),
            over_bare("with records in memory", &memory),
        ]);
        tier.on_disk.close().await?;
        tier.in_memory.close().await?;
    }
    let work = format!("start to exited of `true`, {ROUNDS} rounds of {STARTS} of each kind in turns");
    Ok(Report::new("start", work, figures))
}

#[expect(clippy::disallowed_methods, reason = "the baseline is a bare process")]
fn bare_start() -> anyhow::Result<f64> {
    let began = Instant::now();
    Command::new(TRUE).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    Ok(began.elapsed().as_secs_f64())
}

async fn start(scene: &Scene) -> anyhow::Result<f64> {
    let command = [TRUE.to_owned()];
    let began = Instant::now();
    let handle = scene.start(&command).await?;
    scene.exited(handle).await?;
    Ok(began.elapsed().as_secs_f64())
}

/// What the durable saves of one start cost by themselves.
fn durable_saves(place: &Place) -> anyhow::Result<f64> {
    let dir = FsDir::open(place.path())?;
    let record = [b'x'; RECORD];
    let began = Instant::now();
    for _ in 0..DURABLE_SAVES {
        replace_file(&*dir, "record", &record)?;
    }
    Ok(began.elapsed().as_secs_f64())
}
