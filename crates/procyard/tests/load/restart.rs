//! The end of the service under load, in order and all of a sudden, again and again: nothing survives it, and nothing that was
//! said before is different afterwards.
//!
//! Not for one end at one moment: `cli` tests those.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use procyard_api::http::{EventRecord, NotificationQuery};
use procyard_core::{Handle, NotificationId, State};
use tokio::time::Instant;

use crate::announced::{journal, once_and_in_order};
use crate::rounds::{Job, Persistent, Shared};
use crate::service::{PATIENCE, Place, Service};
use crate::survivors::{LIFELINE, gone};

const SESSIONS: usize = 2;
const LOOPS: usize = 2;

/// Ends the service; what it recorded of processes is gone in time. How many there had been.
async fn ended(place: &Place, service: Service, signal: Signal) -> usize {
    service.signal(signal);
    let (status, said) = service.end().await;
    if signal == Signal::SIGTERM {
        assert_eq!(status.code(), Some(0), "{said}");
        assert_eq!(said, "", "a service that ends in order has nothing to say");
        gone(place.path(), Duration::ZERO).await
    } else {
        gone(place.path(), LIFELINE).await
    }
}

/// Ends the service and begins it anew so often, then says that it is enough. The last service, and how many processes were
/// lost.
async fn ended_and_begun(
    place: &Place,
    mut service: Service,
    rounds: usize,
    shared: &Shared,
) -> (Service, u64) {
    let mut lost = 0;
    for round in 0..rounds {
        let pause = Duration::from_millis(rand::random_range(50..1500));
        tokio::time::sleep(pause).await;
        let signal = if round % 2 == 0 { Signal::SIGKILL } else { Signal::SIGTERM };
        let began = Instant::now();
        let processes = ended(place, service, signal).await;
        let took = began.elapsed();
        service = place.serve().await;
        let recovery = service.admin().recovery().await.unwrap();
        assert_eq!(recovery.anomalies, 0, "{recovery:?}");
        let found: u64 = recovery.sessions.iter().map(|session| session.lost).sum();
        assert!(found == 0 || signal == Signal::SIGKILL, "{recovery:?}");
        lost += found;
        eprintln!(
            "{signal} after {pause:.2?}: {processes} processes so far gone in {took:.2?}, {found} lost"
        );
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    shared.enough.store(true, Ordering::Relaxed);
    (service, lost)
}

async fn ends_under_load(rounds: usize) {
    // All of it is kept, so that all of it can be looked at again; a grace that a round has time for.
    let place =
        Place::new("[retention]\ncompleted_per_session = 100000\n[processes]\ngraceful_shutdown_ms = 500\n");
    let service = place.serve().await;
    let shared = Arc::new(Shared::default());
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        for of in service.session(LOOPS).await {
            // The port is another one each time.
            let client = service.admin().with_token(&of.token);
            let of = crate::service::Loop { client, ..of };
            clients.push(Arc::new(Persistent {
                of,
                socket: service.socket.clone(),
                shared: Arc::clone(&shared),
            }));
        }
    }
    let following: Vec<_> = clients
        .iter()
        .map(|client| {
            let (client, records) = (Arc::clone(client), Arc::new(Mutex::new(Vec::new())));
            let kept = Arc::clone(&records);
            (tokio::spawn(async move { client.follow(kept).await }), records)
        })
        .collect();
    let working = join_all(clients.iter().map(|client| client.work()));
    let (jobs, (service, lost)) = tokio::join!(working, ended_and_begun(&place, service, rounds, &shared));
    let mut numbers = HashMap::new();
    for ((client, jobs), (follower, records)) in clients.iter().zip(jobs).zip(following) {
        for job in &jobs {
            numbers.insert(job.number, job.end);
            client.verify(job).await;
            let again = client.of.client.start(&job.arguments, Some(&job.key())).await.unwrap();
            assert_eq!(
                again.result.process_id, job.handle,
                "a key names one process, whatever was in between"
            );
        }
        announced_once(client, &jobs, &records).await;
        follower.abort();
    }
    ran_once(&place, &numbers);
    let ends = |state| numbers.values().filter(|end| **end == Some(state)).count();
    eprintln!(
        "{} commands: {} exited, {} ended in order, {} lost",
        numbers.len(),
        ends(State::Exited),
        ends(State::Terminated) + ends(State::Killed),
        ends(State::LostOnRestore)
    );
    for (told, count) in &*shared.told.lock().unwrap() {
        eprintln!("{count:>5} times: {told}");
    }
    assert!(lost > 0 && ends(State::Exited) > 0, "there was load");
    let processes = ended(&place, service, Signal::SIGTERM).await;
    assert!(
        processes >= numbers.values().filter(|end| **end == Some(State::Exited)).count(),
        "they recorded themselves"
    );
}

