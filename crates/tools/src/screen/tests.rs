//! Looks at streams that grow, fall out and change their size.

use std::sync::atomic::{AtomicU64, Ordering};

use procyard_core::{State, Stream};

use super::drawing::cells;
use super::*;
use crate::testing::{self, Recorded, now};

const SIZE: TerminalSize = TerminalSize { rows: 5, cols: 20 };

/// A process that has printed all of `source` on a terminal.
fn process(source: &Recorded) -> Snapshot {
    Snapshot {
        terminal: Some(SIZE),
        total_bytes: source.bytes.len() as u64,
        retained_from: source.retained_from,
        ..testing::snapshot("edit", State::Running)
    }
}

fn running(bytes: &[u8]) -> Recorded {
    Recorded { state: State::Running, ..Recorded::stdout(bytes) }
}

fn look(screens: &Screens, source: &Recorded) -> (Screen, Shown) {
    look_of(screens, source, process(source))
}

fn look_of(screens: &Screens, source: &Recorded, snapshot: Snapshot) -> (Screen, Shown) {
    // What the source reads is a terminal, too.
    struct OnTerminal<'s>(&'s Recorded, Snapshot);
    #[async_trait::async_trait]
    impl Source for OnTerminal<'_> {
        async fn read(
            &self,
            from: ReadFrom,
            max_bytes: usize,
        ) -> Result<(procyard_supervisor::Page, Snapshot), PublicError> {
            let (page, snapshot) = self.0.read(from, max_bytes).await?;
            Ok((page, Snapshot { terminal: self.1.terminal, identity: self.1.identity, ..snapshot }))
        }
        async fn head(&self) -> Result<(procyard_supervisor::Page, Snapshot), PublicError> {
            self.0.head().await
        }
        async fn behind_damage(&self, cursor: u64) -> Option<u64> {
            self.0.behind_damage(cursor).await
        }
    }
    now(screens.look(&OnTerminal(source, snapshot.clone()), snapshot, 1 << 20)).unwrap()
}

#[test]
fn a_look_draws_on_from_the_last_one() {
    let screens = Screens::default();
    let mut source = running(b"one\r\ntw");
    assert_eq!(look(&screens, &source).0.rows, ["one", "tw"]);
    // What was drawn is not asked for again, so it does not matter that it fell out.
    source.bytes.extend(b"o\x1b[1;1HO".iter().map(|byte| (Stream::Stdout, *byte)));
    source.retained_from = 7;
    let (screen, shown) = look(&screens, &source);
    assert_eq!(screen.rows, ["One", "two"]);
    assert_eq!((screen.drawn_from, shown.next_cursor), (None, 15));
}

#[test]
fn where_a_wait_goes_on_no_sequence_is_torn() {
    let (screen, shown) = look(&Screens::default(), &running(b"ab\x1b[3"));
    assert_eq!((screen.rows.concat(), shown.next_cursor, shown.total_bytes), ("ab".to_owned(), 2, 5));
}

#[test]
fn what_is_missing_is_told() {
    let source = Recorded {
        retained_from: 20_000,
        ..running(
            &[&b"\x1b]2;t\x07\x1b[?1049h".repeat(2)[..], &b"x".repeat(20_000), b"\x1b[H\x1b[2Jnow"].concat(),
        )
    };
    let (screen, _) = look(&Screens::default(), &source);
    assert_eq!((screen.rows, screen.drawn_from), (vec!["now".to_owned()], Some(20_000)));
    assert!(screen.alternate && screen.title.as_deref() == Some("t"), "the beginning is kept");
    let source = Recorded { holes: vec![(2, 4)], ..running(b"ab\xe6\x97\xa5cd") };
    let (screen, _) = look(&Screens::default(), &source);
    assert_eq!((screen.rows, screen.drawn_from), (vec!["abcd".to_owned()], Some(4)));
}

#[test]
fn of_a_flood_the_end_is_drawn() {
    let flood = [b"line\r\n".repeat(1 << 20), b"\x1b[H\x1b[2Jend".to_vec()].concat();
    let (screen, shown) = look(&Screens::default(), &running(&flood));
    assert_eq!(screen.rows, ["end"]);
    assert_eq!(screen.drawn_from, Some(flood.len() as u64 - DRAWN_MAX));
    assert_eq!(shown.next_cursor, flood.len() as u64);
}

#[test]
fn what_costs_too_much_is_left_out_but_for_the_end() {
    let flood = [b"\x1b[2J".repeat(100_000), b"\x1b[Hend".to_vec()].concat();
    let source = running(&flood);
    let large = Snapshot { terminal: Some(TerminalSize { rows: 100, cols: 100 }), ..process(&source) };
    let screens = Screens { work: 1_000_000, ..Screens::default() };
    let (screen, _) = look_of(&screens, &source, large);
    assert_eq!(screen.rows, ["end"]);
    assert_eq!(screen.drawn_from, Some(flood.len() as u64 - LATEST as u64));
}

/// A process that clears its terminal for ever, a mebibyte between any two reads.
struct Endless {
    printed: AtomicU64,
    /// It has ended with the read of this number.
    ends_at: usize,
    reads: Mutex<Vec<usize>>,
}

const CLEAR: &[u8] = b"\x1b[2J";
const STRIDE: u64 = 1 << 20;
const LARGE: TerminalSize = TerminalSize { rows: 100, cols: 100 };

