//! The journal of a session of `procyard mcp`: what it holds after the server's sudden death, and when it is damaged.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use procyard_core::{EventKind, LifecycleEvent, LoopId, Owner, Reason, SessionId, State};
use procyard_journal::{Delivery, EventFilter, InboxEntry, Journal, NotificationKind};
use serde_json::json;

use crate::client::Client;
use crate::running::Running;
use crate::scene::{Scene, eventually};

const SESSION: &str = "3e0d7f0a-9a55-4a86-8d7b-6b1f4f1c2d33";
const LOOP: &str = "b7a4c1de-2f60-4a0c-9f0e-0d3c5a7e8f44";

const SAME: [&str; 4] = ["--session", SESSION, "--loop", LOOP];

fn owner() -> Owner {
    Owner { session: SESSION.parse::<SessionId>().unwrap(), loop_id: LOOP.parse::<LoopId>().unwrap() }
}

fn file(scene: &Scene) -> PathBuf {
    scene.data_dir().join("sessions").join(SESSION).join("journal.sqlite3")
}

fn events(journal: &Journal) -> Vec<LifecycleEvent> {
    let page = journal.events_after(0, 1000, &EventFilter::all()).unwrap();
    assert!(!page.more);
    let numbered = page.events.iter().zip(1..).all(|((sequence, _), expected)| *sequence == expected);
    assert!(numbered, "{:?}", page.events);
    page.events.into_iter().map(|(_, event)| event).collect()
}

fn inbox(journal: &Journal) -> Vec<InboxEntry> {
    journal.pending(owner(), 0, 1000).unwrap().entries
}

/// The journal once it has so many events, read beside the server that writes it.
#[track_caller]
fn with_events(scene: &Scene, count: usize) -> Journal {
    eventually("the journal has what happened", || {
        let journal = Journal::open(&file(scene)).ok()?;
        (events(&journal).len() >= count).then_some(journal)
    })
}

fn kinds(events: &[LifecycleEvent]) -> Vec<EventKind> {
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn after_a_sudden_death_everything_that_happened_is_in_the_journal_once() {
    use EventKind::{Backgrounded, Completed, Lost, Started};
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &SAME);
    let done = client.call("Bash", json!({"command": "exit 3"}))["process_id"].clone();
    let lost = json!({"command": "eval \"$RECORD\"; exec sleep 1000", "background": true});
    let lost = client.call("Bash", lost)["process_id"].clone();
    scene.wait_for_records(1);
    // The next server publishes again what it cannot know to be published; the journal keeps it once.
    let before = events(&with_events(&scene, 3));
    assert_eq!(kinds(&before), [Started, Completed, Backgrounded]);
    client.server.signal(Signal::SIGKILL);
    client.server.end();

    // The second server records the loss; the third finds that it has nothing to add.
    for _ in 0..2 {
        let mut client = Client::connect(&scene, &SAME);
        scene.assert_no_survivor();
        with_events(&scene, 4);
        let output = client.call("ProcessOutput", json!({"process_id": lost}));
        assert_eq!(output["status"], "lost_on_restore", "{output}");
        client.server.signal(Signal::SIGKILL);
        client.server.end();
    }
    assert_eq!(Client::connect(&scene, &SAME).leave_and_wait().0.code(), Some(0));

    let journal = Journal::open(&file(&scene)).unwrap();
    let events = events(&journal);
    assert_eq!(kinds(&events), [Started, Completed, Backgrounded, Lost]);
    assert_eq!(events[..3], before);
    let of = |event: &LifecycleEvent| json!(event.identity.handle.reveal());
    assert_eq!(events.iter().map(of).collect::<Vec<_>>(), [done.clone(), done, lost.clone(), lost.clone()]);
    assert!(events.iter().all(|event| event.identity.owner == owner()));
    let completed = (events[1].state, events[1].reason, events[1].exit_code);
    assert_eq!(completed, (State::Exited, Some(Reason::Exited), Some(3)));
    let notified = inbox(&journal);
    assert_eq!(notified.len(), 1, "of the background command alone, once: {notified:?}");
    assert_eq!(json!(notified[0].record.handle.reveal()), lost);
    assert_eq!(notified[0].record.state, State::LostOnRestore);
    assert_eq!(notified[0].record.kind, NotificationKind::Completed);
    assert_eq!(notified[0].delivery, Delivery::Pending);
    journal.verify().unwrap();
}

#[test]
fn a_stop_and_an_orderly_end_are_in_the_journal_with_their_reasons() {
    use EventKind::{Completed, StopRequested};
    let scene = Scene::new();
    let mut client = Client::connect(&scene, &SAME);
    let lasting = || json!({"command": "eval \"$RECORD\"; exec sleep 1000", "background": true});
    let stopped = client.call("Bash", lasting())["process_id"].clone();
    client.call("Bash", lasting());
    scene.wait_for_records(2);
    client.call("ProcessStop", json!({"process_id": stopped, "mode": "kill"}));
    assert_eq!(client.leave_and_wait().0.code(), Some(0));

    let journal = Journal::open(&file(&scene)).unwrap();
    let said: Vec<_> = events(&journal)
        .into_iter()
        .filter(|event| !matches!(event.kind, EventKind::Backgrounded))
        .map(|event| {
            (json!(event.identity.handle.reveal()) == stopped, event.kind, event.state, event.reason)
        })
        .collect();
    assert_eq!(
        said,
        [
            (true, StopRequested, State::Running, Some(Reason::Killed)),
            (true, Completed, State::Killed, Some(Reason::Killed)),
            (false, StopRequested, State::Running, Some(Reason::Terminated)),
            (false, Completed, State::Terminated, Some(Reason::RunnerShutdown)),
        ]
    );
}

#[test]
fn a_session_whose_journal_is_damaged_is_refused_and_left_as_it_is() {
    let scene = Scene::new();
    assert_eq!(Client::connect(&scene, &SAME).leave_and_wait().0.code(), Some(0));
    let damaged = vec![0x5a; 8192];
    std::fs::write(file(&scene), &damaged).unwrap();
    let refused = Running::spawn(scene.procyard(["mcp"]).args(SAME)).wait_with_input_open();
    assert_eq!(refused.code(), 125, "{refused:?}");
    assert!(refused.stdout.is_empty());
    let stderr = refused.stderr();
    assert!(stderr.contains(SESSION) && stderr.contains("corrupt"), "{stderr}");
    assert_eq!(std::fs::read(file(&scene)).unwrap(), damaged);
}

#[test]
fn what_is_run_for_a_person_leaves_no_journal() {
    let scene = Scene::new();
    assert_eq!(scene.run(["--", "true"]).code(), 0);
    assert!(scene.sessions().is_empty());
}
