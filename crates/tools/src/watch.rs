//! Whether there is something new that a read would show.
//!
//! A waiter must not wake for bytes that its read then holds back (half a character, half a sequence, the other
//! stream), or it would spin. Not for showing anything.

use procyard_core::Stream;
use procyard_supervisor::{Probe, StreamFilter};
use procyard_text::Renderer;

/// Satisfied by output that renders as text.
pub(crate) struct TextProbe {
    streams: StreamFilter,
    /// A page that collapses holds a trailing carriage return back.
    collapse: bool,
    renderer: Renderer,
    /// What is not complete yet has shown something, such as the newline in `ESC [ LF`, which is read when it is complete.
    held: bool,
    /// What a gap has completed shows something, and nobody was told.
    due: bool,
}

impl TextProbe {
    pub(crate) fn new(streams: StreamFilter, collapse: bool) -> Self {
        Self { streams, collapse, renderer: Renderer::new(), held: false, due: false }
    }

    fn shows(&self, text: &str) -> bool {
        if self.collapse { text.contains(|ch| ch != '\r') } else { !text.is_empty() }
    }
}

impl Probe for TextProbe {
    fn feed(&mut self, _: u64, stream: Stream, bytes: &[u8]) -> bool {
        if !self.streams.accepts(stream) {
            return false;
        }
        let due = std::mem::take(&mut self.due);
        let before = self.renderer.pending();
        let mut text = String::new();
        self.renderer.push(bytes, &mut text);
        let pending = self.renderer.pending();
        if pending == before + bytes.len() {
            // All of it belongs to what was incomplete before.
            self.held |= self.shows(&text);
            return due;
        }
        let held = std::mem::take(&mut self.held);
        let mut incomplete = String::new();
        match bytes.len().checked_sub(pending) {
            Some(complete) => Renderer::new().push(&bytes[complete..], &mut incomplete),
            // It began with the last byte before, which had no text.
            None => incomplete.clone_from(&text),
        }
        self.held = self.shows(&incomplete);
        text.truncate(text.len().saturating_sub(incomplete.len()));
        due | held | self.shows(&text)
    }

    fn gap(&mut self, _: u64) {
        // What is incomplete here stays so, and is shown.
        let mut text = String::new();
        self.renderer.finish(&mut text);
        self.due |= std::mem::take(&mut self.held) | self.shows(&text);
        self.renderer = Renderer::resynchronising();
    }

    fn damaged(&mut self, _: u64) -> bool {
        // A read says it.
        true
    }

    fn finish(&mut self) {}
}

/// Satisfied by any byte of one stream.
pub(crate) struct ByteProbe(pub(crate) StreamFilter);

impl Probe for ByteProbe {
    fn feed(&mut self, _: u64, stream: Stream, bytes: &[u8]) -> bool {
        self.0.accepts(stream) && !bytes.is_empty()
    }

    fn gap(&mut self, _: u64) {}

    fn damaged(&mut self, _: u64) -> bool {
        // A read says it.
        true
    }

    fn finish(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(collapse: bool, chunks: &[(Stream, &str)], satisfied: bool) {
        let mut probe = TextProbe::new(StreamFilter::Only(Stream::Stdout), collapse);
        let woke = chunks.iter().any(|(stream, text)| probe.feed(0, *stream, text.as_bytes()));
        assert_eq!(woke, satisfied, "{chunks:?}");
    }

    #[test]
    fn only_what_a_read_would_show_wakes_a_waiter() {
        use Stream::{Stderr, Stdout};
        check(false, &[(Stdout, "x")], true);
        check(false, &[(Stderr, "x")], false);
        check(false, &[(Stdout, "\x1b[3")], false);
        check(false, &[(Stdout, "\x1b[3"), (Stdout, "1m")], false);
        check(false, &[(Stdout, "\x1b[3"), (Stderr, "x"), (Stdout, "1mx")], true);
        check(false, &[(Stdout, "\r")], true);
        check(true, &[(Stdout, "\r")], false);
        check(true, &[(Stdout, "\r"), (Stdout, "5%")], true);
    }

    #[test]
    fn what_an_incomplete_sequence_contains_wakes_nobody_before_it_is_complete() {
        use Stream::Stdout;
        check(false, &[(Stdout, "\x1b[\n")], false);
        check(false, &[(Stdout, "\x1b["), (Stdout, "\n")], false);
        check(false, &[(Stdout, "\x1b["), (Stdout, "\n"), (Stdout, "m")], true);
        check(false, &[(Stdout, "\x1b["), (Stdout, "m")], false);
        check(false, &[(Stdout, "\x1b[\n"), (Stdout, "\x1b[")], true);
        check(false, &[(Stdout, "x\x1b[")], true);
        check(false, &[(Stdout, "\x1b[\x1b[\n")], false);
        check(false, &[(Stdout, "\x1b]x\x1b"), (Stdout, "[\n")], false);
        let mut probe = TextProbe::new(StreamFilter::Both, false);
        assert!(!probe.feed(0, Stdout, b"\xe2"));
        assert!(probe.feed(1, Stdout, b"\xe2"), "the first one is no character");
        let mut probe = TextProbe::new(StreamFilter::Both, false);
        assert!(!probe.feed(0, Stdout, b"\xe6\x97"));
        probe.gap(9);
        assert!(probe.feed(9, Stdout, b"\xa5"), "half a character before a gap is shown");
    }

    #[test]
    fn damage_wakes_a_waiter_since_its_read_says_so() {
        assert!(TextProbe::new(StreamFilter::Both, true).damaged(9));
        assert!(ByteProbe(StreamFilter::Only(Stream::Stderr)).damaged(9));
    }

    #[test]
    fn half_a_character_wakes_nobody() {
        let mut probe = TextProbe::new(StreamFilter::Both, false);
        assert!(!probe.feed(0, Stream::Stdout, &"日".as_bytes()[..2]));
        assert!(probe.feed(2, Stream::Stdout, &"日".as_bytes()[2..]));
    }
}
