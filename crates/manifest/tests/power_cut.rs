//! The power is cut at every step of everything that is done with manifests, with the output beside them, and with
//! the directory of a session.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::time::Duration;

use common::{admitted, at, owner, running, session};
use procyard_core::{Outcome, Reason, State, Stream};
use procyard_manifest::{
    AnchorSettings, Ceilings, Durability, Manifest, ManifestStore, SessionError, SessionRoot, manifest_name,
    spool_name,
};
use procyard_spool::{Read, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{EntryKind, TEMPORARY_PREFIX};
use procyard_testkit::{Cuts, LosingStore, Loss, PowerCuts};

/// More of everything: `PROCYARD_TEST_LOSSES=500`, for instance.
fn losses() -> u64 {
    std::env::var("PROCYARD_TEST_LOSSES").ok().and_then(|losses| losses.parse().ok()).unwrap_or(24)
}

fn cuts() -> PowerCuts {
    PowerCuts { seed: 3, random_losses: losses() }
}

#[track_caller]
fn tried(what: &str, cuts: Cuts, at_least: u64) {
    println!("{what}: {} steps, {} cuts", cuts.steps, cuts.cuts);
    assert!(cuts.steps >= at_least, "{what} takes {} steps", cuts.steps);
    assert!(cuts.cuts >= (cuts.steps + 1) * (4 + losses()));
}

fn exited(of: u8) -> Manifest {
    let mut manifest = running(of);
    let outcome = Outcome { exit_code: Some(0), diagnostic: None, ..Outcome::diagnosed(Reason::Exited, "") };
    manifest.finish(State::Exited, outcome, at(9));
    manifest
}

/// A life in which what may change in any direction does, with how each state of it is saved.
fn life() -> Vec<(Manifest, Durability)> {
    use Durability::{Synced, Written};
    let with_deadline = |second| {
        let mut manifest = running(1);
        manifest.deadline_at = Some(at(second));
        manifest
    };
    let mut given = with_deadline(50);
    given.transfer(owner(7), at(4));
    let mut ended = given.clone();
    ended.finish(State::Exited, exited(1).outcome.unwrap(), at(9));
    let mut published = ended.clone();
    published.published.completion = true;
    let mut told = published.clone();
    told.published.notification = true;
    vec![
        (admitted(1), Synced),
        (running(1), Written),
        (with_deadline(100), Written),
        (with_deadline(200), Synced),
        (with_deadline(300), Written),
        (with_deadline(50), Synced),
        (given, Written),
        (ended, Written), // synced all the same
        (published, Written),
        (told, Synced),
    ]
}

#[test]
fn a_manifest_is_the_last_synced_one_or_a_later_one() {
    let life = life();
    let cuts = cuts().at_every_step(
        LosingStore::new,
        |disk| {
            let store = ManifestStore::new(disk.root());
            let (mut safe, mut tried) = (None, 0);
            for (step, (manifest, durability)) in life.iter().enumerate() {
                tried = step;
                let saved =
                    if step == 0 { store.create(manifest) } else { store.save_with(manifest, *durability) };
                if saved.is_err() {
                    break;
                }
                let ends = manifest.state.is_terminal() && !life[step - 1].0.state.is_terminal();
                if *durability == Durability::Synced || ends {
                    safe = Some(step);
                }
            }
            (safe, tried)
        },
        |&(safe, tried), after, _| {
            let store = || ManifestStore::new(after.root());
            let scan = store().scan().unwrap();
            assert!(scan.corrupt.is_empty() && scan.newer.is_empty(), "{scan:?}");
            let Some(found) = scan.manifests.first() else { return assert_eq!(safe, None) };
            let step = life.iter().position(|(manifest, _)| manifest == found).unwrap();
            assert!((safe.unwrap_or(0)..=tried).contains(&step), "{safe:?} to {tried}, found {step}");
            let again = store().scan().unwrap();
            assert_eq!((&again.manifests, again.swept_temporaries), (&scan.manifests, 0));
            let left = after.root().list().unwrap();
            assert!(left.iter().all(|entry| !entry.name.starts_with(TEMPORARY_PREFIX)), "{left:?}");
            // Whatever it is, life goes on from there, for good.
            let next = &life[(step + 1).min(life.len() - 1)].0;
            store().save(next).unwrap();
            let found = ManifestStore::new(after.after_cut(Loss::Everything).root()).scan().unwrap();
            assert_eq!(found.manifests, std::slice::from_ref(next));
        },
    );
    tried("saves of one manifest", cuts, 40);
}

#[test]
fn what_a_scan_reports_is_not_taken_back_by_a_power_cut() {
    let live = |disk: &LosingStore| {
        let store = ManifestStore::new(disk.root());
        store.create(&admitted(1)).is_ok()
            && store.save(&running(1)).is_ok()
            && store.save(&exited(1)).is_ok()
    };
    let whole = LosingStore::new();
    assert!(live(&whole));
    for died_at in 0..=whole.steps() {
        let disk = LosingStore::new();
        disk.cut_after(died_at);
        live(&disk);
        disk.cut_after(u64::MAX);
        let seen = ManifestStore::new(disk.root()).scan().unwrap().manifests;
        for loss in Loss::FIXED.into_iter().chain((0..losses()).map(Loss::Random)) {
            let found = ManifestStore::new(disk.after_cut(loss).root()).scan().unwrap().manifests;
            assert_eq!(found, seen, "died at {died_at}, then {loss:?}");
        }
    }
}

const OPTIONS: SpoolOptions = SpoolOptions { ceiling: 30_000, window: 0, head: 0 };

fn pattern(from: u64, until: u64) -> Vec<u8> {
    (from..until).map(|cursor| cursor.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[2]).collect()
}

/// How far a process came, as promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    Nowhere,
    Admitted,
    Ended,
    RemovalBegun,
    Removed,
}

