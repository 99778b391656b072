//! A terminal recording, asciicast version 2: a header, then events of output and of size, with the seconds since the
//! start.
//!
//! Not for reading back: bytes that are no UTF-8 are replaced.

use std::io::{Result, Write};

use procyard_core::{Stream, Timestamp};
use procyard_manifest::Manifest;
use procyard_spool::{Page, Span};
use serde_json::json;

use super::Format;

/// The size of a recording whose process had no terminal.
const ROWS: u16 = 24;
const COLS: u16 = 80;

pub(super) struct Asciicast {
    start: Timestamp,
    /// The time of the event before, in seconds: a wall clock goes back at times, a recording does not.
    last: f64,
    /// Of each stream, the beginning of a character whose rest is still to come; at most 3 bytes.
    cut: [Vec<u8>; 3],
}

impl Asciicast {
    pub(super) fn new(manifest: &Manifest) -> Self {
        let start = manifest.started_at.unwrap_or(manifest.created_at);
        Self { start, last: 0.0, cut: Default::default() }
    }

    fn event(&mut self, out: &mut dyn Write, at: Timestamp, kind: &str, value: &str) -> Result<()> {
        let micros = at.as_unix_micros().saturating_sub(self.start.as_unix_micros());
        // A recording of less than 285 years keeps its microseconds.
        self.last = self.last.max(micros as f64 / 1e6);
        serde_json::to_writer(&mut *out, &json!([self.last, kind, value]))?;
        out.write_all(b"\n")
    }

    fn output(&mut self, out: &mut dyn Write, span: &Span, bytes: &[u8]) -> Result<()> {
        let cut = &mut self.cut[index(span.stream)];
        cut.extend_from_slice(bytes);
        let rest = cut.split_off(whole_part(cut));
        let text = String::from_utf8_lossy(cut).into_owned();
        *cut = rest;
        if text.is_empty() {
            return Ok(());
        }
        // A pipe has bare line feeds; a player is a terminal in raw mode.
        let text = if span.stream == Stream::Terminal { text } else { text.replace('\n', "\r\n") };
        self.event(out, span.at, "o", &text)
    }

    /// What comes next is not what followed, or nothing comes: half a character stays half.
    fn interrupt(&mut self, out: &mut dyn Write, at: Timestamp) -> Result<()> {
        for index in 0..self.cut.len() {
            let cut = std::mem::take(&mut self.cut[index]);
            if !cut.is_empty() {
                self.event(out, at, "o", &String::from_utf8_lossy(&cut))?;
            }
        }
        Ok(())
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
        Stream::Terminal => 2,
    }
}

/// How much of `bytes` is there without the beginning of a character at its end.
fn whole_part(bytes: &[u8]) -> usize {
    let cut = bytes.utf8_chunks().last().map_or(0, |chunk| {
        let tail = chunk.invalid();
        let begins = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
        if begins { tail.len() } else { 0 }
    });
    bytes.len() - cut
}

impl Format for Asciicast {
    fn begin(&mut self, manifest: &Manifest, out: &mut dyn Write) -> Result<()> {
        let size = manifest.initial_terminal.as_ref().or(manifest.terminal.as_ref());
        let mut header = json!({
            "version": 2,
            "width": size.map_or(COLS, |size| size.cols),
            "height": size.map_or(ROWS, |size| size.rows),
            "timestamp": self.start.as_unix_micros().div_euclid(1_000_000),
        });
        if let Some(line) = &manifest.command.line {
            header["command"] = line.as_str().into();
        }
        if let Some(label) = &manifest.command.label {
            header["title"] = label.as_str().into();
        }
        serde_json::to_writer(&mut *out, &header)?;
        out.write_all(b"\n")
    }

