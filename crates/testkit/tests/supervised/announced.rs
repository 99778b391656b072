//! Ends and notices, as they come and as they must not.

use procyard_core::{EventId, EventKind, NotificationId};
use procyard_testkit::Script;
use procyard_testkit::assertions::{assert_no_notice, assert_noticed_once, assert_terminal_once};

use crate::{Session, owner, refusal};

#[tokio::test(start_paused = true)]
async fn one_end_however_often_it_is_repeated_and_nothing_else() {
    let session = Session::new(Script::new().exit(4)).await;
    let process = session.start(true).await;
    session.journal.until("it ends", |journal| journal.ends_of(process).len() == 1).await;
    let events = session.journal.events();
    let end = assert_terminal_once(&events, process);
    assert_eq!((end.kind, end.exit_code), (EventKind::Completed, Some(4)));
    let twice = [events.clone(), events.clone()].concat();
    assert_eq!(assert_terminal_once(&twice, process), end, "a restart publishes everything again");

    let mut other = end.clone();
    other.id = EventId::from_random([1; 16]);
    let two = [events.clone(), vec![other]].concat();
    assert!(refusal(|| assert_terminal_once(&two, process)).contains("2 were announced"));
    let none = &events[..events.len() - 1];
    assert!(refusal(|| assert_terminal_once(none, process)).contains("0 were announced"));
    let mut late = events[0].clone();
    late.id = EventId::from_random([2; 16]);
    let after = [events.clone(), vec![late]].concat();
    assert!(refusal(|| assert_terminal_once(&after, process)).contains("nothing after the end"));
    let mut changed = end.clone();
    changed.exit_code = Some(5);
    let altered = [events.clone(), vec![changed]].concat();
    assert!(refusal(|| assert_terminal_once(&altered, process)).contains("repeated as it was"));
    let mut wrong = end;
    wrong.finished_at = None;
    let unfinished = [none, &[wrong]].concat();
    assert!(refusal(|| assert_terminal_once(&unfinished, process)).contains("matrix admits"));
}

#[tokio::test(start_paused = true)]
async fn one_notice_or_none() {
    let session = Session::new(Script::new().exit(0)).await;
    let (told, untold) = (session.start(true).await, session.start(false).await);
    session
        .journal
        .until("both end", |journal| journal.noticed() == [told] && journal.ends_of(untold).len() == 1)
        .await;
    let notices = session.journal.notices_for(owner(1));
    let notice = assert_noticed_once(&notices, told);
    assert_no_notice(&notices, untold);
    assert!(session.journal.notices_for(owner(2)).is_empty());
    let again = [notices.clone(), notices.clone()].concat();
    assert_noticed_once(&again, told);

    assert!(refusal(|| assert_noticed_once(&notices, untold)).contains("there was none"));
    assert!(refusal(|| assert_no_notice(&notices, told)).contains("expected no notice"));
    let mut other = notice;
    other.id = NotificationId::from_random([1; 16]);
    let two = [notices, vec![other]].concat();
    assert!(refusal(|| assert_noticed_once(&two, told)).contains("expected one notice"));
}
