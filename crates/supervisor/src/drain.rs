//! Reads a process's output, whether or not anybody polls, into its window and spool.
//!
//! Not for deciding when output is complete: the actor watches the drain and tells it when to end.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use procyard_core::Stream;
use procyard_runner::{Output, TerminalSize};
use procyard_spool::Spool;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::entry::Entry;
use crate::{Clock, Pace};

/// Read buffers begin small, so that a process that prints nothing costs little, and grow while they are filled.
const BUFFER_FIRST: usize = 2 * 1024;
const BUFFER_LAST: usize = 64 * 1024;

/// Appending a full buffer to the page cache takes some tens of microseconds, less than a hop to the blocking pool and
/// back on a busy machine, so it is done in place. A disk that is behind makes one append take longer than this: the
/// next ones go to the blocking pool, until one of them is quick again.
const SLOW_APPEND: Duration = Duration::from_millis(2);

/// How much is appended in place before other tasks of the same thread get their turn.
const TURN_BYTES: usize = 256 * 1024;

/// The most that is read after a drain was told to end: what full pipes hold.
const SWEEP_MAX: usize = 4 * 1024 * 1024;

/// How long an incomplete character is held back for its rest, so that the other stream cannot split it.
const HOLD: Duration = Duration::from_millis(5);

/// One stream being read.
struct Tap {
    stream: Stream,
    source: Option<Output>,
    /// Begins with the bytes that are held back.
    buffer: Vec<u8>,
    held: usize,
    held_since: Option<Instant>,
}

/// A drain as the actor holds it.
pub(crate) struct Drain {
    /// True once every stream is at end of file.
    pub(crate) at_eof: watch::Receiver<bool>,
    /// True while reading pauses for a reader that is behind.
    pub(crate) paused: watch::Receiver<bool>,
    /// Lifts the pace: what is left is read without waiting for anybody.
    pub(crate) unpaced: CancellationToken,
    /// Ends the drain wherever it is.
    pub(crate) stop: CancellationToken,
    /// The size that the terminal was given last; recorded in the stream.
    pub(crate) sizes: watch::Sender<Option<TerminalSize>>,
    /// A drain that nobody holds any more ends.
    _ending: DropGuard,
    task: tokio::task::JoinHandle<Option<Spool>>,
}

impl Drain {
    /// Begins reading. The task ends at end of file or when it is stopped.
    pub(crate) fn begin(
        entry: Arc<Entry>,
        clock: Arc<dyn Clock>,
        spool: Spool,
        streams: Vec<(Stream, Output)>,
        pace: Option<Pace>,
    ) -> Self {
        let (eof, at_eof) = watch::channel(false);
        let (pausing, paused) = watch::channel(false);
        let (stop, unpaced) = (CancellationToken::new(), CancellationToken::new());
        let taps = streams.into_iter().map(|(stream, source)| Tap::new(stream, source)).collect();
        let pace = pace.map(|pace| Pacer { pace, pausing, lifted: unpaced.clone() });
        let sizes = watch::Sender::new(None);
        let resized = sizes.subscribe();
        let reader = Reader {
            entry,
            clock,
            spool: Some(spool),
            taps,
            turn: 0,
            pace,
            slow: false,
            in_place: 0,
            resized,
        };
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let spool = reader.run(stopped).await;
            eof.send_replace(true);
            spool
        });
        let ending = stop.clone().drop_guard();
        Self { at_eof, paused, unpaced, stop, sizes, _ending: ending, task }
    }

    /// Ends the drain and gives the spool back; `None` if a panic took it.
    pub(crate) async fn end(self) -> Option<Spool> {
        self.stop.cancel();
        self.task.await.ok().flatten()
    }
}

struct Reader {
    entry: Arc<Entry>,
    clock: Arc<dyn Clock>,
    /// Away only while an append runs on a blocking thread.
    spool: Option<Spool>,
    taps: Vec<Tap>,
    /// Which tap is asked first: the one after that which was read last, so that neither starves the other.
    turn: usize,
    pace: Option<Pacer>,
    /// Whether the last append took long.
    slow: bool,
    /// Bytes appended in place since other tasks had their turn.
    in_place: usize,
    resized: watch::Receiver<Option<TerminalSize>>,
}

