//! The authoritative bytes of a process, streamed.
//!
//! A response that was promised whole and meets bytes that are not retained any more breaks off, so that nothing is missing
//! unnoticed; the head of the stream, which is dropped first, is stated in a header. Not for text.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::{Stream, stream};
use procyard_api::http::LogsQuery;
use procyard_supervisor::{READ_MAX, ReadFrom, ReadRequest, Snapshot, StreamFilter, SupervisorError};
use procyard_tools::stream_filter;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::problem::Problem;
use super::reading::{Piece, Reading};
use super::service::Reached;

pub(crate) async fn logs(call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    let query: LogsQuery = call.query()?;
    let begins = [query.cursor, query.head_lines, query.tail_lines].into_iter().flatten().count();
    if begins > 1 {
        return Err(Problem::argument("tail_lines", "give at most one of cursor, head_lines and tail_lines"));
    }
    let snapshot = process.snapshot()?;
    let range = match call.parts.headers.get(header::RANGE).map(HeaderValue::to_str) {
        Some(Ok(text)) => Range::parse(text),
        _ => None,
    };
    match range {
        Some(_) if query != LogsQuery::default() => Err(Problem::argument("Range", "goes with no query")),
        Some(range) => ranged(&call, &process, &snapshot, range).await,
        None => whole(&call, &process, &snapshot, &query).await,
    }
}

async fn whole(
    call: &Call,
    process: &Reached,
    snapshot: &Snapshot,
    query: &LogsQuery,
) -> Result<Response, Problem> {
    let streams = stream_filter(query.stream.unwrap_or_default());
    let from = match query.tail_lines {
        Some(lines) => ReadFrom::TailLines(lines),
        None => ReadFrom::Cursor(query.cursor.unwrap_or_default()),
    };
    let begin = begin(process, from, streams).await?;
    let (supervisor, owner, handle) = (process.supervisor(), process.owner, process.handle);
    let (reading, place) = if query.follow.unwrap_or_default() {
        let place = call.service.stream_place()?;
        (Reading::following(supervisor, owner, handle, streams, begin)?, Some(place))
    } else {
        let until = snapshot.total_bytes.max(begin);
        (Reading::up_to(supervisor, owner, handle, streams, begin, until), None)
    };
    let stop = call.service.stop.clone();
    let sent = Sending { reading, lines: query.head_lines, stop, over: false, _place: place };
    let mut response = Response::new(Body::from_stream(sent.stream()));
    describe(&mut response, snapshot, begin);
    Ok(response)
}

/// Where a response begins: where it is asked to, or where the first byte after that is retained.
async fn begin(process: &Reached, from: ReadFrom, streams: StreamFilter) -> Result<u64, Problem> {
    // The beginning of a tail is found by reading it.
    let max_bytes = if matches!(from, ReadFrom::Cursor(_)) { 1 } else { READ_MAX };
    let request = ReadRequest { from, max_bytes, streams };
    let read = process.supervisor().read(process.owner, &process.handle, request).await;
    match (read, from) {
        (Ok((page, _)), _) => Ok(page.start_cursor),
        // Damaged just there: the response says so when it gets there.
        (Err(SupervisorError::Damaged { .. }), ReadFrom::Cursor(cursor)) => Ok(cursor),
        (Err(error), _) => Err(error.into()),
    }
}

async fn ranged(
    call: &Call,
    process: &Reached,
    snapshot: &Snapshot,
    range: Range,
) -> Result<Response, Problem> {
    let total = snapshot.total_bytes;
    let (from, until) = range.of(total).ok_or_else(|| {
        Problem::range(format!("the output ends at {total}; a range begins before that"), total)
    })?;
    let begin = begin(process, ReadFrom::Cursor(from), StreamFilter::Both).await?;
    if begin >= until {
        let message = format!("the output is retained from {begin}");
        return Err(Problem::range(message, total));
    }
    let (supervisor, owner, handle) = (process.supervisor(), process.owner, process.handle);
    let reading = Reading::up_to(supervisor, owner, handle, StreamFilter::Both, begin, until);
    let sent = Sending { reading, lines: None, stop: call.service.stop.clone(), over: false, _place: None };
    let mut response = Response::new(Body::from_stream(sent.stream()));
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    describe(&mut response, snapshot, begin);
    // Of a process that goes on nobody knows the length.
    let length = if snapshot.state.is_terminal() { total.to_string() } else { "*".to_owned() };
    let content = format!("bytes {begin}-{}/{length}", until - 1);
    let headers = response.headers_mut();
    if let Ok(content) = HeaderValue::from_str(&content) {
        headers.insert(header::CONTENT_RANGE, content);
    }
    headers.insert(header::CONTENT_LENGTH, (until - begin).into());
    Ok(response)
}

