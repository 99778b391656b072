//! Lines of a stream, of bounded length.
//!
//! Not for what they say.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What is read at a time.
const CHUNK: usize = 16 * 1024;

/// A buffer larger than this is let go when it is empty, so that one long line is not held for ever.
const KEPT_MAX: usize = 1024 * 1024;

/// A line, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end. The last one may have had none.
    Whole(Bytes),
    /// A line that is too long, and its beginning. The rest of it is passed over.
    TooLong(Bytes),
    /// There are no more.
    End,
}

/// Reads lines of at most so many bytes, in as much memory.
pub(crate) struct LineReader<R> {
    read: R,
    most: usize,
    buffer: BytesMut,
    /// Where in the buffer no end of a line was found yet.
    searched: usize,
    /// The rest of a line that was too long is passed over.
    skipping: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(read: R, most: usize) -> Self {
        Self { read, most, buffer: BytesMut::new(), searched: 0, skipping: false, ended: false }
    }

    /// The next line. Cancellation safe. A stream that fails has ended.
    pub(crate) async fn next(&mut self) -> Line {
        loop {
            if let Some(line) = self.take() {
                return line;
            }
            if self.ended {
                return Line::End;
            }
            self.more().await;
        }
    }

    /// Reads on into memory without giving lines, so that the end of the stream is noticed, until `most` bytes wait. Never
    /// resolves. Cancellation safe.
    pub(crate) async fn read_ahead(&mut self, most: usize) -> std::convert::Infallible {
        while !self.ended && self.buffer.len() < most {
            self.more().await;
        }
        std::future::pending().await
    }

    /// A line of what is in memory.
    fn take(&mut self) -> Option<Line> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|at| at + self.searched) else {
                self.searched = self.buffer.len();
                return self.take_unfinished();
            };
            let mut line = self.buffer.split_to(end + 1);
            line.truncate(end);
            self.let_go(0);
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            let line = line.freeze();
            return Some(if line.len() > self.most { Line::TooLong(line) } else { Line::Whole(line) });
        }
    }

    /// The line of what has no end yet: the last one, or one that is too long already.
    fn take_unfinished(&mut self) -> Option<Line> {
        let too_long = self.buffer.len() > self.most;
        if !self.skipping && !too_long && !self.ended || self.buffer.is_empty() {
            return None;
        }
        let rest = self.buffer.split().freeze();
        self.let_go(rest.len());
        if std::mem::replace(&mut self.skipping, !self.ended) {
            return None;
        }
        Some(if too_long { Line::TooLong(rest) } else { Line::Whole(rest) })
    }

    /// What is before the buffer is gone.
    fn let_go(&mut self, held: usize) {
        self.searched = 0;
        if self.buffer.is_empty() && self.buffer.capacity() + held > KEPT_MAX {
            self.buffer = BytesMut::new();
        }
    }

    async fn more(&mut self) {
        self.buffer.reserve(CHUNK);
        let got: io::Result<usize> = self.read.read_buf(&mut self.buffer).await;
        // Whatever the error, nothing more comes.
        self.ended = !matches!(got, Ok(1..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8], most: usize) -> Vec<Line> {
        let mut reader = LineReader::new(input, most);
        let mut lines = Vec::new();
        loop {
            match reader.next().await {
                Line::End => return lines,
                line => lines.push(line),
            }
        }
    }

    #[tokio::test]
    async fn lines_come_one_by_one_the_last_also_without_an_end() {
        let whole = |text: &'static str| Line::Whole(Bytes::from(text));
        for (input, expected) in [
            ("", vec![]),
            ("\n", vec![whole("")]),
            ("a", vec![whole("a")]),
            ("a\n", vec![whole("a")]),
            ("a\nbb\n\nc", vec![whole("a"), whole("bb"), whole(""), whole("c")]),
        ] {
            assert_eq!(lines(input.as_bytes(), 10).await, expected, "{input:?}");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_told_once_and_what_follows_is_read() {
        let long = "x".repeat(100_000);
        for most in [1, 10, 5_000, 99_999] {
            for input in [format!("{long}\nb\n"), format!("a\n{long}\nb"), format!("{long}\n{long}\nb\n")] {
                let read = lines(input.as_bytes(), most).await;
                let too_long = read.iter().filter(|line| matches!(line, Line::TooLong(_))).count();
                assert_eq!(too_long, input.matches(&long).count(), "{most}");
                assert_eq!(read.last(), Some(&Line::Whole(Bytes::from("b"))), "{most}");
            }
        }
        let unfinished = lines(long.as_bytes(), 10).await;
        assert!(matches!(unfinished.as_slice(), [Line::TooLong(_)]), "{unfinished:?}");
        assert_eq!(lines(long.as_bytes(), 100_000).await, [Line::Whole(Bytes::from(long.clone()))]);
    }

    #[tokio::test]
    async fn the_end_is_noticed_while_lines_wait_as_far_as_is_read_ahead() {
        let input = [b'\n'; 100];
        let mut reader = LineReader::new(&input[..], 10);
        for (most, noticed) in [(10, false), (1000, true)] {
            assert!(futures_util::poll!(Box::pin(reader.read_ahead(most))).is_pending());
            assert_eq!(reader.ended, noticed);
        }
        assert_eq!(reader.next().await, Line::Whole(Bytes::new()));
    }
}
