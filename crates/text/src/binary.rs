//! Telling text from binary by what had to be removed or replaced.
//!
//! It looks at single bytes only; it knows no file formats.

use crate::parser::Token;

/// Bytes seen, and how many of them do not occur in text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// NUL bytes outside sequences.
    pub nul: usize,
    /// Bytes of invalid UTF-8 parts, of C1 code points without parameters and of C0 controls that text does not
    /// use. BEL, BS, VT and FF do occur in text and ESC begins sequences, so they do not count.
    pub suspicious: usize,
}

impl Counts {
    /// So few suspicious bytes say nothing: a word in a legacy encoding has as many.
    const MIN_SUSPICIOUS: usize = 4;

    /// Whether `total` bytes with these counts look like binary: there is a NUL, or there are at least four
    /// suspicious bytes and they are more than a tenth of all.
    ///
    /// ```
    /// use procyard_text::Counts;
    ///
    /// assert!(Counts { nul: 1, suspicious: 0 }.look_binary(1_000_000));
    /// assert!(Counts { nul: 0, suspicious: 11 }.look_binary(100));
    /// assert!(!Counts { nul: 0, suspicious: 10 }.look_binary(100));
    /// assert!(!Counts { nul: 0, suspicious: 1 }.look_binary(1));
    /// ```
    pub fn look_binary(&self, total: usize) -> bool {
        self.nul > 0 || (self.suspicious >= Self::MIN_SUSPICIOUS && self.suspicious > total / 10)
    }

    /// Counts what a token says about its bytes.
    pub(crate) fn token(&mut self, token: Token<'_>) {
        match token {
            Token::Control(0) => self.nul += 1,
            Token::Control(0x07 | 0x08 | 0x0B | 0x0C) => {}
            Token::Control(_) => self.suspicious += 1,
            Token::C1 => self.suspicious += 2,
            Token::Invalid(bytes) => self.suspicious += bytes,
            _ => {}
        }
    }
}
