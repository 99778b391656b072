//! What a power cut or a sudden death leaves of manifests that were being saved.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{admitted, at, running};
use procyard_core::{Outcome, Reason, State};
use procyard_manifest::{Durability, LoadError, Manifest, ManifestStore};
use procyard_store::FsDir;
use procyard_testkit::{LosingStore, Loss};
use proptest::prelude::*;

/// The manifest of step `step` of a life of `steps`: admitted, running with more and more output, exited, and then
/// marked as published.
fn step_of(step: u64, steps: u64) -> Manifest {
    if step == 0 {
        return admitted(1);
    }
    let mut manifest = running(1);
    manifest.spool.total_bytes = step;
    if step + 2 >= steps {
        manifest.spool.total_bytes = steps;
        let outcome =
            Outcome { exit_code: Some(0), diagnostic: None, ..Outcome::diagnosed(Reason::Exited, "") };
        manifest.finish(State::Exited, outcome, at(9));
        manifest.published.completion = step + 1 >= steps;
    }
    manifest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn after_a_power_cut_at_any_moment_nothing_synced_is_lost_and_every_manifest_loads(
        durabilities in prop::collection::vec(prop::bool::ANY, 3..9),
        power in 0..60_u64,
        losses in prop::collection::vec(any::<u64>().prop_map(Loss::Random), 1..5),
    ) {
        let steps = durabilities.len() as u64;
        let disk = LosingStore::new();
        disk.cut_after(power);
        let store = ManifestStore::new(disk.root());
        // The last step that must be there, and the last that may be.
        let (mut safe, mut tried) = (None, 0);
        for (step, synced) in (0..steps).zip(durabilities) {
            let manifest = step_of(step, steps);
            let ends = manifest.state.is_terminal() && !step_of(step.saturating_sub(1), steps).state.is_terminal();
            let durability = if synced { Durability::Synced } else { Durability::Written };
            let saved = if step == 0 { store.create(&manifest) } else { store.save_with(&manifest, durability) };
            tried = step;
            match saved {
                Ok(()) if step == 0 || ends || synced => safe = Some(step),
                Ok(()) => {}
                Err(_) => break,
            }
        }
        for loss in losses {
            let store = ManifestStore::new(disk.after_cut(loss).root());
            let scan = store.scan().unwrap();
            prop_assert!(scan.corrupt.is_empty() && scan.newer.is_empty(), "{:?}", scan);
            match store.load(&admitted(1).identity.handle) {
                Err(LoadError::Missing) => prop_assert_eq!(safe, None, "what was synced is there"),
                Err(error) => prop_assert!(false, "{}", error),
                Ok(mut manifest) => {
                    let allowed: Vec<Manifest> =
                        (safe.unwrap_or(0)..=tried).map(|step| step_of(step, steps)).collect();
                    prop_assert!(allowed.contains(&manifest), "{:?} to {}: {:?}", safe, tried, manifest);
                    prop_assert_eq!(&scan.manifests, &[manifest.clone()]);
                    if !manifest.state.is_terminal() {
                        let lost = Outcome::diagnosed(Reason::LostOnRestore, "lost");
                        manifest.finish(State::LostOnRestore, lost, at(10));
                        store.save(&manifest).unwrap();
                        prop_assert_eq!(store.scan().unwrap().manifests, [manifest]);
                    }
                }
            }
        }
    }
}

/// Run by the next test in a process of its own: saves for ever and says after each save which one it was.
#[test]
#[ignore = "the other half of `a_sudden_death_at_any_moment_loses_no_acknowledged_save`"]
fn saves_until_it_is_killed() {
    let Some(place) = std::env::var_os("SAVED_IN").map(PathBuf::from) else { return };
    let store = ManifestStore::new(FsDir::open(&place).unwrap());
    let mut manifest = store.load(&admitted(1).identity.handle).unwrap();
    let mut output = std::io::stdout().lock();
    for step in manifest.spool.total_bytes + 1.. {
        manifest.state = State::Running;
        manifest.started_at = Some(at(1));
        manifest.spool.total_bytes = step;
        let durability = if step.is_multiple_of(5) { Durability::Synced } else { Durability::Written };
        store.save_with(&manifest, durability).unwrap();
        writeln!(output, "\nsaved {step}").unwrap();
        output.flush().unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "what is killed has to be a process of its own")]
fn killed_after(saves: usize, place: &Path) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "saves_until_it_is_killed", "--ignored", "--nocapture"])
        .env("SAVED_IN", place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("saved ").and_then(|step| step.parse().ok()));
    let mut acknowledged = lines.by_ref().take(saves).last().unwrap();
    child.kill().unwrap();
    // What it said before it died counts, too.
    acknowledged = lines.last().unwrap_or(acknowledged);
    child.wait().unwrap();
    acknowledged
}

fn deaths(rounds: usize) {
    let place = tempfile::tempdir().unwrap();
    let store = || ManifestStore::new(FsDir::open(place.path()).unwrap());
    store().create(&admitted(1)).unwrap();
    for round in 0..rounds {
        let acknowledged = killed_after(1 + round * 7 % 23, place.path());
        let scan = store().scan().unwrap();
        assert!(scan.corrupt.is_empty(), "{scan:?}");
        assert!(scan.swept_temporaries <= 1, "{scan:?}");
        let found = scan.manifests[0].spool.total_bytes;
        let may_have_begun = acknowledged + 1;
        assert!((acknowledged..=may_have_begun).contains(&found), "said {acknowledged}, found {found}");
    }
}

#[test]
fn a_sudden_death_at_any_moment_loses_no_acknowledged_save() {
    deaths(40);
}

#[test]
#[ignore = "takes a minute"]
fn a_thousand_sudden_deaths_lose_no_acknowledged_save() {
    deaths(1000);
}
