//! A terminal recording, asciicast version 2: a header, then events of output and of size, with the seconds since the
//! start.
//!
//! Not for reading back: bytes that are no UTF-8 are replaced.

use std::io::{Result, Write};

use procyard_core::Timestamp;
use procyard_manifest::Manifest;
use procyard_spool::Page;
use serde_json::json;

use super::Format;

/// The size of a recording whose process had no terminal.
const ROWS: u16 = 24;
const COLS: u16 = 80;

pub(super) struct Asciicast {
    start: Timestamp,
    /// The beginning of a character whose rest is still to come; at most 3 bytes.
    cut: Vec<u8>,
}

impl Asciicast {
    pub(super) fn new(manifest: &Manifest) -> Self {
        Self { start: manifest.started_at.unwrap_or(manifest.created_at), cut: Vec::new() }
    }

    fn seconds(&self, at: Timestamp) -> f64 {
        let micros = at.as_unix_micros().saturating_sub(self.start.as_unix_micros()).max(0);
        // A recording of less than 285 years keeps its microseconds.
        micros as f64 / 1e6
    }

    fn event(&self, out: &mut dyn Write, at: Timestamp, kind: &str, value: &str) -> Result<()> {
        serde_json::to_writer(&mut *out, &json!([self.seconds(at), kind, value]))?;
        out.write_all(b"\n")
    }

    fn output(&mut self, out: &mut dyn Write, at: Timestamp, bytes: &[u8], lines: bool) -> Result<()> {
        self.cut.extend_from_slice(bytes);
        let whole = whole_part(&self.cut);
        let rest = self.cut.split_off(whole);
        let text = String::from_utf8_lossy(&self.cut).into_owned();
        self.cut = rest;
        if text.is_empty() {
            return Ok(());
        }
        // A pipe has bare line feeds; a player is a terminal in raw mode.
        let text = if lines { text.replace('\n', "\r\n") } else { text };
        self.event(out, at, "o", &text)
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
        let size = manifest.terminal.as_ref();
        let header = json!({
            "version": 2,
            "width": size.map_or(COLS, |size| size.cols),
            "height": size.map_or(ROWS, |size| size.rows),
            "timestamp": self.start.as_unix_micros().div_euclid(1_000_000),
            "command": manifest.command.line,
            "title": manifest.command.label,
        });
        serde_json::to_writer(&mut *out, &header)?;
        out.write_all(b"\n")
    }

    fn page(&mut self, page: &Page, out: &mut dyn Write) -> Result<()> {
        let mut resizes = page.resizes.iter().peekable();
        for span in &page.spans {
            while let Some(resize) = resizes.next_if(|resize| resize.offset <= span.offset) {
                self.event(out, resize.at, "r", &format!("{}x{}", resize.cols, resize.rows))?;
            }
            let bytes = &page.bytes[span.offset..span.offset + span.len];
            self.output(out, span.at, bytes, span.stream != procyard_core::Stream::Terminal)?;
        }
        for resize in resizes {
            self.event(out, resize.at, "r", &format!("{}x{}", resize.cols, resize.rows))?;
        }
        Ok(())
    }

    fn end(&mut self, manifest: &Manifest, out: &mut dyn Write) -> Result<()> {
        if self.cut.is_empty() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&self.cut).into_owned();
        let at = manifest.finished_at.or(manifest.last_output_at).unwrap_or(self.start);
        self.event(out, at, "o", &text)
    }
}
