//! Files of every version that was ever released: they are read for ever, and damage to them shows.

mod common;

use std::fs;
use std::path::PathBuf;

use common::sample;
use procyard_core::{EffectiveLimits, Enforcement, State};
use procyard_manifest::{LoadError, Manifest};
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

/// A sample with what version 2 adds.
fn limited(state: State) -> Manifest {
    let mut manifest = expected(state);
    manifest.set_limits(Some(EffectiveLimits {
        memory_max: Some(Enforcement::InForce(64 << 20)),
        pids_max: Some(Enforcement::not("no pids controller: version 2 is not to be had")),
        nice: Some(Enforcement::InForce(-5)),
        oom_score_adj: Some(Enforcement::InForce(500)),
        core_max: Some(Enforcement::InForce(0)),
    }));
    if state.is_terminal() {
        manifest.memory_kills = 2;
    }
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
fn version_2_is_read_and_written_byte_for_byte_as_it_always_was() {
    for (name, manifest) in [("running", limited(State::Running)), ("failed", limited(State::Failed))] {
        let file = fixture(&format!("v2/{name}.manifest.json"));
        assert_eq!(Manifest::from_json(&file).unwrap(), manifest, "{name}");
        let written = String::from_utf8(manifest.to_json().unwrap()).unwrap();
        assert_eq!(written, String::from_utf8(file).unwrap(), "{name}");
    }
}

#[test]
fn a_manifest_says_the_earliest_version_that_has_its_fields() {
    assert_eq!((sample(State::Failed).version, limited(State::Failed).version), (1, 2));
    let refused = |manifest: Manifest, change: &dyn Fn(&mut Manifest)| {
        let mut wrong = manifest;
        change(&mut wrong);
        assert!(wrong.check().is_err(), "{wrong:?}");
    };
    for version in [1, 3] {
        refused(limited(State::Failed), &|manifest| manifest.version = version);
    }
    refused(sample(State::Failed), &|manifest| manifest.version = 2);
    // Deaths by a limit that there was not.
    refused(limited(State::Failed), &|manifest| manifest.limits = None);
    let unbounded = Enforcement::NotEnforced("x".repeat(257));
    refused(limited(State::Failed), &|manifest| {
        manifest.limits.as_mut().unwrap().nice = Some(unbounded.clone());
    });
}

#[test]
fn a_manifest_of_a_later_version_is_told_apart_whatever_it_holds() {
    assert!(matches!(
        Manifest::from_json(&fixture("later.manifest.json")),
        Err(LoadError::Newer { version: 3 })
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
    for state in State::ALL {
        let whole = of_state(state);
        for length in 0..whole.len() {
            let cut = Manifest::from_json(&whole[..length]);
            assert!(matches!(cut, Err(LoadError::Corrupt { .. })), "{state} cut to {length} bytes: {cut:?}");
        }
    }
}

#[test]
fn a_flipped_bit_at_any_offset_is_corrupt() {
    for state in State::ALL {
        let whole = of_state(state);
        for offset in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[offset] ^= 1 << bit;
                let read = Manifest::from_json(&damaged);
                let refused = matches!(read, Err(LoadError::Corrupt { .. }));
                assert!(refused, "{state}, bit {bit} of byte {offset}: {read:?}");
            }
        }
    }
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
