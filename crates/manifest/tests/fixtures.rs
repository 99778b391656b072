//! Files of every version that was ever released: they are read for ever, and damage to them shows.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use common::{admitted, running, sample, sample_before_running, sample_evicted, sample_limited, session};
use procyard_core::{Enforcement, State};
use procyard_manifest::{
    AnchorSettings, Ceilings, Durability, LoadError, Manifest, ManifestStore, SessionError, SessionRoot,
    VERSION, manifest_name,
};
use procyard_store::{Access, File};
use procyard_testkit::LosingStore;
use proptest::prelude::*;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn draft_name(of: &Manifest) -> String {
    format!("{}.draft.json", of.identity.handle.reveal())
}

/// Every file that a version leaves for its readers of later days, with what it holds.
fn kept() -> Vec<(String, Vec<u8>)> {
    let mut kept: Vec<_> =
        State::ALL.map(|state| (format!("{state}.manifest.json"), sample(state).to_json().unwrap())).to_vec();
    kept.push(("evicted.manifest.json".to_owned(), sample_evicted().to_json().unwrap()));
    for state in [State::Running, State::Failed] {
        kept.push((format!("limited_{state}.manifest.json"), sample_limited(state).to_json().unwrap()));
    }
    let (first, later) = (sample_before_running(), sample(State::Running));
    let manifest = format!("session/{}", manifest_name(&first.identity.handle));
    kept.push((manifest, first.to_json().unwrap()));
    kept.push((format!("session/{}", draft_name(&later)), later.to_json().unwrap()));
    kept
}

fn of_state(state: State) -> Vec<u8> {
    fixture(&format!("v1/{state}.manifest.json"))
}

/// What a state's file reads as: its sample, without what is never read back.
fn expected(state: State) -> Manifest {
    let mut manifest = sample(state);
    manifest.set_teardown("");
    manifest
}

#[test]
fn every_manifest_of_version_1_reads_as_what_was_written() {
    for state in State::ALL {
        assert_eq!(Manifest::from_json(&of_state(state)).unwrap(), expected(state), "{state}");
    }
}

#[test]
fn the_version_of_today_has_its_fixtures_and_is_written_byte_for_byte_as_they_are() {
    for (name, written) in kept() {
        let fixture = String::from_utf8(fixture(&format!("v{VERSION}/{name}"))).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), fixture, "{name}");
    }
    fixture(&format!("v{VERSION}/anchor.json"));
}

#[test]
fn an_evicted_manifest_of_version_1_reads_as_what_was_written() {
    assert_eq!(Manifest::from_json(&fixture("v1/evicted.manifest.json")).unwrap(), sample_evicted());
}

#[test]
fn a_limited_manifest_of_version_1_reads_as_what_was_written() {
    for state in [State::Running, State::Failed] {
        let mut expected = sample_limited(state);
        expected.set_teardown("");
        let file = fixture(&format!("v1/limited_{state}.manifest.json"));
        assert_eq!(Manifest::from_json(&file).unwrap(), expected, "{state}");
    }
}

#[test]
fn deaths_by_a_limit_that_there_was_not_and_endless_reasons_are_refused() {
    let refused = |change: &dyn Fn(&mut Manifest)| {
        let mut wrong = sample_limited(State::Failed);
        wrong.check().unwrap();
        change(&mut wrong);
        assert!(wrong.check().is_err(), "{wrong:?}");
    };
    refused(&|manifest| manifest.limits = None);
    let endless = Enforcement::NotEnforced("x".repeat(257));
    refused(&|manifest| manifest.limits.as_mut().unwrap().nice = Some(endless.clone()));
}

#[test]
fn a_session_directory_of_version_1_is_opened_with_its_anchor_and_its_draft() {
    let data = tempfile::tempdir().unwrap();
    let place = SessionRoot::path_of(data.path(), session());
    fs::create_dir_all(&place).unwrap();
    let (first, later) = (sample_before_running(), sample(State::Running));
    for name in [manifest_name(&first.identity.handle), draft_name(&later)] {
        fs::copy(path(&format!("v1/session/{name}")), place.join(name)).unwrap();
    }
    fs::copy(path("v1/anchor.json"), place.join("anchor.json")).unwrap();
    let ceilings = Ceilings { spool_bytes: 64 << 20, spool_bytes_total: 2 << 30 };
    let settings = AnchorSettings { provider: "files".to_owned(), ceilings };
    let root = SessionRoot::open(data.path(), session(), settings, Duration::ZERO).unwrap();
    assert_eq!(root.manifests().scan().unwrap().manifests, std::slice::from_ref(&later));
    // Without the draft, which a power cut may take, the first record counts.
    fs::remove_file(place.join(draft_name(&later))).unwrap();
    assert_eq!(root.manifests().load(&first.identity.handle).unwrap(), first);
}

