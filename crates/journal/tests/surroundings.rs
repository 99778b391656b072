//! A disk that is full and a directory that is read-only, in a mount namespace of the test's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{FILE, Place, all_events, event, notification, owner};
use procyard_journal::{Journal, JournalError};

/// A command in namespaces in which an ordinary user may mount, too.
fn apart(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", program]);
    command
}

/// Runs one of the ignored tests below in a process of its own, after `mount` was done at the place.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a mount of one's own needs a process of one's own")]
fn after(mount: &str, test: &str, place: &Path) {
    if !apart("true").output().is_ok_and(|probed| probed.status.success()) {
        eprintln!("SKIPPED: {test}: this machine lets no test make a mount namespace");
        return;
    }
    let ran = apart("sh")
        .args(["-c", &format!("{mount} && exec \"$@\""), "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("PLACE", place)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

fn place() -> Option<PathBuf> {
    std::env::var_os("PLACE").map(PathBuf::from)
}

#[test]
fn a_full_disk_is_told_loses_nothing_and_is_got_over() {
    let directory = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=1m none \"$PLACE\"";
    after(mount, "on_a_disk_that_becomes_full", directory.path());
}

#[test]
#[ignore = "the other half of `a_full_disk_is_told_loses_nothing_and_is_got_over`"]
fn on_a_disk_that_becomes_full() {
    let Some(place) = place() else { return };
    let (file, ballast) = (place.join(FILE), place.join("ballast"));
    fs::write(&ballast, vec![1; 256 * 1024]).unwrap();
    let journal = Journal::open(&file).unwrap();
    let mut held = 0;
    let refused = loop {
        match journal.append(&event(held)) {
            Ok(appended) => held = appended.sequence,
            Err(error) => break error,
        }
        assert!(held < 10_000, "the disk does not become full");
    };
    assert!(matches!(refused, JournalError::Full) && !refused.is_final(), "{refused:?}");
    let expected: Vec<_> = (0..held).map(|number| (number + 1, event(number))).collect();
    assert!(held > 20, "{held}");
    assert_eq!(all_events(&journal, 100), expected);
    assert!(!journal.append(&event(0)).unwrap().appended);
    drop(journal);

    let journal = Journal::open(&file).unwrap();
    assert_eq!(all_events(&journal, 100), expected, "reopened on the full disk");
    fs::remove_file(ballast).unwrap();
    assert_eq!(journal.append(&event(held)).unwrap().sequence, held + 1, "no number was lost");
    journal.put(owner(1), &notification(1)).unwrap();
    journal.verify().unwrap();
}

#[test]
fn a_read_only_directory_is_told() {
    let place = Place::new();
    let journal = place.open();
    journal.append(&event(1)).unwrap();
    journal.close();
    let before = fs::read(place.file()).unwrap();
    let mount = "mount --bind \"$PLACE\" \"$PLACE\" && mount -o remount,bind,ro \"$PLACE\"";
    after(mount, "in_a_directory_that_is_read_only", place.file().parent().unwrap());
    assert_eq!(fs::read(place.file()).unwrap(), before);
}

#[test]
#[ignore = "the other half of `a_read_only_directory_is_told`"]
fn in_a_directory_that_is_read_only() {
    let Some(place) = place() else { return };
    for name in [FILE, "another.sqlite3"] {
        let refused = Journal::open(&place.join(name)).map(drop).unwrap_err();
        assert!(matches!(refused, JournalError::ReadOnly), "{name}: {refused:?}");
    }
}
