//! One process's drawing: an emulator and how far of the stream it has seen.
//!
//! Not for reading the stream: pages are handed in.

use procyard_api::Screen;
use procyard_runner::TerminalSize;
use procyard_supervisor::Page;
use procyard_text::Renderer;

use super::CELLS_MAX;
use super::emulator::Emulator;

/// Places of a terminal.
pub(super) fn cells(size: TerminalSize) -> usize {
    usize::from(size.rows) * usize::from(size.cols)
}

/// What was drawn of one stream.
pub(super) struct Drawing {
    emulator: Emulator,
    /// The next byte to be drawn.
    next: u64,
    /// The first byte from which on nothing is missing.
    drawn_from: u64,
    /// Says whether the stream could be read on as text at `next`.
    text: Renderer,
}

impl Drawing {
    /// Nothing drawn yet, on a terminal of this size.
    pub(super) fn new(size: TerminalSize) -> Self {
        Self { emulator: Emulator::new(size), next: 0, drawn_from: 0, text: Renderer::new() }
    }

    /// The next byte to be drawn.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The last place, up to `next`, where the stream can be read on as text.
    pub(super) fn ground(&self) -> u64 {
        self.next - self.text.pending() as u64
    }

    /// How many places it keeps.
    pub(super) fn cells(&self) -> usize {
        cells(self.emulator.size())
    }

    /// The terminal has another size from here on. One that is too large is not followed.
    pub(super) fn resize(&mut self, size: TerminalSize) {
        if cells(size) <= CELLS_MAX {
            self.emulator.resize(size);
        }
    }

    /// Leaves out what comes before `cursor`.
    pub(super) fn skip_to(&mut self, cursor: u64) {
        if cursor > self.next {
            self.emulator.lose_track();
            self.text = Renderer::resynchronising();
            self.next = cursor;
            self.drawn_from = cursor;
        }
    }

    /// Draws a page from where it begins, until `work` cells were painted; then `work` is 0 and the rest is left.
    pub(super) fn draw(&mut self, page: &Page, work: &mut u64) {
        let mut gaps = page.gaps.iter().peekable();
        let mut resizes = page.resizes.iter().peekable();
        let mut at = 0;
        loop {
            while let Some(gap) = gaps.next_if(|gap| gap.offset <= at) {
                self.skip_to(gap.until);
            }
            while let Some(resize) = resizes.next_if(|resize| resize.offset <= at) {
                self.resize(TerminalSize { rows: resize.rows, cols: resize.cols });
            }
            let stops = gaps.peek().map(|gap| gap.offset).into_iter();
            let end = stops.chain(resizes.peek().map(|resize| resize.offset)).min();
            let bytes = &page.bytes[at..end.unwrap_or(page.bytes.len()).min(page.bytes.len())];
            if bytes.is_empty() {
                break;
            }
            let taken = self.emulator.feed(bytes, work);
            self.text.push(&bytes[..taken], &mut String::new());
            self.next += taken as u64;
            at += taken;
            if taken < bytes.len() {
                *work = 0;
                return;
            }
        }
        self.next = self.next.max(page.next_cursor);
    }

    /// Whether the program has asked for the application form of the cursor keys.
    pub(super) fn application_keys(&self) -> bool {
        self.emulator.application_keys()
    }

    /// What is to be seen, within `limit` bytes of text.
    pub(super) fn screen(&mut self, limit: usize) -> Screen {
        let drawn_from = Some(self.drawn_from).filter(|from| *from > 0);
        Screen { drawn_from, ..self.emulator.screen(limit) }
    }
}
