//! Manifests on disk: the kinds of failure, what is never overwritten, what a crash leaves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use common::{admitted, at, owner, running, sample};
use procyard_core::{Handle, Outcome, Reason, State};
use procyard_manifest::{
    Durability, LoadError, Manifest, ManifestError, ManifestStore, manifest_name, spool_name,
};
use procyard_store::FsDir;
use tempfile::TempDir;

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A store as after a restart: nothing in memory.
    fn store(&self) -> ManifestStore {
        ManifestStore::new(FsDir::open(self.dir.path()).unwrap())
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    fn manifest(&self, of: &Manifest) -> PathBuf {
        self.path(manifest_name(&of.identity.handle))
    }

    fn draft(&self, of: &Manifest) -> PathBuf {
        self.path(format!("{}.draft.json", of.identity.handle.reveal()))
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn exited(of: u8) -> Manifest {
    let mut manifest = running(of);
    let outcome = Outcome { exit_code: Some(0), diagnostic: None, ..Outcome::diagnosed(Reason::Exited, "") };
    manifest.finish(State::Exited, outcome, at(9));
    manifest
}

#[test]
fn a_life_is_saved_step_by_step_and_found_after_a_restart() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    store.save(&running(1)).unwrap();
    store.save(&exited(1)).unwrap();
    assert_eq!(place.store().load(&exited(1).identity.handle).unwrap(), exited(1));
    assert_eq!(place.names().len(), 1, "one file, no temporaries");
}

#[test]
fn a_manifest_that_is_missing_corrupt_or_newer_is_three_different_errors() {
    let place = Place::new();
    let store = place.store();
    let load = |of: u8| store.load(&admitted(of).identity.handle);
    assert!(matches!(load(1), Err(LoadError::Missing)));
    fs::write(place.manifest(&admitted(2)), "{}").unwrap();
    assert!(matches!(load(2), Err(LoadError::Corrupt { .. })));
    fs::write(place.manifest(&admitted(3)), r#"{"version": 12, "new": [{}]}"#).unwrap();
    assert!(matches!(load(3), Err(LoadError::Newer { version: 12 })));
}

#[test]
fn a_manifest_under_the_name_of_another_process_is_corrupt() {
    let place = Place::new();
    fs::write(place.manifest(&admitted(2)), admitted(1).to_json().unwrap()).unwrap();
    let loaded = place.store().load(&admitted(2).identity.handle);
    assert!(matches!(loaded, Err(LoadError::Corrupt { why }) if why.contains("another process")));
}

#[test]
fn a_file_beyond_the_bound_is_corrupt_and_is_not_read() {
    let place = Place::new();
    let file = fs::File::create(place.manifest(&admitted(1))).unwrap();
    file.set_len(1 << 40).unwrap();
    let loaded = place.store().load(&admitted(1).identity.handle);
    assert!(matches!(loaded, Err(LoadError::Corrupt { .. })), "{loaded:?}");
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let target = elsewhere.path("target");
    fs::write(&target, admitted(1).to_json().unwrap()).unwrap();
    symlink(&target, place.manifest(&admitted(1))).unwrap();
    let store = place.store();
    assert!(store.load(&admitted(1).identity.handle).is_err());
    assert!(matches!(store.create(&admitted(1)), Err(ManifestError::AlreadyExists)));
    let scan = store.scan().unwrap();
    assert!(scan.manifests.is_empty());
    assert_eq!(scan.corrupt.len(), 1);
    assert_eq!(fs::read(&target).unwrap(), admitted(1).to_json().unwrap(), "the target is untouched");
}

#[test]
fn what_does_not_load_is_not_overwritten() {
    for bytes in [&b"{}"[..], b"", b"\xff", br#"{"version": 3}"#] {
        let place = Place::new();
        fs::write(place.manifest(&admitted(1)), bytes).unwrap();
        let store = place.store();
        assert!(matches!(store.create(&admitted(1)), Err(ManifestError::AlreadyExists)));
        for durability in [Durability::Synced, Durability::Written] {
            let saved = store.save_with(&running(1), durability);
            assert!(matches!(saved, Err(ManifestError::Stored(_))), "{saved:?}");
        }
        assert_eq!(fs::read(place.manifest(&admitted(1))).unwrap(), bytes);
        assert_eq!(place.names().len(), 1);
    }
}

#[test]
fn a_second_creation_is_refused_also_after_a_restart() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    for store in [store, place.store()] {
        assert!(matches!(store.create(&admitted(1)), Err(ManifestError::AlreadyExists)));
    }
}

#[test]
fn a_removed_manifest_does_not_come_back() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    store.save(&exited_after_start(&store)).unwrap();
    let handle = exited(1).identity.handle;
    store.remove(&handle).unwrap();
    store.remove(&handle).unwrap();
    let mut late = exited(1);
    late.published.completion = true;
    assert!(matches!(store.save(&late), Err(ManifestError::Stored(LoadError::Missing))));
    assert!(place.names().is_empty());
}

