//! What a file holds: now, for good, and after a power cut.
//!
//! Not here: names.

use std::cmp::Ordering;

use rand::RngExt as _;
use rand::rngs::StdRng;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// A change that the file was not synced after.
#[derive(Debug, Clone)]
enum Edit {
    Write { at: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Edit {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => {
                let end = at + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*at..end].copy_from_slice(bytes);
            }
            Self::SetLen(len) => to.resize(*len, 0),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Edit>,
}

/// How the sectors of one file relate to each other after a cut.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Each is as it was at a moment of its own.
    Scattered,
    /// Each is synced or newest.
    Patchy,
    /// All are as they were at one moment.
    Prefix,
}

impl Content {
    fn settled(bytes: Vec<u8>) -> Self {
        Self { now: bytes.clone(), durable: bytes, pending: Vec::new() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.now
    }

    pub(super) fn write(&mut self, bytes: Vec<u8>, at: usize) {
        self.edit(Edit::Write { at, bytes });
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.edit(Edit::SetLen(len));
    }

    fn edit(&mut self, edit: Edit) {
        edit.apply(&mut self.now);
        self.pending.push(edit);
    }

    pub(super) fn sync(&mut self) {
        for edit in self.pending.drain(..) {
            edit.apply(&mut self.durable);
        }
    }

    /// A sync that failed: what it was for is never made durable.
    pub(super) fn give_up(&mut self) {
        self.pending.clear();
    }

    pub(super) fn durable(&self) -> Self {
        Self::settled(self.durable.clone())
    }

    pub(super) fn current(&self) -> Self {
        Self::settled(self.now.clone())
    }

    pub(super) fn at_random(&self, random: &mut StdRng) -> Self {
        let newest = self.pending.len();
        if newest == 0 {
            return self.durable();
        }
        let shape = match random.random_range(0..3) {
            0 => Shape::Scattered,
            1 => Shape::Patchy,
            _ => Shape::Prefix,
        };
        let moment = random.random_range(0..=newest);
        let mut age = |shape| match shape {
            Shape::Scattered => random.random_range(0..=newest),
            Shape::Patchy => newest * random.random_range(0..2),
            Shape::Prefix => moment,
        };
        let len_age = age(shape);
        let longest = self.longest();
        // Which sectors are taken from which moment.
        let mut ages: Vec<(usize, usize)> =
            (0..longest.div_ceil(SECTOR)).map(|sector| (age(shape), sector)).collect();
        ages.sort_unstable();
        let mut ages = ages.into_iter().peekable();
        let (mut found, mut len) = (vec![0; longest], 0);
        let mut history = self.durable.clone();
        let mut before = history.len();
        for moment in 0..=newest {
            if let Some(edit) = moment.checked_sub(1).and_then(|edit| self.pending.get(edit)) {
                edit.apply(&mut history);
            }
            while let Some((_, sector)) = ages.next_if(|(age, _)| *age == moment) {
                let from = (sector * SECTOR).min(history.len());
                let until = (from + SECTOR).min(history.len());
                found[from..until].copy_from_slice(&history[from..until]);
            }
            if moment == len_age {
                len = match before.cmp(&history.len()) {
                    // A write that was under way has come to any of its bytes.
                    Ordering::Less if random.random_bool(0.5) => random.random_range(before..=history.len()),
                    _ => history.len(),
                };
            }
            before = history.len();
        }
        found.truncate(len);
        Self::settled(found)
    }

    /// The longest that the file was since the last sync.
    fn longest(&self) -> usize {
        let mut len = self.durable.len();
        let mut longest = len;
        for edit in &self.pending {
            len = match edit {
                Edit::Write { at, bytes } => len.max(at + bytes.len()),
                Edit::SetLen(len) => *len,
            };
            longest = longest.max(len);
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn outcomes(content: &Content) -> std::collections::BTreeSet<Vec<u8>> {
        (0..3000).map(|seed| content.at_random(&mut StdRng::seed_from_u64(seed)).now).collect()
    }

    #[test]
    fn what_was_synced_is_there_whatever_chance_takes() {
        let mut content = Content::default();
        content.write(b"synced".to_vec(), 0);
        content.sync();
        assert_eq!(outcomes(&content), [b"synced".to_vec()].into());
        assert_eq!(content.durable().bytes(), b"synced");
    }

    #[test]
    fn sectors_survive_independently_and_a_length_can_come_without_its_bytes() {
        let mut content = Content::default();
        content.write(vec![1; 3 * SECTOR], 0);
        content.write(vec![2; 3 * SECTOR], 0);
        let found = outcomes(&content);
        let sectors: std::collections::BTreeSet<Vec<u8>> = found
            .iter()
            .filter(|bytes| bytes.len() == 3 * SECTOR)
            .map(|bytes| bytes.iter().step_by(SECTOR).copied().collect())
            .collect();
        for expected in [[0, 0, 0], [1, 1, 1], [2, 2, 2], [2, 0, 2], [1, 2, 0]] {
            assert!(sectors.contains(expected.as_slice()), "{expected:?}");
        }
        assert!(found.contains(&Vec::new()));
        assert!(found.iter().any(|bytes| (1..SECTOR).contains(&bytes.len())), "torn at any byte");
    }

    #[test]
    fn what_a_failed_sync_gave_up_is_read_and_never_durable() {
        let mut content = Content::default();
        content.write(b"given up".to_vec(), 0);
        content.give_up();
        content.write(b"!".to_vec(), 8);
        content.sync();
        assert_eq!(content.bytes(), b"given up!");
        assert_eq!(content.durable().bytes(), b"\0\0\0\0\0\0\0\0!");
    }

    #[test]
    fn a_file_that_was_cut_has_its_old_end_or_its_new_one() {
        let mut content = Content::default();
        content.write(vec![7; 2000], 0);
        content.sync();
        content.set_len(10);
        let lengths: std::collections::BTreeSet<usize> = outcomes(&content).iter().map(Vec::len).collect();
        assert_eq!(lengths, [10, 2000].into());
    }
}
