//! The output of a finished command in one result: all of it, or its beginning and its end within the budget.
//!
//! Works after any flood, since the first bytes of a stream are kept whatever falls out. Not for running
//! processes: those are read page by page.

use procyard_api::Encoding;
use procyard_core::PublicError;
use procyard_supervisor::Snapshot;
use procyard_text::{PageRequest, page};

use crate::page::{Look, Shown, Tail, forward, tail};
use crate::segment::{Cursors, first_segment};
use crate::source::Source;

/// A finished command's output.
#[derive(Debug)]
pub(crate) struct HeadTail {
    pub(crate) shown: Shown,
    /// Bytes left out between the beginning and the end.
    pub(crate) omitted: Option<u64>,
}

/// The output from a cursor on, within a budget: one part, or the beginning and the end of it.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) head: Shown,
    /// `None`: the first part is everything.
    pub(crate) tail: Option<Shown>,
}

/// The output within `limit` bytes of text: a third for the beginning, two thirds for the end.
pub(crate) async fn head_and_tail(source: &dyn Source, limit: usize) -> Result<HeadTail, PublicError> {
    let Ends { head, tail } = ends(source, 0, limit).await?;
    Ok(match tail {
        None => HeadTail { shown: head, omitted: None },
        Some(tail) => join(head, tail),
    })
}

/// The output from `cursor` on within `limit` bytes of text.
pub(crate) async fn ends(source: &dyn Source, cursor: u64, limit: usize) -> Result<Ends, PublicError> {
    let whole = forward(source, cursor, &look(limit)).await?;
    if whole.reaches_end && !(whole.gap && cursor == 0) {
        return Ok(Ends { head: whole, tail: None });
    }
    let third = (limit / 3).max(1);
    let head = if whole.gap && cursor == 0 {
        kept_head(source, third).await?
    } else {
        forward(source, cursor, &look(third)).await?
    };
    let rest = whole.total_bytes.saturating_sub(head.next_cursor);
    let tail = tail(source, Tail::Bytes(rest), &look((limit - limit / 3).max(1))).await?;
    Ok(Ends { head, tail: Some(tail) })
}

fn look(limit: usize) -> Look {
    Look { limit, encoding: Encoding::SafeText, collapse: true }
}

/// The beginning of a stream that is no longer retained from its start.
async fn kept_head(source: &dyn Source, limit: usize) -> Result<Shown, PublicError> {
    let (raw, snapshot) = source.head().await?;
    let part = first_segment(&raw, 0);
    let mut fed = Cursors::default();
    fed.push(&raw, part.offset, part.bytes.len());
    let request = PageRequest { collapse: true, ..PageRequest::new(limit) };
    let text = page(part.bytes, &request);
    Ok(Shown {
        output: text.text,
        start_cursor: part.start_cursor,
        next_cursor: fed.at(text.consumed).unwrap_or(part.end_cursor),
        total_bytes: raw.total_bytes.max(snapshot.total_bytes),
        retained_from: raw.retained_from,
        gap: part.behind_gap,
        normalized: text.normalized,
        binary: text.binary,
        reaches_end: false,
        snapshot,
    })
}

fn join(head: Shown, end: Shown) -> HeadTail {
    let omitted = end.start_cursor.saturating_sub(head.next_cursor);
    let mut output = head.output;
    if omitted > 0 {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&marker(omitted, head.next_cursor, &end.snapshot));
    }
    output.push_str(&end.output);
    let lost = omitted > 0 && end.retained_from > head.next_cursor;
    HeadTail {
        shown: Shown {
            output,
            start_cursor: head.start_cursor,
            gap: head.gap || end.gap || lost,
            normalized: head.normalized || end.normalized,
            binary: head.binary || end.binary,
            ..end
        },
        omitted: (omitted > 0).then_some(omitted),
    }
}

fn marker(omitted: u64, from: u64, snapshot: &Snapshot) -> String {
    let kept = if snapshot.retained_from > from {
        format!("; what is still kept of them begins at cursor {}", snapshot.retained_from)
    } else {
        String::new()
    };
    format!("[… {omitted} bytes left out, beginning at cursor {from}{kept} …]\n")
}

#[cfg(test)]
mod tests {
    use procyard_core::State;

    use super::*;
    use crate::testing::{Recorded, now};

    fn of(source: &Recorded, limit: usize) -> HeadTail {
        now(head_and_tail(source, limit)).unwrap()
    }

    #[test]
    fn what_fits_is_whole() {
        let result = of(&Recorded::stdout(b"\x1b[1mhello\x1b[0m\n"), 6);
        assert_eq!((result.shown.output.as_str(), result.omitted), ("hello\n", None));
        assert_eq!((result.shown.next_cursor, result.shown.normalized, result.shown.gap), (14, true, false));
    }

