//! The power is cut at every step of a session's life. What its supervisor had told of is what the next one finds.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{Yard, options, owner};
use procyard_core::{EventKind, Handle, Limits, State};
use procyard_supervisor::SupervisorError;
use procyard_testkit::{LosingStore, PowerCuts, Script};
use tempfile::TempDir;

const PRINTED: usize = 50_000;

fn limits() -> Limits {
    Limits { retained_per_session: 1, window_bytes: 1000, spool_bytes: 20_000, ..Limits::default() }
}

fn output(of: u8) -> Vec<u8> {
    (0..PRINTED)
        .map(|at| (at as u64 + u64::from(of)).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[3])
        .collect()
}

/// What was told before the power went.
#[derive(Debug, Default)]
struct Told {
    /// How many starts were tried.
    starts: usize,
    /// Processes in the order of their starts: the handle, and the end that was told of while there was power.
    processes: Vec<(Handle, Option<State>)>,
    /// Ends that were announced while there was power.
    announced: BTreeSet<Handle>,
}

/// Runs on a paused clock, and joins everything before it returns.
fn run<T>(task: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(task)
}

async fn yard(store: &LosingStore) -> Result<Yard, SupervisorError> {
    // Nothing is on the disk of this machine.
    let place = Arc::new(TempDir::new().unwrap());
    Yard::try_over(place, store.root(), Script::new(), limits()).await
}

/// Two processes, one after the other, of which only the second one is retained.
async fn live(store: &LosingStore) -> Told {
    let mut told = Told::default();
    let Ok(yard) = yard(store).await else { return told };
    for of in 0..2 {
        told.starts += 1;
        let Ok(handle) = yard.try_start(options()).await else { break };
        told.processes.push((handle, None));
        let played = yard.runner.last().unwrap();
        for chunk in output(of).chunks(7000) {
            played.stdout(chunk).await;
        }
        if of == 0 {
            played.exit(3).await;
        } else {
            played.die_of(11).await;
        }
        let end = yard.end(handle).await;
        // A record that the disk refused is told of, and says so.
        if store.has_power() && !end.storage_degraded {
            told.processes[usize::from(of)].1 = Some(end.state);
        }
        if store.has_power() {
            yard.events(handle, 2).await;
        }
        let announced = !yard.journal.ends_of(handle).is_empty();
        if announced && store.has_power() {
            told.announced.insert(handle);
        }
        if !store.has_power() {
            break;
        }
    }
    yard.supervisor.shutdown().await;
    told
}

async fn look(told: &Told, after: &LosingStore) {
    let next = yard(after).await.unwrap();
    let found = next.supervisor.list(owner(1));
    for (number, (handle, end)) in told.processes.iter().enumerate() {
        let snapshot = found.iter().find(|snapshot| snapshot.identity.handle == *handle);
        // The first one is dropped for the second one.
        let may_be_gone = number == 0 && told.starts == 2;
        let Some(snapshot) = snapshot else {
            assert!(may_be_gone, "process {number} was admitted and is gone");
            continue;
        };
        assert!(snapshot.state.is_terminal());
        if let Some(end) = end {
            assert_eq!(snapshot.state, *end, "process {number} had ended");
        }
        let lost = snapshot.state == State::LostOnRestore;
        assert!(!lost || !told.announced.contains(handle), "another end of process {number} was announced");
        let lost_events = next.events(*handle, usize::from(lost)).await;
        let lost_events = lost_events.iter().filter(|(kind, _)| *kind == EventKind::Lost).count();
        assert_eq!(lost_events, usize::from(lost));
        check_output(&next, *handle, u8::try_from(number).unwrap(), lost).await;
    }
    // The same again, whatever the first restore did.
    let states: Vec<_> = found.iter().map(|snapshot| (snapshot.identity.handle, snapshot.state)).collect();
    next.supervisor.shutdown().await;
    let again = yard(after).await.unwrap();
    let found: Vec<_> = again
        .supervisor
        .list(owner(1))
        .iter()
        .map(|snapshot| (snapshot.identity.handle, snapshot.state))
        .collect();
    assert!(found.iter().all(|process| states.contains(process)), "{found:?} of {states:?}");
    again.supervisor.shutdown().await;
}

/// What is read was printed there; what is not read is a gap or damage that is told of. Of a process whose end was
/// recorded, and that is not marked, everything that is retained is there.
async fn check_output(yard: &Yard, handle: Handle, of: u8, lost: bool) {
    let printed = output(of);
    let snapshot = yard.supervisor.snapshot(yard.owner, &handle).unwrap();
    let whole = !lost && !snapshot.storage_degraded;
    if whole {
        assert_eq!(snapshot.total_bytes, PRINTED as u64);
    }
    let mut cursor = snapshot.retained_from;
    while cursor < snapshot.total_bytes {
        let Ok((page, _)) = yard.supervisor.read(yard.owner, &handle, crate::common::read_from(cursor)).await
        else {
            assert!(!whole, "what is retained is read");
            return;
        };
        for span in &page.spans {
            let place = usize::try_from(span.cursor).unwrap();
            assert!(page.bytes[span.offset..][..span.len] == printed[place..][..span.len], "{span:?}");
        }
        assert!(!whole || !page.gap, "what is retained is there");
        if page.next_cursor == cursor {
            break;
        }
        cursor = page.next_cursor;
    }
}

#[test]
fn what_was_told_before_a_power_cut_is_what_is_found_after_it() {
    let random_losses =
        std::env::var("PROCYARD_TEST_LOSSES").ok().and_then(|losses| losses.parse().ok()).unwrap_or(4);
    let cuts = PowerCuts { seed: 23, random_losses }.at_every_step(
        LosingStore::new,
        |store| run(live(store)),
        |told, after, _| run(look(told, after)),
    );
    println!("a session: {} steps, {} cuts", cuts.steps, cuts.cuts);
    assert!(cuts.steps > 40, "{cuts:?}");
}