/// Once for each version, when it is released; writes what is not there.
#[test]
#[ignore = "writes the fixtures of the version of today"]
fn writes_the_fixtures() {
    for (name, bytes) in kept() {
        let path = path(&format!("v{VERSION}/{name}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if !path.exists() {
            fs::write(path, bytes).unwrap();
        }
    }
}

#[test]
fn a_manifest_of_a_later_version_is_told_apart_whatever_it_holds() {
    assert!(matches!(
        Manifest::from_json(&fixture("later.manifest.json")),
        Err(LoadError::Newer { version: 2 })
    ));
}

#[test]
fn a_note_about_the_running_process_is_written_and_never_read() {
    let file = of_state(State::Starting);
    assert!(String::from_utf8_lossy(&file).contains("example.scope"), "it is there for a person");
    let read = Manifest::from_json(&file).unwrap();
    assert!(!format!("{read:?}").contains("example.scope"));
    assert!(!String::from_utf8(read.to_json().unwrap()).unwrap().contains("example.scope"));
}

#[test]
fn a_manifest_cut_at_any_length_is_corrupt() {
    let mut tried = 0;
    for state in State::ALL {
        let whole = of_state(state);
        for length in 0..whole.len() {
            let cut = Manifest::from_json(&whole[..length]);
            assert!(matches!(cut, Err(LoadError::Corrupt { .. })), "{state} cut to {length} bytes: {cut:?}");
            tried += 1;
        }
    }
    println!("{tried} truncations");
    assert!(tried > 9000, "{tried}");
}

#[test]
fn a_flipped_bit_at_any_offset_is_corrupt() {
    let mut tried = 0;
    for state in State::ALL {
        let whole = of_state(state);
        for offset in 0..whole.len() {
            for bit in 0..8 {
                tried += 1;
                let mut damaged = whole.clone();
                damaged[offset] ^= 1 << bit;
                let read = Manifest::from_json(&damaged);
                let refused = matches!(read, Err(LoadError::Corrupt { .. }));
                assert!(refused, "{state}, bit {bit} of byte {offset}: {read:?}");
            }
        }
    }
    println!("{tried} flips");
    assert!(tried > 70_000, "{tried}");
}

/// Every flip of every bit of a file below `disk`, and every truncation of it, looked at one by one.
fn damage(file: &dyn File, whole: &[u8], mut look: impl FnMut()) -> usize {
    let mut tried = 0;
    for offset in 0..whole.len() {
        for bit in 0..8 {
            file.write_all_at(&[whole[offset] ^ 1 << bit], offset as u64).unwrap();
            look();
            tried += 1;
        }
        file.write_all_at(&whole[offset..=offset], offset as u64).unwrap();
        file.sync().unwrap();
    }
    for length in (0..whole.len()).rev() {
        file.set_len(length as u64).unwrap();
        look();
        tried += 1;
    }
    file.write_all_at(whole, 0).unwrap();
    tried
}

#[test]
fn any_damage_to_an_anchor_is_corrupt_and_the_session_is_not_entered() {
    let whole = fixture("v1/anchor.json");
    let ceilings = Ceilings { spool_bytes: 64 << 20, spool_bytes_total: 2 << 30 };
    let settings = AnchorSettings { provider: "files".to_owned(), ceilings };
    let disk = LosingStore::new();
    let dir = disk.root().create_dir(&session().to_string()).unwrap();
    let file = dir.create_file("anchor.json").unwrap();
    file.write_all_at(&whole, 0).unwrap();
    let enter = || {
        SessionRoot::open_or_create_in(&*disk.root(), session(), settings.clone(), Duration::ZERO).map(drop)
    };
    enter().unwrap();
    let tried = damage(&*file, &whole, || {
        let entered = enter();
        assert!(matches!(entered, Err(SessionError::Corrupt { .. })), "{entered:?}");
    });
    enter().unwrap();
    println!("{tried} damaged anchors");
    assert_eq!(tried, whole.len() * 9);
}

#[test]
fn any_damage_to_a_draft_leaves_the_manifest_that_it_was_to_follow() {
    let disk = LosingStore::new();
    let store = ManifestStore::new(disk.root());
    store.create(&admitted(1)).unwrap();
    store.save_with(&running(1), Durability::Written).unwrap();
    let handle = admitted(1).identity.handle;
    let name = format!("{}.draft.json", handle.reveal());
    let whole = procyard_store::read_file(&*disk.root(), &name, 1 << 20).unwrap();
    let file = disk.root().open_file(&name, Access::ReadWrite).unwrap();
    let load = || ManifestStore::new(disk.root()).load(&handle).unwrap();
    assert_eq!(load(), running(1));
    let tried = damage(&*file, &whole, || assert_eq!(load(), admitted(1)));
    assert_eq!(load(), running(1));
    println!("{tried} damaged drafts");
    assert_eq!(tried, whole.len() * 9);
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        prop_assert!(Manifest::from_json(&bytes).is_err());
    }

    #[test]
    fn damage_of_any_shape_is_an_error(
        of in 0..State::ALL.len(),
        at in any::<prop::sample::Index>(),
        removed in 0_usize..64,
        put in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let whole = of_state(State::ALL[of]);
        let start = at.index(whole.len());
        let mut damaged = whole.clone();
        damaged.splice(start..(start + removed).min(whole.len()), put);
        prop_assume!(damaged != whole);
        prop_assert!(Manifest::from_json(&damaged).is_err());
    }
}
