//! A journal that refuses, panics and hangs when it is told to.

use procyard_testkit::{DEADLINE, Journal, Script};

use crate::{Session, refusal_of};

#[tokio::test(start_paused = true)]
async fn what_it_refuses_comes_again_and_is_kept_once() {
    let session = Session::new(Script::new().exit(0)).await;
    session.journal.fail_events(2);
    session.journal.panic_at_events(1);
    session.journal.fail_notices(3);
    let process = session.start(true).await;
    session
        .journal
        .until("both are taken", |journal| {
            journal.ends_of(process).len() == 1 && journal.noticed() == [process]
        })
        .await;
    assert_eq!(session.journal.events_of(process).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_hangs_goes_on_when_it_is_resumed_and_notices_go_their_own_way() {
    let session = Session::new(Script::new().exit(0)).await;
    session.journal.hang();
    let process = session.start(true).await;
    session.journal.until("it is noticed", |journal| journal.noticed() == [process]).await;
    tokio::time::sleep(DEADLINE).await;
    assert!(session.journal.events().is_empty());
    session.journal.resume();
    session.journal.until("it is published", |journal| journal.ends_of(process).len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn what_never_happens_is_told_with_what_did() {
    let journal = Journal::new();
    let said = refusal_of(async move { journal.until("a miracle", |_| false).await }).await;
    assert!(said.contains("a miracle") && said.contains("journal.rs"), "{said}");
}
