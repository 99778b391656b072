//! Files of every version that was ever released: they are read for ever, and damage to them shows.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use common::{admitted, running, sample, session};
use procyard_core::State;
use procyard_manifest::{
    AnchorSettings, Ceilings, Durability, LoadError, Manifest, ManifestStore, SessionError, SessionRoot,
};
use procyard_store::{Access, File};
use procyard_testkit::LosingStore;
use proptest::prelude::*;

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
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
fn version_1_is_written_byte_for_byte_as_it_always_was() {
    for state in State::ALL {
        let written = String::from_utf8(sample(state).to_json().unwrap()).unwrap();
        assert_eq!(written, String::from_utf8(of_state(state)).unwrap(), "{state}");
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
