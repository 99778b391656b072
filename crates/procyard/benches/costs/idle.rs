//! `idle`: many processes that do nothing, and what they cost while they do.
//!
//! Not for what the commands themselves take.

use std::time::Duration;

use procyard_core::LimitSettings;
use procyard_host::TierChoice;

use crate::memory::{self, Task};
use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{Place, Scene};
use crate::spread::Spread;

const SIZES: [usize; 3] = [100, 300, 1_000];
/// What one process may take in procyard, and in its shim.
const IN_PROCYARD: f64 = 64.0 * 1024.0;
const IN_SHIM: f64 = 1024.0 * 1024.0;
/// How long wake-ups are counted.
const WATCHED: Duration = Duration::from_secs(3);
/// How long what starting has left to do is given.
const REST: Duration = Duration::from_secs(2);

pub(crate) async fn measure() -> anyhow::Result<Report> {
    // Starting so many would otherwise wait for the disk more than anything else.
    let place = Place::in_memory()?;
    let limits = LimitSettings {
        running_per_session: 1_000,
        running_per_loop: 1_000,
        window_bytes_total: 1_000 << 20,
        spool_bytes_total: 1_000 * (64 << 20),
        ..LimitSettings::default()
    };
    let mut figures = Vec::new();
    for size in SIZES {
        let scene = Scene::open(&place, TierChoice::Strongest, limits.clone()).await?;
        let before = memory::of(Task::own())?;
        for _ in 0..size {
            scene.start(&["sleep".to_owned(), "1000".to_owned()]).await?;
        }
        tokio::time::sleep(REST).await;
        let mine = (memory::of(Task::own())?).saturating_sub(before) as f64 / size as f64;
        let helpers = Task::own().descendants(&["procyard-guard", "procyard-shim"])?;
        let shims: Vec<_> = helpers.iter().filter(|task| task.name == "procyard-shim").collect();
        anyhow::ensure!(shims.len() == size, "{} shims of {size} are seen", shims.len());
        let private = shims.iter().map(|shim| Ok(memory::of(shim)? as f64));
        let private: Vec<f64> = private.collect::<anyhow::Result<_>>()?;
        let switches = || -> anyhow::Result<u64> {
            let own = Task::own().switches()?;
            helpers.iter().try_fold(own, |sum, task| Ok(sum + task.switches()?))
        };
        let woken = switches()?;
        // A thread that sleeps here, not a timer of the runtime, which would be one more wake-up.
        std::thread::sleep(WATCHED);
        // The one of this thread is not counted.
        let woken = (switches()? - woken).saturating_sub(1) as f64 / WATCHED.as_secs_f64();
        let spread = |figure| Spread::of(&[figure]);
        figures.extend([
            Figure::plain(format!("{size}: memory in procyard, each"), Unit::Bytes, spread(mine))
                .must(Must::AtMost(IN_PROCYARD)),
            Figure::plain(format!("{size}: memory of a shim"), Unit::Bytes, Spread::of(&private))
                .must(Must::AtMost(IN_SHIM)),
            Figure::plain(format!("{size}: wake-ups a second, all"), Unit::Times, spread(woken))
                .must(Must::AtMost(0.5)),
        ]);
        scene.close().await?;
    }
    Ok(Report::new("idle", "supervised `sleep`s, private memory and wake-ups", figures))
}
