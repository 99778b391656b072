//! Reads a process's output, whether or not anybody polls, into its window and spool.
//!
//! Not for deciding when output is complete: the actor watches the drain and tells it when to end.

use std::cell::Cell;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
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

/// The most that one read takes: what a pipe of the host holds. Fewer, larger appends cost less than many small ones:
/// the page cache then works in larger folios.
const BUFFER_BYTES: usize = 256 * 1024;

/// Appending a full buffer to the page cache takes about a hundred microseconds, less than a hop to the blocking pool and
/// back on a busy machine, so it is done in place. A disk that is behind makes one append take longer than this: the
/// next ones go to the blocking pool, until one of them is quick again.
const SLOW_APPEND: Duration = Duration::from_millis(2);

/// How much is appended in place before other tasks of the same thread get their turn.
const TURN_BYTES: usize = BUFFER_BYTES;

/// The most that is read after a drain was told to end: what full pipes hold.
const SWEEP_MAX: usize = 4 * 1024 * 1024;

/// How long an incomplete character is held back for its rest, so that the other stream cannot split it.
const HOLD: Duration = Duration::from_millis(5);

/// The longest incomplete character.
const HELD_MAX: usize = 3;

thread_local! {
    /// The buffer that this thread reads into, one for however many processes print: what was read is still in the
    /// processor's cache when it is appended, and a process that prints nothing costs nothing.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// This thread's buffer, or a new one while an append on a blocking thread has it.
fn take_buffer() -> Vec<u8> {
    let buffer = BUFFER.take();
    if buffer.len() == BUFFER_BYTES { buffer } else { vec![0; BUFFER_BYTES] }
}

fn give_back(buffer: Vec<u8>) {
    BUFFER.set(buffer);
}

/// One stream being read.
struct Tap {
    stream: Stream,
    source: Option<Output>,
    /// The bytes that are held back, and how many they are.
    held: [u8; HELD_MAX],
    held_len: usize,
    held_since: Option<Instant>,
}

/// What a read gave.
struct Taken {
    /// Which tap.
    at: usize,
    /// The thread's buffer, which begins with what the tap had held back.
    buffer: Vec<u8>,
    /// How many bytes of the buffer are output.
    len: usize,
    /// Whether the tap is at its end of file.
    ended: bool,
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
    /// Begins reading. The task ends at end of file or when it is stopped. `window` is how much is kept in memory.
    pub(crate) fn begin(
        entry: Arc<Entry>,
        clock: Arc<dyn Clock>,
        spool: Spool,
        streams: Vec<(Stream, Output)>,
        pace: Option<Pace>,
        window: u64,
    ) -> Self {
        let (eof, at_eof) = watch::channel(false);
        let (pausing, paused) = watch::channel(false);
        let (stop, unpaced) = (CancellationToken::new(), CancellationToken::new());
        let terminal = streams.iter().any(|(stream, _)| *stream == Stream::Terminal);
        let taps = streams.into_iter().map(|(stream, source)| Tap::new(stream, source)).collect();
        let pace = pace.map(|pace| Pacer { pace, window, pausing, lifted: unpaced.clone() });
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
            awaited: false,
            terminal,
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
    /// Whether somebody was woken since then.
    awaited: bool,
    /// Whether there is a terminal, which can be given another size.
    terminal: bool,
    resized: watch::Receiver<Option<TerminalSize>>,
}

/// Holds reading back while a reader is behind.
struct Pacer {
    pace: Pace,
    /// How much is kept in memory.
    window: u64,
    pausing: watch::Sender<bool>,
    lifted: CancellationToken,
}

impl Pacer {
    /// Resolves when reading may go on; `false` when the pace no longer holds at all.
    async fn go_on(&mut self, total: u64, in_memory_only: bool) -> bool {
        // What the disk does not take stays readable only as long as it fits the window, with one read more and what
        // the pipes still hold at the end.
        let bound = if in_memory_only { self.window / 4 } else { u64::MAX };
        let ahead = self.pace.ahead.min(bound);
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
        // One for the whole drain: an append is not to pay for standing in line anew.
        let mut stopped = pin!(stop.cancelled());
        loop {
            if let Some(pacer) = &mut self.pace {
                let total = self.entry.course.standing().progress.total_bytes;
                let keeps = tokio::select! {
                    keeps = pacer.go_on(total, self.spool.as_ref().is_some_and(Spool::degraded)) => keeps,
                    () = &mut stopped => break,
                };
                if !keeps {
                    self.pace = None;
                }
            }
            let due = self.taps.iter().filter_map(|tap| tap.held_since).min().map(|since| since + HOLD);
            let read = tokio::select! {
                biased;
                () = &mut stopped => None,
                Ok(()) = self.resized.changed(), if self.terminal => {
                    self.record_size();
                    continue;
                }
                read = read_any(&mut self.taps, self.turn) => read,
                () = sleep_until(due) => {
                    self.release_held(due).await;
                    continue;
                }
            };
            let Some(taken) = read else { break };
            self.heed(taken).await;
        }
        self.sweep().await;
        for at in 0..self.taps.len() {
            self.append_held(at).await;
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
                let read = pin!(read_any(taps, turn)).poll(context);
                Poll::Ready(if let Poll::Ready(read) = read { read } else { None })
            });
            // The runtime's fairness must not look like an empty pipe.
            let Some(taken) = tokio::task::coop::unconstrained(at_once).await else { return };
            left = left.saturating_sub(taken.len.max(1));
            self.heed(taken).await;
        }
    }

    /// Appends what a tap has read, but an incomplete character at its end.
    async fn heed(&mut self, taken: Taken) {
        let Taken { at, buffer, len, ended } = taken;
        self.turn = (at + 1) % self.taps.len();
        let tap = &mut self.taps[at];
        if ended {
            tap.source = None;
        }
        // A terminal is the only stream of its process: nothing can come between.
        let whole = ended || tap.stream == Stream::Terminal;
        let keep = if whole { 0 } else { incomplete_tail(&buffer[..len]) };
        let end = len - keep;
        tap.hold(&buffer[end..len]);
        let stream = tap.stream;
        let buffer = if end > 0 { self.append(stream, buffer, end).await } else { buffer };
        give_back(buffer);
        self.rest().await;
    }

    /// Records in the stream that the terminal has another size from here on.
    fn record_size(&mut self) {
        let size = *self.resized.borrow_and_update();
        if let (Some(size), Some(spool)) = (size, &mut self.spool) {
            spool.mark_resize(self.clock.now(), size.rows, size.cols);
        }
    }

    /// Appends what a tap holds back.
    async fn append_held(&mut self, at: usize) {
        let tap = &mut self.taps[at];
        let held = tap.held[..tap.held_len].to_vec();
        tap.hold(&[]);
        let (stream, end) = (tap.stream, held.len());
        if end > 0 {
            self.append(stream, held, end).await;
        }
    }

    async fn release_held(&mut self, due: Option<Instant>) {
        for at in 0..self.taps.len() {
            if self.taps[at].held_since.is_some_and(|since| Some(since + HOLD) <= due) {
                self.append_held(at).await;
            }
        }
    }

    /// Appends the first `end` bytes of the buffer and gives it back.
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
        self.awaited |= self.entry.advance(appended.total_bytes);
        buffer
    }

    /// Lets other tasks of this thread have their turn after much work, and at once where one of them waits for the output:
    /// it comes before another look at the pipes.
    async fn rest(&mut self) {
        if self.awaited || self.in_place >= TURN_BYTES {
            self.awaited = false;
            self.in_place = 0;
            tokio::task::yield_now().await;
        }
    }
}

