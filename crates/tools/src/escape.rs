//! Command lines that try to leave supervision: `nohup`, `setsid`, `disown`, a trailing `&`.
//!
//! They are contained like everything else, so nothing is refused here; but what their author wanted is had in
//! another way, and a warning says which. Not a shell parser: it knows words, quotes and separators, and is content
//! with that, since all that depends on it is advice.

/// The words that try to leave, in the order in which they occur, each once.
pub(crate) fn attempts(command: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut note = |word| {
        if !found.contains(&word) {
            found.push(word);
        }
    };
    let mut first = true;
    let mut last = "";
    for word in (Words { rest: command }) {
        if first && let Some(known) = leaver(word) {
            note(known);
        }
        // A command begins at the start, behind a separator and behind what only runs another command.
        first = is_separator(word)
            || (first
                && (is_assignment(word)
                    || matches!(word, "exec" | "sudo" | "env" | "time" | "nohup" | "setsid")))
            || matches!(word, "do" | "then" | "else" | "!");
        if word != "\n" {
            last = word;
        }
    }
    if last == "&" {
        note("&");
    }
    found
}

/// The same for a program that no shell runs.
pub(crate) fn attempts_of_program(program: &str) -> Vec<&'static str> {
    let name = program.rsplit('/').next().unwrap_or(program);
    leaver(name).filter(|name| *name != "disown").into_iter().collect()
}

fn leaver(word: &str) -> Option<&'static str> {
    ["nohup", "setsid", "disown"].into_iter().find(|known| *known == word.rsplit('/').next().unwrap_or(word))
}

fn is_separator(word: &str) -> bool {
    matches!(word, ";" | "&" | "&&" | "|" | "||" | "(" | ")" | "{" | "}" | "\n")
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
    })
}

/// Words and separators of a command line. A quoted part stays inside its word, with its quotes.
struct Words<'c> {
    rest: &'c str,
}

impl<'c> Iterator for Words<'c> {
    type Item = &'c str;

    fn next(&mut self) -> Option<&'c str> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
        if self.rest.starts_with('#') {
            self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
        }
        let length = separator(self.rest).unwrap_or_else(|| word(self.rest));
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }
}

/// The length of the separator at the start of `text`, if there is one.
fn separator(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let next = bytes.get(1).copied();
    match *bytes.first()? {
        b'&' if next == Some(b'>') => None,
        b'&' | b'|' if next == Some(bytes[0]) => Some(2),
        b';' | b'&' | b'|' | b'(' | b')' | b'\n' => Some(1),
        _ => None,
    }
}

/// The length of the word at the start of `text`.
fn word(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let previous = at.checked_sub(1).and_then(|before| bytes.get(before)).copied();
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (None | Some(b'"'), b'\\') => at += 1,
            (None, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'|' | b'(' | b')') => break,
            // `2>&1` and `&>file` are redirections.
            (None, b'&') if !matches!(previous, Some(b'>' | b'<')) && bytes.get(at + 1) != Some(&b'>') => {
                break;
            }
            _ => {}
        }
        at += 1;
    }
    // A backslash may be the last byte.
    at.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expect: &[&str]) {
        assert_eq!(attempts(command), expect, "{command:?}");
    }

    #[test]
    fn attempts_to_leave_are_seen_where_a_command_begins() {
        check("nohup ./serve", &["nohup"]);
        check("nohup ./serve &", &["nohup", "&"]);
        check("cd /srv && setsid ./serve", &["setsid"]);
        check("A=1 nohup setsid ./serve & disown", &["nohup", "setsid", "disown"]);
        check("/usr/bin/nohup x", &["nohup"]);
        check("if true; then setsid x; fi", &["setsid"]);
        check("sleep 5 &", &["&"]);
        check("sleep 5 & \n", &["&"]);
        check("sleep 5 & # in the background", &["&"]);
        check("sleep 5&", &["&"]);
        check("(sleep 5 &)", &[]);
    }

    #[test]
    fn what_only_looks_like_an_attempt_is_not_one() {
        for command in [
            "",
            "echo nohup",
            "echo 'x; nohup y &'",
            "grep \"setsid\" src",
            "true && false",
            "make 2>&1",
            "make &>log",
            "a & wait",
            "echo \\&",
            "echo '&'",
            "x=nohup",
            "printf é\\",
        ] {
            check(command, &[]);
        }
    }

    #[test]
    fn a_program_without_a_shell_is_looked_at_by_name() {
        assert_eq!(attempts_of_program("/usr/bin/setsid"), ["setsid"]);
        assert!(attempts_of_program("disown").is_empty(), "only a shell has that");
        assert!(attempts_of_program("&").is_empty());
    }
}
