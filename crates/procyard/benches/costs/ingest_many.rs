//! `ingest-many`: many children that write without pause at the same time.
//!
//! Not for fairness between them.

use std::time::{Duration, Instant};

use procyard_core::LimitSettings;
use procyard_host::TierChoice;

use crate::child;
use crate::ingest::Pipeline;
use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{Place, Scene};
use crate::spread::Spread;

const ROUNDS: usize = 5;
const CHILDREN: usize = 32;
const BYTES: u64 = 128 << 20;
const CHUNK: usize = 128 << 10;
const LOOK: Duration = Duration::from_millis(5);

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let argv = child::writer(BYTES, CHUNK)?;
    let limits = LimitSettings { running_per_loop: 32, ..LimitSettings::default() };
    let scene = Scene::open(place, TierChoice::Strongest, limits).await?;
    let (mut rates, mut null, mut file) = (Vec::new(), Vec::new(), Vec::new());
    let (mut settled, mut used) = (Vec::new(), Vec::new());
    let gib = (CHILDREN as u64 * BYTES) as f64 / f64::from(1 << 30);
    let rate = |seconds: f64| (CHILDREN as u64 * BYTES) as f64 / seconds;
    for _ in 0..ROUNDS {
        null.push(rate(pipelines(|_| Pipeline::to_null(&argv))?));
        let before = child::processor_time()?;
        let (taken, ended) = supervised(&scene, &argv).await?;
        used.push(child::processor_time()?.saturating_sub(before).as_secs_f64() / gib);
        rates.push(rate(taken));
        settled.push(ended - taken);
        file.push(rate(to_files(&argv, place)?));
    }
    scene.close().await?;
    let figures = vec![
        Figure::ratio("output taken", Unit::BytesPerSecond, &rates, "32 × cat > /dev/null", &null)
            .must(Must::AtLeast(0.4)),
        // What the kernel takes for keeping the output, without anybody who looks after it.
        Figure::ratio("output taken", Unit::BytesPerSecond, &rates, "32 × cat > file", &file),
        // Bears a busy machine, which the time that passes does not.
        Figure::plain("processor time of procyard per GiB", Unit::Seconds, Spread::of(&used)),
        Figure::plain("then to exited, output synced", Unit::Seconds, Spread::of(&settled)),
    ];
    let work = format!("{CHILDREN} children write {} MiB each, {ROUNDS} rounds", BYTES >> 20);
    Ok(Report::new("ingest-many", work, figures))
}

/// Seconds until all of the pipelines that `start` starts have ended.
fn pipelines(start: impl Fn(usize) -> anyhow::Result<Pipeline>) -> anyhow::Result<f64> {
    let began = Instant::now();
    let running: Vec<_> = (0..CHILDREN).map(start).collect::<Result<_, _>>()?;
    running.into_iter().try_for_each(Pipeline::finish)?;
    Ok(began.elapsed().as_secs_f64())
}

fn to_files(argv: &[String], place: &Place) -> anyhow::Result<f64> {
    let path = |index| place.path().join(format!("copy-{index}"));
    let seconds = pipelines(|index| Pipeline::to_file(argv, &path(index)))?;
    for index in 0..CHILDREN {
        std::fs::remove_file(path(index))?;
    }
    Ok(seconds)
}

/// Seconds until all output was taken, and until all processes were terminal.
async fn supervised(scene: &Scene, argv: &[String]) -> anyhow::Result<(f64, f64)> {
    let began = Instant::now();
    let mut handles = Vec::new();
    for _ in 0..CHILDREN {
        handles.push(scene.start(argv).await?);
    }
    let mut looks = tokio::time::interval(LOOK);
    loop {
        looks.tick().await;
        let total =
            |handle| Ok::<_, anyhow::Error>(scene.supervisor.snapshot(scene.owner, handle)?.total_bytes);
        let mut all = true;
        for handle in &handles {
            all &= total(handle)? == BYTES;
        }
        if all {
            break;
        }
        anyhow::ensure!(began.elapsed() < crate::scene::PATIENCE, "output is missing");
    }
    let taken = began.elapsed().as_secs_f64();
    for handle in handles {
        scene.exited(handle).await?;
    }
    Ok((taken, began.elapsed().as_secs_f64()))
}
