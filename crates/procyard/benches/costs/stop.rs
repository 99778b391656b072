//! `stop`: a kill of a whole tree, until it is proven gone and recorded.
//!
//! The session is in memory, so that the disk has no part in it. Not for polite stops: how long those take is up to
//! what is stopped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use procyard_core::{LimitSettings, State, StopKind};
use procyard_host::TierChoice;
use procyard_runner::Tier;
use procyard_supervisor::{StopRequest, Target, Until, WaitMode};

use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{PATIENCE, Place, Scene};
use crate::spread::Spread;

const SIZES: [usize; 3] = [1, 100, 1_000];
const ROUNDS: usize = 5;

pub(crate) async fn measure() -> anyhow::Result<Report> {
    let place = Place::in_memory()?;
    let mut figures = Vec::new();
    let own = own_cgroup();
    if let Ok(scene) = open(&place, Tier::CGROUP).await {
        let own = own.context("there is no cgroup to compare with")?;
        for size in SIZES {
            let (mut killed, mut bare) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                bare.push(bare_kill(&own, size)?);
                killed.push(kill(&scene, size).await?);
            }
            let what = format!("cgroup: tree of {size}");
            let figure = Figure::ratio(what, Unit::Seconds, &killed, "cgroup.kill and wait", &bare);
            // A single process is a matter of hops between processes, not of killing.
            figures.push(if size == 1 { figure } else { figure.must(Must::AtMost(2.0)) });
        }
        scene.close().await?;
    }
    if let Ok(scene) = open(&place, Tier::SUBREAPER).await {
        for size in SIZES {
            let mut killed = Vec::new();
            for _ in 0..ROUNDS {
                killed.push(kill(&scene, size).await?);
            }
            let what = format!("subreaper: tree of {size}");
            figures.push(Figure::plain(what, Unit::Seconds, Spread::of(&killed)).must(Must::AtMost(1.0)));
        }
        scene.close().await?;
    }
    Ok(Report::new("stop", format!("kill to proven gone and recorded, {ROUNDS} rounds"), figures))
}

async fn open(place: &Place, tier: Tier) -> anyhow::Result<Scene> {
    Scene::open(place, TierChoice::Require(tier), LimitSettings::default()).await
}

async fn kill(scene: &Scene, size: usize) -> anyhow::Result<f64> {
    let line = format!("for i in $(seq {}); do sleep 1000 & done; echo; wait; sleep 1000", size - 1);
    let handle = scene.start(&["sh".to_owned(), "-c".to_owned(), line]).await?;
    let target = Target { handle, cursor: 0, probe: None };
    scene.supervisor.wait(scene.owner, WaitMode::Any, Until::Probe, vec![target], PATIENCE).await?;
    let began = Instant::now();
    let request = StopRequest { kind: StopKind::Kill, grace: None };
    let snapshot = scene.supervisor.stop(scene.owner, &handle, request).await?;
    let took = began.elapsed().as_secs_f64();
    anyhow::ensure!(snapshot.state == State::Killed, "a stop has not ended its process: {snapshot:?}");
    Ok(took)
}

/// What the kernel alone needs for the same: the members are ended, reaped by us as their parent, and the cgroup is
/// removed.
#[expect(clippy::disallowed_methods, reason = "the baseline is bare processes")]
fn bare_kill(own: &Path, size: usize) -> anyhow::Result<f64> {
    let leaf = own.join(format!("bench-{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&leaf)?;
    let mut children = Vec::new();
    for _ in 0..size {
        let child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn()?;
        std::fs::write(leaf.join("cgroup.procs"), child.id().to_string())?;
        children.push(child);
    }
    let began = Instant::now();
    std::fs::write(leaf.join("cgroup.kill"), "1")?;
    for mut child in children {
        child.wait()?;
    }
    while std::fs::remove_dir(&leaf).is_err() {
        anyhow::ensure!(began.elapsed() < Duration::from_secs(10), "a cgroup of the baseline stays");
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Our cgroup of version 2, as `cgroups(7)` says where it is.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let point = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let point = fields.next()?;
        (fields.next()? == "cgroup2").then_some(point)
    })?;
    let cgroups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(point).join(own))
}
