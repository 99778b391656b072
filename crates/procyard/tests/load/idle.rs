//! Connections that say nothing, and others that do not hang up.
//!
//! Not for what they may say: the server crate tests that.

use std::time::Duration;

use futures_util::future::join_all;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::measure::Footprint;
use crate::request::{get, silent};
use crate::service::Place;

/// Many enough to take every place of a listener several times.
const SILENT: usize = 2000;

#[tokio::test(flavor = "multi_thread")]
async fn connections_over_tcp_that_say_nothing_keep_nobody_from_the_socket() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let count = SILENT.min(usize::try_from(hard).unwrap().saturating_sub(200));
    let place = Place::new("");
    let service = place.serve().await;
    let of = service.session(1).await.remove(0);
    let before = Footprint::of(service.pid());
    // Those that the service has no place for wait in the system's queue, and some of them for that.
    let connecting =
        join_all((0..count).map(|_| tokio::time::timeout(Duration::from_secs(2), silent(service.tcp))));
    let held: Vec<_> = connecting.await.into_iter().flatten().flatten().collect();
    assert!(held.len() > 512, "{} connections", held.len());
    let began = std::time::Instant::now();
    for _ in 0..20 {
        service.admin().health().await.unwrap();
        of.client.processes(&procyard_api::http::ProcessQuery::default()).await.unwrap();
    }
    let (took, during) = (began.elapsed(), Footprint::of(service.pid()));
    eprintln!("{} silent connections; 40 calls over the socket: {took:.1?}", held.len());
    eprintln!("before: {before}\nduring: {during}");
    assert!(took < Duration::from_secs(10), "the socket has places of its own: {took:?}");
    assert!(during.descriptors < before.descriptors + 600, "no more are taken than have a place: {during}");
    drop(held);
    service.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_leave_places_for_those_who_look_and_stop() {
    let place = Place::new("");
    let service = place.serve().await;
    let of = service.session(1).await.remove(0);
    let mut streams = Vec::new();
    let refused = loop {
        let answer = get(&service.socket, &of.token, "/v1/events/stream?after_seq=0", &[]).await.unwrap();
        if answer.status() != 200 {
            break answer;
        }
        streams.push(answer);
        assert!(streams.len() <= 384, "there is an end to them");
    };
    assert_eq!((streams.len(), refused.status().as_u16()), (384, 429), "three quarters of the connections");
    assert_eq!(refused.headers()["retry-after"], "1");
    service.admin().health().await.unwrap();
    streams.pop();
    let mut again = get(&service.socket, &of.token, "/v1/events/stream?after_seq=0", &[]).await.unwrap();
    let deadline = std::time::Instant::now() + crate::service::PATIENCE;
    while again.status() != 200 {
        assert!(std::time::Instant::now() < deadline, "one that ended makes room");
        tokio::time::sleep(Duration::from_millis(20)).await;
        again = get(&service.socket, &of.token, "/v1/events/stream?after_seq=0", &[]).await.unwrap();
    }
    drop((streams, again));
    service.finish().await;
}
