//! Finds a pattern in a stream while it arrives: across the borders of chunks, in the text that a reader sees.
//!
//! Only the part of the text in which a match can still begin is kept and searched again, at most 64 KiB, and only when
//! much of it is new or a match may have ended: the work is linear in the output, however little comes at a time. A
//! match that an assertion such as `$` could lose by what comes next is not reported before that is known.
//!
//! Not for what a pattern may be: see `pattern`.

mod scout;

use std::sync::Arc;

use procyard_core::Stream;
use procyard_supervisor::{Probe, StreamFilter};
use procyard_text::Renderer;
use regex_automata::Input;

use crate::pattern::{MATCH_MAX, Pattern};
use scout::Scout;

/// Raw bytes rendered at once, and text that waits for a search at most. Every search may look again at all that is kept
/// for a match, so that what is new must not be small against it, however small the chunks are.
const PIECE: usize = 32 << 10;

/// What assertions can tell apart in the character behind a match: part of a word, line ends, anything else.
const NEIGHBOURS: [&str; 4] = ["x", "\n", "\r", " "];

/// Where at least one part in so many of what would be searched is new, it is searched.
const NEW_SHARE: usize = 4;

/// Searches for a match that fits among those that are too long. Halving finds it with a few; the bound keeps an output
/// that is made of too long matches from costing more than linear time.
const SEARCHES_MAX: usize = 64;

/// A match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where it begins in the stream.
    pub(crate) cursor: u64,
    /// The matched text.
    pub(crate) text: String,
}

/// From this offset of the text on, it comes from this cursor on.
#[derive(Debug, Clone, Copy)]
struct Point {
    text: usize,
    cursor: u64,
    /// All of it stands for what begins at the cursor.
    unit: bool,
}

impl Point {
    fn cursor_of(&self, text: usize) -> u64 {
        if self.unit { self.cursor } else { self.cursor + (text - self.text) as u64 }
    }
}

/// Satisfied by the first match of a pattern.
pub(crate) struct MatchProbe {
    pattern: Arc<Pattern>,
    streams: StreamFilter,
    renderer: Renderer,
    /// The text in which a match can still begin, and one character before.
    text: String,
    /// Matches begin here at the earliest.
    from: usize,
    /// The text up to here was looked at.
    searched: usize,
    /// The last search found nothing at all, not even what is too long or could be lost by what comes next.
    clean: bool,
    scout: Option<Scout>,
    /// Where text comes from, wherever offsets and cursors do not advance alike.
    points: Vec<Point>,
    /// The cursor of the unit that is not complete yet.
    unit: u64,
    found: Option<Found>,
    /// Bytes that searches looked at.
    #[cfg(test)]
    work: std::cell::Cell<usize>,
}

impl MatchProbe {
    pub(crate) fn new(pattern: Arc<Pattern>, streams: StreamFilter) -> Self {
        let scout = pattern.scout.as_ref().map(Scout::new);
        Self {
            pattern,
            streams,
            renderer: Renderer::new(),
            text: String::new(),
            from: 0,
            searched: 0,
            clean: true,
            scout,
            points: Vec::new(),
            unit: 0,
            found: None,
            #[cfg(test)]
            work: std::cell::Cell::default(),
        }
    }

    /// The match, if there was one.
    pub(crate) fn found(self) -> Option<Found> {
        self.found
    }

    /// Renders `bytes`, the first of them at `cursor`, keeping track of what comes from where.
    fn render(&mut self, cursor: u64, bytes: &[u8]) {
        if self.renderer.in_ground() {
            let before = self.text.len();
            let mut ahead = self.renderer.clone();
            ahead.push(bytes, &mut self.text);
            if self.text.as_bytes()[before..] == *bytes && ahead.in_ground() {
                self.renderer = ahead;
                self.point(before, cursor, false);
                return;
            }
            self.text.truncate(before);
        }
        let mut at = 0;
        while at < bytes.len() {
            at += self.render_step(cursor + at as u64, &bytes[at..]);
        }
    }

