//! What the service announces: each event once and in order, each notice once.
//!
//! Not for output.

use std::collections::{HashMap, HashSet};

use procyard_api::Notification;
use procyard_api::http::{EventQuery, EventRecord, EventStreamQuery, NotificationQuery};
use procyard_client::{Client, StreamEvent};
use procyard_core::{Handle, SessionId};

use crate::commands::Kind;
use crate::jobs::{Done, Worker};

/// Follows the events of a session from its beginning, as the administrator, until so many processes have ended.
pub(crate) async fn followed(admin: Client, session: SessionId, ends: usize) -> Vec<EventRecord> {
    let query =
        EventStreamQuery { after_seq: Some(0), session_id: Some(session), ..EventStreamQuery::default() };
    let mut stream = admin.event_stream(None, &query).await.unwrap();
    let (mut records, mut ended) = (Vec::new(), 0);
    while ended < ends {
        match stream.next().await.unwrap().expect("the stream goes on with its session") {
            StreamEvent::Record(record) => {
                ended += usize::from(record.kind.is_end());
                records.push(*record);
            }
            StreamEvent::Output(sample) => assert!(sample.sample, "{sample:?}"),
            other => panic!("{other:?}"),
        }
    }
    records
}

/// The journal of a session, page by page, as the administrator or, without a session, as a loop.
pub(crate) async fn journal(client: &Client, session: Option<SessionId>) -> Vec<EventRecord> {
    let mut query = EventQuery { after_seq: Some(0), limit: Some(1000), session_id: session };
    let mut records = Vec::new();
    loop {
        let page = client.events(None, &query).await.unwrap();
        assert!(!page.gap, "nothing is so old that it was pruned");
        records.extend(page.events);
        query.after_seq = Some(page.next_seq);
        if !page.more {
            return records;
        }
    }
}

/// Checks that each event comes once and in order, and each of these processes has one end, which is its last event.
pub(crate) fn once_and_in_order(records: &[EventRecord], handles: &HashSet<Handle>) {
    assert!(records.windows(2).all(|pair| pair[0].seq < pair[1].seq), "in order");
    let ids: HashSet<_> = records.iter().map(|record| record.event_id).collect();
    assert_eq!(ids.len(), records.len(), "each event once");
    let mut lives: HashMap<Handle, Vec<&EventRecord>> = HashMap::new();
    for record in records {
        lives.entry(record.process_id).or_default().push(record);
    }
    assert_eq!(&lives.keys().copied().collect::<HashSet<_>>(), handles, "of these processes and no others");
    for life in lives.values() {
        let ends = life.iter().filter(|record| record.kind.is_end()).count();
        assert!(ends == 1 && life[life.len() - 1].kind.is_end(), "{life:#?}");
    }
}

/// Takes everything out of an inbox and acknowledges it. Whatever was told of a process was told once, here and with
/// results each; what nobody looked at is here. What somebody looked at may be announced after the answer that told of its
/// end, and then comes the next time.
pub(crate) async fn notices_once(worker: &Worker, started: &[Done]) {
    let unwatched = started.iter().filter(|done| done.command.kind == Kind::Unwatched);
    let mut due: HashSet<Handle> = unwatched.map(|done| done.handle).collect();
    let client = &worker.of.client;
    let deadline = tokio::time::Instant::now() + crate::service::PATIENCE;
    loop {
        let query =
            NotificationQuery { wait_ms: (!due.is_empty()).then_some(1000), ..NotificationQuery::default() };
        let page = worker.tally.call("notifications", || client.notifications(&query)).await;
        if page.notifications.is_empty() && due.is_empty() {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "without a notice: {due:?}");
        for notification in page.notifications.into_iter().map(|shown| shown.notification) {
            due.remove(&notification.process_id);
            worker.tally.call("acknowledge", || client.acknowledge(notification.id)).await;
            worker.seen.lock().unwrap().push(notification);
        }
    }
    let known = worker.known.lock().unwrap();
    once(&worker.seen.lock().unwrap(), &known);
    once(&worker.told.lock().unwrap(), &known);
}

fn once(told: &[Notification], known: &HashSet<Handle>) {
    let ids: HashSet<_> = told.iter().map(|notice| notice.id).collect();
    let of: HashSet<_> = told.iter().map(|notice| notice.process_id).collect();
    assert_eq!((ids.len(), of.len()), (told.len(), told.len()), "each notice once: {told:#?}");
    assert!(of.is_subset(known), "and of nobody else's processes");
    assert!(told.iter().all(|notice| notice.status.is_terminal()), "{told:#?}");
}
