//! What is damaged, foreign, later, full or not writable: a typed error or intact entries, never a loss, never a panic.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use common::{Place, all_events, event, event_id, notification, owner};
use procyard_core::{LifecycleEvent, NotificationId, Timestamp};
use procyard_journal::{EventFilter, Journal, JournalError, JournalOptions};

fn beside(file: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", file.display()))
}

/// A closed journal with some events and notifications, and its bytes.
fn written(place: &Place) -> Vec<u8> {
    let journal = place.open();
    for number in 0..40 {
        journal.append(&event(number)).unwrap();
        journal.put(owner(1), &notification(number)).unwrap();
    }
    journal.close();
    assert!(!beside(&place.file(), "-wal").exists(), "a journal that is closed is one file");
    fs::read(place.file()).unwrap()
}

#[track_caller]
fn refused(place: &Place) -> JournalError {
    let before = fs::read(place.file()).unwrap();
    let error = Journal::open(&place.file()).map(drop).unwrap_err();
    assert_eq!(fs::read(place.file()).unwrap(), before, "what does not open is left as it is: {error}");
    error
}

/// Changes a closed journal with the engine itself.
fn change(place: &Place, text: &str) {
    let database = rusqlite::Connection::open(place.file()).unwrap();
    database.execute_batch(text).unwrap();
}

#[test]
fn a_header_with_a_flipped_byte_is_told_or_does_not_matter() {
    let place = Place::new();
    let whole = written(&place);
    let mut told = 0;
    for offset in 0..100 {
        let mut damaged = whole.clone();
        damaged[offset] ^= 0xff;
        fs::write(place.file(), &damaged).unwrap();
        match Journal::open(&place.file()) {
            Ok(journal) => assert_eq!(all_events(&journal, 100).len(), 40, "byte {offset}"),
            Err(
                JournalError::Corrupt { .. }
                | JournalError::Foreign
                | JournalError::Newer { .. }
                | JournalError::ReadOnly
                | JournalError::Io(_),
            ) => {
                told += 1;
                assert_eq!(fs::read(place.file()).unwrap(), damaged, "byte {offset}");
            }
            Err(error) => panic!("byte {offset}: {error}"),
        }
    }
    assert!(told >= 30, "{told}");
    fs::write(place.file(), &whole[..]).unwrap();
    let mut magic = whole;
    magic[0] = b's';
    fs::write(place.file(), magic).unwrap();
    assert!(matches!(refused(&place), JournalError::Corrupt { .. }));
}

#[test]
fn a_flipped_byte_anywhere_never_gives_a_wrong_event() {
    let place = Place::new();
    let whole = written(&place);
    let expected: Vec<_> = (0..40).map(|number| (number + 1, event(number))).collect();
    let (mut told, mut intact) = (0, 0);
    for offset in (100..whole.len()).step_by(199) {
        let mut damaged = whole.clone();
        damaged[offset] ^= 0x55;
        fs::write(place.file(), &damaged).unwrap();
        let _ = fs::remove_file(beside(&place.file(), "-wal"));
        let _ = fs::remove_file(beside(&place.file(), "-shm"));
        let found = Journal::open(&place.file()).and_then(|journal| {
            let page = journal.events_after(0, 1000, &EventFilter::all())?;
            let inbox = journal.pending(owner(1), 0, 1000)?;
            Ok((page.events, inbox, journal.verify()))
        });
        match found {
            Err(JournalError::Corrupt { .. }) => told += 1,
            Err(error) => panic!("byte {offset}: {error:?}"),
            Ok((events, inbox, verified)) => {
                assert_eq!(events, expected, "byte {offset}");
                for entry in inbox.entries {
                    let number = entry.number - 1;
                    assert_eq!(entry.record, notification(number), "byte {offset}");
                }
                // An index that is damaged is found by a look at everything.
                if verified.is_ok() {
                    intact += 1;
                } else {
                    told += 1;
                }
            }
        }
    }
    assert!(told > 40 && intact > 10, "{told} told, {intact} did not matter");
}