/// The stream of events over all lives of the service is the journal, with one end of each process; the inbox has each notice
/// once.
async fn announced_once(client: &Persistent, jobs: &[Job], records: &Mutex<Vec<EventRecord>>) {
    let recorded = journal(&client.of.client, None).await;
    let deadline = Instant::now() + PATIENCE;
    while records.lock().unwrap().last().map(|record| record.seq) != recorded.last().map(|record| record.seq)
    {
        assert!(Instant::now() < deadline, "the stream has everything");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        *records.lock().unwrap(),
        recorded,
        "each record once and in order, however often it was connected"
    );
    let mut handles: HashSet<Handle> = recorded.iter().map(|record| record.process_id).collect();
    let known: HashSet<Handle> = jobs.iter().map(|job| job.handle).collect();
    // A start whose service ended before it could answer, and that never ran.
    let unknown = handles.difference(&known).count();
    handles.extend(&known);
    once_and_in_order(&recorded, &handles);
    for job in jobs {
        let end = recorded.iter().find(|record| record.process_id == job.handle && record.kind.is_end());
        assert_eq!(end.map(|end| end.state), job.end, "{job:?}");
    }
    let mut notices: Vec<(NotificationId, Handle)> = Vec::new();
    let mut query = NotificationQuery { limit: Some(1000), ..NotificationQuery::default() };
    loop {
        let page = client.of.client.notifications(&query).await.unwrap();
        query.after = page.notifications.last().map(|shown| shown.number);
        notices.extend(
            page.notifications.iter().map(|shown| (shown.notification.id, shown.notification.process_id)),
        );
        if !page.more {
            break;
        }
    }
    let ids: HashSet<_> = notices.iter().map(|(id, _)| id).collect();
    let of: HashSet<_> = notices.iter().map(|(_, handle)| *handle).collect();
    assert_eq!((ids.len(), of.len()), (notices.len(), notices.len()), "each notice once");
    assert!(of.is_subset(&handles));
    eprintln!("{} processes, {unknown} of them never heard of; {} notices", handles.len(), notices.len());
}

/// No command ran twice, however often its start was sent; what exited ran.
fn ran_once(place: &Place, numbers: &HashMap<usize, Option<State>>) {
    let text = std::fs::read_to_string(place.path().join("ran")).unwrap();
    let mut ran: HashMap<usize, usize> = HashMap::new();
    for number in text.lines() {
        *ran.entry(number.parse().unwrap()).or_default() += 1;
    }
    let twice: Vec<_> = ran.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let exited = numbers.iter().filter(|(_, end)| **end == Some(State::Exited));
    for (number, _) in exited {
        assert!(ran.contains_key(number), "{number} exited and did not run");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_finished_is_there_and_nothing_runs_after_an_end_under_load() {
    ends_under_load(3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: `cargo xtask nightly restart`"]
async fn what_was_finished_is_there_and_nothing_runs_after_many_ends_under_load() {
    let rounds = std::env::var("PROCYARD_TEST_RESTARTS").map_or(30, |text| text.parse().unwrap());
    ends_under_load(rounds).await;
}
