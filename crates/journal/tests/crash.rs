//! What a sudden death at any moment leaves of a journal that was being written.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Place, all_events, event, notification, owner};
use procyard_core::LifecycleEvent;
use procyard_journal::{EventFilter, Journal};
use rand::RngExt as _;

/// How many threads of the child append at once.
const THREADS: u64 = 3;

/// Numbers of events are told apart by thread.
const STRIDE: u64 = 1 << 32;

/// Run by the next tests in a process of its own: appends for ever and says after each append which number the event got.
/// First it repeats what the one before it may have had no answer for.
#[test]
#[ignore = "the other half of `a_sudden_death_at_any_moment_loses_nothing_that_was_acknowledged`"]
fn appends_until_it_is_killed() {
    let Some(file) = std::env::var_os("APPENDS_TO").map(PathBuf::from) else { return };
    let journal = Journal::open(&file).unwrap();
    let held = all_events(&journal, 1000);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (journal, held) = (journal.clone(), &held);
            scope.spawn(move || {
                let first = (0..STRIDE).find(|at| !holds(held, thread * STRIDE + at)).unwrap();
                for at in first.saturating_sub(1)..STRIDE {
                    let number = thread * STRIDE + at;
                    let appended = journal.append(&event(number)).unwrap();
                    assert_eq!(appended.appended, at >= first, "it comes again as what it was");
                    let put = journal.put(owner(thread), &notification(number)).unwrap();
                    let line = format!("\nappended {number} {} {}\n", appended.sequence, put.number);
                    let mut output = std::io::stdout().lock();
                    output.write_all(line.as_bytes()).unwrap();
                    output.flush().unwrap();
                }
            });
        }
    });
}

fn holds(held: &[(u64, LifecycleEvent)], number: u64) -> bool {
    let id = event(number).id;
    held.iter().any(|(_, event)| event.id == id)
}

/// Number of the event, its sequence number, number of the notification.
type Acknowledged = (u64, u64, u64);

#[expect(clippy::disallowed_methods, reason = "what is killed has to be a process of its own")]
fn killed_at_random(place: &Place) -> Vec<Acknowledged> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "appends_until_it_is_killed", "--ignored", "--nocapture"])
        .env("APPENDS_TO", place.file())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines =
        BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).filter_map(|line| {
            let mut numbers = line.strip_prefix("appended ")?.split(' ').map(str::parse);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
        });
    let mut random = rand::rng();
    // Now and then while it opens, else somewhere in the middle.
    let mut acknowledged: Vec<Acknowledged> = Vec::new();
    if random.random_ratio(1, 8) {
        thread::sleep(Duration::from_micros(random.random_range(0..8000)));
    } else {
        acknowledged.extend(lines.by_ref().take(random.random_range(1..12)));
        let until = Instant::now() + Duration::from_micros(random.random_range(0..3000));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
    child.kill().unwrap();
    // What it said before it died counts, too.
    acknowledged.extend(lines);
    child.wait().unwrap();
    acknowledged
}

fn deaths(rounds: usize) {
    let mut place = Place::new();
    let mut acknowledged: Vec<Acknowledged> = Vec::new();
    let mut total = 0;
    for round in 0..rounds {
        // A new one now and then, so that the making of one is met, too.
        if round % 20 == 0 {
            place = Place::new();
            acknowledged.clear();
        }
        let said = killed_at_random(&place);
        total += said.len();
        acknowledged.extend(said);
        if !place.file().exists() {
            assert!(acknowledged.is_empty(), "what was acknowledged is gone");
            continue;
        }
        let journal = place.open();
        let events = all_events(&journal, 100);
        let last = events.last().map_or(0, |(sequence, _)| *sequence);
        assert_eq!(last, events.len() as u64, "numbers without gaps, from 1");
        for (number, sequence, notified) in &acknowledged {
            let (found, held) = &events[usize::try_from(*sequence).unwrap() - 1];
            assert_eq!((found, held), (sequence, &event(*number)));
            let page = journal.pending(owner(number / STRIDE), notified - 1, 1).unwrap();
            assert_eq!(page.entries[0].record, notification(*number));
        }
        let unasked = events.len() - acknowledged.len().min(events.len());
        assert!(unasked as u64 <= THREADS * 21, "{unasked} events that nobody was told of");
        journal.verify().unwrap();
    }
    assert!(total > rounds, "{total} acknowledged writes in {rounds} rounds prove little");
}

#[test]
fn a_sudden_death_at_any_moment_loses_nothing_that_was_acknowledged() {
    deaths(100);
}

#[test]
#[ignore = "takes a minute"]
fn a_thousand_sudden_deaths_lose_nothing_that_was_acknowledged() {
    deaths(1000);
}

#[test]
fn a_journal_that_was_left_without_closing_is_there_for_the_next() {
    let place = Place::new();
    let journal = place.open();
    for number in 0..10 {
        journal.append(&event(number)).unwrap();
    }
    // The files as a power cut right now would leave them.
    let cut = Place::new();
    for ending in ["", "-wal"] {
        let name = |place: &Place| format!("{}{ending}", place.file().display());
        std::fs::copy(name(&place), name(&cut)).unwrap();
    }
    let found = cut.open();
    assert_eq!(all_events(&found, 10), all_events(&journal, 10));
    let page = found.events_after(9, 10, &EventFilter::all()).unwrap();
    assert_eq!(page.events, [(10, event(9))]);
}