fn exited_after_start(store: &ManifestStore) -> Manifest {
    store.save_with(&running(1), Durability::Written).unwrap();
    exited(1)
}

#[test]
fn a_refused_save_changes_nothing_and_the_next_good_one_passes() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    let mut invalid = running(1);
    invalid.started_at = None;
    assert!(matches!(store.save(&invalid), Err(ManifestError::Invalid { field: "started_at", .. })));
    let mut changed = running(1);
    changed.ids = common::ids(99);
    assert!(matches!(store.save(&changed), Err(ManifestError::Fixed { field: "ids" })));
    assert_eq!(place.store().load(&admitted(1).identity.handle).unwrap(), admitted(1));
    store.save(&running(1)).unwrap();
}

#[test]
fn a_failed_write_is_reported_and_can_be_repeated() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    // A directory cannot be replaced by a file: the rename fails.
    let draft = place.draft(&admitted(1));
    fs::create_dir(&draft).unwrap();
    let failed = store.save_with(&running(1), Durability::Written);
    assert!(matches!(failed, Err(ManifestError::Io(_))), "{failed:?}");
    fs::remove_dir(&draft).unwrap();
    store.save_with(&running(1), Durability::Written).unwrap();
    assert_eq!(store.load(&admitted(1).identity.handle).unwrap(), running(1));
    assert_eq!(place.names().len(), 2, "manifest and draft, no temporaries");
}

#[test]
fn a_written_manifest_is_found_after_a_restart_and_replaced_by_a_synced_one() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    store.save_with(&running(1), Durability::Written).unwrap();
    assert_eq!(place.store().load(&admitted(1).identity.handle).unwrap(), running(1));
    assert_eq!(place.store().scan().unwrap().manifests, [running(1)]);
    let restarted = place.store();
    restarted.save(&exited(1)).unwrap();
    assert!(!place.draft(&admitted(1)).exists());
    assert_eq!(place.store().load(&admitted(1).identity.handle).unwrap(), exited(1));
}

#[test]
fn the_step_into_a_terminal_state_is_synced_whatever_was_asked_for() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    store.save_with(&running(1), Durability::Written).unwrap();
    store.save_with(&exited(1), Durability::Written).unwrap();
    assert!(!place.draft(&admitted(1)).exists());
    assert_eq!(fs::read(place.manifest(&admitted(1))).unwrap(), exited(1).to_json().unwrap());
}

#[test]
fn a_marker_need_not_be_synced_and_leaves_the_synced_result_as_it_is() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    store.save(&running(1)).unwrap();
    store.save(&exited(1)).unwrap();
    let mut marked = exited(1);
    marked.published.completion = true;
    store.save_with(&marked, Durability::Written).unwrap();
    marked.published.notification = true;
    store.save_with(&marked, Durability::Written).unwrap();
    assert_eq!(fs::read(place.manifest(&admitted(1))).unwrap(), exited(1).to_json().unwrap());
    assert_eq!(place.store().load(&admitted(1).identity.handle).unwrap(), marked);
    assert_eq!(place.store().scan().unwrap().manifests, [marked]);
    store.remove(&admitted(1).identity.handle).unwrap();
    assert!(place.names().is_empty());
}

#[test]
fn a_draft_that_a_power_cut_tore_at_any_length_leaves_the_synced_manifest() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    store.save_with(&running(1), Durability::Written).unwrap();
    let draft = fs::read(place.draft(&admitted(1))).unwrap();
    for length in 0..draft.len() {
        let mut zeroed = draft[..length].to_vec();
        for torn in [zeroed.clone(), {
            zeroed.resize(draft.len(), 0);
            zeroed
        }] {
            // A fresh file each time: some file systems sync one that is truncated and closed.
            fs::remove_file(place.draft(&admitted(1))).unwrap();
            fs::write(place.draft(&admitted(1)), torn).unwrap();
            let loaded = place.store().load(&admitted(1).identity.handle).unwrap();
            assert_eq!(loaded, admitted(1), "torn at {length}");
        }
    }
    let scan = place.store().scan().unwrap();
    assert_eq!((scan.manifests, scan.swept_temporaries), (vec![admitted(1)], 1));
    assert!(!place.draft(&admitted(1)).exists());
}

#[test]
fn a_draft_older_than_its_manifest_is_not_believed() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    store.save(&running(1)).unwrap();
    store.save(&exited(1)).unwrap();
    fs::write(place.draft(&admitted(1)), running(1).to_json().unwrap()).unwrap();
    assert_eq!(place.store().load(&admitted(1).identity.handle).unwrap(), exited(1));
    assert_eq!(place.store().scan().unwrap().manifests, [exited(1)]);
}

