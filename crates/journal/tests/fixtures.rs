//! Journals of every version that was ever released: they are read for ever.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{FILE, Place, all_events, at, event, handle, notification, notification_id, owner};
use procyard_core::{Handle, Owner};
use procyard_journal::{Delivery, EventBounds, InboxPage, Journal};

fn fixture(version: i64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/v{version}")).join(FILE)
}

fn process(number: u64) -> Handle {
    handle(number % 7)
}

/// Events 1 to 20 of which the first three are pruned; notifications 1 to 8 of owner 1 of which 1 is acknowledged, 2 is
/// delivered and 5 now belongs to owner 2.
fn write(file: &Path) {
    let journal = Journal::open(file).unwrap();
    for number in 1..=20 {
        journal.append(&event(number)).unwrap();
    }
    journal.prune(at(35), true, 100).unwrap();
    for number in 1..=8 {
        journal.put(owner(1), &notification(number)).unwrap();
    }
    journal.acknowledge(owner(1), &[notification_id(1)]).unwrap();
    journal.delivered(owner(1), &[notification_id(2)]).unwrap();
    journal.transfer(process(5), owner(1), owner(2)).unwrap();
    journal.close();
}

fn entries(page: InboxPage) -> Vec<(u64, Delivery)> {
    for entry in &page.entries {
        assert_eq!(entry.record, notification(entry.number));
    }
    page.entries.into_iter().map(|entry| (entry.number, entry.delivery)).collect()
}

fn unacknowledged(journal: &Journal, owner: Owner) -> Vec<(u64, Delivery)> {
    entries(journal.unacknowledged(owner, 0, 100).unwrap())
}

fn reads_as_written(journal: &Journal) {
    use Delivery::{Delivered, Pending};
    let expected: Vec<_> = (4..=20).map(|number| (number, event(number))).collect();
    assert_eq!(all_events(journal, 6), expected);
    assert_eq!(journal.event_bounds().unwrap(), EventBounds { retained_from: 4, last: 20 });
    let of_one = [(2, Delivered), (3, Pending), (4, Pending), (6, Pending), (7, Pending), (8, Pending)];
    assert_eq!(unacknowledged(journal, owner(1)), of_one);
    assert_eq!(unacknowledged(journal, owner(2)), [(5, Pending)]);
    assert_eq!(journal.counts(owner(1)).unwrap().acknowledged, 1);
    journal.verify().unwrap();
}

#[test]
fn a_journal_of_version_1_reads_as_it_was_written_and_goes_on() {
    let place = Place::new();
    fs::copy(fixture(1), place.file()).unwrap();
    let journal = place.open();
    reads_as_written(&journal);
    assert!(!journal.append(&event(20)).unwrap().appended);
    assert_eq!(journal.append(&event(21)).unwrap().sequence, 21);
    assert!(!journal.put(owner(1), &notification(5)).unwrap().put);
    assert_eq!(journal.put(owner(1), &notification(9)).unwrap().number, 9);
    journal.verify().unwrap();
}

#[test]
fn what_is_written_today_reads_like_the_fixture_of_its_version() {
    let place = Place::new();
    write(&place.file());
    reads_as_written(&place.open());
    let rows = |file: &Path| {
        let database = rusqlite::Connection::open(file).unwrap();
        let text = "SELECT 'event', sequence, body, checksum, at, id, session, loop, handle FROM event UNION ALL \
                    SELECT state, number, body, checksum, at, id, session, loop, handle FROM notification";
        let mut statement = database.prepare(text).unwrap();
        let rows = statement.query_map([], |row| {
            (0..9).map(|at| row.get(at)).collect::<Result<Vec<rusqlite::types::Value>, _>>()
        });
        rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    let kept = Place::new();
    fs::copy(fixture(procyard_journal::VERSION), kept.file()).unwrap();
    assert_eq!(rows(&place.file()), rows(&kept.file()), "bodies and checksums are part of the format");
}

#[test]
fn the_queries_of_the_format_page_find_something() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/journal-format.md"))
        .unwrap();
    let place = Place::new();
    fs::copy(fixture(1), place.file()).unwrap();
    let database = rusqlite::Connection::open(place.file()).unwrap();
    let queries: Vec<_> =
        page.split("journal.sqlite3 \"\n").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(queries.len(), 2);
    for query in queries {
        let mut statement = database.prepare(query).unwrap();
        assert!(statement.exists([]).unwrap(), "{query}");
    }
}

/// Once for each version, when it is released.
#[test]
#[ignore = "writes the fixture of the version of today"]
fn writes_the_fixture() {
    let file = fixture(procyard_journal::VERSION);
    assert!(!file.exists(), "a fixture is written once");
    write(&file);
}