fn describe(response: &mut Response, snapshot: &Snapshot, begin: u64) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert("procyard-start-cursor", begin.into());
    headers.insert("procyard-total-bytes", snapshot.total_bytes.into());
    headers.insert("procyard-status", HeaderValue::from_static(snapshot.state.as_str()));
}

/// A body that is being sent.
struct Sending {
    reading: Reading,
    /// How many more lines, where that is limited.
    lines: Option<u64>,
    stop: CancellationToken,
    over: bool,
    /// Held by one that goes on until somebody ends it.
    _place: Option<OwnedSemaphorePermit>,
}

impl Sending {
    fn stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        stream::unfold(self, |mut sending| async move {
            let next = sending.next().await;
            sending.over |= !matches!(next, Some(Ok(_)));
            next.map(|next| (next, sending))
        })
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.over || self.lines == Some(0) {
            return None;
        }
        let piece = tokio::select! {
            biased;
            piece = self.reading.next() => piece,
            () = self.stop.cancelled() => return Some(Err(io::Error::other("the service is being shut down"))),
        };
        match piece {
            Ok(Piece::Bytes(bytes)) => Some(Ok(self.cut(bytes))),
            Ok(Piece::Gap { from, until }) => {
                let message = format!("the output from {from} to {until} is not retained");
                Some(Err(io::Error::other(message)))
            }
            Ok(Piece::End(_)) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        }
    }

    /// The bytes up to the end of the last line that is wanted.
    fn cut(&mut self, bytes: Bytes) -> Bytes {
        let Some(lines) = &mut self.lines else { return bytes };
        for (place, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            *lines -= 1;
            if *lines == 0 {
                return bytes.slice(..=place);
            }
        }
        bytes
    }
}

/// One range of bytes (RFC 9110, section 14). Several, and other units, are passed over, as a server may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    /// From here to there, both included.
    Between(u64, u64),
    /// From here to the end.
    From(u64),
    /// So many at the end.
    Last(u64),
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().strip_prefix("bytes=")?.trim().split_once('-')?;
        match (first.trim(), last.trim()) {
            ("", last) => Some(Self::Last(last.parse().ok()?)),
            (first, "") => Some(Self::From(first.parse().ok()?)),
            (first, last) => {
                let (first, last) = (first.parse().ok()?, last.parse().ok()?);
                (first <= last).then_some(Self::Between(first, last))
            }
        }
    }

    /// The first byte and the one behind the last, of so many; `None` where it begins behind all of them.
    fn of(self, total: u64) -> Option<(u64, u64)> {
        let (from, until) = match self {
            Self::Between(first, last) => (first, last.saturating_add(1).min(total)),
            Self::From(first) => (first, total),
            Self::Last(count) => (total.saturating_sub(count), total),
        };
        (from < until).then_some((from, until))
    }
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    fn a_range_is_of_what_there_is() {
        for (text, expect) in [
            ("bytes=0-0", Some((0, 1))),
            ("bytes=2-5", Some((2, 6))),
            ("bytes=2-500", Some((2, 10))),
            ("bytes=4-", Some((4, 10))),
            ("bytes=-3", Some((7, 10))),
            ("bytes=-300", Some((0, 10))),
            ("bytes=10-", None),
            ("bytes=-0", None),
        ] {
            assert_eq!(Range::parse(text).and_then(|range| range.of(10)), expect, "{text}");
        }
        for text in ["bytes=5-2", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b", "bytes=-", "bytes"] {
            assert_eq!(Range::parse(text), None, "{text}");
        }
        assert_eq!(Range::From(0).of(0), None);
    }
}
