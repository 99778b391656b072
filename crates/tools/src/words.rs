//! Splits a command line into words as a POSIX shell does, where no shell may be used (XCU 2.2, Quoting).
//!
//! Quotes and backslashes mean what they mean to a shell; whatever else a shell would act on is refused instead of being
//! passed on as it is written. Not for expanding anything.

use std::iter::Peekable;
use std::str::Chars;

/// What a command line holds that only a shell can carry out, or that no shell would take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotWords {
    /// A character that a shell acts on, outside quotes.
    #[error(
        "holds `{0}`, which is for a shell, and command lines meet none here; quote it with '...' where it is meant \
         literally, and run programs one by one"
    )]
    ForShell(char),
    /// A line break between words.
    #[error(
        "holds a line break, which is for a shell, and command lines meet none here; run programs one by one"
    )]
    LineBreak,
    /// A variable in front of the command.
    #[error(
        "begins with a variable, which is for a shell, and command lines meet none here; give it in `env`"
    )]
    Variable,
    /// A quote that does not end.
    #[error("has a {0} that does not end")]
    Unterminated(&'static str),
    /// There is no word.
    #[error("holds no word")]
    Empty,
}

/// The words of a line: the program and its arguments, never empty.
///
/// ```
/// use procyard_tools::{NotWords, words};
///
/// assert_eq!(words(r#"grep -n 'a|b' "my file""#).unwrap(), ["grep", "-n", "a|b", "my file"]);
/// assert_eq!(words("ls | wc -l"), Err(NotWords::ForShell('|')));
/// ```
pub fn words(line: &str) -> Result<Vec<String>, NotWords> {
    let mut rest = line.chars().peekable();
    let mut words = Vec::new();
    loop {
        pass_blanks(&mut rest);
        let Some(first) = rest.peek() else { break };
        if is_line_end(*first) {
            // It ends the line, unless there is another one.
            if rest.all(|character| is_blank(character) || is_line_end(character)) {
                break;
            }
            return Err(NotWords::LineBreak);
        }
        // These mean something only where a word begins.
        if matches!(first, '#' | '~') || *first == '!' && words.is_empty() {
            return Err(NotWords::ForShell(*first));
        }
        let word = word(&mut rest, words.is_empty())?;
        words.push(word);
    }
    if words.first().is_none_or(String::is_empty) { Err(NotWords::Empty) } else { Ok(words) }
}

/// Only these part words without being acted on.
fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t')
}

/// A line ends with LF or CRLF; a CR in it would be taken for a part of a word by a shell, and is never meant so.
fn is_line_end(character: char) -> bool {
    matches!(character, '\n' | '\r')
}

/// Passes over blanks in front of a word, and over escaped line ends, with which a line is continued.
fn pass_blanks(rest: &mut Peekable<Chars<'_>>) {
    let mut ahead = rest.clone();
    while let Some(character) = ahead.next() {
        let continued = character == '\\' && ahead.next() == Some('\n');
        if !is_blank(character) && !continued {
            return;
        }
        rest.clone_from(&ahead);
    }
}

fn word(rest: &mut Peekable<Chars<'_>>, may_assign: bool) -> Result<String, NotWords> {
    let mut word = String::new();
    let mut quoted = false;
    while let Some(character) = rest.next_if(|character| !is_blank(*character) && !is_line_end(*character)) {
        match character {
            '\'' => {
                quoted = true;
                single_quoted(rest, &mut word)?;
            }
            '"' => {
                quoted = true;
                double_quoted(rest, &mut word)?;
            }
            '\\' => match rest.next() {
                // A line is continued, and so is the word.
                Some('\n') => {}
                Some(next) => {
                    quoted = true;
                    word.push(next);
                }
                None => return Err(NotWords::Unterminated("backslash")),
            },
            '=' if may_assign && !quoted && is_name(&word) => return Err(NotWords::Variable),
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' | '[' | '{' | '}' => {
                return Err(NotWords::ForShell(character));
            }
            _ => word.push(character),
        }
    }
    Ok(word)
}