    fn page(&mut self, page: &Page, out: &mut dyn Write) -> Result<()> {
        let mut resizes = page.resizes.iter().peekable();
        let mut gaps = page.gaps.iter().peekable();
        for span in &page.spans {
            while gaps.next_if(|gap| gap.offset <= span.offset).is_some() {
                self.interrupt(out, span.at)?;
            }
            while let Some(resize) = resizes.next_if(|resize| resize.offset <= span.offset) {
                self.event(out, resize.at, "r", &format!("{}x{}", resize.cols, resize.rows))?;
            }
            self.output(out, span, &page.bytes[span.offset..span.offset + span.len])?;
        }
        for resize in resizes {
            self.event(out, resize.at, "r", &format!("{}x{}", resize.cols, resize.rows))?;
        }
        if gaps.next().is_some() {
            self.interrupt(out, self.start)?;
        }
        Ok(())
    }

    fn end(&mut self, manifest: &Manifest, _: u64, out: &mut dyn Write) -> Result<()> {
        let at = manifest.finished_at.or(manifest.last_output_at).unwrap_or(self.start);
        self.interrupt(out, at)
    }
}

#[cfg(test)]
mod tests {
    use procyard_spool::{Gap, Resize};

    use super::*;

    /// A page of these chunks, a second apart.
    fn page(chunks: &[(Stream, &[u8])]) -> Page {
        let mut page = Page::default();
        for (second, (stream, bytes)) in (1..).zip(chunks) {
            let offset = page.bytes.len();
            let at = Timestamp::from_unix_micros(second * 1_000_000);
            page.spans.push(Span { offset, cursor: offset as u64, len: bytes.len(), stream: *stream, at });
            page.bytes.extend_from_slice(bytes);
        }
        page
    }

    fn written(pages: &[Page]) -> String {
        let start = Timestamp::from_unix_micros(0);
        let mut cast = Asciicast { start, last: 0.0, cut: Default::default() };
        let mut out = Vec::new();
        for page in pages {
            cast.page(page, &mut out).unwrap();
        }
        cast.interrupt(&mut out, start).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_character_is_whole_though_its_stream_was_cut_in_it_and_the_other_came_between() {
        let (first, rest) = ("é".as_bytes()[..1].to_vec(), "é".as_bytes()[1..].to_vec());
        let pages =
            [page(&[(Stream::Stdout, &first), (Stream::Stderr, b"x\n")]), page(&[(Stream::Stdout, &rest)])];
        assert_eq!(written(&pages), "[2.0,\"o\",\"x\\r\\n\"]\n[2.0,\"o\",\"é\"]\n");
        let whole = "a🦀é".as_bytes();
        for cut in 0..=whole.len() {
            let pages = [page(&[(Stream::Terminal, &whole[..cut]), (Stream::Terminal, &whole[cut..])])];
            let text: String = written(&pages)
                .lines()
                .map(|line| {
                    serde_json::from_str::<serde_json::Value>(line).unwrap()[2].as_str().unwrap().to_owned()
                })
                .collect();
            assert_eq!(text, "a🦀é", "cut at {cut}");
        }
    }

    #[test]
    fn what_is_missing_ends_the_half_of_a_character_before_it() {
        let half = &"é".as_bytes()[..1];
        let mut gone = Page { gap: true, ..Page::default() };
        gone.gaps.push(Gap { offset: 0, from: 1, until: 9 });
        let after = page(&[(Stream::Terminal, b"b")]);
        let text = written(&[page(&[(Stream::Terminal, half)]), gone, after]);
        assert_eq!(text, "[0.0,\"o\",\"\u{fffd}\"]\n[1.0,\"o\",\"b\"]\n");
    }

    #[test]
    fn time_never_goes_back_and_a_size_comes_before_what_it_was_for() {
        let mut page = page(&[(Stream::Terminal, b"a"), (Stream::Terminal, b"b")]);
        page.spans[1].at = Timestamp::from_unix_micros(-5);
        let at = Timestamp::from_unix_micros(1_500_000);
        page.resizes.push(Resize { offset: 1, cursor: 1, at, rows: 5, cols: 7 });
        assert_eq!(written(&[page]), "[1.0,\"o\",\"a\"]\n[1.5,\"r\",\"7x5\"]\n[1.5,\"o\",\"b\"]\n");
    }
}
