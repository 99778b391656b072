//! What is announced of a process, as its manifest has it: the same at every later moment of its life.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use common::{admitted, at, owner, running, sample};
use procyard_core::{EventKind, LifecycleEvent, Outcome, Reason, State};
use procyard_manifest::{Manifest, StopRecord};

fn lost(mut manifest: Manifest) -> Manifest {
    manifest.finish(State::LostOnRestore, Outcome::diagnosed(Reason::LostOnRestore, "why"), at(9));
    manifest
}

fn stop(state: State, second: i64) -> StopRecord {
    StopRecord { reason: Reason::Terminated, state, at: at(second) }
}

#[track_caller]
fn check(manifest: &Manifest, expected: &[EventKind]) -> Vec<LifecycleEvent> {
    manifest.check().unwrap();
    let events = manifest.events();
    for event in &events {
        event.check().unwrap();
    }
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), expected);
    events
}

#[test]
fn a_life_is_announced_in_its_order() {
    use EventKind::{Backgrounded, Lost, Started, StopRequested};
    check(&admitted(1), &[]);
    check(&running(1), &[Started]);
    check(&lost(admitted(1)), &[Lost]);
    check(&lost(running(1)), &[Started, Lost]);

    let mut background = running(1);
    background.background = true;
    check(&lost(background), &[Backgrounded, Lost]);

    let mut handed = running(1);
    handed.handed_over = true;
    check(&handed, &[Started]);
    handed.handed_over_at = Some(at(3));
    check(&handed, &[Started, Backgrounded]);
    handed.stop_requested = Some(stop(State::Running, 2));
    check(&handed, &[Started, StopRequested, Backgrounded]);
    handed.stop_requested = Some(stop(State::Running, 4));
    let events = check(&lost(handed), &[Started, Backgrounded, StopRequested, Lost]);
    let times: Vec<_> = events.iter().map(LifecycleEvent::happened_at).collect();
    assert_eq!(times, [events[0].started_at.unwrap(), at(3), at(4), at(9)], "each has its own time");
}

#[test]
fn the_stop_of_a_start_is_announced_and_the_undoing_of_one_is_not() {
    let mut stopped = admitted(1);
    stopped.stop_requested = Some(stop(State::Starting, 1));
    let events = check(&stopped, &[EventKind::StopRequested]);
    assert_eq!((events[0].state, events[0].started_at), (State::Starting, None));
    stopped.stop_requested = Some(stop(State::Running, 1));
    check(&stopped, &[]);
}

#[test]
fn an_event_stays_what_it_was_whatever_follows() {
    let mut manifest = running(1);
    manifest.handed_over = true;
    let mut announced = manifest.events();
    let mut step = |manifest: &Manifest| {
        let events = manifest.events();
        assert_eq!(events[..announced.len()], announced);
        announced = events;
    };
    manifest.handed_over_at = Some(at(2));
    step(&manifest);
    manifest.stop_requested = Some(stop(State::Running, 3));
    step(&manifest);
    manifest.transfer(owner(7), at(4));
    step(&manifest);
    manifest.storage_degraded = true;
    manifest = lost(manifest);
    step(&manifest);
    manifest.published.completion = true;
    manifest.evicted = true;
    step(&manifest);
    manifest.transfer(owner(8), at(10_000));
    step(&manifest);
    let owners: Vec<_> = announced.iter().map(|event| event.identity.owner).collect();
    assert_eq!(owners, [owner(1), owner(1), owner(1), owner(7)], "each names the owner of its time");
}

#[test]
fn the_end_of_every_state_is_announced_last_and_every_id_is_one_of_the_record() {
    for state in State::ALL {
        let manifest = sample(state);
        let events = manifest.events();
        assert_eq!(
            events.last().filter(|event| event.state.is_terminal()).cloned(),
            manifest.completion_event()
        );
        let ids = manifest.ids;
        let known = [ids.started, ids.backgrounded, ids.stop_requested, ids.completed, ids.lost];
        for (index, event) in events.iter().enumerate() {
            event.check().unwrap();
            assert!(known.contains(&event.id));
            assert!(events[..index].iter().all(|earlier| earlier.id != event.id));
        }
    }
}
