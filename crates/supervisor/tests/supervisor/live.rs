//! Live views: everything once, in order, and the truth about what was missed.

use std::time::Duration;

use crate::common::{Yard, eventually, options, owner};
use procyard_core::EventKind;
use procyard_supervisor::{LIVE_EVENTS_MAX, LiveEvent, StartOptions, Subscription};
use procyard_testkit::{DEADLINE, Script};

async fn next(view: &mut Subscription) -> Option<LiveEvent> {
    tokio::time::timeout(DEADLINE, view.next()).await.expect("something happens")
}

fn kind(event: Option<LiveEvent>) -> EventKind {
    match event {
        Some(LiveEvent::Lifecycle(event)) => event.kind,
        other => panic!("no lifecycle event: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn it_shows_a_life_in_order_and_to_its_owner_alone() {
    let yard = Yard::new(Script::new()).await;
    let mut mine = yard.supervisor.subscribe(owner(1)).unwrap();
    let mut theirs = yard.supervisor.subscribe(owner(2)).unwrap();
    let handle = yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    assert_eq!(kind(next(&mut mine).await), EventKind::Started);
    played.stdout("one").await;
    assert_eq!(next(&mut mine).await, Some(LiveEvent::Output { handle, total_bytes: 3 }));
    played.stdout("two").await;
    yard.output_to(handle, 6).await;
    played.exit(0).await;
    assert_eq!(next(&mut mine).await, Some(LiveEvent::Output { handle, total_bytes: 6 }));
    assert_eq!(kind(next(&mut mine).await), EventKind::Completed);
    yard.supervisor.shutdown().await;
    assert_eq!(next(&mut mine).await, None);
    assert_eq!(next(&mut theirs).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_view_that_is_behind_sees_the_newest_total_once() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    let mut view = yard.supervisor.subscribe(owner(1)).unwrap();
    for part in 1..=100 {
        played.stdout("x").await;
        yard.output_to(handle, part).await;
    }
    // The start may have come before the view or after it.
    let mut totals = Vec::new();
    while totals.last() != Some(&100) {
        if let Some(LiveEvent::Output { total_bytes, .. }) = next(&mut view).await {
            totals.push(total_bytes);
        }
    }
    assert_eq!(totals, [100]);
}

#[tokio::test(start_paused = true)]
async fn what_a_view_lost_is_counted_and_is_in_the_journal() {
    let yard = Yard::new(Script::new().exit(0)).await;
    let [mut view, mut keeping_up] = [(); 2].map(|()| yard.supervisor.subscribe(owner(1)).unwrap());
    let lives = LIVE_EVENTS_MAX / 2 + 20;
    for _ in 0..lives {
        let handle = yard.start(StartOptions { background: true, ..options() }).await;
        yard.end(handle).await;
        assert_eq!(kind(next(&mut keeping_up).await), EventKind::Backgrounded);
        assert_eq!(kind(next(&mut keeping_up).await), EventKind::Completed);
    }
    eventually("everything is published", || yard.journal.events().len() == lives * 2).await;
    yard.supervisor.shutdown().await;
    let Some(LiveEvent::Lagged(lost)) = next(&mut view).await else {
        panic!("it says that it lost something")
    };
    assert_eq!(lost, 40);
    let mut shown = Vec::new();
    while let Some(event) = next(&mut view).await {
        if let LiveEvent::Lifecycle(event) = event {
            shown.push(event);
        }
    }
    assert_eq!(shown, yard.journal.events()[40..], "the newest are kept, in order");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_in_the_journal_before_it_is_shown() {
    let yard = Yard::new(Script::new()).await;
    yard.journal.fail_events(3);
    let mut view = yard.supervisor.subscribe(owner(1)).unwrap();
    yard.start(options()).await;
    assert!(tokio::time::timeout(Duration::from_millis(20), view.next()).await.is_err());
    assert_eq!(kind(next(&mut view).await), EventKind::Started);
    assert_eq!(yard.journal.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_given_away_is_shown_to_its_new_owner() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    let mut old = yard.supervisor.subscribe(owner(1)).unwrap();
    let mut new = yard.supervisor.subscribe(owner(2)).unwrap();
    eventually("the start is published", || yard.journal.events().len() == 1).await;
    yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    played.stdout("x").await;
    assert_eq!(next(&mut new).await, Some(LiveEvent::Output { handle, total_bytes: 1 }));
    yard.supervisor.close_loop(owner(1)).await.unwrap();
    while let Some(event) = next(&mut old).await {
        assert_eq!(kind(Some(event)), EventKind::Started);
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_of_everybody_shows_every_owner() {
    let yard = Yard::new(Script::new()).await;
    let mut all = yard.supervisor.subscribe_all().unwrap();
    let handle = yard.start(options()).await;
    yard.supervisor.transfer(owner(1), owner(2)).await.unwrap();
    assert_eq!(yard.supervisor.owners(), [owner(2)]);
    assert_eq!(yard.supervisor.owner_of(&handle), Some(owner(2)));
    yard.runner.last().unwrap().stdout("x").await;
    assert_eq!(kind(next(&mut all).await), EventKind::Started);
    assert_eq!(next(&mut all).await, Some(LiveEvent::Output { handle, total_bytes: 1 }));
    yard.supervisor.close_loop(owner(2)).await.unwrap();
    yard.supervisor.shutdown().await;
    // Its end is somebody else's, and is shown; then the session's.
    while next(&mut all).await.is_some() {}
    assert!(yard.supervisor.subscribe_all().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_view_that_is_dropped_takes_no_other_along() {
    let yard = Yard::new(Script::new()).await;
    let [dropped, mut kept] = [(); 2].map(|()| yard.supervisor.subscribe(owner(1)).unwrap());
    drop(dropped);
    yard.start(options()).await;
    assert_eq!(kind(next(&mut kept).await), EventKind::Started);
}
