//! Appends, transitions and those who wait for them.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use loom::thread;
use procyard_core::{LoopId, Owner, SessionId, State};
use tokio::time::Instant;

use crate::bell::Bell;
use crate::course::{Course, CourseWaiter, Life, Progress, Standing, Waits};

fn owner(of: u8) -> Owner {
    Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([of; 16]) }
}

fn course() -> Arc<Course> {
    let life = Life { state: State::Running, owner: owner(1), teardown_failed: false };
    Arc::new(Course::new(Progress { total_bytes: 0, at: Instant::now() }, life))
}

fn output(standing: &Standing) -> Option<u64> {
    standing.output_beyond(0)
}

fn end(standing: &Standing) -> Option<State> {
    Some(standing.life.state).filter(|state| state.is_terminal())
}

fn append(course: &Course, total_bytes: u64) {
    course.append(total_bytes, Instant::now());
}

/// One look, as by a task that is polled once.
fn look<R>(
    waiter: &mut CourseWaiter<Arc<Course>>,
    bell: &Arc<Bell>,
    look: impl FnOnce(&Standing) -> Option<R>,
) -> Poll<R> {
    waiter.poll(&Context::from_waker(&Waker::from(Arc::clone(bell))), look)
}

/// Waits in a thread of its own; gives what was found and how often the thread was woken.
fn waits<R: 'static>(
    course: &Arc<Course>,
    waits: Waits,
    look: impl FnMut(&Standing) -> Option<R> + 'static,
) -> thread::JoinHandle<(R, usize)> {
    let course = Arc::clone(course);
    thread::spawn(move || {
        let bell = Bell::new();
        let found = bell.sleep_until(async { CourseWaiter::new(course, waits).until(look).await });
        (found, bell.rings())
    })
}

fn nobody_waits(course: &Course) {
    assert_eq!(course.waiting(), 0, "a place was not given back");
}

#[test]
fn an_append_wakes_who_registers_meanwhile() {
    loom::model(|| {
        let course = course();
        let waiting = waits(&course, Waits::ForOutput, output);
        append(&course, 1);
        let (total, rings) = waiting.join().unwrap();
        assert_eq!(total, 1);
        assert!(rings <= 1, "one append wakes once");
        nobody_waits(&course);
    });
}

#[test]
fn the_end_wakes_who_registers_meanwhile_whatever_it_waits_for() {
    for kind in [Waits::ForLife, Waits::ForOutput] {
        loom::model(move || {
            let course = course();
            let waiting = waits(&course, kind, end);
            assert!(course.end(State::Exited));
            let (state, rings) = waiting.join().unwrap();
            assert_eq!(state, State::Exited);
            assert!(rings <= 1, "one end wakes once");
            nobody_waits(&course);
        });
    }
}

#[test]
fn another_owner_wakes_those_who_wait_for_the_first() {
    loom::model(|| {
        let course = course();
        let gone = |standing: &Standing| (standing.life.owner != owner(1)).then_some(());
        let waiting = waits(&course, Waits::ForOutput, gone);
        course.give(owner(2));
        waiting.join().unwrap();
        nobody_waits(&course);
    });
}

#[test]
fn two_waiters_an_append_and_an_end() {
    loom::model(|| {
        let course = course();
        let for_output = waits(&course, Waits::ForOutput, output);
        let for_end = waits(&course, Waits::ForLife, end);
        append(&course, 1);
        assert!(course.end(State::Exited));
        let (total, _) = for_output.join().unwrap();
        assert_eq!(total, 1);
        let (state, rings) = for_end.join().unwrap();
        assert_eq!(state, State::Exited);
        assert!(rings <= 1, "output wakes nobody who waits for the end");
        nobody_waits(&course);
    });
}

#[test]
fn what_was_printed_before_the_end_is_seen_with_the_end() {
    loom::model(|| {
        let course = course();
        let waiting =
            waits(&course, Waits::ForOutput, |standing| end(standing).map(|_| standing.progress.total_bytes));
        append(&course, 1);
        assert!(course.end(State::Exited));
        let (total, rings) = waiting.join().unwrap();
        assert_eq!(total, 1);
        assert!(rings <= 2, "an append and an end wake once each");
    });
}

