//! `read`: 32 KiB at a random cursor of a full spool whose files are in the page cache.
//!
//! Not for reads that the window serves.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use procyard_core::{Handle, LimitSettings, Stream, Timestamp};
use procyard_host::TierChoice;
use procyard_spool::{Read, Spool, SpoolOptions, SpoolReader, StreamFilter, remove};
use procyard_store::{Dir, File, FsDir};
use procyard_supervisor::{ReadFrom, ReadRequest};

use crate::child;
use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{Place, Scene};

const PAGE: usize = 32 << 10;
const ROUNDS: usize = 15;
const READS: u32 = 500;
/// How long chunks are that lie in the spool: floods, what one read of a busy process gives, lines.
const CHUNKS: [usize; 3] = [256 << 10, 4 << 10, 80];

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let mut figures = Vec::new();
    for mib in [1_u64, 64, 1024] {
        figures.extend(of_spool(place, mib)?);
    }
    figures.push(of_supervisor(place).await?);
    let work = format!("{} KiB at random cursors, {ROUNDS} rounds of {READS}", PAGE >> 10);
    Ok(Report::new("read", work, figures))
}

fn of_spool(place: &Place, mib: u64) -> anyhow::Result<Vec<Figure>> {
    let dir = FsDir::open(place.path())?;
    let size = mib << 20;
    let file = bare_file(&dir, size)?;
    let mut figures = Vec::new();
    for chunk in CHUNKS {
        let reader = filled(&dir, size, chunk);
        let (mut spool, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bare.push(preads(&*file)?);
            spool.push(reads(&reader)?);
        }
        let what = format!("{mib} MiB in chunks of {chunk}");
        let figure = Figure::ratio(what, Unit::Seconds, &spool, "pread", &bare).must(Must::AtMost(3.0));
        figures.push(figure);
        drop(reader);
        remove(&*dir, "spool")?;
    }
    drop(file);
    dir.remove_file("bare")?;
    Ok(figures)
}

/// The same of a process that ended, as a caller of the supervisor has it: a look at the registry and a hop to a
/// blocking thread more.
async fn of_supervisor(place: &Place) -> anyhow::Result<Figure> {
    let scene = Scene::open(place, TierChoice::Strongest, LimitSettings::default()).await?;
    let handle = scene.start(&child::writer(80 << 20, 128 << 10)?).await?;
    scene.exited(handle).await?;
    let dir = FsDir::open(place.path())?;
    let file = bare_file(&dir, 64 << 20)?;
    let (mut supervised, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(preads(&*file)?);
        supervised.push(supervised_reads(&scene, handle).await?);
    }
    scene.close().await?;
    dir.remove_file("bare")?;
    Ok(Figure::ratio("64 MiB through the supervisor", Unit::Seconds, &supervised, "pread", &bare))
}

fn bare_file(dir: &Arc<dyn Dir>, size: u64) -> anyhow::Result<Arc<dyn File>> {
    let file = dir.create_file("bare")?;
    let block = vec![b'x'; 1 << 20];
    for index in 0..size >> 20 {
        file.write_all_at(&block, index << 20)?;
    }
    Ok(file)
}

/// A spool of a process that ended: it has no window, so every read goes to the files.
fn filled(dir: &Arc<dyn Dir>, size: u64, chunk: usize) -> SpoolReader {
    let options = SpoolOptions { ceiling: size, ..SpoolOptions::default() };
    let mut spool = Spool::create(Arc::clone(dir), "spool", options);
    let bytes = vec![b'x'; chunk];
    let mut time = 0;
    while spool.total_bytes() < size {
        time += 1;
        spool.append(Stream::Stdout, Timestamp::from_unix_micros(time), &bytes);
    }
    spool.finish()
}

fn reads(reader: &SpoolReader) -> anyhow::Result<f64> {
    let bounds = reader.bounds();
    let began = Instant::now();
    for _ in 0..READS {
        let cursor = rand::random_range(bounds.retained_from..bounds.total_bytes - PAGE as u64);
        let page = reader.read(&Read { cursor, max_bytes: PAGE, streams: StreamFilter::Both })?;
        anyhow::ensure!(black_box(page).bytes.len() == PAGE, "a page is short");
    }
    Ok(each(began))
}

async fn supervised_reads(scene: &Scene, handle: Handle) -> anyhow::Result<f64> {
    let snapshot = scene.supervisor.snapshot(scene.owner, &handle)?;
    let began = Instant::now();
    for _ in 0..READS {
        let cursor = rand::random_range(snapshot.retained_from..snapshot.total_bytes - PAGE as u64);
        let from = ReadFrom::Cursor(cursor);
        let request = ReadRequest { from, max_bytes: PAGE, streams: StreamFilter::Both };
        let (page, _) = scene.supervisor.read(scene.owner, &handle, request).await?;
        anyhow::ensure!(black_box(page).bytes.len() == PAGE, "a page is short");
    }
    Ok(each(began))
}

/// Into a new buffer each, as whoever returns the bytes needs one.
fn preads(file: &dyn File) -> anyhow::Result<f64> {
    let end = file.len()? - PAGE as u64;
    let began = Instant::now();
    for _ in 0..READS {
        let mut buffer = vec![0; PAGE];
        file.read_at(&mut buffer, rand::random_range(0..end))?;
        black_box(buffer);
    }
    Ok(each(began))
}

fn each(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() / f64::from(READS)
}
