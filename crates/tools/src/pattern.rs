//! Patterns: compiling one with bounds, and what is known of the matches it can have.
//!
//! Not for searching a stream: see the matcher.

use procyard_core::PublicError;
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{MatchKind, meta};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// A match spans at most this many bytes of rendered text.
pub(crate) const MATCH_MAX: usize = 64 << 10;

/// Bytes that the compiled pattern and each of its caches may take.
const SIZE_MAX: usize = 1 << 20;

/// A compiled pattern. `^` and `$` match at lines, and a line ends with LF, CR or CRLF, as terminals write them.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) regex: meta::Regex,
    /// The longest match to be looked for, in bytes.
    pub(crate) reach: usize,
    /// The ends of lines that no match contains.
    pub(crate) borders: &'static [char],
    /// The automaton that reports every end of every match; `None` where it would take too much memory.
    pub(crate) scout: Option<DFA>,
    /// Whether a match can depend on what is next to it.
    pub(crate) looks_around: bool,
}

impl Pattern {
    /// Compiles a pattern; a bad one is an `invalid_arguments` with its position.
    pub(crate) fn compile(pattern: &str) -> Result<Self, PublicError> {
        let hir = ParserBuilder::new()
            .multi_line(true)
            .crlf(true)
            .build()
            .parse(pattern)
            .map_err(|error| PublicError::argument("pattern", mistake(pattern, &error)))?;
        let config = meta::Config::new()
            .nfa_size_limit(Some(SIZE_MAX))
            .onepass_size_limit(Some(SIZE_MAX))
            .dfa_size_limit(Some(SIZE_MAX))
            .hybrid_cache_capacity(SIZE_MAX);
        let regex = meta::Builder::new().configure(config).build_from_hir(&hir).map_err(|_| {
            PublicError::argument("pattern", "the pattern is too large; use smaller repetitions and classes")
        })?;
        Ok(Self {
            regex,
            reach: hir.properties().maximum_len().unwrap_or(MATCH_MAX).min(MATCH_MAX),
            borders: match (contains(&hir, '\n'), contains(&hir, '\r')) {
                (false, false) => &['\n', '\r'],
                (false, true) => &['\n'],
                (true, false) => &['\r'],
                (true, true) => &[],
            },
            scout: scout(&hir),
            looks_around: !hir.properties().look_set().is_empty(),
        })
    }
}

fn scout(hir: &Hir) -> Option<DFA> {
    let config = thompson::Config::new().nfa_size_limit(Some(SIZE_MAX));
    let nfa = thompson::Compiler::new().configure(config).build_from_hir(hir).ok()?;
    // A word boundary beside anything but ASCII makes it give up.
    let config =
        dfa::Config::new().match_kind(MatchKind::All).unicode_word_boundary(true).cache_capacity(SIZE_MAX);
    dfa::Builder::new().configure(config).build_from_nfa(nfa).ok()
}

/// What is wrong with a pattern, and at which character, counted from 0.
fn mistake(pattern: &str, error: &regex_syntax::Error) -> String {
    let (problem, span) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), Some(error.span())),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), Some(error.span())),
        _ => ("not a regular expression".to_owned(), None),
    };
    match span {
        Some(span) => {
            let before = pattern.get(..span.start.offset).unwrap_or(pattern);
            format!("{problem}, at position {}", before.chars().count())
        }
        None => problem,
    }
}

/// Whether some match of `hir` may contain a character of ASCII. The parser bounds how deeply a pattern nests.
fn contains(hir: &Hir, ascii: char) -> bool {
    let byte = ascii as u8;
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.contains(&byte),
        HirKind::Class(Class::Unicode(class)) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&ascii))
        }
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte))
        }
        HirKind::Repetition(repetition) => contains(&repetition.sub, ascii),
        HirKind::Capture(capture) => contains(&capture.sub, ascii),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().any(|part| contains(part, ascii))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pattern_is_refused_with_its_position() {
        for (pattern, position) in [("(", "position 0"), ("é[z-a]", "position 2"), (r"a\q", "position 1")] {
            let error = Pattern::compile(pattern).expect_err("refused");
            assert_eq!(error.field.as_deref(), Some("pattern"));
            assert!(error.message.ends_with(position), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_pattern_that_would_take_much_memory_is_refused() {
        let error = Pattern::compile(r"(\w{1000}){1000}").expect_err("refused");
        assert!(error.message.contains("too large"), "{error}");
    }

    #[test]
    fn the_reach_of_a_pattern_is_known() {
        let check = |pattern: &str, reach, borders: &[char], looks_around| {
            let compiled = Pattern::compile(pattern).unwrap();
            assert_eq!(
                (compiled.reach, compiled.borders, compiled.looks_around),
                (reach, borders, looks_around),
                "{pattern}"
            );
        };
        check("ready", 5, &['\n', '\r'], false);
        check("^ready$", 5, &['\n', '\r'], true);
        check(r"port \d+", MATCH_MAX, &['\n', '\r'], false);
        check("done.*", MATCH_MAX, &['\n', '\r'], false);
        check("a\n+b", MATCH_MAX, &['\r'], false);
        check("a\r+b", MATCH_MAX, &['\n'], false);
        check("(?s)a.*b", MATCH_MAX, &[], false);
        check(r"a\sb", 5, &[], false);
        check("[^x]", 4, &[], false);
    }
}
