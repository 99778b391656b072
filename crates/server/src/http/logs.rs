//! The authoritative bytes of a process, streamed.
//!
//! A response that was promised whole and meets bytes that are not there any more does not end as if it were (`ending`), so
//! that nothing is missing unnoticed; the head of the stream, which is dropped first, is stated in a header. Not for text.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::{Stream, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use procyard_api::http::LogsQuery;
use procyard_core::ErrorCode;
use procyard_supervisor::{READ_MAX, ReadFrom, ReadRequest, Snapshot, StreamFilter, SupervisorError};
use procyard_tools::stream_filter;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::ending::{END, Ending, takes_trailers};
use super::problem::Problem;
use super::range::{Range, content};
use super::reading::{Piece, Reading};
use super::service::Reached;

/// What was sent before a body breaks off is given so long to get to the socket.
const WRITTEN_WITHIN: Duration = Duration::from_millis(100);

pub(crate) async fn logs(call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    let query: LogsQuery = call.query()?;
    let begins = [query.cursor, query.head_lines, query.tail_lines].into_iter().flatten().count();
    if begins > 1 {
        return Err(Problem::argument("tail_lines", "give at most one of cursor, head_lines and tail_lines"));
    }
    let snapshot = process.snapshot()?;
    let range = Range::asked(&call.parts.method, &call.parts.headers)
        .map_err(|_| Problem::unreadable_range(snapshot.total_bytes))?;
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
    let trailers = takes_trailers(&call.parts.headers);
    let sent = Sending { trailers, lines: query.head_lines, _place: place, ..Sending::new(reading, call) };
    let mut response = Response::new(sent.body());
    describe(&mut response, snapshot, begin);
    if trailers {
        response.headers_mut().insert(header::TRAILER, HeaderValue::from(END));
    }
    Ok(response)
}

/// Where a response begins: where it is asked to, or with the oldest byte that is retained. An error where just that is missing:
/// there is no response yet that could break off.
async fn begin(process: &Reached, from: ReadFrom, streams: StreamFilter) -> Result<u64, Problem> {
    // The beginning of a tail is found by reading it.
    let max_bytes = if matches!(from, ReadFrom::Cursor(_)) { 1 } else { READ_MAX };
    let request = ReadRequest { from, max_bytes, streams };
    let read = process.supervisor().read(process.owner, &process.handle, request).await;
    match (read, from) {
        (Ok((page, _)), ReadFrom::Cursor(cursor)) => {
            let (from, until) = (cursor.max(page.retained_from), page.start_cursor);
            if from < until { Err(SupervisorError::Damaged { from, until }.into()) } else { Ok(from) }
        }
        (Ok((page, _)), _) => Ok(page.start_cursor),
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
        let message = format!("the output ends at {total}; a range has bytes before that");
        Problem::range(ErrorCode::CursorAhead, message, total)
    })?;
    let begin = begin(process, ReadFrom::Cursor(from), StreamFilter::Both).await?;
    if begin >= until {
        let message = format!("all of this range has fallen out; the output is retained from {begin}");
        return Err(Problem::range(ErrorCode::CursorGap, message, total));
    }
    let (supervisor, owner, handle) = (process.supervisor(), process.owner, process.handle);
    let reading = Reading::up_to(supervisor, owner, handle, StreamFilter::Both, begin, until);
    let mut response = Response::new(Sending::new(reading, call).body());
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    describe(&mut response, snapshot, begin);
    // Of a process that goes on nobody knows the length.
    let length = snapshot.state.is_terminal().then_some(total);
    let headers = response.headers_mut();
    if let Some(content) = content(begin, until, length) {
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
    /// Whether its end is told in a trailer.
    trailers: bool,
    stop: CancellationToken,
    over: bool,
    /// Held by one that goes on until somebody ends it.
    _place: Option<OwnedSemaphorePermit>,
}

impl Sending {
    fn new(reading: Reading, call: &Call) -> Self {
        let stop = call.service.stop.clone();
        Self { reading, lines: None, trailers: false, stop, over: false, _place: None }
    }

    fn body(self) -> Body {
        Body::new(StreamBody::new(Box::pin(self.frames())))
    }

    fn frames(self) -> impl Stream<Item = io::Result<Frame<Bytes>>> + Send + 'static {
        stream::unfold(self, |mut sending| async move {
            if sending.over {
                return None;
            }
            let frame = match sending.next().await {
                Ok(bytes) => Ok(Frame::data(bytes)),
                Err(ending) => {
                    sending.over = true;
                    let last = ending.last_frame(sending.trailers)?;
                    if last.is_err() {
                        // A body that breaks off takes along what is not written yet; it is while this waits.
                        tokio::time::sleep(WRITTEN_WITHIN).await;
                    }
                    last
                }
            };
            Some((frame, sending))
        })
    }

    async fn next(&mut self) -> Result<Bytes, Ending> {
        if self.lines == Some(0) {
            return Err(Ending::Complete);
        }
        let piece = tokio::select! {
            biased;
            piece = self.reading.next() => piece,
            () = self.stop.cancelled() => return Err(Ending::ShuttingDown),
        };
        match piece {
            Ok(Piece::Bytes(bytes)) => Ok(self.cut(bytes)),
            Ok(Piece::Gap { .. }) => Err(Ending::Gap),
            Ok(Piece::End(_)) => Err(Ending::Complete),
            Err(error) => Err(Ending::of(&error, self.stop.is_cancelled())),
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