#[test]
fn a_draft_of_a_later_version_makes_the_manifest_one_of_that_version() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    let later = r#"{"version": 3, "state": "hibernating"}"#;
    fs::write(place.draft(&admitted(1)), later).unwrap();
    let loaded = place.store().load(&admitted(1).identity.handle);
    assert!(matches!(loaded, Err(LoadError::Newer { version: 3 })), "{loaded:?}");
    assert!(matches!(place.store().save(&running(1)), Err(ManifestError::Stored(LoadError::Newer { .. }))));
    let scan = place.store().scan().unwrap();
    assert_eq!((scan.newer.len(), scan.manifests.len(), scan.swept_temporaries), (1, 0, 0));
    assert_eq!(fs::read_to_string(place.draft(&admitted(1))).unwrap(), later, "it is left alone");
}

#[test]
fn a_scan_reports_each_bad_entry_and_hides_no_healthy_one() {
    let place = Place::new();
    for state in State::ALL {
        fs::write(place.manifest(&sample(state)), sample(state).to_json().unwrap()).unwrap();
    }
    fs::write(place.manifest(&admitted(1)), "rubbish").unwrap();
    fs::write(place.manifest(&admitted(2)), r#"{"version": 3}"#).unwrap();
    fs::write(place.path("stranger.manifest.json"), "{}").unwrap();
    fs::create_dir(place.manifest(&admitted(3))).unwrap();
    for other in ["anchor.json", "lock", "journal.sqlite3", "notes.txt"] {
        fs::write(place.path(other), "").unwrap();
    }
    let scan = place.store().scan().unwrap();
    assert_eq!(scan.manifests.len(), State::ALL.len());
    assert!(scan.corrupt.iter().all(|(_, error)| matches!(error, LoadError::Corrupt { .. })));
    assert_eq!(scan.corrupt.len(), 3);
    assert_eq!(scan.newer, [(manifest_name(&admitted(2).identity.handle), 3)]);
    assert_eq!(scan.swept_temporaries, 0);
    assert_eq!(place.names().len(), State::ALL.len() + 8, "nothing was removed");
}

#[test]
fn a_scan_sweeps_what_a_crash_left_and_reports_spools_without_a_manifest() {
    let place = Place::new();
    let store = place.store();
    for of in 1..=4 {
        store.create(&admitted(of)).unwrap();
        fs::create_dir(place.path(spool_name(&admitted(of).identity.handle))).unwrap();
    }
    fs::write(place.path(".tmp-0123456789abcdef"), "half a manif").unwrap();
    // Deletion removes the manifest first; the crash comes before the spool goes.
    store.remove(&admitted(2).identity.handle).unwrap();
    fs::write(place.draft(&admitted(2)), running(2).to_json().unwrap()).unwrap();
    // The spool of what does not load is no orphan.
    fs::write(place.manifest(&admitted(3)), "").unwrap();
    fs::write(place.manifest(&admitted(4)), r#"{"version": 7}"#).unwrap();

    let scan = place.store().scan().unwrap();
    assert_eq!(scan.orphan_spools, [spool_name(&admitted(2).identity.handle)]);
    assert_eq!(scan.manifests, [admitted(1)]);
    assert_eq!(scan.swept_temporaries, 2, "the temporary file and the draft of nothing");
    let again = place.store().scan().unwrap();
    assert_eq!((again.swept_temporaries, again.orphan_spools.len()), (0, 1));
}

#[test]
fn manifests_are_scanned_in_the_order_of_admission() {
    let place = Place::new();
    let store = place.store();
    for (of, second) in [(1, 5), (2, 3), (3, 9), (4, 3)] {
        let mut manifest = admitted(of);
        manifest.created_at = at(second);
        store.create(&manifest).unwrap();
    }
    let order: Vec<Handle> =
        store.scan().unwrap().manifests.iter().map(|manifest| manifest.identity.handle).collect();
    assert_eq!(order, [2, 4, 1, 3].map(|of| admitted(of).identity.handle));
}

#[test]
fn concurrent_saves_of_one_handle_take_turns_and_never_go_backward() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    store.save(&running(1)).unwrap();
    thread::scope(|scope| {
        for writer in 0..4_u64 {
            let store = store.clone();
            scope.spawn(move || {
                for step in 0..10 {
                    let mut manifest = running(1);
                    manifest.spool.total_bytes = step * 4 + writer;
                    match store.save_with(&manifest, Durability::Written) {
                        Ok(()) | Err(ManifestError::Backward { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let last = place.store().load(&admitted(1).identity.handle).unwrap();
    assert_eq!(last.spool.total_bytes, 39, "the largest is the last that was accepted");
}

#[test]
fn a_change_of_hands_is_durable_with_its_trail() {
    let place = Place::new();
    let store = place.store();
    store.create(&admitted(1)).unwrap();
    let mut given = running(1);
    given.transfer(owner(7), at(4));
    store.save(&given).unwrap();
    let found = place.store().load(&given.identity.handle).unwrap();
    assert_eq!(found.identity.owner, owner(7));
    assert_eq!(found.transfers.len(), 1);
}
