//! The words of this vocabulary's results, and the numbers that its sessions have in them.
//!
//! Not for values: there are none, the text is the whole result.

use std::fmt::Write as _;
use std::time::Duration;

use procyard_core::Handle;
use sha2::{Digest, Sha256};

use super::TOKEN;
use crate::dialect::unread::Unread;
use crate::dialect::{exit_code, notes, unusual_end};

/// The number of a process: positive, and as large as a number of 32 bits may be.
pub(super) fn number_of(handle: &Handle) -> u64 {
    let digest = Sha256::digest(handle.reveal());
    let number = digest.iter().take(4).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    (number & 0x7FFF_FFFF).max(1)
}

pub(super) fn name(handle: &Handle) -> String {
    number_of(handle).to_string()
}

/// The text of a result: a line for each fact, then the output.
pub(super) fn text(unread: &Unread, ended: bool, lasted: Duration, also: &[String]) -> String {
    let snapshot = &unread.snapshot;
    let mut text = format!("Chunk ID: {:06x}\n", rand::random::<u32>() & 0xFF_FFFF);
    let _ = writeln!(text, "Wall time: {:.4} seconds", lasted.as_secs_f64());
    if ended {
        if let Some(code) = exit_code(snapshot) {
            let _ = writeln!(text, "Process exited with code {code}");
        }
        if let Some(end) = unusual_end(snapshot) {
            let _ = writeln!(text, "Process ended otherwise than by itself: {end}");
        }
    } else {
        let _ = writeln!(text, "Process running with session ID {}", name(&snapshot.identity.handle));
    }
    let binary = unread.binary.then(|| "the output looks binary".to_owned());
    let notes = if ended { notes(snapshot) } else { Vec::new() };
    for note in unread.missing.iter().chain(&binary).chain(&notes).chain(also) {
        let _ = writeln!(text, "Note: {note}");
    }
    let tokens = |bytes: u64| bytes.div_ceil(TOKEN as u64);
    let _ = writeln!(text, "Original token count: {}", tokens(unread.bytes));
    text.push_str("Output:\n");
    text.push_str(&unread.text(&format!("\n…{} tokens truncated…\n", tokens(unread.omitted))));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::handle;

    #[test]
    fn the_number_of_a_process_is_the_same_for_ever() {
        // A record that is read after an update has the number that it had before.
        assert_eq!(number_of(&handle(1)), NUMBER_OF_1);
        let numbers: std::collections::BTreeSet<u64> = (0..=255).map(|of| number_of(&handle(of))).collect();
        assert_eq!(numbers.len(), 256);
        assert!(numbers.iter().all(|number| (1..=0x7FFF_FFFF).contains(number)));
    }

    /// Four bytes of the digest of its handle.
    const NUMBER_OF_1: u64 = 573_172_649;
}
