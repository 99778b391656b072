//! The program that fuzzes: libFuzzer around one target, which `PROCYARD_FUZZ` names.
//!
//! Started by `cargo xtask fuzz`. Not for what a target checks: see `targets`.

#![no_main]

mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("PROCYARD_FUZZ").unwrap_or_default();
        let target = targets::ALL.iter().find(|target| target.0 == name);
        let known: Vec<&str> = targets::ALL.iter().map(|target| target.0).collect();
        let target = target.unwrap_or_else(|| panic!("PROCYARD_FUZZ names no target; there are {}", known.join(", ")));
        TARGET.get_or_init(|| target.1);
    },
    |data: &[u8]| {
        if let Some(target) = TARGET.get() {
            target(data);
        }
    }
);
