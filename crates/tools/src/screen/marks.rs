//! Characters that take no column of their own: accents, joiners, variation selectors. They are drawn with the character
//! that they follow.
//!
//! The emulator holds one character in each cell and gives each at least one column. So a character is held here until it is
//! known which marks follow, and then painted as one *stand-in*: a code point of the same width that means nothing. What is
//! shown has the characters again. A mark that follows no character, because the cursor was moved before it, is left out, as
//! is one whose character was looked at before it came.
//!
//! Each character has the width that it has for the emulator. A program that takes an emoji sequence for narrower than its
//! parts paints what follows elsewhere than it means to, as in most terminals. Not for any text but a screen's.

use std::collections::HashMap;

use avt::parser::Function;
use unicode_width::UnicodeWidthChar;

/// Stand-ins of one column, for private use at the end of plane 16.
const NARROW: u32 = 0x10_E000;

/// Stand-ins of two columns, unassigned at the end of plane 3, where whatever will be assigned is wide.
const WIDE: u32 = 0x3_E000;

/// Characters with marks that one drawing tells apart; more are painted without their marks.
const DIFFERENT_MAX: u32 = 4096;

/// Bytes of a character with its marks; more marks are left out.
const CLUSTER_MAX: usize = 64;

/// What cannot be told apart any more and is no text itself.
const NOT_SHOWN: [char; 2] = ['\u{fffd}', '\u{3013}'];

/// The marks of one drawing.
#[derive(Default)]
pub(super) struct Marks {
    /// A character with its marks so far, which is not painted yet. Empty: none.
    held: String,
    /// What stand-ins stand for, by number: narrow ones, wide ones.
    clusters: [Vec<String>; 2],
    numbers: HashMap<String, char>,
}

impl Marks {
    /// The parser's next function; what is to be carried out now, in this order.
    pub(super) fn follow(&mut self, function: Function) -> [Option<Function>; 2] {
        match function {
            Function::Print(ch) if ch.width() == Some(0) => {
                if !self.held.is_empty() && self.held.len() + ch.len_utf8() <= CLUSTER_MAX {
                    self.held.push(ch);
                }
                [None, None]
            }
            Function::Print(ch) => {
                let before = self.settle();
                self.held.push(ch);
                [before, None]
            }
            other => [self.settle(), Some(other)],
        }
    }

    /// Paints what is held: no marks are waited for.
    pub(super) fn settle(&mut self) -> Option<Function> {
        let mut chars = self.held.chars();
        let base = chars.next()?;
        let alone = chars.next().is_none();
        let painted = if alone && number(base).is_none() { base } else { self.stand_in(base) };
        self.held.clear();
        Some(Function::Print(painted))
    }

    /// What a cell shows.
    pub(super) fn show(&self, cell: char, text: &mut String) {
        match number(cell).and_then(|(wide, number)| self.clusters[wide].get(number)) {
            Some(cluster) => text.push_str(cluster),
            None => text.push(cell),
        }
    }

    /// The stand-in for what is held, which begins with `base`.
    fn stand_in(&mut self, base: char) -> char {
        if let Some(known) = self.numbers.get(&self.held) {
            return *known;
        }
        let wide = usize::from(base.width() == Some(2));
        let first = [NARROW, WIDE][wide];
        let next = u32::try_from(self.clusters[wide].len()).ok().filter(|next| *next < DIFFERENT_MAX);
        let Some(stand_in) = next.and_then(|next| char::from_u32(first + next)) else {
            return if number(base).is_none() { base } else { NOT_SHOWN[wide] };
        };
        self.clusters[wide].push(self.held.clone());
        self.numbers.insert(self.held.clone(), stand_in);
        stand_in
    }
}

/// Which stand-in a character is: of which width, and its number. A program can print these, too: then one stands for it.
fn number(ch: char) -> Option<(usize, usize)> {
    let of = |first: u32| u32::from(ch).checked_sub(first).filter(|number| *number < DIFFERENT_MAX);
    let (wide, number) =
        of(NARROW).map(|number| (0, number)).or_else(|| of(WIDE).map(|number| (1, number)))?;
    Some((wide, usize::try_from(number).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(marks: &mut Marks, text: &str) -> String {
        let mut painted: Vec<Function> = Vec::new();
        for ch in text.chars() {
            painted.extend(marks.follow(Function::Print(ch)).into_iter().flatten());
        }
        painted.extend(marks.settle());
        let mut shown = String::new();
        for function in painted {
            let Function::Print(ch) = function else { panic!("{function:?}") };
            marks.show(ch, &mut shown);
        }
        shown
    }

    #[test]
    fn what_is_shown_is_what_was_printed() {
        let mut marks = Marks::default();
        for text in
            ["", "plain", "e\u{301}e\u{301}\u{323}", "日\u{3099}本", "\u{10e000}\u{3e000}\u{10e000}\u{301}"]
        {
            assert_eq!(printed(&mut marks, text), text);
        }
        assert_eq!(marks.numbers.len(), 6);
    }

    #[test]
    fn what_a_program_can_make_it_keep_is_bounded() {
        let mut marks = Marks::default();
        let accent = |number: u32| char::from_u32(0x300 + number % 0x70).unwrap();
        for number in 0..2 * DIFFERENT_MAX {
            let base = char::from_u32(0x4e00 + number / 0x70).unwrap();
            printed(&mut marks, &format!("{base}{}", accent(number)));
            printed(
                &mut marks,
                &format!("{}{}", char::from_u32(0xc0 + number / 0x70).unwrap(), accent(number)),
            );
        }
        assert_eq!(marks.numbers.len(), 2 * DIFFERENT_MAX as usize);
        assert_eq!(printed(&mut marks, "z\u{301}"), "z", "without its marks");
        assert_eq!(printed(&mut marks, "\u{10e000}\u{3e000}"), "\u{fffd}\u{3013}");
        let marked = printed(&mut Marks::default(), &format!("e{}", "\u{301}".repeat(1000)));
        assert!(marked.len() <= CLUSTER_MAX);
    }
}
