//! Unread output of which only the lines that match a pattern are shown; the others are passed over.
//!
//! Lines are matched whole: while a process runs, what it has begun and not ended is left for the next call. Not for
//! waiting for a pattern: nothing here waits.

use std::sync::Arc;

use procyard_core::{ErrorCode, Handle, PublicError, cut};
use procyard_supervisor::Snapshot;

use super::places::{Claim, Places};
use super::unread::{NOT_KEPT, claim, damaged_bytes, look, source};
use crate::ground::ground_before;
use crate::page::{Look, Shown, forward};
use crate::pattern::Pattern;
use crate::source::{Source, is_damage};
use crate::toolbox::Toolbox;

/// Text of one page.
const PAGE: usize = 256 << 10;

/// Pages that one call looks through; what comes then is left for the next.
const PAGES: usize = 64;

/// What is said where a call did not look through everything.
const MORE: &str = "there is more to look through; ask again for the lines that follow";

/// How often a read begins anew because another result has read on meanwhile.
const ATTEMPTS: usize = 4;

/// The lines that match.
pub(super) struct Matching {
    /// At most so many bytes of them as were asked for.
    pub(super) lines: String,
    /// What is missing among the lines that were looked at, and whether there is more to look at, a line each.
    pub(super) notes: Vec<String>,
    /// The process as it was at the last read.
    pub(super) snapshot: Snapshot,
    /// To be kept with the result.
    pub(super) claim: Claim,
}

/// The lines that match, at most `limit` bytes of them.
pub(super) async fn matching(
    toolbox: &Toolbox,
    places: &Arc<Places>,
    handle: Handle,
    pattern: &Pattern,
    limit: usize,
) -> Result<Matching, PublicError> {
    let source = source(toolbox, handle);
    for _ in 0..ATTEMPTS {
        let from = places.of(&handle);
        let Scanned { lines, gap, damaged, more, last } = scan(&source, from, pattern, limit).await?;
        if let Some(claim) = claim(toolbox, places, handle, from, last.next_cursor) {
            let damaged = (damaged > 0).then(|| damaged_bytes(damaged));
            let gap = gap.then(|| NOT_KEPT.to_owned());
            let more = more.then(|| MORE.to_owned());
            let notes = damaged.into_iter().chain(gap).chain(more).collect();
            return Ok(Matching { lines, notes, snapshot: last.snapshot, claim });
        }
    }
    let message = "other calls are reading this process at the same time; ask again";
    Err(PublicError::new(ErrorCode::StorageUnavailable, message).retryable())
}

/// What was looked through.
struct Scanned {
    lines: String,
    /// Bytes among it are no longer kept.
    gap: bool,
    /// So many bytes among it are damaged.
    damaged: u64,
    /// Something that is there was left for the next call.
    more: bool,
    /// The last page of it.
    last: Shown,
}

async fn scan(
    source: &dyn Source,
    from: u64,
    pattern: &Pattern,
    limit: usize,
) -> Result<Scanned, PublicError> {
    let mut kept = String::new();
    let (mut gap, mut damaged) = (false, 0);
    let mut cursor = from;
    let mut pages = 0;
    loop {
        let page = match whole_lines(source, cursor).await {
            Err(error) if is_damage(&error) => {
                // Each time it goes on behind at least one byte.
                let until = source.behind_damage(cursor).await.ok_or(error)?;
                damaged += until - cursor;
                cursor = until;
                continue;
            }
            page => page?,
        };
        gap |= page.gap;
        let mut at = 0;
        for line in page.output.split_inclusive('\n') {
            let begins = at;
            at += line.len();
            let line = as_it_ended(line.trim_end_matches('\n'));
            if !pattern.regex.is_match(line) {
                continue;
            }
            if kept.len() + line.len() >= limit && !kept.is_empty() {
                let last = up_to(source, cursor, begins, page).await?;
                return Ok(Scanned { lines: kept, gap, damaged, more: true, last });
            }
            // A line that is longer than a whole result is shown cut, once.
            kept.push_str(cut(line, limit));
            kept.push('\n');
        }
        pages += 1;
        let moved = page.next_cursor > cursor;
        cursor = page.next_cursor;
        if !moved || cursor >= page.total_bytes || pages >= PAGES {
            let more = moved && cursor < page.total_bytes;
            return Ok(Scanned { lines: kept, gap, damaged, more, last: page });
        }
    }
}

/// The part of a page that is its first bytes of text.
async fn up_to(source: &dyn Source, cursor: u64, text: usize, page: Shown) -> Result<Shown, PublicError> {
    if text == 0 {
        return Ok(Shown { output: String::new(), next_cursor: page.start_cursor, ..page });
    }
    forward(source, cursor, &exact(text)).await
}

/// Text as it was printed: what collapses has lines of other lengths.
fn exact(limit: usize) -> Look {
    Look { collapse: false, ..look(limit) }
}

