//! Pages that compose: however the output is read, it is the same.
//!
//! Not for text: these are the bytes as they were printed.

use std::panic::Location;

use procyard_core::{Handle, Owner, Stream};
use procyard_supervisor::{Page, READ_MAX, ReadFrom, ReadRequest, StreamFilter, Supervisor};

use super::{Verdict, hold};

/// One byte, where it is, and of which stream.
type Place = (u64, Stream, u8);

/// The output of a process, which must be the same however it is read: in pages as large as they come and in pages of
/// these sizes in turn, both streams together and each alone. Each byte comes once, at its cursor, and only what is no
/// longer retained is missing. The process must print nothing meanwhile. A size of 0 counts as 1.
///
/// Gives the bytes of both streams in their order.
///
/// # Panics
///
/// When it does not hold, or the output cannot be read.
#[track_caller]
pub fn assert_pages_compose<'a>(
    supervisor: &'a Supervisor,
    owner: Owner,
    process: Handle,
    sizes: &'a [usize],
) -> impl Future<Output = Vec<u8>> + 'a {
    let asked = Location::caller();
    async move { hold(asked, compose(supervisor, owner, process, sizes).await) }
}

async fn compose(
    supervisor: &Supervisor,
    owner: Owner,
    process: Handle,
    sizes: &[usize],
) -> Verdict<Vec<u8>> {
    let reader = Reader { supervisor, owner, process };
    let whole = reader.all(&[READ_MAX], StreamFilter::Both).await?;
    let streams = [Stream::Stdout, Stream::Stderr].map(StreamFilter::Only);
    for filter in [StreamFilter::Both].into_iter().chain(streams) {
        let expected: Vec<_> =
            whole.iter().filter(|(_, stream, _)| filter.accepts(*stream)).copied().collect();
        for sizes in [&[READ_MAX], sizes] {
            let found = reader.all(sizes, filter).await?;
            if let Some(at) =
                (0..expected.len().max(found.len())).find(|at| expected.get(*at) != found.get(*at))
            {
                return Err(format!(
                    "expected pages of {sizes:?} bytes of {filter:?} to compose; byte {at} is {:?} instead of {:?}",
                    found.get(at),
                    expected.get(at)
                ));
            }
        }
    }
    Ok(whole.into_iter().map(|(_, _, byte)| byte).collect())
}

struct Reader<'a> {
    supervisor: &'a Supervisor,
    owner: Owner,
    process: Handle,
}

impl Reader<'_> {
    /// Everything that is retained, page after page.
    async fn all(&self, sizes: &[usize], streams: StreamFilter) -> Verdict<Vec<Place>> {
        let sizes = if sizes.is_empty() { &[READ_MAX] } else { sizes };
        let mut places = Vec::new();
        let mut cursor = 0;
        for size in sizes.iter().cycle() {
            let max_bytes = (*size).max(1);
            let request = ReadRequest { from: ReadFrom::Cursor(cursor), max_bytes, streams };
            let read = self.supervisor.read(self.owner, &self.process, request).await;
            let (page, _) =
                read.map_err(|error| format!("expected a page at {cursor}; seen was {error:?}"))?;
            check(&page, cursor, &request)?;
            for span in &page.spans {
                let bytes = page.bytes.iter().skip(span.offset).take(span.len);
                places.extend((span.cursor..).zip(bytes).map(|(cursor, byte)| (cursor, span.stream, *byte)));
            }
            cursor = page.next_cursor;
            if cursor == page.total_bytes {
                break;
            }
        }
        Ok(places)
    }
}

/// What holds of every page by itself.
fn check(page: &Page, cursor: u64, request: &ReadRequest) -> Verdict {
    let about = || {
        format!(
            "a page of at most {} bytes of {:?} at {cursor}, which has {} bytes from {} to {} of {}",
            request.max_bytes,
            request.streams,
            page.bytes.len(),
            page.start_cursor,
            page.next_cursor,
            page.total_bytes
        )
    };
    let missing = page.start_cursor.saturating_sub(cursor);
    let told = page.gaps.iter().map(|gap| gap.until - gap.from).sum::<u64>();
    let covered: usize = page.spans.iter().map(|span| span.len).sum();
    let rules = [
        (page.bytes.len() <= request.max_bytes, "expected no more bytes than were asked for"),
        (
            page.start_cursor >= cursor && page.next_cursor >= page.start_cursor,
            "expected a cursor that never goes back",
        ),
        (page.next_cursor > cursor || cursor == page.total_bytes, "expected the next page to be further on"),
        (page.next_cursor <= page.total_bytes, "expected no cursor behind the end"),
        (covered == page.bytes.len(), "expected spans that cover the bytes"),
        (page.gap != page.gaps.is_empty(), "expected a gap to be told where there is one"),
        (missing <= told, "expected what is missing to be told as a gap"),
        (
            page.spans.iter().all(|span| request.streams.accepts(span.stream)),
            "expected the streams that were asked for",
        ),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(format!("{rule}; seen was {}", about())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use procyard_core::Timestamp;
    use procyard_supervisor::{Gap, Span};

    use super::*;

    /// Four bytes from 10 on, of 20.
    fn page() -> Page {
        let at = Timestamp::from_unix_micros(0);
        Page {
            bytes: b"abcd".to_vec(),
            spans: vec![Span { offset: 0, cursor: 10, len: 4, stream: Stream::Stdout, at }],
            start_cursor: 10,
            next_cursor: 14,
            total_bytes: 20,
            ..Page::default()
        }
    }

    #[track_caller]
    fn refused(crooked: Page, cursor: u64, streams: StreamFilter, rule: &str) {
        let request = ReadRequest { from: ReadFrom::Cursor(cursor), max_bytes: 4, streams };
        let seen = check(&crooked, cursor, &request).expect_err("it must not hold");
        assert!(seen.contains(rule), "{seen}");
    }

    #[test]
    fn a_page_that_breaks_a_rule_is_told_by_that_rule() {
        let both = StreamFilter::Both;
        let request = ReadRequest { from: ReadFrom::Cursor(10), max_bytes: 4, streams: both };
        assert_eq!(check(&page(), 10, &request), Ok(()));
        refused(Page { bytes: b"abcde".to_vec(), ..page() }, 10, both, "no more bytes");
        refused(page(), 11, both, "never goes back");
        refused(Page { next_cursor: 9, ..page() }, 10, both, "never goes back");
        refused(Page { next_cursor: 10, ..page() }, 10, both, "further on");
        refused(Page { next_cursor: 21, ..page() }, 10, both, "behind the end");
        refused(Page { spans: Vec::new(), ..page() }, 10, both, "cover the bytes");
        refused(Page { gap: true, ..page() }, 10, both, "where there is one");
        refused(page(), 9, both, "told as a gap");
        let gaps = vec![Gap { offset: 0, from: 9, until: 10 }];
        let request = ReadRequest { from: ReadFrom::Cursor(9), ..request };
        assert_eq!(check(&Page { gap: true, gaps, ..page() }, 9, &request), Ok(()));
        refused(page(), 10, StreamFilter::Only(Stream::Stderr), "the streams that were asked for");
    }
}
