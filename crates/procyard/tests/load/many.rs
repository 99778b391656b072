//! Many clients at once.
//!
//! Not for how long a service bears that: see `soak`.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::{join_all, try_join_all};

use crate::announced::{followed, journal, notices_once, once_and_in_order};
use crate::commands::Kind;
use crate::jobs::{Done, Worker};
use crate::measure::{Footprint, at_rest, busy, watched};
use crate::service::Place;
use crate::tally::Tally;

#[derive(Clone, Copy)]
struct Size {
    sessions: usize,
    clients_per_session: usize,
    each: usize,
}

impl Size {
    fn per_session(self) -> usize {
        self.clients_per_session * self.each
    }
}

/// Commands that a client has under way at the same time: in a session more than may run, and in all fewer than connections.
const AT_ONCE: usize = 4;

/// What one client does: some commands at the same time until it has had all of its own, then a list.
async fn client(worker: Arc<Worker>, numbers: Range<usize>) -> Vec<Done> {
    let (next, last) = (AtomicUsize::new(numbers.start), numbers.end);
    let lanes = join_all((0..AT_ONCE).map(|_| async {
        let mut started = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= last {
                return started;
            }
            started.push(worker.carry_out(Kind::of(number), number).await);
        }
    }));
    let started: Vec<_> = lanes.await.into_iter().flatten().collect();
    let handles = started.iter().map(|done| done.handle).collect::<HashSet<_>>();
    assert_eq!(worker.list().await, handles, "its own, and all of them");
    started
}

async fn under_load(size: Size) {
    // All of it is kept, so that all of it can be looked at again; what runs has the room that it may fill set aside.
    let place = Place::new("[retention]\ncompleted_per_session = 10000\ndata_max_bytes = \"8G\"\n");
    let load = busy().await;
    let service = place.serve().await;
    let (pid, admin, tally) = (service.pid(), service.admin(), Arc::new(Tally::default()));
    let before = Footprint::of(pid);
    let mut loops = Vec::new();
    for _ in 0..size.sessions {
        loops.push(service.session(size.clients_per_session).await);
    }
    let opened = Footprint::of(pid);
    let following: Vec<_> = loops
        .iter()
        .map(|session| tokio::spawn(followed(admin.clone(), session[0].session, size.per_session())))
        .collect();
    let workers: Vec<_> =
        loops.iter().flatten().map(|one| Arc::new(Worker::new(one.clone(), &tally))).collect();
    let began = Instant::now();
    let clients: Vec<_> = workers
        .iter()
        .enumerate()
        .map(|(place, worker)| {
            tokio::spawn(client(Arc::clone(worker), place * size.each..(place + 1) * size.each))
        })
        .collect();
    let (started, peak) = watched(pid, try_join_all(clients)).await;
    let started = started.unwrap();
    let took = began.elapsed();

    for (worker, done) in workers.iter().zip(&started) {
        worker.ended(&done.iter().map(|done| done.handle).collect()).await;
        notices_once(worker, done).await;
    }
    let mut records = 0;
    for (place, following) in following.into_iter().enumerate() {
        let events = tokio::time::timeout(crate::service::PATIENCE, following).await.unwrap().unwrap();
        let clients = place * size.clients_per_session..(place + 1) * size.clients_per_session;
        let handles = started[clients].iter().flatten().map(|done| done.handle).collect();
        once_and_in_order(&events, &handles);
        assert_eq!(
            journal(&admin, Some(loops[place][0].session)).await,
            events,
            "what was streamed is the journal"
        );
        records += events.len();
    }
    let rested = at_rest(pid, size.sessions).await;
    // Once more, with everything there: nothing was cut or mixed up by what came later.
    for (worker, done) in workers.iter().zip(&started) {
        join_all(done.iter().map(|done| worker.verify(done))).await;
    }
    for session in &loops {
        admin.close_session(session[0].session).await.unwrap();
    }
    let closed = at_rest(pid, 0).await;
    let (processes, clients) = (size.sessions * size.per_session(), workers.len());
    eprintln!(
        "{processes} processes of {clients} clients in {} sessions, {records} events: {took:.1?}",
        size.sessions
    );
    eprintln!("the machine was {load:.0} % busy before");
    for (when, found) in
        [("before", before), ("opened", opened), ("most", peak), ("rested", rested), ("closed", closed)]
    {
        eprintln!("{when:<7} {found}");
    }
    eprint!("{tally}");
    service.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_clients_get_what_they_started_and_hear_of_each_end_once() {
    under_load(Size { sessions: 2, clients_per_session: 3, each: 8 }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute or more: `cargo xtask nightly load`"]
async fn two_hundred_clients_get_what_they_started_and_hear_of_each_end_once() {
    let sessions = std::env::var("PROCYARD_TEST_LOAD_SESSIONS").map_or(20, |text| text.parse().unwrap());
    under_load(Size { sessions, clients_per_session: 10, each: 10 }).await;
}
