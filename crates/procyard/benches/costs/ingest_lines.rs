//! `ingest-lines`: short lines without pause, as `seq` prints them.
//!
//! Not for lines that come one by one: see `wake`.

use procyard_core::LimitSettings;
use procyard_host::TierChoice;

use crate::ingest::{supervised, to_null};
use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{Place, Scene};

const ROUNDS: usize = 5;
const LINES: u64 = 50_000_000;

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let argv = ["seq".to_owned(), LINES.to_string()];
    let scene = Scene::open(place, TierChoice::Strongest, LimitSettings::default()).await?;
    let (mut rates, mut null) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let bare = to_null(&argv)?;
        let run = supervised(&scene, &argv).await?;
        null.push(run.bytes / bare);
        rates.push(run.bytes / run.taken);
    }
    scene.close().await?;
    let figure = Figure::ratio("output taken", Unit::BytesPerSecond, &rates, "cat > /dev/null", &null);
    let work = format!("`seq` of {LINES} lines, {ROUNDS} rounds");
    Ok(Report::new("ingest-lines", work, vec![figure.must(Must::AtLeast(0.4))]))
}
