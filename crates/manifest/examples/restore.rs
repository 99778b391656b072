//! What a restart costs: scanning the manifests of a session against only reading the same files.
//!
//! `cargo run --release -p procyard-manifest --example restore`; prints one line for each size. The files are read
//! before, so both find them in the page cache.

use std::error::Error;
use std::time::{Duration, Instant};
use std::{fs, hint};

use procyard_core::{
    ExecutionId, Handle, Identity, LoopId, Origin, Outcome, Owner, Reason, SessionId, State, Timestamp,
};
use procyard_manifest::{AccessRecord, CommandRecord, Manifest, ManifestStore, StableIds, manifest_name};
use procyard_store::FsDir;

const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:>10} {:>10} {:>10} {:>8} {:>14}", "manifests", "read", "scan", "ratio", "per manifest");
    for count in [1_000, 3_162, 10_000] {
        let place = tempfile::tempdir()?;
        for number in 0..count {
            let manifest = exited(number)?;
            fs::write(place.path().join(manifest_name(&manifest.identity.handle)), manifest.to_json()?)?;
        }
        let store = ManifestStore::new(FsDir::open(place.path())?);
        let read = fastest(|| {
            for entry in fs::read_dir(place.path())? {
                hint::black_box(fs::read(entry?.path())?);
            }
            Ok(())
        })?;
        let scan = fastest(|| {
            let scan = store.scan()?;
            assert_eq!(scan.manifests.len(), usize::try_from(count)?);
            hint::black_box(scan);
            Ok(())
        })?;
        let ratio = scan.as_secs_f64() / read.as_secs_f64();
        println!("{count:>10} {read:>10.1?} {scan:>10.1?} {ratio:>8.2} {:>14.1?}", scan / count);
    }
    Ok(())
}

fn fastest(mut work: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        work()?;
        best = best.min(began.elapsed());
    }
    Ok(best)
}

fn exited(number: u32) -> Result<Manifest, Box<dyn Error>> {
    let mut seed = u128::from(number) << 64;
    let mut random = |bytes: &mut [u8; 16]| {
        seed += 1;
        *bytes = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes();
        true
    };
    let handle = Handle::generate(&mut random, |_| false)?;
    let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
    let origin = Origin { execution: ExecutionId::from_random([3; 16]) };
    let command =
        CommandRecord::line("cargo test --workspace --all-features 2>&1 | tail -n 40", "/home/dev/project");
    let (ids, now) = (StableIds::generate(&mut random)?, Timestamp::from_unix_micros(1_767_225_600_000_000));
    let identity = Identity { handle, owner, origin };
    let mut manifest = Manifest::new(identity, command, AccessRecord::BroadWrite, ids, now);
    "subreaper".clone_into(&mut manifest.tier);
    manifest.started_at = Some(now);
    let outcome = Outcome { exit_code: Some(0), diagnostic: None, ..Outcome::diagnosed(Reason::Exited, "") };
    manifest.finish(State::Exited, outcome, now);
    Ok(manifest)
}
