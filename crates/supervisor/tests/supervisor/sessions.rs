//! The registry of sessions: one for each key, whoever asks, whatever fails or goes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use procyard_supervisor::Sessions;
use tokio::task::JoinSet;

const SLOW: Duration = Duration::from_secs(1);

async fn make(made: Arc<AtomicUsize>) -> Result<usize, &'static str> {
    let number = made.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(SLOW).await;
    Ok(number)
}

#[tokio::test(start_paused = true)]
async fn of_many_that_ask_at_once_one_makes_it() {
    let (sessions, made) = (Sessions::new(), Arc::new(AtomicUsize::new(0)));
    let mut asking = JoinSet::new();
    for at in 0..100_u32 {
        let (sessions, made) = (sessions.clone(), Arc::clone(&made));
        asking.spawn(async move { sessions.get_or_create(at % 2, || make(made)).await.unwrap() });
    }
    let mut got: Vec<_> = asking.join_all().await;
    got.sort_unstable();
    got.dedup();
    assert_eq!((got.len(), made.load(Ordering::SeqCst)), (2, 2));
    assert_eq!(sessions.all().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failure_and_a_maker_that_goes_away_leave_the_key_free() {
    let sessions = Sessions::<u32, usize>::new();
    let failed = sessions.get_or_create(1, || async { Err("no") }).await;
    assert_eq!((failed, sessions.get(&1)), (Err("no"), None));
    let made = Arc::new(AtomicUsize::new(0));
    let gone = sessions.get_or_create(1, || make(Arc::clone(&made)));
    assert!(tokio::time::timeout(SLOW / 2, gone).await.is_err());
    // One waits for a maker that goes away, and makes it itself.
    let waiting = {
        let (sessions, made) = (sessions.clone(), Arc::clone(&made));
        tokio::spawn(async move { sessions.get_or_create(1, || make(made)).await })
    };
    let gone = sessions.get_or_create(1, || make(Arc::clone(&made)));
    assert!(tokio::time::timeout(SLOW / 2, gone).await.is_err());
    assert!(waiting.await.unwrap().is_ok());
    assert!(sessions.get(&1).is_some());
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_while_it_is_closed_gets_a_new_one_afterwards() {
    let sessions = Sessions::new();
    let made = Arc::new(AtomicUsize::new(0));
    assert!(!sessions.close(&1, |_: usize| async {}).await, "there is none");
    let first = sessions.get_or_create(1, || make(Arc::clone(&made))).await.unwrap();
    let closed = Arc::new(AtomicUsize::new(usize::MAX));
    let closing = {
        let (sessions, closed) = (sessions.clone(), Arc::clone(&closed));
        tokio::spawn(async move {
            let end = |session| async move {
                tokio::time::sleep(SLOW).await;
                closed.store(session, Ordering::SeqCst);
            };
            sessions.close(&1, end).await
        })
    };
    tokio::time::sleep(SLOW / 2).await;
    assert!(sessions.get(&1).is_none() && sessions.all().is_empty());
    assert!(!sessions.close(&1, |_| async {}).await, "somebody is closing it");
    assert!(!sessions.closed(&2).await, "nobody is closing that one");
    let (one, ()) = tokio::join!(sessions.closed(&1), sessions.all_closed());
    assert!(one && closed.load(Ordering::SeqCst) == first, "both have waited for it");
    assert!(!sessions.closed(&1).await);
    let second = sessions.get_or_create(1, || make(Arc::clone(&made))).await.unwrap();
    assert_eq!(closed.load(Ordering::SeqCst), first, "it was closed before the next one was made");
    assert_ne!(first, second);
    assert!(closing.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_closer_that_goes_away_keeps_nobody_waiting() {
    let sessions = Sessions::new();
    let made = Arc::new(AtomicUsize::new(0));
    sessions.get_or_create(1, || make(Arc::clone(&made))).await.unwrap();
    let closing = sessions.close(&1, |_: usize| std::future::pending());
    assert!(tokio::time::timeout(SLOW, closing).await.is_err());
    assert_eq!(sessions.get_or_create(1, || make(Arc::clone(&made))).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_session_was_never_made_is_not_kept() {
    let sessions = Sessions::<Arc<u32>, usize>::new();
    let key = Arc::new(1);
    assert_eq!(sessions.get_or_create(Arc::clone(&key), || async { Err("no") }).await, Err("no"));
    let made = Arc::new(AtomicUsize::new(0));
    let gone = sessions.get_or_create(Arc::clone(&key), || make(Arc::clone(&made)));
    assert!(tokio::time::timeout(SLOW / 2, gone).await.is_err());
    assert_eq!(Arc::strong_count(&key), 1);
}
