//! What programs ask their terminal, found in their output, and the answers of a plain one.
//!
//! Shells and full-screen programs ask at their start and wait. Known are device attributes, status and the place of the
//! cursor (ECMA-48 and xterm's control sequences); what is asked may be cut anywhere between two reads.
//!
//! Not a terminal emulator: the cursor is said to be at the beginning.

/// Longer parameters are no query.
const PARAMETERS_MAX: usize = 8;

/// Where in a query the output stopped.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Text,
    Escape,
    Parameters(Vec<u8>),
}

/// Finds queries in a stream.
#[derive(Debug, Default)]
pub(crate) struct Queries {
    place: Place,
}

impl Queries {
    /// Goes on with more output; gives the answers to what was asked in it.
    pub(crate) fn take_in(&mut self, output: &[u8]) -> Vec<u8> {
        let mut answers = Vec::new();
        let mut rest = output;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match (&mut self.place, byte) {
                (Place::Text | Place::Parameters(_), 0x1b) => self.place = Place::Escape,
                (Place::Text, _) => {
                    // Most output is text: on to the next escape.
                    let next = rest.iter().position(|byte| *byte == 0x1b).unwrap_or(rest.len());
                    rest = &rest[next..];
                }
                (Place::Escape, b'[') => self.place = Place::Parameters(Vec::new()),
                (Place::Escape, 0x1b) => {}
                (Place::Escape, _) => self.place = Place::Text,
                (Place::Parameters(parameters), 0x20..=0x3f) if parameters.len() < PARAMETERS_MAX => {
                    parameters.push(byte);
                }
                (Place::Parameters(parameters), last) => {
                    if let Some(answer) = answer(parameters, last) {
                        answers.extend_from_slice(answer);
                    }
                    self.place = Place::Text;
                }
            }
        }
        answers
    }
}

fn answer(parameters: &[u8], last: u8) -> Option<&'static [u8]> {
    match (parameters, last) {
        // A VT220 with colours.
        (b"" | b"0", b'c') => Some(b"\x1b[?62;22c"),
        (b">" | b">0", b'c') => Some(b"\x1b[>1;10;0c"),
        (b"5", b'n') => Some(b"\x1b[0n"),
        (b"6", b'n') => Some(b"\x1b[1;1R"),
        (b"?6", b'n') => Some(b"\x1b[?1;1R"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, expect: &str) {
        for cut in 0..=output.len() {
            let mut queries = Queries::default();
            let mut answers = queries.take_in(&output.as_bytes()[..cut]);
            answers.extend(queries.take_in(&output.as_bytes()[cut..]));
            assert_eq!(String::from_utf8(answers).unwrap(), expect, "{output:?} cut at {cut}");
        }
    }

    #[test]
    fn queries_are_answered_wherever_they_are_cut() {
        check("text", "");
        check("a\x1b[cb", "\x1b[?62;22c");
        check("\x1b[0c\x1b[>c", "\x1b[?62;22c\x1b[>1;10;0c");
        check("\x1b[5n\x1b[6n\x1b[?6n", "\x1b[0n\x1b[1;1R\x1b[?1;1R");
        check("\x1b\x1b[6n", "\x1b[1;1R");
        check("\x1b[1\x1b[6n", "\x1b[1;1R");
    }

    #[test]
    fn what_is_no_query_is_not_answered() {
        check("\x1b[31m\x1b[2J\x1b[?1;1R\x1b[?62;22c\x1b]0;6n\x07\x1b(c", "");
        check("\x1b[0000000006n", "");
    }
}