fn single_quoted(rest: &mut Peekable<Chars<'_>>, word: &mut String) -> Result<(), NotWords> {
    for character in rest {
        if character == '\'' {
            return Ok(());
        }
        word.push(character);
    }
    Err(NotWords::Unterminated("single quote"))
}

fn double_quoted(rest: &mut Peekable<Chars<'_>>, word: &mut String) -> Result<(), NotWords> {
    while let Some(character) = rest.next() {
        match character {
            '"' => return Ok(()),
            '$' | '`' => return Err(NotWords::ForShell(character)),
            '\\' => match rest.next() {
                Some('\n') => {}
                Some(next @ ('$' | '`' | '"' | '\\')) => word.push(next),
                // Before anything else it is an ordinary character.
                Some(next) => word.extend(['\\', next]),
                None => break,
            },
            _ => word.push(character),
        }
    }
    Err(NotWords::Unterminated("double quote"))
}

/// What a variable can be called.
fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && word.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let check = |line: &str, expect: &[&str]| assert_eq!(words(line).unwrap(), expect, "{line}");
        check("make -j4", &["make", "-j4"]);
        check("  a\tb  ", &["a", "b"]);
        check(r"a\ b 'c d' e'f'\g", &["a b", "c d", "efg"]);
        check("echo ''", &["echo", ""]);
        check(r#"echo "a \"b\" \n \$x""#, &["echo", r#"a "b" \n $x"#]);
        check("echo 'a|b;$c`*'", &["echo", "a|b;$c`*"]);
        check("a\\\nb", &["ab"]);
        check("a \\\n  b\\\n c \\\n", &["a", "b", "c"]);
        check("\\\nls", &["ls"]);
        check("git log HEAD~1 a#b x=y", &["git", "log", "HEAD~1", "a#b", "x=y"]);
        check("'A=b' c", &["A=b", "c"]);
        check("./a.out --n=1", &["./a.out", "--n=1"]);
        check("日本 語", &["日本", "語"]);
    }

    #[test]
    fn what_ends_a_line_is_no_part_of_it_and_an_escaped_blank_is() {
        let check = |line: &str, expect: &[&str]| assert_eq!(words(line).unwrap(), expect, "{line:?}");
        check("ls -l\n", &["ls", "-l"]);
        check("ls -l \r\n", &["ls", "-l"]);
        check("ls\n \n\t\n", &["ls"]);
        check(r"cat a\ ", &["cat", "a "]);
        check("cat a\\\t\n", &["cat", "a\t"]);
        check("cat 'a\n'\n", &["cat", "a\n"]);
    }

    #[test]
    fn what_only_a_shell_can_do_is_refused() {
        let check = |line: &str, expect: NotWords| assert_eq!(words(line), Err(expect), "{line}");
        for character in "|&;<>()$`*?[{}".chars() {
            check(&format!("a b{character}c"), NotWords::ForShell(character));
        }
        check("a \"$b\"", NotWords::ForShell('$'));
        check("a \"`b`\"", NotWords::ForShell('`'));
        check("a # b", NotWords::ForShell('#'));
        check("a ~/b", NotWords::ForShell('~'));
        check("! a", NotWords::ForShell('!'));
        check("a\nb", NotWords::LineBreak);
        check("a \n b\n", NotWords::LineBreak);
        check("\na", NotWords::LineBreak);
        check("a\rb", NotWords::LineBreak);
        check("a \\\n# b", NotWords::ForShell('#'));
        check("A=b c", NotWords::Variable);
        check("A\\\n=b c", NotWords::Variable);
        check("a 'b", NotWords::Unterminated("single quote"));
        check("a \"b", NotWords::Unterminated("double quote"));
        check("a \"b\\", NotWords::Unterminated("double quote"));
        check("a\\", NotWords::Unterminated("backslash"));
        check("", NotWords::Empty);
        check(" \t", NotWords::Empty);
        check("\n", NotWords::Empty);
        check("'' a", NotWords::Empty);
    }
}
