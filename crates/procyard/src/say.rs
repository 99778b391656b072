//! What procyard itself says on stderr, and to whom it no longer can.
//!
//! Not for the output of commands.

use std::fmt::Display;

/// Says one line on stderr, as procyard. Nobody may be reading any more, and there is nobody else to tell.
pub(crate) fn say(line: impl Display) {
    print(std::io::stderr(), format_args!("procyard: {line}\n"));
}

/// Writes a text in one piece where it can be written, and never fails.
pub(crate) fn print(mut to: impl std::io::Write, text: impl Display) {
    // In one write, so that the lines of other programs on the same terminal do not come between.
    let text = text.to_string();
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}
