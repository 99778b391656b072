//! `restore`: a session with many ended processes is opened again.
//!
//! Not for processes that were lost: their spools are repaired, which depends on what is in them.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use procyard_core::{
    ExecutionId, Handle, Identity, LimitSettings, LoopId, Origin, Outcome, Owner, Reason, SessionId, State,
    Timestamp,
};
use procyard_manifest::{AccessRecord, CommandRecord, Manifest, StableIds, manifest_name};
use procyard_store::FsDir;
use procyard_supervisor::{Services, Supervisor};

use crate::report::{Figure, Must, Report, Unit};
use crate::scene::Place;
use crate::spread::Spread;

const SIZES: [usize; 3] = [1_000, 3_162, 10_000];
const ROUNDS: usize = 7;

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let mut figures = Vec::new();
    for size in SIZES {
        let session = SessionId::from_random(rand::random());
        let dir = place.path().join(session.to_string());
        fs::create_dir(&dir)?;
        for _ in 0..size {
            let manifest = exited(session)?;
            fs::write(dir.join(manifest_name(&manifest.identity.handle)), manifest.to_json()?)?;
        }
        let (mut restored, mut read) = (Vec::new(), Vec::new());
        // The first round warms caches.
        for round in 0..=ROUNDS {
            let samples = (read_all(&dir)?, restore(&dir, session, size).await?);
            if round > 0 {
                read.push(samples.0);
                restored.push(samples.1);
            }
        }
        fs::remove_dir_all(&dir)?;
        let what = format!("{size} records");
        figures.push(
            Figure::ratio(what.clone(), Unit::Seconds, &restored, "reading the files", &read)
                .must(Must::AtMost(3.0)),
        );
        if size == SIZES[SIZES.len() - 1] {
            let whole = Figure::plain(what, Unit::Seconds, Spread::of(&restored));
            figures.push(whole.must(Must::AtMost(1.0)));
        }
    }
    Ok(Report::new("restore", format!("activation of a session, {ROUNDS} rounds"), figures))
}

fn read_all(dir: &Path) -> anyhow::Result<f64> {
    let began = Instant::now();
    for entry in fs::read_dir(dir)? {
        black_box(fs::read(entry?.path())?);
    }
    Ok(began.elapsed().as_secs_f64())
}

async fn restore(dir: &Path, session: SessionId, size: usize) -> anyhow::Result<f64> {
    // All are kept, so that eviction takes nothing away between rounds.
    let limits = LimitSettings { retained_per_session: i64::try_from(size)?, ..LimitSettings::default() };
    let root = FsDir::open(dir)?;
    let began = Instant::now();
    let supervisor = Supervisor::new(session, limits.resolve()?, root);
    let report = supervisor.activate(Services::discard()).await?;
    let took = began.elapsed().as_secs_f64();
    anyhow::ensure!(report.restored == size, "not all was restored: {report:?}");
    supervisor.shutdown().await;
    Ok(took)
}

/// The record of a process that ended and was announced.
fn exited(session: SessionId) -> anyhow::Result<Manifest> {
    let mut random = |bytes: &mut [u8; 16]| {
        *bytes = rand::random();
        true
    };
    let handle = Handle::generate(&mut random, |_| false)?;
    let owner = Owner { session, loop_id: LoopId::from_random([2; 16]) };
    let origin = Origin { execution: ExecutionId::from_random([3; 16]) };
    let command = CommandRecord::line("cargo test --workspace 2>&1 | tail -n 40", "/home/dev/project");
    let now = Timestamp::from_unix_micros(1_767_225_600_000_000);
    let identity = Identity { handle, owner, origin };
    let ids = StableIds::generate(&mut random)?;
    let mut manifest = Manifest::new(identity, command, AccessRecord::BroadWrite, ids, now);
    "subreaper".clone_into(&mut manifest.tier);
    manifest.started_at = Some(now);
    let outcome = Outcome { exit_code: Some(0), diagnostic: None, ..Outcome::diagnosed(Reason::Exited, "") };
    manifest.finish(State::Exited, outcome, now);
    manifest.published.completion = true;
    manifest.published.notification = true;
    Ok(manifest)
}
