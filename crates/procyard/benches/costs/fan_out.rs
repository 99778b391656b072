//! `fan-out`: many waiters on one process, one byte of output.
//!
//! Not for many processes.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use procyard_core::{Handle, LimitSettings};
use procyard_host::TierChoice;
use procyard_runner::StdinMode;
use procyard_supervisor::{InputRequest, Target, Until, WaitMode};
use tokio::sync::mpsc;

use crate::child::processor_time;
use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{PATIENCE, Place, Scene};
use crate::spread::Spread;

const SIZES: [u32; 4] = [1, 100, 1_000, 10_000];
const ROUNDS: usize = 9;
/// How long the processor time of idle waiters is watched.
const IDLE: Duration = Duration::from_secs(1);

/// Seconds of processor time in a second that count as none.
const NOTHING: f64 = 0.001;

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let limits = LimitSettings { waiters: 20_000, ..LimitSettings::default() };
    let scene = Scene::open(place, TierChoice::Strongest, limits).await?;
    let echo = ["cat".to_owned()];
    let handle = scene.start_with(&echo, |options| options.stdin = StdinMode::Open).await?;
    let mut samples = vec![Vec::new(); SIZES.len()];
    // The first round warms caches.
    for round in 0..=ROUNDS {
        for (size, samples) in SIZES.into_iter().zip(&mut samples) {
            let (took, _) = wake(&scene, handle, size, Duration::ZERO).await?;
            if round > 0 {
                samples.push(took);
            }
        }
    }
    let (_, idle) = wake(&scene, handle, SIZES[SIZES.len() - 1], IDLE).await?;
    let end = InputRequest { eof: true, ..InputRequest::default() };
    scene.supervisor.input(scene.owner, &handle, end).await?;
    scene.exited(handle).await?;
    scene.close().await?;
    let one = samples.remove(0);
    let mut figures = vec![Figure::plain("one waiter", Unit::Seconds, Spread::of(&one))];
    for (size, samples) in SIZES[1..].iter().zip(&samples) {
        let each = |(all, one): (&f64, &f64)| (all - one) / f64::from(*size);
        let each: Vec<f64> = samples.iter().zip(&one).map(each).collect();
        let figure = Figure::plain(format!("{size} waiters, each"), Unit::Seconds, Spread::of(&each));
        figures.push(figure.must(Must::AtMost(2e-6)));
    }
    let idle =
        Figure::plain("processor time of idle waiters, per second", Unit::Seconds, Spread::of(&[idle]));
    figures.push(idle.must(Must::AtMost(NOTHING)));
    let work = format!("input to `cat` until the last waiter for its output has returned, {ROUNDS} rounds");
    Ok(Report::new("fan-out", work, figures))
}

/// Seconds from the input to the last waiter's return, and processor seconds while all waited, for `idle`.
async fn wake(scene: &Scene, handle: Handle, waiters: u32, idle: Duration) -> anyhow::Result<(f64, f64)> {
    let cursor = scene.supervisor.snapshot(scene.owner, &handle)?.total_bytes;
    let (armed, mut arming) = mpsc::unbounded_channel();
    let (done, mut ending) = mpsc::unbounded_channel();
    for _ in 0..waiters {
        let (supervisor, owner) = (scene.supervisor.clone(), scene.owner);
        let (armed, done) = (armed.clone(), done.clone());
        tokio::spawn(async move {
            let target = Target { handle, cursor, probe: None };
            let mut wait = pin!(supervisor.wait(owner, WaitMode::Any, Until::Probe, vec![target], PATIENCE));
            // Waits from the first poll on.
            poll_fn(|context| {
                let _ = wait.as_mut().poll(context);
                Poll::Ready(())
            })
            .await;
            let _ = armed.send(());
            drop(armed);
            let waited = wait.await.is_ok();
            let _ = done.send((waited, Instant::now()));
        });
    }
    drop((armed, done));
    while arming.recv().await.is_some() {}
    let before = processor_time()?;
    tokio::time::sleep(idle).await;
    let used = processor_time()?.saturating_sub(before);
    let began = Instant::now();
    let input = InputRequest { data: b"x".to_vec(), ..InputRequest::default() };
    scene.supervisor.input(scene.owner, &handle, input).await?;
    let (mut count, mut last) = (0, began);
    while let Some((waited, at)) = ending.recv().await {
        anyhow::ensure!(waited, "a waiter was refused");
        count += 1;
        last = last.max(at);
    }
    anyhow::ensure!(count == waiters, "a waiter has not returned");
    Ok((last.duration_since(began).as_secs_f64(), used.as_secs_f64()))
}
