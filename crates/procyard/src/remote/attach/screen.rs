//! What a process's output has switched on in the person's terminal, to be switched off when it is left.
//!
//! Not for showing anything.

/// Enters the alternate screen, as all full-screen programs do (xterm control sequences, DECSET 1049).
pub(super) const ENTER: &str = "\x1b[?1049h";

/// Leaves it.
const LEAVE: &str = "\x1b[?1049l";

/// Attributes, cursor, mouse reports, bracketed paste and the keypad as they are by default.
const PLAIN: &str = "\x1b[0m\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>";

/// Looks at output as it passes.
#[derive(Debug, Default)]
pub(super) struct Screen {
    alternate: bool,
    /// The end of what was seen, in which a sequence may begin.
    tail: Vec<u8>,
}

impl Screen {
    pub(super) fn see(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        let last = |sequence: &str| {
            self.tail.windows(sequence.len()).rposition(|window| window == sequence.as_bytes())
        };
        match (last(ENTER), last(LEAVE)) {
            (None, None) => {}
            (enter, leave) => self.alternate = enter > leave,
        }
        let keep = self.tail.len().min(ENTER.len() - 1);
        self.tail.drain(..self.tail.len() - keep);
    }

    /// What makes the terminal fit for a shell again.
    pub(super) fn undo(&self) -> String {
        let leave = if self.alternate { LEAVE } else { "" };
        format!("{PLAIN}{leave}\r\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alternate_screen_is_left_only_where_it_is_entered_however_output_is_cut() {
        let check = |text: &[u8], alternate: bool| {
            for piece in 1..=text.len() {
                let mut screen = Screen::default();
                text.chunks(piece).for_each(|piece| screen.see(piece));
                assert_eq!(screen.alternate, alternate, "{:?} by {piece}", String::from_utf8_lossy(text));
                assert_eq!(screen.undo().contains("?1049l"), alternate);
            }
        };
        check(b"plain text that is longer than a sequence", false);
        check(b"a\x1b[?1049hvi", true);
        check(b"a\x1b[?1049hvi\x1b[?1049lb", false);
        check(b"\x1b[?1049h\x1b[?1049l\x1b[?1049h", true);
    }
}
