//! `append`: what a mebibyte costs when little was written before, when the ceiling is reached, and long after.
//!
//! Not for a process around it: the spool alone, in this thread, measured in processor time, which other load on the
//! machine moves little.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use procyard_core::{Stream, Timestamp};
use procyard_spool::{Spool, SpoolOptions, remove};
use procyard_store::FsDir;

use crate::report::{Figure, Must, Report, Unit};
use crate::scene::Place;
use crate::spread::{Spread, ratios};

const ROUNDS: usize = 3;
const MIB: u64 = 1 << 20;
/// What was written before each stretch.
const TOTALS: [u64; 3] = [MIB, 64 * MIB, 10 << 30];
/// How much is appended in a stretch.
const STRETCH: u64 = 8 * MIB;
/// Two sizes: what a pipe holds, and what a busy process prints at a time.
const CHUNKS: [usize; 2] = [256 << 10, 4 << 10];

/// How much more than the first mebibytes later ones may cost; they may cost less, since their files are written over.
const FLAT: f64 = 1.25;

pub(crate) fn measure(place: &Place) -> anyhow::Result<Report> {
    let mut figures = Vec::new();
    for chunk in CHUNKS {
        let mut samples = vec![Vec::new(); TOTALS.len()];
        for _ in 0..ROUNDS {
            for (samples, sample) in samples.iter_mut().zip(stretches(place, chunk)?) {
                samples.push(sample);
            }
        }
        let first = &samples[0];
        for (total, samples) in TOTALS.iter().zip(&samples) {
            let what = format!("a MiB after {} MiB, in chunks of {chunk}", total / MIB);
            figures.push(Figure::plain(what, Unit::Seconds, Spread::of(samples)));
        }
        for (total, samples) in TOTALS.iter().zip(&samples).skip(1) {
            let what = format!("after {} MiB of after 1 MiB, {chunk}", total / MIB);
            figures.push(Figure::plain(what, Unit::Times, ratios(samples, first)).must(Must::AtMost(FLAT)));
        }
    }
    let work = format!("processor time of appending through a ceiling of 64 MiB, {ROUNDS} rounds");
    Ok(Report::new("append", work, figures))
}

/// Seconds of processor time for each mebibyte of the stretches of one spool.
fn stretches(place: &Place, chunk: usize) -> anyhow::Result<Vec<f64>> {
    let dir = FsDir::open(place.path())?;
    let mut spool =
        Spool::create(dir.clone(), "spool", SpoolOptions { ceiling: 64 * MIB, ..SpoolOptions::default() });
    let bytes = vec![b'x'; chunk];
    let mut time = 0;
    let mut append_until = |total: u64| {
        while spool.total_bytes() < total {
            time += 1;
            spool.append(Stream::Stdout, Timestamp::from_unix_micros(time), &bytes);
        }
    };
    let mut each = Vec::new();
    for total in TOTALS {
        append_until(total);
        let before = thread_time()?;
        append_until(total + STRETCH);
        let used = thread_time()?.saturating_sub(before);
        each.push(used.as_secs_f64() / (STRETCH / MIB) as f64);
    }
    drop(spool);
    remove(&*dir, "spool")?;
    Ok(each)
}

fn thread_time() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
