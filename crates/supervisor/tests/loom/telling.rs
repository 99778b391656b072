//! Replies that are made at the same time as a process ends, and what each of them tells.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;
use procyard_core::{Handle, LoopId, NotificationId, Owner, Reason, SessionId, State};

use crate::claims::{Claims, Due, Records, Tale};
use crate::sync::MutexGuard;
use crate::{Notice, NoticeKind};

fn owner() -> Owner {
    Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) }
}

fn handle() -> Handle {
    Handle::from_bytes([3; 16])
}

fn notice() -> Notice {
    Notice {
        id: NotificationId::from_random([4; 16]),
        kind: NoticeKind::Completed,
        handle: handle(),
        state: State::Exited,
        reason: Some(Reason::Exited),
        exit_code: Some(0),
        started_at: None,
        finished_at: None,
    }
}

/// The record of one process.
#[derive(Default)]
struct Record {
    ended: bool,
    told: bool,
}

/// The records of a session with one process.
struct Session {
    claims: Mutex<Claims>,
    record: Mutex<Record>,
    admitted: u64,
}

type Book = Arc<Session>;

impl Session {
    fn new(admitted: u64) -> Book {
        let (claims, record) = (Mutex::new(Claims::default()), Mutex::new(Record::default()));
        Arc::new(Self { claims, record, admitted })
    }

    fn end(&self) {
        self.record.lock().unwrap().ended = true;
    }

    fn has_ended(&self) -> bool {
        self.record.lock().unwrap().ended
    }

    fn mark(&self) {
        let mut record = self.record.lock().unwrap();
        record.told |= record.ended;
    }
}

impl Records for Book {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap()
    }

    fn admitted(&self) -> u64 {
        self.admitted
    }

    fn due(&self, _: Owner) -> Vec<Due> {
        let record = self.record.lock().unwrap();
        let due = record.ended && !record.told;
        due.then(|| Due { sequence: 1, notice: notice() }).into_iter().collect()
    }

    fn delivered(&self, _: Owner, notices: &[NotificationId]) {
        if !notices.is_empty() {
            self.mark();
        }
    }

    fn learnt(&self, _: Owner, handles: &[Handle]) {
        if !handles.is_empty() {
            self.mark();
        }
    }
}

/// What a reply told that reached its owner.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Told {
    outcomes: usize,
    notices: usize,
}

impl Told {
    fn and(self, other: Self) -> Self {
        Self { outcomes: self.outcomes + other.outcomes, notices: self.notices + other.notices }
    }
}

/// Makes the rest of a reply: what has ended is told, then the notices.
fn make(book: &Book, mut tale: Tale<Book>, looks: bool, reaches: bool) -> Told {
    let tells: Vec<Handle> = (looks && book.has_ended()).then(handle).into_iter().collect();
    tale.tells(&tells);
    let notices = tale.take_notices(8).len();
    if !reaches {
        return Told::default();
    }
    tale.handed_over();
    Told { outcomes: tells.len(), notices }
}

/// A reply that carries notices and nothing else.
fn carries(book: &Book, reaches: bool) -> Told {
    make(book, Tale::new(Arc::clone(book), owner()), false, reaches)
}

/// A reply that waits for the outcome, another that does not, and the end, at the same time; then one that carries what is
/// left. `claims` is what the first reply claims before anything else happens.
fn explore(claims: fn(&mut Tale<Book>), reaches: bool, expect: fn(Told) -> bool) {
    loom::model(move || {
        let book = Session::new(0);
        let mut tale = Tale::new(Arc::clone(&book), owner());
        claims(&mut tale);
        let waiting = {
            let book = Arc::clone(&book);
            thread::spawn(move || {
                tale.outcome(handle());
                make(&book, tale, true, reaches)
            })
        };
        let other = {
            let book = Arc::clone(&book);
            thread::spawn(move || carries(&book, true))
        };
        book.end();
        let told = waiting.join().unwrap().and(other.join().unwrap()).and(carries(&book, true));
        assert!(expect(told), "{told:?}");
        assert!(carries(&book, true) == Told::default(), "it is told, and stays told");
    });
}

fn once(told: Told) -> bool {
    told.outcomes + told.notices == 1
}

#[test]
fn an_end_is_told_once_by_the_reply_that_claimed_it_or_after_it() {
    explore(|tale| tale.outcome(handle()), true, once);
}

#[test]
fn the_end_of_what_a_reply_starts_is_told_once() {
    explore(Tale::starts, true, once);
}

#[test]
fn an_end_that_a_lost_reply_told_is_told_again_once() {
    explore(|tale| tale.outcome(handle()), false, once);
}

#[test]
fn an_end_that_nobody_claimed_is_told_at_least_once_and_never_twice_in_the_same_way() {
    explore(
        |_| {},
        true,
        |told| told.outcomes + told.notices >= 1 && told.outcomes <= 1 && told.notices <= 1,
    );
}

#[test]
fn of_two_replies_one_carries_the_notice() {
    for reaches in [true, false] {
        loom::model(move || {
            let book = Session::new(0);
            book.end();
            let other = {
                let book = Arc::clone(&book);
                thread::spawn(move || carries(&book, reaches))
            };
            let told = carries(&book, true).and(other.join().unwrap()).and(carries(&book, true));
            assert_eq!(told, Told { outcomes: 0, notices: 1 });
        });
    }
}