impl Tap {
    fn new(stream: Stream, source: Output) -> Self {
        Self { stream, source: Some(source), held: [0; HELD_MAX], held_len: 0, held_since: None }
    }

    /// Holds these bytes back, at most [`HELD_MAX`], instead of those before.
    fn hold(&mut self, bytes: &[u8]) {
        self.held[..bytes.len()].copy_from_slice(bytes);
        self.held_len = bytes.len();
        self.held_since = (!bytes.is_empty()).then(Instant::now);
    }

    /// Reads into the buffer, behind what was held back, and says how much is there then, and whether this is the end.
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<(usize, bool)> {
        let Some(source) = &mut self.source else { return Poll::Pending };
        let held = self.held_len;
        buffer[..held].copy_from_slice(&self.held[..held]);
        let mut rest = ReadBuf::new(&mut buffer[held..]);
        match Pin::new(source).poll_read(context, &mut rest) {
            Poll::Ready(Ok(())) => {
                let count = rest.filled().len();
                Poll::Ready((held + count, count == 0))
            }
            // EIO is how a terminal says end of file, and no other error is one that a retry would mend.
            Poll::Ready(Err(_)) => Poll::Ready((held, true)),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// The bytes at the end of `bytes` that begin a UTF-8 character whose rest is missing; at most 3.
fn incomplete_tail(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(HELD_MAX) {
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

/// What a tap has read; `None` when all are at end of file. `first` is asked first.
async fn read_any(taps: &mut [Tap], first: usize) -> Option<Taken> {
    if taps.iter().all(|tap| tap.source.is_none()) {
        return None;
    }
    poll_fn(|context| {
        let mut buffer = take_buffer();
        for step in 0..taps.len() {
            let at = (first + step) % taps.len();
            if let Poll::Ready((len, ended)) = taps[at].poll_read(context, &mut buffer) {
                return Poll::Ready(Some(Taken { at, buffer, len, ended }));
            }
        }
        give_back(buffer);
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