#[test]
fn a_file_cut_at_any_length_is_told_or_blank() {
    let place = Place::new();
    let whole = written(&place);
    for length in (1..whole.len()).step_by(997).chain([99, 100, 511, 512, 4096]) {
        fs::write(place.file(), &whole[..length]).unwrap();
        let _ = fs::remove_file(beside(&place.file(), "-wal"));
        let _ = fs::remove_file(beside(&place.file(), "-shm"));
        let read = Journal::open(&place.file()).and_then(|journal| journal.verify());
        assert!(matches!(read, Err(JournalError::Corrupt { .. })), "{length} bytes: {read:?}");
    }
}

#[test]
fn an_empty_file_is_a_new_journal_unless_a_log_says_that_it_was_one() {
    let place = Place::new();
    fs::write(place.file(), "").unwrap();
    place.open().append(&event(1)).unwrap();
    fs::write(place.file(), "").unwrap();
    fs::write(beside(&place.file(), "-wal"), "something").unwrap();
    assert!(matches!(refused(&place), JournalError::Corrupt { .. }));
}

#[test]
fn a_later_version_is_refused_and_left_alone() {
    let place = Place::new();
    written(&place);
    change(&place, "PRAGMA user_version = 2");
    assert!(matches!(refused(&place), JournalError::Newer { version: 2 }));
    for version in [0, -1] {
        change(&place, &format!("PRAGMA user_version = {version}"));
        assert!(matches!(refused(&place), JournalError::Corrupt { .. }), "{version}");
    }
    change(&place, "PRAGMA user_version = 1");
    assert_eq!(all_events(&place.open(), 100).len(), 40);
}

#[test]
fn the_log_of_a_later_version_is_left_alone_too() {
    let place = Place::new();
    let journal = place.open();
    journal.append(&event(1)).unwrap();
    let other = rusqlite::Connection::open(place.file()).unwrap();
    other.execute_batch("PRAGMA user_version = 2").unwrap();
    // The files as a crash right now would leave them.
    let cut = Place::new();
    for ending in ["", "-wal"] {
        fs::copy(beside(&place.file(), ending), beside(&cut.file(), ending)).unwrap();
    }
    let log = fs::read(beside(&cut.file(), "-wal")).unwrap();
    assert!(!log.is_empty());
    assert!(matches!(refused(&cut), JournalError::Newer { version: 2 }));
    assert_eq!(fs::read(beside(&cut.file(), "-wal")).unwrap(), log);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let place = Place::new();
    change(&place, "CREATE TABLE event (sequence INTEGER PRIMARY KEY)");
    assert!(matches!(refused(&place), JournalError::Foreign));
    change(&place, "PRAGMA application_id = 7; PRAGMA user_version = 1");
    assert!(matches!(refused(&place), JournalError::Foreign));
    fs::remove_file(place.file()).unwrap();
    fs::create_dir(place.file()).unwrap();
    assert!(matches!(Journal::open(&place.file()), Err(JournalError::Foreign)));
}

#[test]
fn tables_that_are_not_those_of_the_version_are_corrupt_and_statistics_are_not() {
    for (change_it, changed) in [
        ("DROP INDEX event_by_owner", true),
        ("CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM event; END", true),
        ("CREATE TABLE more (a)", true),
        ("ALTER TABLE event ADD COLUMN more TEXT", true),
        ("ANALYZE", false),
        ("PRAGMA journal_mode = DELETE", false),
        ("VACUUM", false),
    ] {
        let place = Place::new();
        written(&place);
        change(&place, change_it);
        if changed {
            assert!(matches!(refused(&place), JournalError::Corrupt { .. }), "{change_it}");
        } else {
            assert_eq!(all_events(&place.open(), 100).len(), 40, "{change_it}");
        }
    }
}

#[test]
fn a_row_that_was_changed_or_taken_out_is_told() {
    for text in [
        "UPDATE event SET body = replace(body, '\"exit_code\":3', '\"exit_code\":4')",
        "UPDATE event SET checksum = checksum + 1 WHERE sequence = 7",
        "UPDATE event SET loop = 'x' WHERE sequence = 7",
        "UPDATE event SET handle = 'x' WHERE sequence = 7",
        "UPDATE event SET id = 'x' WHERE sequence = 7",
        "UPDATE event SET at = 0 WHERE sequence = 7",
        "DELETE FROM event WHERE sequence = 7",
        "DELETE FROM event WHERE sequence = 1",
        "UPDATE event SET sequence = 1007 WHERE sequence = 7",
        "UPDATE position SET events_pruned = 3",
        "DELETE FROM position",
        "UPDATE notification SET body = replace(body, '5000', '6000')",
        "UPDATE notification SET id = 'x' WHERE number = 7",
        "UPDATE notification SET handle = 'x' WHERE number = 7",
        "UPDATE notification SET at = 0 WHERE number = 7",
    ] {
        let place = Place::new();
        written(&place);
        change(&place, text);
        let read = Journal::open(&place.file()).and_then(|journal| journal.verify());
        assert!(matches!(read, Err(JournalError::Corrupt { .. })), "{text}: {read:?}");
    }
}