/// A process that is admitted, prints, ends and is removed, as a supervisor does these things.
fn whole_life(disk: &LosingStore) -> Came {
    let root = disk.root();
    let store = ManifestStore::new(root.clone());
    let handle = admitted(1).identity.handle;
    if store.create(&admitted(1)).is_err() {
        return Came::Nowhere;
    }
    let mut spool = Spool::create(root.clone(), &spool_name(&handle), OPTIONS);
    let print = |spool: &mut Spool, len| {
        let from = spool.total_bytes();
        spool.append(Stream::Stdout, at(2), &pattern(from, from + len));
    };
    print(&mut spool, 100);
    let _ = store.save_with(&running(1), Durability::Written);
    for _ in 0..12 {
        print(&mut spool, 6000);
    }
    let mut ended = exited(1);
    ended.storage_degraded = spool.sync().is_err();
    let reader = spool.finish();
    ended.storage_degraded |= reader.degraded();
    ended.spool.total_bytes = reader.bounds().total_bytes;
    ended.spool.retained_from = reader.bounds().retained_from;
    if store.save(&ended).is_err() {
        return Came::Admitted;
    }
    if !disk.has_power() {
        return Came::Ended;
    }
    let removed = store.remove(&handle);
    if removed.is_err() {
        return Came::RemovalBegun;
    }
    let _ = procyard_spool::remove(&*root, &spool_name(&handle));
    Came::Removed
}

#[test]
fn a_terminal_manifest_never_names_output_that_is_not_there() {
    let cuts = cuts().at_every_step(LosingStore::new, whole_life, |&came, after, _| {
        let root = after.root();
        let store = ManifestStore::new(root.clone());
        let scan = store.scan().unwrap();
        assert!(scan.corrupt.is_empty() && scan.newer.is_empty(), "{scan:?}");
        let expected = match came {
            Came::Nowhere | Came::RemovalBegun => scan.manifests.len(),
            Came::Admitted | Came::Ended => 1,
            Came::Removed => 0,
        };
        assert_eq!(scan.manifests.len(), expected);
        if let Some(manifest) = scan.manifests.first() {
            assert!(scan.orphan_spools.is_empty());
            assert!(came < Came::Ended || manifest.state == State::Exited, "{came:?}: {:?}", manifest.state);
            if manifest.state == State::Exited && !manifest.storage_degraded {
                let name = spool_name(&manifest.identity.handle);
                let reader = SpoolReader::open(root.clone(), &name, OPTIONS).unwrap();
                assert_eq!(reader.bounds().total_bytes, manifest.spool.total_bytes);
                assert_eq!(reader.bounds().retained_from, manifest.spool.retained_from);
                let cursor = manifest.spool.retained_from;
                let read = Read { cursor, max_bytes: 1 << 20, streams: StreamFilter::Both };
                let page = reader.read(&read).unwrap();
                assert!(!page.gap && page.bytes == pattern(cursor, manifest.spool.total_bytes));
            }
        }
        // Start-up sweeps what removal left.
        for name in &scan.orphan_spools {
            procyard_spool::remove(&*root, name).unwrap();
        }
        let spools = root.list().unwrap().into_iter().filter(|entry| entry.kind == EntryKind::Dir).count();
        assert!(spools <= scan.manifests.len());
    });
    tried("a life with output", cuts, 40);
}