/// Holds reading back while a reader is behind.
struct Pacer {
    pace: Pace,
    pausing: watch::Sender<bool>,
    lifted: CancellationToken,
}

impl Pacer {
    /// Resolves when reading may go on; `false` when the pace no longer holds at all.
    async fn go_on(&mut self, total: u64) -> bool {
        let ahead = self.pace.ahead;
        let behind = |consumed: &u64| total.saturating_sub(*consumed) > ahead;
        if !behind(&self.pace.consumed.borrow_and_update()) {
            return true;
        }
        self.pausing.send_replace(true);
        let caught_up = tokio::select! {
            consumed = self.pace.consumed.wait_for(|consumed| !behind(consumed)) => consumed.is_ok(),
            () = self.lifted.cancelled() => false,
        };
        self.pausing.send_replace(false);
        caught_up
    }
}

impl Reader {
    /// Reads to end of file or until `stop`, which is heeded between appends only: an append is never torn.
    async fn run(mut self, stop: CancellationToken) -> Option<Spool> {
        loop {
            if let Some(pacer) = &mut self.pace {
                let total = self.entry.progress.borrow().total_bytes;
                let keeps = tokio::select! {
                    keeps = pacer.go_on(total) => keeps,
                    () = stop.cancelled() => break,
                };
                if !keeps {
                    self.pace = None;
                }
            }
            let due = self.taps.iter().filter_map(|tap| tap.held_since).min().map(|since| since + HOLD);
            let read = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                Ok(()) = self.resized.changed() => {
                    self.record_size();
                    continue;
                }
                read = read_any(&mut self.taps, self.turn) => read,
                () = sleep_until(due) => {
                    self.release_held(due).await;
                    continue;
                }
            };
            let Some((at, count)) = read else { break };
            self.heed(at, count).await;
        }
        self.sweep().await;
        for at in 0..self.taps.len() {
            self.append_tap(at, 0).await;
        }
        self.spool
    }

    /// Reads what the pipes hold at the end without waiting for more: nothing that was written is lost because
    /// this machine was too busy to read it before.
    async fn sweep(&mut self) {
        let mut left = SWEEP_MAX;
        while left > 0 {
            let taps = &mut self.taps;
            let turn = self.turn;
            let at_once = poll_fn(|context| {
                let read = std::pin::pin!(read_any(taps, turn)).poll(context);
                Poll::Ready(if let Poll::Ready(read) = read { read } else { None })
            });
            // The runtime's fairness must not look like an empty pipe.
            let Some((at, count)) = tokio::task::coop::unconstrained(at_once).await else { return };
            left = left.saturating_sub(count.max(1));
            self.heed(at, count).await;
        }
    }

    /// Takes what a tap has read; nothing is its end of file.
    async fn heed(&mut self, at: usize, count: usize) {
        self.turn = (at + 1) % self.taps.len();
        let keep = if count == 0 {
            self.taps[at].source = None;
            0
        } else {
            self.taps[at].take(count)
        };
        self.append_tap(at, keep).await;
    }

    /// Records in the stream that the terminal has another size from here on.
    fn record_size(&mut self) {
        let size = *self.resized.borrow_and_update();
        if let (Some(size), Some(spool)) = (size, &mut self.spool) {
            spool.mark_resize(self.clock.now(), size.rows, size.cols);
        }
    }

    /// Appends what a tap's buffer holds, but its last `keep` bytes.
    async fn append_tap(&mut self, at: usize, keep: usize) {
        let tap = &mut self.taps[at];
        let end = tap.held - keep;
        if end > 0 {
            let stream = tap.stream;
            let mut buffer = std::mem::take(&mut tap.buffer);
            buffer = self.append(stream, buffer, end).await;
            if buffer.len() < end + keep {
                // The append's thread panicked and took the buffer along.
                buffer.resize(BUFFER_FIRST, 0);
            } else {
                buffer.copy_within(end..end + keep, 0);
            }
            let tap = &mut self.taps[at];
            tap.buffer = buffer;
            tap.held = keep;
            tap.resize_for(end);
        }
        let tap = &mut self.taps[at];
        tap.held = keep;
        tap.held_since = (keep > 0).then(Instant::now);
    }

    async fn release_held(&mut self, due: Option<Instant>) {
        for at in 0..self.taps.len() {
            if self.taps[at].held_since.is_some_and(|since| Some(since + HOLD) <= due) {
                self.append_tap(at, 0).await;
            }
        }
    }

    async fn append(&mut self, stream: Stream, buffer: Vec<u8>, end: usize) -> Vec<u8> {
        let Some(mut spool) = self.spool.take() else { return buffer };
        let now = self.clock.now();
        let append = move || {
            let began = Instant::now();
            let appended = spool.append(stream, now, &buffer[..end]);
            (spool, buffer, appended, began.elapsed() > SLOW_APPEND)
        };
        let (spool, buffer, appended, slow) = if self.slow {
            match tokio::task::spawn_blocking(append).await {
                Ok(back) => back,
                // A panic took the spool; what is on disk is recovered when the process settles.
                Err(_) => return Vec::new(),
            }
        } else {
            self.in_place += end;
            append()
        };
        self.slow = slow;
        self.spool = Some(spool);
        {
            let mut record = self.entry.record();
            record.manifest.last_output_at = Some(now);
            record.manifest.storage_degraded |= appended.degraded;
        }
        self.entry.advance(appended.total_bytes);
        if self.in_place >= TURN_BYTES {
            self.in_place = 0;
            tokio::task::yield_now().await;
        }
        buffer
    }
}

