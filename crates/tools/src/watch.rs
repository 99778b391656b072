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
    text: String,
}

impl TextProbe {
    pub(crate) fn new(streams: StreamFilter, collapse: bool) -> Self {
        Self { streams, collapse, renderer: Renderer::new(), text: String::new() }
    }

    fn shows_something(&mut self) -> bool {
        let shows = if self.collapse { self.text.contains(|ch| ch != '\r') } else { !self.text.is_empty() };
        self.text.clear();
        shows
    }
}

impl Probe for TextProbe {
    fn feed(&mut self, _: u64, stream: Stream, bytes: &[u8]) -> bool {
        if !self.streams.accepts(stream) {
            return false;
        }
        self.renderer.push(bytes, &mut self.text);
        self.shows_something()
    }

    fn gap(&mut self, _: u64) {
        self.renderer = Renderer::resynchronising();
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
    fn half_a_character_wakes_nobody() {
        let mut probe = TextProbe::new(StreamFilter::Both, false);
        assert!(!probe.feed(0, Stream::Stdout, &"日".as_bytes()[..2]));
        assert!(probe.feed(2, Stream::Stdout, &"日".as_bytes()[2..]));
    }
}