    /// Renders a run of plain ASCII, or one byte of anything else; returns how many bytes that were.
    fn render_step(&mut self, cursor: u64, bytes: &[u8]) -> usize {
        let before = self.text.len();
        if self.renderer.in_ground() {
            let plain =
                bytes.iter().take_while(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r')).count();
            if plain > 0 {
                self.renderer.push(&bytes[..plain], &mut self.text);
                self.point(before, cursor, false);
                return plain;
            }
            self.unit = cursor;
        }
        self.renderer.push(&bytes[..1], &mut self.text);
        let after = self.text.len();
        if after > before {
            // A character is its own text; what stands for something else can be longer.
            let unit = self.text[before..].chars().nth(1).is_some();
            self.point(before, self.unit, unit);
            // What was incomplete turned out to be invalid, and this byte is shown itself.
            let invalid = self.text[before..].starts_with('\u{FFFD}');
            if invalid && bytes[0].is_ascii() && self.text.as_bytes()[after - 1] == bytes[0] {
                self.point(after - 1, cursor, false);
            }
        }
        if self.renderer.pending() == 1 {
            // It begins something new, also where what was before has not ended.
            self.unit = cursor;
        }
        1
    }

    fn point(&mut self, text: usize, cursor: u64, unit: bool) {
        let continues = |last: &Point| !unit && !last.unit && last.cursor_of(text) == cursor;
        if !self.points.last().is_some_and(continues) {
            self.points.push(Point { text, cursor, unit });
        }
    }

    fn cursor_of(&self, text: usize) -> u64 {
        let behind = self.points.partition_point(|point| point.text <= text);
        let point = behind.checked_sub(1).and_then(|index| self.points.get(index));
        point.map_or(self.unit, |point| point.cursor_of(text))
    }

    /// Looks at what is new.
    fn look_at_new(&mut self) -> bool {
        if self.can_have_matched() {
            return self.search(false);
        }
        self.forget();
        false
    }

    /// Whether searching can find anything that was not there before, or costs so little that it does not matter.
    fn can_have_matched(&mut self) -> bool {
        let (all, new) = (self.text.len() - self.from, self.text.len() - self.searched);
        if !self.clean || new * NEW_SHARE >= all {
            return true;
        }
        let (Some(scout), Some(automaton)) = (&mut self.scout, &self.pattern.scout) else { return true };
        if !scout.follows() {
            #[cfg(test)]
            self.work.set(self.work.get() + all - new);
            scout.begin(automaton, &self.text[..self.searched], self.from);
        }
        #[cfg(test)]
        self.work.set(self.work.get() + new);
        scout.reports(automaton, &self.text.as_bytes()[self.searched..])
    }

    /// Searches what is there. `ended`: nothing follows.
    fn search(&mut self, ended: bool) -> bool {
        if let Some(scout) = &mut self.scout {
            // It goes by matches that can begin before what is kept; from here on it is to go by those in it.
            scout.leave();
        }
        if let Some((start, end)) = self.find(ended) {
            let text = self.text[start..end].to_owned();
            self.found = Some(Found { cursor: self.cursor_of(start), text });
            return true;
        }
        self.forget();
        false
    }

    fn find(&mut self, ended: bool) -> Option<(usize, usize)> {
        let end = self.text.len();
        let first = self.search_in(self.from, end);
        self.clean = first.is_none();
        let first = self.fitting(first?, end)?;
        if ended || first.1 < end || !self.pattern.looks_around {
            return Some(first);
        }
        // It touches the end of what is known: it stands if it is a match whatever comes next.
        let mut stands = None;
        for neighbour in NEIGHBOURS {
            self.text.push_str(neighbour);
            let with = self.first(end);
            self.text.truncate(end);
            let with = with?;
            if *stands.get_or_insert(with) != with {
                return None;
            }
        }
        stands
    }

    /// The first match before `end` that is not too long.
    fn first(&self, end: usize) -> Option<(usize, usize)> {
        self.fitting(self.search_in(self.from, end)?, end)
    }

    /// The first match from `first` on that is not too long. Where the pattern prefers a longer one, it is what fits of it.
    fn fitting(&self, first: (usize, usize), end: usize) -> Option<(usize, usize)> {
        if first.1 - first.0 <= MATCH_MAX {
            return Some(first);
        }
        // From here on everything fits.
        let near = self.text.ceil_char_boundary(end - MATCH_MAX);
        self.first_that_fits(first.0, near).or_else(|| self.search_in(near, end))
    }

    /// The first match that fits and begins in `from..to`. All of them end within the limit behind `to`: where nothing
    /// does, or what does begins behind, the whole range is done with; else it is halved.
    fn first_that_fits(&self, from: usize, to: usize) -> Option<(usize, usize)> {
        let mut ranges = vec![(from, to)];
        for _ in 0..SEARCHES_MAX {
            let (from, to) = ranges.pop()?;
            let reach = self.text.floor_char_boundary(to - 1 + MATCH_MAX);
            let Some((start, end)) = self.search_in(from, reach).filter(|found| found.0 < to) else {
                continue;
            };
            if end - start <= MATCH_MAX {
                return Some((start, end));
            }
            let middle = self.text.ceil_char_boundary(start + (to - start).div_ceil(2));
            if middle < to {
                ranges.push((middle, to));
                ranges.push((start, middle));
            } else {
                // One character is left.
                ranges.push((start, start + 1));
            }
        }
        None
    }

    fn search_in(&self, from: usize, end: usize) -> Option<(usize, usize)> {
        if from > end {
            return None;
        }
        #[cfg(test)]
        self.work.set(self.work.get() + (end - from));
        let found = self.pattern.regex.search(&Input::new(&self.text).span(from..end))?;
        Some((found.start(), found.end()))
    }

    /// Drops the text in which no match can begin any more, but for one character that assertions may look at.
    fn forget(&mut self) {
        let mut from = self.text.len().saturating_sub(self.pattern.reach);
        if let Some(border) = self.text[self.searched..].rfind(self.pattern.borders) {
            from = from.max(self.searched + border + 1);
        }
        self.from = self.from.max(self.text.floor_char_boundary(from));
        self.searched = self.text.len();
        let keep_from = self.text[..self.from].char_indices().next_back().map_or(0, |(at, _)| at);
        if keep_from < MATCH_MAX && keep_from < self.text.len() / 2 {
            return;
        }
        self.text.drain(..keep_from);
        self.from -= keep_from;
        self.searched -= keep_from;
        let behind = self.points.partition_point(|point| point.text <= keep_from);
        if let Some(index) = behind.checked_sub(1) {
            let point = self.points[index];
            self.points[index] = Point { text: keep_from, cursor: point.cursor_of(keep_from), ..point };
            self.points.drain(..index);
        }
        for point in &mut self.points {
            point.text -= keep_from;
        }
    }
}

impl Probe for MatchProbe {
    fn feed(&mut self, cursor: u64, stream: Stream, bytes: &[u8]) -> bool {
        if self.found.is_some() {
            return true;
        }
        if !self.streams.accepts(stream) {
            return false;
        }
        let mut at = cursor;
        for piece in bytes.chunks(PIECE) {
            self.render(at, piece);
            at += piece.len() as u64;
            if self.text.len() - self.searched >= PIECE && self.look_at_new() {
                return true;
            }
        }
        false
    }

    fn look(&mut self) -> bool {
        self.found.is_some() || self.text.len() > self.searched && self.look_at_new()
    }

    fn gap(&mut self, _: u64) {
        if self.found.is_some() {
            return;
        }
        // What is incomplete here stays so, and is shown. What would follow is not known, so that assertions hold back.
        let before = self.text.len();
        self.renderer.finish(&mut self.text);
        if self.text.len() > before {
            self.point(before, self.unit, true);
        }
        if self.look() {
            return;
        }
        self.text.clear();
        self.points.clear();
        self.from = 0;
        self.searched = 0;
        self.clean = true;
        if let Some(scout) = &mut self.scout {
            scout.leave();
        }
        self.renderer = Renderer::resynchronising();
    }

    fn finish(&mut self) {
        if self.found.is_none() {
            let before = self.text.len();
            self.renderer.finish(&mut self.text);
            if self.text.len() > before {
                self.point(before, self.unit, true);
            }
            self.search(true);
        }
    }
}

#[cfg(test)]
mod tests;
