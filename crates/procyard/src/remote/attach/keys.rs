//! The keys that leave a process as it is.
//!
//! Not for any other key: those are the process's.

use std::fmt;
use std::str::FromStr;

/// More keys than this nobody types.
const KEYS_MAX: usize = 16;

/// One or more keys in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetachKeys(Vec<u8>);

impl FromStr for DetachKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let keys = text.split(',').map(key).collect::<Option<Vec<_>>>();
        match keys {
            Some(keys) if keys.len() <= KEYS_MAX => Ok(Self(keys)),
            _ => Err("write characters and ctrl-a to ctrl-z, ctrl-@, ctrl-[, ctrl-\\, ctrl-], ctrl-^, ctrl-_, with commas".to_owned()),
        }
    }
}

fn key(name: &str) -> Option<u8> {
    let single = |text: &str| match text.as_bytes() {
        [byte] if byte.is_ascii_graphic() => Some(*byte),
        _ => None,
    };
    match name.strip_prefix("ctrl-") {
        None => single(name),
        // What a terminal makes of ctrl: the lower five bits.
        Some(letter) => {
            let letter = single(letter)?.to_ascii_uppercase();
            (b'@'..=b'_').contains(&letter).then_some(letter & 0x1f)
        }
    }
}

impl fmt::Display for DetachKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            match key {
                0..=0x1f => write!(f, "ctrl-{}", char::from(key | 0x40).to_ascii_lowercase())?,
                key => write!(f, "{}", char::from(*key))?,
            }
        }
        Ok(())
    }
}

/// What was typed: what goes to the process, and whether it is left then.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) bytes: Vec<u8>,
    pub(super) leave: bool,
}

/// Finds the keys in what is typed, however that is cut. The beginning of them is held back until it is clear what it is.
#[derive(Debug)]
pub(super) struct Detector {
    keys: Vec<u8>,
    /// How many of them were typed.
    matched: usize,
}

impl Detector {
    pub(super) fn new(keys: DetachKeys) -> Self {
        Self { keys: keys.0, matched: 0 }
    }

    pub(super) fn take(&mut self, typed: &[u8]) -> Typed {
        let mut bytes = Vec::with_capacity(typed.len());
        for byte in typed {
            while self.matched > 0 && self.keys[self.matched] != *byte {
                self.give_one_up(&mut bytes);
            }
            if self.keys[self.matched] != *byte {
                bytes.push(*byte);
                continue;
            }
            self.matched += 1;
            if self.matched == self.keys.len() {
                self.matched = 0;
                return Typed { bytes, leave: true };
            }
        }
        Typed { bytes, leave: false }
    }

    /// The first keys that were held back are the process's; the longest rest that may be a beginning stays.
    fn give_one_up(&mut self, bytes: &mut Vec<u8>) {
        let held = &self.keys[..self.matched];
        let rest = (0..self.matched).rev().find(|rest| held[self.matched - rest..] == self.keys[..*rest]);
        let rest = rest.unwrap_or(0);
        bytes.extend_from_slice(&held[..self.matched - rest]);
        self.matched = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_they_are_told() {
        for (text, keys, told) in [
            ("ctrl-p,ctrl-q", vec![0x10, 0x11], "ctrl-p ctrl-q"),
            ("ctrl-a,d", vec![1, b'd'], "ctrl-a d"),
            ("ctrl-]", vec![0x1d], "ctrl-]"),
            ("ctrl-\\", vec![0x1c], "ctrl-\\"),
        ] {
            let parsed: DetachKeys = text.parse().unwrap();
            assert_eq!((parsed.0.clone(), parsed.to_string()), (keys, told.to_owned()));
        }
        for text in ["", "ctrl-", "ctrl-ä", "ab", "ctrl-1", ",", &"a,".repeat(30)] {
            assert!(text.parse::<DetachKeys>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_keys_leave_and_everything_else_is_the_process_s() {
        #[track_caller]
        fn check(keys: &str, typed: &str, expect: &str, leaves: bool) {
            for piece in 1..=typed.len() {
                let mut detector = Detector::new(keys.parse().unwrap());
                let (mut bytes, mut left) = (Vec::new(), false);
                for piece in typed.as_bytes().chunks(piece) {
                    let taken = detector.take(piece);
                    bytes.extend(taken.bytes);
                    left |= taken.leave;
                    if left {
                        break;
                    }
                }
                assert_eq!(
                    (String::from_utf8(bytes).unwrap(), left),
                    (expect.to_owned(), leaves),
                    "{typed} by {piece}"
                );
            }
        }
        check("x,y", "abxyz", "ab", true);
        check("x,y", "axbxxc", "axbxxc", false);
        check("x,y", "xxy", "x", true);
        check("x,x,y", "xxxy", "x", true);
        check("x,y,x,z", "xyxyxz", "xy", true);
        check("x", "ax", "a", true);
    }
}