impl Endless {
    fn new(ends_at: usize) -> Self {
        Self { printed: AtomicU64::new(STRIDE), ends_at, reads: Mutex::default() }
    }

    fn snapshot(&self, state: State) -> Snapshot {
        let total_bytes = self.printed.load(Ordering::Relaxed);
        Snapshot { terminal: Some(LARGE), total_bytes, ..testing::snapshot("edit", state) }
    }
}

#[async_trait::async_trait]
impl Source for Endless {
    async fn read(
        &self,
        from: ReadFrom,
        max_bytes: usize,
    ) -> Result<(procyard_supervisor::Page, Snapshot), PublicError> {
        let ReadFrom::Cursor(cursor) = from else { unreachable!("a screen reads on") };
        let reads = {
            let mut reads = self.reads.lock().unwrap();
            reads.push(max_bytes);
            reads.len()
        };
        let state = if reads < self.ends_at { State::Running } else { State::Exited };
        if reads <= self.ends_at {
            self.printed.fetch_add(STRIDE, Ordering::Relaxed);
        }
        let snapshot = self.snapshot(state);
        let len = usize::try_from(snapshot.total_bytes - cursor).unwrap().min(max_bytes);
        let begins = usize::try_from(cursor).unwrap() % CLEAR.len();
        let page = procyard_supervisor::Page {
            bytes: CLEAR.iter().cycle().skip(begins).take(len).copied().collect(),
            start_cursor: cursor,
            next_cursor: cursor + len as u64,
            total_bytes: snapshot.total_bytes,
            ..procyard_supervisor::Page::default()
        };
        Ok((page, snapshot))
    }

    async fn head(&self) -> Result<(procyard_supervisor::Page, Snapshot), PublicError> {
        unreachable!("the beginning is retained")
    }

    async fn behind_damage(&self, _cursor: u64) -> Option<u64> {
        None
    }
}

#[test]
fn the_work_of_a_look_is_bounded_at_a_process_that_prints_without_end() {
    // What 100 of them paint.
    let work = 100 * cells(LARGE) as u64;
    let screens = Screens { work, latest_work: work, ..Screens::default() };
    let source = Endless::new(usize::MAX);
    let snapshot = source.snapshot(State::Running);
    let (screen, shown) = now(screens.look(&source, snapshot, 1 << 20)).unwrap();
    assert_eq!(*source.reads.lock().unwrap(), [STEP, LATEST]);
    let latest = 2 * STRIDE - LATEST as u64;
    assert_eq!((screen.drawn_from, shown.next_cursor), (Some(latest), latest + 100 * CLEAR.len() as u64));
}

#[test]
fn of_a_process_that_ends_while_too_much_is_drawn_the_end_is_drawn() {
    let screens = Screens { work: 1, ..Screens::default() };
    let source = Endless::new(2);
    let snapshot = source.snapshot(State::Running);
    let (_, shown) = now(screens.look(&source, snapshot, 1 << 20)).unwrap();
    assert_eq!((shown.next_cursor, shown.snapshot.state), (3 * STRIDE, State::Exited));
    assert_eq!(*source.reads.lock().unwrap(), [STEP, LATEST, LATEST]);
}

#[test]
fn each_part_is_drawn_at_the_size_that_was_in_force() {
    let mut source = running(b"\x1b[1;9Hx\x1b[2;9Hy\x1b[3;9Hz");
    source.resizes = vec![(7, 5, 8), (14, 5, 10)];
    let first = TerminalSize { rows: 5, cols: 4 };
    let last = TerminalSize { rows: 5, cols: 20 };
    let snapshot = Snapshot { terminal: Some(last), initial_terminal: Some(first), ..process(&source) };
    let (screen, _) = look_of(&Screens::default(), &source, snapshot);
    assert_eq!(screen.rows, ["   x", "       y", "        z"]);
    assert_eq!((screen.size.rows, screen.size.cols), (5, 20));
}

#[test]
fn no_terminal_and_one_that_is_too_large_are_refused() {
    let source = running(b"x");
    for (terminal, code) in [
        (None, ErrorCode::PtyUnavailable),
        (Some(TerminalSize { rows: 2000, cols: 2000 }), ErrorCode::InvalidArguments),
    ] {
        let snapshot = Snapshot { terminal, ..process(&source) };
        let error = now(Screens::default().look(&source, snapshot, 100)).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (code, Some("view")));
    }
}

#[test]
fn few_drawings_are_kept_and_they_are_bounded_together() {
    let screens = Screens::default();
    let source = running(b"x");
    let looked_at = |of: u8, size| {
        let mut snapshot = Snapshot { terminal: Some(size), ..process(&source) };
        snapshot.identity.handle = testing::handle(of);
        look_of(&screens, &source, snapshot);
    };
    let kept = || -> Vec<u8> {
        screens.kept.lock().unwrap().iter().map(|(handle, _)| handle.as_bytes()[0]).collect()
    };
    for of in 1..=10 {
        looked_at(of, SIZE);
    }
    looked_at(4, SIZE);
    assert_eq!(kept(), [3, 5, 6, 7, 8, 9, 10, 4]);
    let large = TerminalSize { rows: 500, cols: 500 };
    looked_at(11, large);
    looked_at(12, large);
    assert_eq!(kept(), [11, 12]);
}
