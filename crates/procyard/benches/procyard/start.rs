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

const ROUNDS: usize = 15;
/// Starts of each kind in a round.
const STARTS: u32 = 40;
/// A start saves two records that must be on disk: the first and the last one.
const DURABLE_SAVES: u32 = 2;
/// About the size of a record.
const RECORD: usize = 1400;

const TRUE: &str = "/bin/true";

/// Samples of one tier, in seconds for each start.
struct Contained {
    on_disk: Scene,
    in_memory: Scene,
    disk: Vec<f64>,
    memory: Vec<f64>,
}

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let memory = Place::in_memory()?;
    let mut tiers = Vec::new();
    for tier in [Tier::CGROUP, Tier::SUBREAPER] {
        let open = |place| Scene::open(place, TierChoice::Require(tier.clone()), LimitSettings::default());
        // A tier that this machine does not have is not measured.
        if let (Ok(on_disk), Ok(in_memory)) = (open(place).await, open(&memory).await) {
            tiers.push(Contained { on_disk, in_memory, disk: Vec::new(), memory: Vec::new() });
        }
    }
    let (mut bare, mut saves, mut free_saves) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let mut samples = vec![bare_starts()?, durable_saves(place)?, durable_saves(&memory)?];
        for tier in &tiers {
            samples.push(starts(&tier.on_disk).await?);
            samples.push(starts(&tier.in_memory).await?);
        }
        // The first round warms caches.
        if round == 0 {
            continue;
        }
        let mut samples = samples.into_iter();
        let series = [&mut bare, &mut saves, &mut free_saves].into_iter();
        let contained = tiers.iter_mut().flat_map(|tier| [&mut tier.disk, &mut tier.memory]);
        for series in series.chain(contained) {
            series.extend(samples.next());
        }
    }
    let syncs: Vec<f64> = saves.iter().zip(&free_saves).map(|(disk, memory)| disk - memory).collect();
    let mut figures = vec![Figure::plain("fsyncs of two records", Unit::Seconds, Spread::of(&syncs))];
    for tier in tiers {
        let name = tier.on_disk.tier();
        let without: Vec<f64> = tier.disk.iter().zip(&syncs).map(|(all, syncs)| all - syncs).collect();
        let bare_is = "bare spawn and wait";
        figures.extend([
            Figure::plain(format!("{name}: start to exited"), Unit::Seconds, Spread::of(&tier.disk)),
            Figure::ratio(
                format!("{name}: the same less its fsyncs"),
                Unit::Seconds,
                &without,
                bare_is,
                &bare,
            )
            .must(Must::AtMost(3.0)),
            Figure::ratio(
                format!("{name}: with records in memory"),
                Unit::Seconds,
                &tier.memory,
                bare_is,
                &bare,
            )
            .must(Must::AtMost(3.0)),
        ]);
        tier.on_disk.close().await?;
        tier.in_memory.close().await?;
    }
    let work = format!("start to exited of `true`, {ROUNDS} rounds of {STARTS} one after another");
    Ok(Report::new("start", work, figures))
}

fn each(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() / f64::from(STARTS)
}

#[expect(clippy::disallowed_methods, reason = "the baseline is a bare process")]
fn bare_starts() -> anyhow::Result<f64> {
    let began = Instant::now();
    for _ in 0..STARTS {
        Command::new(TRUE).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    }
    Ok(each(began))
}

async fn starts(scene: &Scene) -> anyhow::Result<f64> {
    let command = [TRUE.to_owned()];
    let began = Instant::now();
    for _ in 0..STARTS {
        let handle = scene.start(&command).await?;
        scene.exited(handle).await?;
    }
    Ok(each(began))
}

/// What the durable saves of one start cost by themselves.
fn durable_saves(place: &Place) -> anyhow::Result<f64> {
    let dir = FsDir::open(place.path())?;
    let record = [b'x'; RECORD];
    let began = Instant::now();
    for _ in 0..STARTS * DURABLE_SAVES {
        replace_file(&*dir, "record", &record)?;
    }
    Ok(each(began))
}