/// A page that ends where a line ends, or with the stream, or in the middle of a line that is longer than a page.
async fn whole_lines(source: &dyn Source, cursor: u64) -> Result<Shown, PublicError> {
    let page = forward(source, cursor, &exact(PAGE)).await?;
    let terminal = page.snapshot.state.is_terminal();
    match page.output.rfind('\n') {
        _ if terminal && page.next_cursor >= page.total_bytes => Ok(page),
        Some(last) if last + 1 < page.output.len() => forward(source, cursor, &exact(last + 1)).await,
        // A line that has only begun stays for the next call. One that missing bytes end does not go on.
        None if !terminal
            && page.output.len() < PAGE / 2
            && page.next_cursor >= ground_before(source, page.total_bytes).await =>
        {
            Ok(Shown { output: String::new(), next_cursor: page.start_cursor, ..page })
        }
        _ => Ok(page),
    }
}

/// A line that was repainted, as it was last.
fn as_it_ended(line: &str) -> &str {
    line.trim_end_matches('\r').rsplit('\r').next().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use procyard_core::State;

    use super::*;
    use crate::testing::{Recorded, now};

    fn check(stream: &str, pattern: &str, expect: &str) -> Shown {
        let pattern = Pattern::compile(pattern).unwrap();
        let found = now(scan(&Recorded::stdout(stream.as_bytes()), 0, &pattern, 1000)).unwrap();
        assert_eq!(found.lines, expect, "{stream:?}");
        assert!(!found.gap && found.damaged == 0 && !found.more);
        found.last
    }

    #[test]
    fn only_lines_that_match_are_kept() {
        check("one\ntwo\nthree\n", "^t", "two\nthree\n");
        check("one\nlast one", "one$", "one\nlast one\n");
        check("10%\r100%\r\ndone\n", "%", "100%\n");
        check("\x1b[31merror\x1b[0m: x\n", "^error: x$", "error: x\n");
        check("", "x", "");
    }

    #[test]
    fn what_does_not_match_is_passed_over() {
        let stream = "no\n".repeat(300_000) + "yes\n";
        assert_eq!(check(&stream, "yes", "yes\n").next_cursor, stream.len() as u64);
    }

    #[test]
    fn a_line_that_has_only_begun_is_left_for_the_next_call() {
        let pattern = Pattern::compile("ready").unwrap();
        for (stream, expect, cursor) in [("a\nrea", "", 2), ("rea", "", 0), ("ready\nb", "ready\n", 6)] {
            let source = Recorded { state: State::Running, ..Recorded::stdout(stream.as_bytes()) };
            let found = now(scan(&source, 0, &pattern, 1000)).unwrap();
            assert_eq!((&*found.lines, found.last.next_cursor), (expect, cursor), "{stream:?}");
        }
    }

    #[test]
    fn what_is_missing_or_damaged_is_passed_over_and_told() {
        let pattern = Pattern::compile("yes").unwrap();
        let stream = b"yes 1\nyes 2\nyes 3\nyes 4\nyes 5\n";
        let check = |source: &Recorded, expect: &str, gap: bool, damaged: u64| {
            let found = now(scan(source, 0, &pattern, 1000)).unwrap();
            assert_eq!((&*found.lines, found.gap, found.damaged), (expect, gap, damaged));
            assert_eq!(found.last.next_cursor, stream.len() as u64);
        };
        let whole = Recorded::stdout(stream);
        for state in [State::Running, State::Exited] {
            let whole = Recorded { state, ..whole.clone() };
            let fallen = Recorded { retained_from: 6, ..whole.clone() };
            check(&fallen, "yes 2\nyes 3\nyes 4\nyes 5\n", true, 0);
            let hole = Recorded { holes: vec![(8, 18)], ..whole.clone() };
            check(&hole, "yes 1\nyes 4\nyes 5\n", true, 0);
            let damaged = Recorded { damaged: Some((0, 12)), ..whole.clone() };
            check(&damaged, "yes 3\nyes 4\nyes 5\n", false, 12);
            let inside = Recorded { damaged: Some((12, 18)), holes: vec![(2, 6)], ..whole.clone() };
            check(&inside, "yes 2\nyes 4\nyes 5\n", true, 6);
            let end = Recorded { damaged: Some((24, 30)), ..whole };
            check(&end, "yes 1\nyes 2\nyes 3\nyes 4\n", false, 6);
        }
    }

    #[test]
    fn matching_lines_beyond_the_budget_are_left_for_the_next_call_which_is_told() {
        let pattern = Pattern::compile("a").unwrap();
        let source = Recorded::stdout(&b"xyz\n\x1b[1maaaa\n".repeat(100));
        let (mut cursor, mut shown, mut more) = (0, 0, true);
        while more {
            let found = now(scan(&source, cursor, &pattern, 12)).unwrap();
            assert_eq!(found.lines, "aaaa\naaaa\n", "{cursor}");
            shown += 2;
            (cursor, more) = (found.last.next_cursor, found.more);
        }
        assert_eq!((shown, cursor), (100, 1300));
    }

    #[test]
    fn a_line_that_is_longer_than_a_result_is_cut_and_passed() {
        let pattern = Pattern::compile("a").unwrap();
        let source = Recorded::stdout(b"aaaaaaaaaaaaaaaaaaaa\nab\n");
        let found = now(scan(&source, 0, &pattern, 12)).unwrap();
        assert_eq!((&*found.lines, found.more, found.last.next_cursor), ("aaaaaaaaaaaa\n", true, 21));
    }
}