    #[test]
    fn of_what_does_not_fit_the_beginning_and_the_end_are_kept() {
        let text = (0..1000).map(|line| format!("line {line:03}\n")).collect::<Vec<_>>().concat();
        let result = of(&Recorded::stdout(text.as_bytes()), 90);
        let output = result.shown.output.as_str();
        let (head, rest) = output.split_once("[… ").unwrap();
        let (marker, tail) = rest.split_once(" …]\n").unwrap();
        assert_eq!(head, "line 000\nline 001\nline 002\n");
        assert_eq!(marker, "8913 bytes left out, beginning at cursor 27");
        assert_eq!(tail.len(), 60);
        assert!(text.ends_with(tail), "{tail}");
        assert_eq!(result.omitted, Some(8913));
        assert_eq!((result.shown.start_cursor, result.shown.next_cursor), (0, 9000));
        assert!(!result.shown.gap);
    }

    #[test]
    fn after_a_flood_the_beginning_is_still_there_and_the_loss_is_told() {
        let mut bytes = b"BEGIN\n".to_vec();
        bytes.extend(b"x".repeat(500_000));
        bytes.extend(b"\nTHE-END\n");
        let source = Recorded { retained_from: 400_000, ..Recorded::stdout(&bytes) };
        let result = of(&source, 3000);
        let output = &result.shown.output;
        assert!(output.starts_with("BEGIN\n[…") && output.ends_with("\nTHE-END\n"), "{output}");
        assert!(output.len() < 3200, "{}", output.len());
        assert!(output.contains("begins at cursor 400000"), "{output}");
        assert!(result.shown.gap);
        let marked = output.lines().filter(|line| line.starts_with("[…")).count();
        assert_eq!(marked, 1);
        assert_eq!(result.omitted, Some(500_015 - 6 - 2000));
    }

    #[test]
    fn repaints_that_collapse_leave_nothing_out() {
        let bytes = b"50%\r".repeat(10_000);
        let result = of(&Recorded::stdout(&[&bytes[..], b"done\n"].concat()), 100);
        assert_eq!((result.shown.output.as_str(), result.omitted), ("done\n", None));
    }

    #[test]
    fn the_smallest_budget_still_gives_both_ends() {
        let result = of(&Recorded::stdout(b"abcdef"), 1);
        assert_eq!(result.shown.output, "a\n[… 4 bytes left out, beginning at cursor 1 …]\nf");
    }

    #[test]
    fn a_running_process_is_read_up_to_the_character_that_is_not_whole_yet() {
        let bytes = "a é".as_bytes();
        let source = Recorded { state: State::Running, ..Recorded::stdout(&bytes[..3]) };
        let Ends { head, tail } = now(ends(&source, 0, 100)).unwrap();
        assert_eq!((head.output.as_str(), head.next_cursor), ("a ", 2));
        assert!(tail.is_none());
    }

    #[test]
    fn whatever_the_budget_the_end_of_what_a_running_process_printed_is_shown() {
        let text = (0..100).map(|line| format!("line {line:03}\n")).collect::<Vec<_>>().concat();
        let long = format!("a\n{}", "x".repeat(400));
        for text in [text, long] {
            let source = Recorded { state: State::Running, ..Recorded::stdout(text.as_bytes()) };
            for limit in [20, 89, 90, 91, 98, 99, 100, 250] {
                let Ends { head, tail } = now(ends(&source, 0, limit)).unwrap();
                let tail =
                    tail.unwrap_or_else(|| panic!("only {:?} of {} at {limit}", head.output, text.len()));
                assert!(
                    text.ends_with(&tail.output) && !tail.output.is_empty(),
                    "{limit}: {:?}",
                    tail.output
                );
                assert_eq!(tail.next_cursor, text.len() as u64);
            }
        }
    }

    #[test]
    fn repaints_beyond_what_one_page_looks_at_do_not_hide_the_end() {
        let mut bytes = b"\r 10%".repeat(400_000);
        bytes.extend_from_slice(b"\r 99%\rnearly there");
        let source = Recorded { state: State::Running, ..Recorded::stdout(&bytes) };
        let Ends { tail, .. } = now(ends(&source, 0, 100)).unwrap();
        let tail = tail.unwrap();
        assert!(tail.output.ends_with("nearly there"), "{:?}", tail.output);
    }

    #[test]
    fn the_ends_from_a_cursor_on_leave_out_what_is_between_them() {
        let text = (0..100).map(|line| format!("line {line:03}\n")).collect::<Vec<_>>().concat();
        let source = Recorded { state: State::Running, ..Recorded::stdout(text.as_bytes()) };
        let Ends { head, tail } = now(ends(&source, 9, 90)).unwrap();
        let tail = tail.unwrap();
        assert_eq!((head.start_cursor, head.output.as_str()), (9, "line 001\nline 002\nline 003\n"));
        assert_eq!((tail.start_cursor, tail.next_cursor), (840, 900));
        assert!(text.ends_with(&tail.output));
    }
}