#[test]
fn a_journal_at_its_ceiling_says_so_loses_nothing_and_goes_on_when_there_is_room() {
    let place = Place::new();
    let journal = Journal::open_with(&place.file(), JournalOptions { max_bytes: 256 * 1024 }).unwrap();
    let mut held = 0;
    let refused = loop {
        match journal.append(&event(held)) {
            Ok(appended) => held = appended.sequence,
            Err(error) => break error,
        }
        assert!(held < 10_000, "the ceiling does not hold");
    };
    assert!(matches!(refused, JournalError::Ceiling) && !refused.is_final(), "{refused}");
    assert!(held > 50, "{held}");
    // The pages of another table may have room left, and end, too.
    let put = |number| journal.put(owner(1), &notification(number));
    let refused = (0..100).map(put).find_map(Result::err).unwrap();
    assert!(matches!(refused, JournalError::Ceiling), "{refused}");
    let expected: Vec<_> = (0..held).map(|number| (number + 1, event(number))).collect();
    assert_eq!(all_events(&journal, 100), expected);
    assert!(!journal.append(&event(0)).unwrap().appended, "what is there needs no room");
    journal.close();
    assert!(fs::metadata(place.file()).unwrap().len() <= 256 * 1024);

    let journal = Journal::open_with(&place.file(), JournalOptions { max_bytes: 0 }).unwrap();
    assert_eq!(all_events(&journal, 100), expected, "a lower ceiling takes nothing away");
    journal.prune(Timestamp::from_unix_micros(i64::MAX), false, 20).unwrap();
    assert_eq!(journal.append(&event(held)).unwrap().sequence, held + 1, "and no number was lost");
    journal.verify().unwrap();
}

#[test]
fn the_files_are_for_their_user_alone() {
    let place = Place::new();
    let journal = place.open();
    journal.append(&event(1)).unwrap();
    let mode = |ending| fs::metadata(beside(&place.file(), ending)).unwrap().permissions().mode() & 0o777;
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(ending), 0o600, "{ending}");
    }
    drop(journal);
    fs::set_permissions(place.file(), Permissions::from_mode(0o644)).unwrap();
    drop(place.open());
    assert_eq!(mode(""), 0o600, "also when it was made by others");
}

#[test]
fn a_link_in_place_of_the_file_is_not_followed() {
    let (place, elsewhere) = (Place::new(), Place::new());
    written(&elsewhere);
    symlink(elsewhere.file(), place.file()).unwrap();
    assert!(matches!(Journal::open(&place.file()), Err(JournalError::Foreign)));
    // A directory on the way may be one.
    let way = Place::new();
    fs::create_dir(way.file()).unwrap();
    let link = beside(&way.file(), ".link");
    symlink(way.file(), &link).unwrap();
    Journal::open(&link.join("journal.sqlite3")).unwrap().append(&event(1)).unwrap();
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let place = Place::new();
    let missing = Journal::open(&place.file().join("journal.sqlite3"));
    assert!(matches!(&missing, Err(JournalError::Io(error))
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)));
    assert!(Journal::open(Path::new("/")).is_err());
}

#[test]
fn errors_say_what_to_do_and_nothing_of_this_machine() {
    let place = Place::new();
    written(&place);
    change(&place, "PRAGMA user_version = 9");
    let newer = refused(&place).to_string();
    assert_eq!(newer, "the journal has format version 9; this procyard reads up to 1");
    let journal = Place::new().open();
    journal.append(&event(1)).unwrap();
    let other = LifecycleEvent { id: event_id(1), ..event(2) };
    let collision = journal.append(&other).unwrap_err();
    assert_eq!(collision.to_string(), "the journal has this id with other content; the first stands");
    let ids: Vec<NotificationId> = Vec::new();
    assert!(journal.acknowledge(owner(1), &ids).is_ok());
}