#[test]
fn sweeping_what_a_crash_left_loses_nothing_else() {
    let leave = || {
        let disk = LosingStore::new();
        let store = ManifestStore::new(disk.root());
        for of in 1..=3 {
            store.create(&admitted(of)).unwrap();
            let mut spool = Spool::create(disk.root(), &spool_name(&admitted(of).identity.handle), OPTIONS);
            spool.append(Stream::Stdout, at(2), b"output");
            spool.sync().unwrap();
        }
        store.save_with(&running(1), Durability::Written).unwrap();
        // A removal that was cut short, with a draft; a save that was; a draft that says less than its manifest.
        store.save_with(&running(2), Durability::Written).unwrap();
        disk.root().remove_file(&manifest_name(&admitted(2).identity.handle)).unwrap();
        disk.root().create_file(".tmp-0011223344556677").unwrap();
        let stale = format!("{}.draft.json", admitted(3).identity.handle.reveal());
        disk.root().create_file(&stale).unwrap().write_all_at(b"{\"version\": 1", 0).unwrap();
        disk.after_cut(Loss::Nothing)
    };
    let sweep = |disk: &LosingStore| {
        let Ok(scan) = ManifestStore::new(disk.root()).scan() else { return false };
        scan.orphan_spools.iter().all(|name| procyard_spool::remove(&*disk.root(), name).is_ok())
    };
    let cuts = cuts().at_every_step(leave, sweep, |_, after, _| {
        assert!(sweep(after), "it is swept again");
        let scan = ManifestStore::new(after.root()).scan().unwrap();
        assert_eq!(scan.manifests, [running(1), admitted(3)]);
        assert_eq!((scan.orphan_spools.len(), scan.swept_temporaries, scan.corrupt.len()), (0, 0, 0));
        for of in [1, 3] {
            let name = spool_name(&admitted(of).identity.handle);
            let reader = SpoolReader::open(after.root(), &name, OPTIONS).unwrap();
            assert_eq!(reader.tail(6, StreamFilter::Both).unwrap().bytes, b"output");
        }
    });
    tried("a sweep", cuts, 6);
}

fn settings(spool_bytes: u64) -> AnchorSettings {
    let ceilings = Ceilings { spool_bytes, spool_bytes_total: 2 << 30 };
    AnchorSettings { provider: "memory".to_owned(), ceilings }
}

fn enter(disk: &LosingStore, spool_bytes: u64) -> Result<SessionRoot, SessionError> {
    SessionRoot::open_or_create_in(&*disk.root(), session(), settings(spool_bytes), Duration::ZERO)
}

/// A session that was entered holds what is saved in it, whatever the power takes.
fn keeps_what_is_saved(after: &LosingStore) {
    enter(after, 5).unwrap().manifests().create(&admitted(1)).unwrap();
    let after = after.after_cut(Loss::Everything);
    assert_eq!(enter(&after, 5).unwrap().manifests().scan().unwrap().manifests, [admitted(1)]);
}

#[test]
fn a_session_is_there_once_it_was_entered_also_where_another_process_died_entering_it() {
    let mut total = Cuts::default();
    let whole = LosingStore::new();
    enter(&whole, 5).unwrap();
    for died_at in 0..=whole.steps() {
        let prepared = || {
            let disk = LosingStore::new();
            disk.cut_after(died_at);
            let _ = enter(&disk, 5);
            disk.cut_after(u64::MAX);
            disk
        };
        let saved = |disk: &LosingStore| {
            enter(disk, 5).is_ok_and(|root| root.manifests().create(&admitted(1)).is_ok())
        };
        let cuts = cuts().at_every_step(prepared, saved, |&saved, after, _| {
            if saved {
                assert_eq!(enter(after, 5).unwrap().manifests().scan().unwrap().manifests, [admitted(1)]);
            } else if enter(after, 5).unwrap().manifests().scan().unwrap().manifests.is_empty() {
                keeps_what_is_saved(after);
            }
        });
        total = total.and(cuts);
    }
    tried("entering a session, twice", total, 60);
}

#[test]
fn an_anchor_is_the_old_or_the_new_one_while_it_is_recorded_anew() {
    let prepared = || {
        let disk = LosingStore::new();
        enter(&disk, 5).unwrap().manifests().create(&admitted(1)).unwrap();
        disk
    };
    let cuts = cuts().at_every_step(
        prepared,
        |disk| drop(enter(disk, 6)),
        |(), after, _| {
            assert_eq!(enter(after, 7).unwrap().manifests().scan().unwrap().manifests, [admitted(1)]);
        },
    );
    tried("recording an anchor anew", cuts, 5);
}

#[test]
fn a_removal_of_a_session_that_was_cut_short_can_be_done_again() {
    let prepared = || {
        let disk = LosingStore::new();
        let root = enter(&disk, 5).unwrap();
        root.manifests().create(&admitted(1)).unwrap();
        root.manifests().save_with(&running(1), Durability::Written).unwrap();
        let mut spool = Spool::create(root.dir(), &spool_name(&admitted(1).identity.handle), OPTIONS);
        spool.append(Stream::Stdout, at(2), &pattern(0, 20_000));
        spool.sync().unwrap();
        disk
    };
    let remove = |disk: &LosingStore| enter(disk, 5).unwrap().remove_in(&*disk.root()).is_ok();
    let cuts = cuts().at_every_step(
        prepared,
        |disk| enter(disk, 5).is_ok_and(|root| root.remove_in(&*disk.root()).is_ok()),
        |&removed, after, _| {
            assert!(!removed || after.root().list().unwrap().is_empty());
            assert!(remove(after));
            assert!(after.root().list().unwrap().is_empty());
            keeps_what_is_saved(after);
        },
    );
    tried("removing a session", cuts, 10);
}
