//! Unread output of which only the lines that match a pattern are shown; the others are passed over.
//!
//! Lines are matched whole: while a process runs, what it has begun and not ended is left for the next call. Not for
//! waiting for a pattern: nothing here waits.

use std::sync::Arc;

use procyard_core::{ErrorCode, Handle, PublicError, cut};

use super::places::{Claim, Places};
use super::unread::{claim, look, source};
use crate::page::{Look, Shown, forward};
use crate::pattern::Pattern;
use crate::source::Source;
use crate::toolbox::Toolbox;

/// Text of one page.
const PAGE: usize = 256 << 10;

/// Pages that one call looks through; what comes then is left for the next.
const PAGES: usize = 64;

/// Bytes of an incomplete character or short sequence that a page of a running process does not show yet.
const HELD_BACK: u64 = 64;

/// How often a read begins anew because another result has read on meanwhile.
const ATTEMPTS: usize = 4;

/// The lines that match, at most `limit` bytes of them, with what goes with the result.
pub(super) async fn matching(
    toolbox: &Toolbox,
    places: &Arc<Places>,
    handle: Handle,
    pattern: &Pattern,
    limit: usize,
) -> Result<(String, Shown, Claim), PublicError> {
    let source = source(toolbox, handle);
    for _ in 0..ATTEMPTS {
        let from = places.of(&handle);
        let (lines, last) = scan(&source, from, pattern, limit).await?;
        if let Some(claim) = claim(toolbox, places, handle, from, last.next_cursor) {
            return Ok((lines, last, claim));
        }
    }
    let message = "other calls are reading this process at the same time; ask again";
    Err(PublicError::new(ErrorCode::StorageUnavailable, message).retryable())
}

async fn scan(
    source: &dyn Source,
    from: u64,
    pattern: &Pattern,
    limit: usize,
) -> Result<(String, Shown), PublicError> {
    let mut kept = String::new();
    let mut cursor = from;
    let mut pages = 0;
    loop {
        let page = whole_lines(source, cursor).await?;
        for line in page.output.lines() {
            let line = as_it_ended(line);
            if pattern.regex.is_match(line) && kept.len() < limit {
                kept.push_str(cut(line, limit - kept.len()));
                kept.push('\n');
            }
        }
        pages += 1;
        let moved = page.next_cursor > cursor;
        cursor = page.next_cursor;
        if !moved || cursor >= page.total_bytes || kept.len() >= limit || pages >= PAGES {
            return Ok((kept, page));
        }
    }
}

/// A page that ends where a line ends, or with the stream, or in the middle of a line that is longer than a page.
async fn whole_lines(source: &dyn Source, cursor: u64) -> Result<Shown, PublicError> {
    let exact = |limit| Look { collapse: false, ..look(limit) };
    let page = forward(source, cursor, &exact(PAGE)).await?;
    let terminal = page.snapshot.state.is_terminal();
    match page.output.rfind('\n') {
        _ if terminal && page.next_cursor >= page.total_bytes => Ok(page),
        Some(last) if last + 1 < page.output.len() => forward(source, cursor, &exact(last + 1)).await,
        // A line that has only begun stays for the next call.
        None if !terminal
            && page.next_cursor + HELD_BACK >= page.total_bytes
            && page.output.len() < PAGE / 2 =>
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
        let (lines, last) = now(scan(&Recorded::stdout(stream.as_bytes()), 0, &pattern, 1000)).unwrap();
        assert_eq!(lines, expect, "{stream:?}");
        last
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
            let (lines, last) = now(scan(&source, 0, &pattern, 1000)).unwrap();
            assert_eq!((lines.as_str(), last.next_cursor), (expect, cursor), "{stream:?}");
        }
    }

    #[test]
    fn more_than_the_budget_is_cut() {
        let pattern = Pattern::compile("a").unwrap();
        let (lines, _) = now(scan(&Recorded::stdout(&b"aaaa\n".repeat(100)), 0, &pattern, 12)).unwrap();
        assert_eq!(lines, "aaaa\naaaa\naa\n");
    }
}