impl Tap {
    fn new(stream: Stream, source: Output) -> Self {
        Self { stream, source: Some(source), buffer: Vec::new(), held: 0, held_since: None }
    }

    /// Takes `count` new bytes into account; how many bytes at the end are an incomplete character.
    fn take(&mut self, count: usize) -> usize {
        self.held += count;
        if self.stream == Stream::Terminal {
            // The only stream of its process: nothing can come between.
            return 0;
        }
        incomplete_tail(&self.buffer[..self.held])
    }

    /// Grows the buffer while reads fill it and gives memory back when they do not.
    fn resize_for(&mut self, read: usize) {
        let size = self.buffer.len();
        if read >= size && size < BUFFER_LAST {
            self.buffer.resize((size * 4).min(BUFFER_LAST), 0);
        } else if read < size / 16 && size > BUFFER_FIRST && self.held == 0 {
            self.buffer.truncate(BUFFER_FIRST);
            self.buffer.shrink_to_fit();
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<usize> {
        let Some(source) = &mut self.source else { return Poll::Pending };
        if self.buffer.is_empty() {
            self.buffer.resize(BUFFER_FIRST, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.buffer[self.held..]);
        match Pin::new(source).poll_read(context, &mut buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(buffer.filled().len()),
            // EIO is how a terminal says end of file, and no other error is one that a retry would mend.
            Poll::Ready(Err(_)) => Poll::Ready(0),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// The bytes at the end of `bytes` that begin a UTF-8 character whose rest is missing; at most 3.
fn incomplete_tail(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let needed = match byte {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 0,
        };
        return if back < needed { back } else { 0 };
    }
    0
}

/// Which tap read how many bytes; `None` when all are at end of file. `first` is asked first.
async fn read_any(taps: &mut [Tap], first: usize) -> Option<(usize, usize)> {
    if taps.iter().all(|tap| tap.source.is_none()) {
        return None;
    }
    poll_fn(|context| {
        for step in 0..taps.len() {
            let at = (first + step) % taps.len();
            if let Poll::Ready(count) = taps[at].poll_read(context) {
                return Poll::Ready(Some((at, count)));
            }
        }
        Poll::Pending
    })
    .await
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::incomplete_tail;

    #[test]
    fn only_the_beginning_of_a_character_is_held_back() {
        for (bytes, held) in [
            (&b""[..], 0),
            (b"abc", 0),
            ("é".as_bytes(), 0),
            (b"a\xC3", 1),
            (b"\xE6\x97", 2),
            (b"\xF0\x9F\xA6", 3),
            ("🦀".as_bytes(), 0),
            (b"\xFF", 0),
            (b"\x80\x80\x80\x80", 0),
            (b"\xC0", 0),
        ] {
            assert_eq!(incomplete_tail(bytes), held, "{bytes:?}");
        }
    }
}
