//! Every call of every save, scan and removal fails once: the error has its type, what was stored stands, and the next
//! try works.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{admitted, at, running, session};
use procyard_core::{Outcome, Reason, State};
use procyard_manifest::{
    AnchorSettings, Ceilings, Durability, LoadError, Manifest, ManifestError, ManifestStore, SessionError,
    SessionRoot,
};
use procyard_store::{Dir, TEMPORARY_PREFIX};
use procyard_testkit::{Failure, Fault, Faults, FaultyDir, LosingStore, Operation};

const FAILURES: [Failure; 5] =
    [Failure::Io, Failure::NoSpace, Failure::ReadOnly, Failure::NoDescriptors, Failure::Short];

/// A store and what can fail in it.
fn faulty() -> (LosingStore, Arc<Faults>, Arc<dyn Dir>) {
    let (disk, faults) = (LosingStore::new(), Faults::none());
    let dir = FaultyDir::over(disk.root(), &faults);
    (disk, faults, dir)
}

/// Lets each call of a scene fail in each way, and says how many cases that was.
fn at_every_call(prepare: impl Fn(&dyn Dir), scene: impl Fn(Arc<dyn Dir>, &LosingStore, &Faults)) -> u64 {
    let mut cases = 0;
    for failure in FAILURES {
        for call in 0.. {
            let (disk, faults, dir) = faulty();
            prepare(&*dir);
            faults.fail(Fault::on(&Operation::ALL).with(failure).after(call).times(1));
            scene(dir, &disk, &faults);
            if faults.failed() == 0 {
                break;
            }
            cases += 1;
        }
    }
    cases
}

fn exited() -> Manifest {
    let mut manifest = running(1);
    let outcome = Outcome { exit_code: Some(0), diagnostic: None, ..Outcome::diagnosed(Reason::Exited, "") };
    manifest.finish(State::Exited, outcome, at(9));
    manifest
}

fn temporaries(dir: &dyn Dir) -> usize {
    dir.list().unwrap().iter().filter(|entry| entry.name.starts_with(TEMPORARY_PREFIX)).count()
}

#[test]
fn a_save_whose_call_fails_leaves_the_old_or_the_new_manifest_and_can_be_repeated() {
    let life = [
        (admitted(1), Durability::Synced),
        (running(1), Durability::Written),
        (exited(), Durability::Synced),
    ];
    let cases = at_every_call(
        |_| {},
        |dir, disk, faults| {
            let store = ManifestStore::new(dir);
            let fresh = || ManifestStore::new(disk.root());
            let handle = admitted(1).identity.handle;
            let mut before = None;
            for (manifest, durability) in &life {
                let save = || match before {
                    None => store.create(manifest),
                    Some(_) => store.save_with(manifest, *durability),
                };
                if let Err(error) = save() {
                    let typed = matches!(
                        error,
                        ManifestError::Io(_)
                            | ManifestError::AlreadyExists
                            | ManifestError::Stored(LoadError::Io(_))
                    );
                    assert!(typed, "{error:?}");
                    let found = fresh().load(&handle).ok();
                    assert!(found == before || found.as_ref() == Some(manifest), "{found:?}");
                    assert_eq!(temporaries(&*disk.root()), 0, "after {error:?}");
                    faults.heal();
                    // The first one may be there by now: its name could not be synced.
                    if found.as_ref() != Some(manifest) || before.is_some() {
                        save().unwrap();
                    }
                }
                assert_eq!(fresh().load(&handle).unwrap(), *manifest);
                before = Some(manifest.clone());
            }
            assert_eq!(fresh().scan().unwrap().manifests, [exited()]);
        },
    );
    println!("saves: {cases} failed calls");
    assert!(cases > 60, "{cases}");
}

#[test]
fn a_scan_whose_call_fails_says_so_or_reports_the_one_record_it_could_not_read() {
    let prepare = |dir: &dyn Dir| {
        let disk = LosingStore::new();
        for of in 1..=3 {
            let json = admitted(of).to_json().unwrap();
            let name = procyard_manifest::manifest_name(&admitted(of).identity.handle);
            procyard_store::replace_file(dir, &name, &json).unwrap();
        }
        let draft = format!("{}.draft.json", admitted(2).identity.handle.reveal());
        procyard_store::replace_file(dir, &draft, b"torn").unwrap();
        dir.create_file(".tmp-1").unwrap();
        drop(disk);
    };
    let cases = at_every_call(prepare, |dir, _, faults| {
        let store = ManifestStore::new(dir);
        if let Ok(scan) = store.scan() {
            assert_eq!(scan.manifests.len() + scan.corrupt.len(), 3, "{scan:?}");
            assert!(scan.corrupt.iter().all(|(_, error)| matches!(error, LoadError::Io(_))), "{scan:?}");
            assert!(scan.corrupt.len() <= 1 && scan.newer.is_empty());
        }
        faults.heal();
        assert_eq!(store.scan().unwrap().manifests, [admitted(1), admitted(2), admitted(3)]);
    });
    println!("scans: {cases} failed calls");
    assert!(cases > 60, "{cases}");
}

#[test]
fn a_removal_whose_call_fails_says_so_and_can_be_repeated() {
    let prepare = |dir: &dyn Dir| {
        let json = admitted(1).to_json().unwrap();
        let name = procyard_manifest::manifest_name(&admitted(1).identity.handle);
        procyard_store::replace_file(dir, &name, &json).unwrap();
    };
    let cases = at_every_call(prepare, |dir, disk, faults| {
        let store = ManifestStore::new(dir);
        let removed = store.remove(&admitted(1).identity.handle);
        assert!(removed.is_ok() || faults.failed() == 1);
        faults.heal();
        store.remove(&admitted(1).identity.handle).unwrap();
        assert!(disk.root().list().unwrap().is_empty());
    });
    assert!(cases >= 12, "{cases}");
}

#[test]
fn a_session_whose_call_fails_is_not_entered_and_can_be_entered_afterwards() {
    let ceilings = Ceilings { spool_bytes: 1 << 20, spool_bytes_total: 2 << 20 };
    let settings = AnchorSettings { provider: "memory".to_owned(), ceilings };
    let enter =
        |dir: &dyn Dir| SessionRoot::open_or_create_in(dir, session(), settings.clone(), Duration::ZERO);
    for there_already in [false, true] {
        let prepare = |dir: &dyn Dir| {
            if there_already {
                enter(dir).unwrap();
            }
        };
        let cases = at_every_call(prepare, |dir, disk, faults| {
            if let Err(error) = enter(&*dir) {
                assert!(matches!(error, SessionError::Io(_)), "{error:?}");
                if let Ok(root) = disk.root().open_dir(&session().to_string()) {
                    assert_eq!(temporaries(&*root), 0);
                }
            }
            faults.heal();
            let root = enter(&*dir).unwrap();
            root.manifests().create(&admitted(1)).unwrap();
            assert_eq!(root.manifests().scan().unwrap().manifests, [admitted(1)]);
        });
        println!("entering: {cases} failed calls");
        assert!(cases > 30, "{cases}");
    }
}