#[test]
fn a_waiter_that_goes_away_leaves_no_place_whoever_is_being_woken() {
    loom::model(|| {
        let course = course();
        let cancelled = {
            let course = Arc::clone(&course);
            thread::spawn(move || {
                let bell = Bell::new();
                let mut waiter = CourseWaiter::new(course, Waits::ForOutput);
                // One append is not enough for it, so that only its going away can free its place.
                let _ =
                    look(&mut waiter, &bell, |standing| (standing.progress.total_bytes > 1).then_some(()));
                drop(waiter);
                bell
            })
        };
        append(&course, 1);
        let bell = cancelled.join().unwrap();
        nobody_waits(&course);
        let rings = bell.rings();
        append(&course, 2);
        assert_eq!(bell.rings(), rings, "nobody is woken after it has gone");
    });
}

#[test]
fn a_waiter_that_was_woken_and_goes_away_takes_nobody_elses_place() {
    loom::model(|| {
        let course = course();
        let bell = Bell::new();
        let mut first = CourseWaiter::new(Arc::clone(&course), Waits::ForOutput);
        assert!(look(&mut first, &bell, output).is_pending());
        append(&course, 1);
        // The row was called: the next one who waits gets the same place.
        let waiting = waits(&course, Waits::ForOutput, |standing| standing.output_beyond(1));
        let leaving = thread::spawn(move || drop(first));
        append(&course, 2);
        assert_eq!(waiting.join().unwrap().0, 2);
        leaving.join().unwrap();
        nobody_waits(&course);
    });
}

#[test]
fn a_waiter_that_was_woken_and_waits_on_takes_nobody_elses_place() {
    loom::model(|| {
        let course = course();
        let mut first = CourseWaiter::new(Arc::clone(&course), Waits::ForOutput);
        assert!(look(&mut first, &Bell::new(), output).is_pending());
        append(&course, 1);
        let waiting = waits(&course, Waits::ForOutput, |standing| standing.output_beyond(1));
        let going_on = thread::spawn(move || {
            Bell::new().sleep_until(async { first.until(|standing| standing.output_beyond(1)).await })
        });
        append(&course, 2);
        assert_eq!((waiting.join().unwrap().0, going_on.join().unwrap()), (2, 2));
        nobody_waits(&course);
    });
}

#[test]
fn a_waiter_that_is_polled_by_another_task_wakes_that_one() {
    loom::model(|| {
        let course = course();
        let (first, second) = (Bell::new(), Bell::new());
        let mut waiter = CourseWaiter::new(Arc::clone(&course), Waits::ForOutput);
        assert!(look(&mut waiter, &first, output).is_pending());
        let appending = {
            let course = Arc::clone(&course);
            thread::spawn(move || append(&course, 1))
        };
        let total = second.sleep_until(async { waiter.until(output).await });
        assert_eq!(total, 1);
        appending.join().unwrap();
        assert!(first.rings() + second.rings() <= 1);
        nobody_waits(&course);
    });
}

/// Wakes and, with that, lets go of another waiter: what a runtime does that drops a task in its waker.
struct LetsGo(Mutex<Option<CourseWaiter<Arc<Course>>>>);

impl Wake for LetsGo {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn waking_may_drop_a_waiter_of_the_same_process() {
    loom::model(|| {
        let course = course();
        let mut other = CourseWaiter::new(Arc::clone(&course), Waits::ForLife);
        assert!(look(&mut other, &Bell::new(), end).is_pending());
        let lets_go = Arc::new(LetsGo(Mutex::new(Some(other))));
        let mut waiter = CourseWaiter::new(Arc::clone(&course), Waits::ForOutput);
        let waker = Waker::from(Arc::clone(&lets_go));
        assert!(waiter.poll(&Context::from_waker(&waker), output).is_pending());
        let waiting = waits(&course, Waits::ForLife, end);
        append(&course, 1);
        assert!(course.end(State::Killed));
        assert_eq!(waiting.join().unwrap().0, State::Killed);
        assert!(lets_go.0.lock().unwrap().is_none());
        drop(waiter);
        nobody_waits(&course);
    });
}

#[test]
fn of_two_ends_one_stands_and_everybody_sees_that_one() {
    loom::model(|| {
        let course = course();
        let ends = [State::Exited, State::Killed].map(|state| {
            let course = Arc::clone(&course);
            (state, thread::spawn(move || course.end(state)))
        });
        let seen =
            Bell::new().sleep_until(async { CourseWaiter::new(&*course, Waits::ForLife).until(end).await });
        let first: Vec<State> =
            ends.into_iter().filter_map(|(state, ended)| ended.join().unwrap().then_some(state)).collect();
        assert_eq!(first, [seen], "one of them came first, and its state is what was seen");
        assert_eq!(course.standing().life.state, seen);
        course.runs();
        assert_eq!(course.standing().life.state, seen, "nothing follows an end");
    });
}
