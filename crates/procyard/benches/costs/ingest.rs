//! `ingest`: a child that writes without pause, through the supervisor into window and spool.
//!
//! Not for many children, and not for short lines.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use procyard_core::{Handle, LimitSettings};
use procyard_host::TierChoice;
use procyard_supervisor::Snapshot;

use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{Place, Scene};
use crate::spread::Spread;
use crate::{child, memory};

const ROUNDS: usize = 5;
const BYTES: u64 = 4 << 30;
/// What `cat` writes at a time.
const CHUNK: usize = 128 << 10;
/// How often progress, and every so many times the disk, is looked at.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS_FOR_DISK: u32 = 10;

/// What may be used over idle.
const MEMORY: f64 = 16.0 * 1024.0 * 1024.0;

/// One run through the supervisor.
pub(crate) struct Run {
    pub(crate) bytes: f64,
    /// Until all output was taken.
    pub(crate) taken: f64,
    /// Until the process was terminal, its output and record on disk.
    pub(crate) ended: f64,
    pub(crate) memory: f64,
    pub(crate) disk: f64,
}

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let argv = child::writer(BYTES, CHUNK)?;
    let scene = Scene::open(place, TierChoice::Strongest, LimitSettings::default()).await?;
    let (mut rates, mut null, mut file) = (Vec::new(), Vec::new(), Vec::new());
    let (mut settled, mut used, mut disk) = (Vec::new(), Vec::new(), Vec::new());
    let rate = |seconds: f64| BYTES as f64 / seconds;
    for _ in 0..ROUNDS {
        null.push(rate(to_null(&argv)?));
        let run = supervised(&scene, &argv).await?;
        rates.push(rate(run.taken));
        settled.push(run.ended - run.taken);
        used.push(run.memory);
        disk.push(run.disk);
        file.push(rate(to_file(&argv, place.path())?));
    }
    let ceiling = scene.supervisor.limits().spool_bytes;
    scene.close().await?;
    let allowed = (ceiling + ceiling / 4 + ceiling / 8) as f64;
    let figures = vec![
        Figure::ratio("output taken", Unit::BytesPerSecond, &rates, "cat > /dev/null", &null)
            .must(Must::AtLeast(0.4)),
        Figure::ratio("output taken", Unit::BytesPerSecond, &rates, "cat > file", &file)
            .must(Must::AtLeast(2.0)),
        Figure::plain("then to exited, output synced", Unit::Seconds, Spread::of(&settled)),
        Figure::plain("peak memory over idle", Unit::Bytes, Spread::of(&used)).must(Must::AtMost(MEMORY)),
        Figure::plain("most disk", Unit::Bytes, Spread::of(&disk)).must(Must::AtMost(allowed)),
    ];
    Ok(Report::new("ingest", format!("one child writes {} MiB, {ROUNDS} rounds", BYTES >> 20), figures))
}

/// Runs a writing child under supervision.
pub(crate) async fn supervised(scene: &Scene, argv: &[String]) -> anyhow::Result<Run> {
    memory::forget_peak()?;
    let (idle, _) = memory::resident_and_peak()?;
    let began = Instant::now();
    let handle = scene.start(argv).await?;
    let exited = scene.exited(handle);
    tokio::pin!(exited);
    let mut looks = tokio::time::interval(LOOK);
    let (mut taken, mut disk, mut total, mut count) = (Duration::ZERO, 0, 0, 0);
    let end: Snapshot = loop {
        tokio::select! {
            end = &mut exited => break end?,
            _ = looks.tick() => {
                count += 1;
                let now = scene.supervisor.snapshot(scene.owner, &handle)?.total_bytes;
                if now > total {
                    (total, taken) = (now, began.elapsed());
                }
                if count % LOOKS_FOR_DISK == 0 {
                    disk = disk.max(spool_bytes(scene.path(), &handle));
                }
            }
        }
    };
    let ended = began.elapsed();
    if end.total_bytes > total {
        taken = ended;
    }
    let (_, peak) = memory::resident_and_peak()?;
    let memory = peak.saturating_sub(idle) as f64;
    Ok(Run {
        bytes: end.total_bytes as f64,
        taken: taken.as_secs_f64(),
        ended: ended.as_secs_f64(),
        memory,
        disk: disk as f64,
    })
}

/// The lengths of the files of a spool; one that is being replaced meanwhile is missed.
fn spool_bytes(session: &Path, handle: &Handle) -> u64 {
    let Ok(files) = std::fs::read_dir(session.join(procyard_manifest::spool_name(handle))) else { return 0 };
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Seconds for the same child piped to `cat > /dev/null`.
pub(crate) fn to_null(argv: &[String]) -> anyhow::Result<f64> {
    let began = Instant::now();
    Pipeline::to_null(argv)?.finish()?;
    Ok(began.elapsed().as_secs_f64())
}

/// Seconds for the same child piped to `cat > file`.
fn to_file(argv: &[String], dir: &Path) -> anyhow::Result<f64> {
    let path = dir.join("copy");
    let began = Instant::now();
    Pipeline::to_file(argv, &path)?.finish()?;
    let seconds = began.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(seconds)
}

/// A child piped to `cat`: the baseline.
pub(crate) struct Pipeline {
    child: Child,
    cat: Child,
}

impl Pipeline {
    pub(crate) fn to_null(argv: &[String]) -> anyhow::Result<Self> {
        Self::start(argv, Stdio::null())
    }

    pub(crate) fn to_file(argv: &[String], path: &Path) -> anyhow::Result<Self> {
        Self::start(argv, File::create(path)?.into())
    }

    #[expect(clippy::disallowed_methods, reason = "the baseline is a bare pipeline")]
    fn start(argv: &[String], to: Stdio) -> anyhow::Result<Self> {
        let mut child =
            Command::new(&argv[0]).args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let cat = Command::new("cat").stdin(output).stdout(to).spawn()?;
        Ok(Self { child, cat })
    }

    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let (copied, written) = (self.cat.wait()?, self.child.wait()?);
        anyhow::ensure!(copied.success() && written.success(), "the pipeline failed");
        Ok(())
    }
}
