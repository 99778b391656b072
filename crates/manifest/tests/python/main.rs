//! A reader of session directories in another language, from the format document alone, agrees with this crate.
//!
//! Without a `python3` it is reported as ignored, which the default test harness cannot do, and in CI it fails.

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{admitted, at, owner, running, sample, sample_before_running, sample_evicted, session};
use libtest_mimic::{Arguments, Failed, Trial};
use procyard_core::{Outcome, Reason, State};
use procyard_manifest::{
    AnchorSettings, Ceilings, Durability, Manifest, ManifestStore, SessionRoot, StopRecord, manifest_name,
};
use procyard_store::FsDir;
use serde_json::{Value, json};

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/reader.py");
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

fn main() {
    let ignored = !has_python() && std::env::var_os("CI").is_none();
    let trials = vec![
        Trial::test("a_reader_in_another_language_agrees_on_the_fixtures", agrees_on_the_fixtures),
        Trial::test("a_reader_in_another_language_agrees_on_a_fresh_session", agrees_on_a_fresh_session),
        Trial::test("a_reader_in_another_language_agrees_on_leftovers_and_damage", agrees_on_damage),
    ];
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(ignored)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

#[expect(clippy::disallowed_methods, reason = "the other reader is a program of its own")]
fn has_python() -> bool {
    Command::new("python3").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[expect(clippy::disallowed_methods, reason = "the other reader is a program of its own")]
fn theirs(directory: &Path) -> Result<Vec<Value>, Failed> {
    let output = Command::new("python3").arg(READER).arg(directory).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    String::from_utf8(output.stdout)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// What this crate makes of the same directory, in the same words. The scan sweeps, so it comes second.
fn ours(directory: &Path) -> Result<Vec<Value>, Failed> {
    let scan = ManifestStore::new(FsDir::open(directory)?).scan()?;
    let mut found = Vec::new();
    for manifest in &scan.manifests {
        let name = manifest_name(&manifest.identity.handle);
        found.push((name.clone(), json!({ "manifest": name, "record": manifest })));
    }
    let corrupt = scan.corrupt.into_iter().map(|(name, _)| (name.clone(), json!({ "corrupt": name })));
    let newer = scan
        .newer
        .into_iter()
        .map(|(name, version)| (name.clone(), json!({ "newer": name, "version": version })));
    found.extend(corrupt.chain(newer));
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found.into_iter().map(|(_, value)| value).collect())
}

fn agree(directory: &Path, at_least: usize) -> Result<Vec<Value>, Failed> {
    let mut theirs = theirs(directory)?;
    theirs.retain(|line| line.get("anchor").is_none());
    for line in &mut theirs {
        // A note for a person, which this crate never reads back.
        if let Some(record) = line.get_mut("record").and_then(Value::as_object_mut) {
            record.remove("teardown");
        }
    }
    let ours = ours(directory)?;
    if ours.len() < at_least {
        return Err(format!("{} records prove too little", ours.len()).into());
    }
    if ours == theirs { Ok(ours) } else { Err(format!("here {ours:#?}, there {theirs:#?}").into()) }
}

fn agrees_on_the_fixtures() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    let fixtures = Path::new(FIXTURES);
    for state in State::ALL {
        let name = manifest_name(&sample(state).identity.handle);
        fs::copy(fixtures.join(format!("v1/{state}.manifest.json")), place.path().join(name))?;
    }
    let evicted = manifest_name(&sample_evicted().identity.handle);
    fs::copy(fixtures.join("v1/evicted.manifest.json"), place.path().join(evicted))?;
    let later = manifest_name(&admitted(0x40).identity.handle);
    fs::copy(fixtures.join("later.manifest.json"), place.path().join(later))?;
    fs::copy(fixtures.join("v1/anchor.json"), place.path().join("anchor.json"))?;
    let anchored = theirs(place.path())?.iter().any(|line| line["anchor"] == session().to_string());
    if !anchored {
        return Err("the other reader does not read the anchor".into());
    }
    agree(place.path(), State::ALL.len() + 2)?;

    let place = tempfile::tempdir()?;
    for entry in fs::read_dir(fixtures.join("v1/session"))? {
        let entry = entry?;
        fs::copy(entry.path(), place.path().join(entry.file_name()))?;
    }
    let found = agree(place.path(), 1)?;
    if found[0]["record"]["state"] == "running" { Ok(()) } else { Err("the draft was not believed".into()) }
}

fn ended(mut manifest: Manifest) -> Manifest {
    manifest.finish(State::Failed, Outcome::diagnosed(Reason::Failed, "é \u{1f980} \" \\ \u{7}"), at(9));
    manifest
}

fn agrees_on_a_fresh_session() -> Result<(), Failed> {
    let data = tempfile::tempdir()?;
    let ceilings = Ceilings { spool_bytes: 1, spool_bytes_total: 2 };
    let settings = AnchorSettings { provider: "example".to_owned(), ceilings };
    let root = SessionRoot::open_or_create(data.path(), session(), settings, Duration::ZERO)?;
    let store = root.manifests();
    for of in 1..=6 {
        store.create(&admitted(of))?;
    }
    for of in 2..=6 {
        store.save_with(&running(of), Durability::Written)?;
    }
    let mut stopped = running(3);
    stopped.stop_requested = Some(StopRecord { reason: Reason::Killed, state: State::Running, at: at(2) });
    stopped.spool.total_bytes = u64::MAX;
    store.save_with(&stopped, Durability::Written)?;
    let mut given = running(4);
    given.transfer(owner(9), at(3));
    store.save_with(&given, Durability::Written)?;
    store.save(&ended(running(5)))?;
    let mut told = ended(running(6));
    store.save(&told)?;
    told.published.completion = true;
    store.save_with(&told, Durability::Written)?;
    drop(root);
    agree(&SessionRoot::path_of(data.path(), session()), 6).map(drop)
}

fn agrees_on_damage() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    let put = |of: &Manifest, suffix: &str, bytes: &[u8]| {
        fs::write(place.path().join(format!("{}.{suffix}.json", of.identity.handle.reveal())), bytes)
    };
    let whole = |of: &Manifest| of.to_json().map_err(Failed::from);
    // Drafts that do not count: torn, behind the manifest, of another process, of nobody.
    for of in 1..=3 {
        put(&ended(running(of)), "manifest", &whole(&ended(running(of)))?)?;
    }
    let torn = whole(&ended(running(1)))?;
    put(&running(1), "draft", &torn[..torn.len() / 2])?;
    put(&running(2), "draft", &whole(&running(2))?)?;
    put(&running(3), "draft", &whole(&running(9))?)?;
    put(&running(4), "draft", &whole(&running(4))?)?;
    // A draft of a later version makes the record one of that version.
    put(&running(5), "manifest", &whole(&sample_before_running())?)?;
    put(&running(6), "manifest", &whole(&running(6))?)?;
    put(&running(6), "draft", br#"{"version": 9}"#)?;
    for (of, damage) in [(7, &b""[..]), (8, b"{}"), (9, b"\xff"), (10, br#"{"version": 1}"#)] {
        put(&running(of), "manifest", damage)?;
    }
    let mut flipped = whole(&running(11))?;
    flipped[100] ^= 1;
    put(&running(11), "manifest", &flipped)?;
    fs::write(place.path().join("nobody.manifest.json"), whole(&running(1))?)?;
    let found = agree(place.path(), 11)?;
    let counted = |kind: &str| found.iter().filter(|line| line.get(kind).is_some()).count();
    if (counted("manifest"), counted("newer"), counted("corrupt")) == (3, 1, 7) {
        return Ok(());
    }
    Err(format!("{found:#?}").into())
}
