//! Finds where Rust source lifts a guarded lint: `#[allow(...)]`, `#[expect(...)]`, `#[warn(...)]`,
//! also inside `cfg_attr`.
//!
//! It reads tokens, not text, so comments, doc examples and strings never count. It does not expand
//! macros: an attribute that a macro pastes together from pieces is not seen.

use proc_macro2::{Delimiter, Group, LexError, TokenStream, TokenTree};

/// A lint that one crate alone may lift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarded {
    /// `unsafe_code`.
    Unsafe,
    /// `clippy::disallowed_methods`, by its name or by a group that has it: it guards spawning.
    Spawning,
}

/// One place where a guarded lint is lifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lift {
    pub(crate) lint: Guarded,
    /// The line of the attribute, from 1.
    pub(crate) line: usize,
    /// Whether it stands in an item that only tests compile.
    pub(crate) in_tests: bool,
}

/// Every lift in the text of a source file.
pub(crate) fn lifts(source: &str) -> Result<Vec<Lift>, LexError> {
    let mut found = Vec::new();
    walk(source.parse()?, false, &mut found);
    Ok(found)
}

fn walk(tokens: TokenStream, in_tests: bool, found: &mut Vec<Lift>) {
    let mut after_hash = false;
    // Set by `#[cfg(test)]`; holds to the end of the item that it stands on.
    let mut test_item = false;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => after_hash = true,
            TokenTree::Punct(punct) if punct.as_char() == '!' && after_hash => {}
            TokenTree::Group(group) if after_hash && group.delimiter() == Delimiter::Bracket => {
                after_hash = false;
                test_item |= is_cfg_test(&group);
                attribute(&group, in_tests || test_item, found);
            }
            TokenTree::Group(group) => {
                after_hash = false;
                walk(group.stream(), in_tests || test_item, found);
                test_item &= group.delimiter() != Delimiter::Brace;
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => (after_hash, test_item) = (false, false),
            _ => after_hash = false,
        }
    }
}

fn is_cfg_test(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// Looks for `level(lints)` in an attribute, at any depth.
fn attribute(attribute: &Group, in_tests: bool, found: &mut Vec<Lift>) {
    let mut lifting = false;
    for token in attribute.stream() {
        match token {
            TokenTree::Ident(ident) => lifting = ident == "allow" || ident == "expect" || ident == "warn",
            TokenTree::Group(group) if lifting => {
                let line = group.span_open().start().line;
                found.extend(guarded(group.stream()).map(|lint| Lift { lint, line, in_tests }));
            }
            TokenTree::Group(group) => self::attribute(&group, in_tests, found),
            _ => lifting = false,
        }
    }
}

/// The guarded lints in a comma-separated list of lint names.
fn guarded(lints: TokenStream) -> impl Iterator<Item = Guarded> {
    let mut names = vec![String::new()];
    for token in lints {
        match (token, names.last_mut()) {
            (TokenTree::Punct(punct), _) if punct.as_char() == ',' => names.push(String::new()),
            (TokenTree::Literal(_), _) | (_, None) => {}
            (token, Some(name)) => name.push_str(&token.to_string()),
        }
    }
    names.into_iter().filter_map(|name| match name.as_str() {
        "unsafe_code" => Some(Guarded::Unsafe),
        "clippy::disallowed_methods" | "clippy::style" | "clippy::all" | "warnings" => {
            Some(Guarded::Spawning)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the lifts of a source, each as (lint, line, in tests).
    fn check(source: &str, expect: &[(Guarded, usize, bool)]) {
        let found: Vec<_> =
            lifts(source).unwrap().into_iter().map(|lift| (lift.lint, lift.line, lift.in_tests)).collect();
        assert_eq!(found, expect, "{source}");
    }

    #[test]
    fn each_way_to_lift_unsafe_code_is_found_with_its_line() {
        use Guarded::Unsafe;
        check("#![allow(unsafe_code)]", &[(Unsafe, 1, false)]);
        check("//! Words.\n\n#[expect(unsafe_code, reason = \"x\")]\nfn f() {}", &[(Unsafe, 3, false)]);
        check("#[warn(unsafe_code)] fn f() {}", &[(Unsafe, 1, false)]);
        check("#![cfg_attr(not(test), allow(dead_code, unsafe_code))]", &[(Unsafe, 1, false)]);
        check("mod m {\n fn f() {\n  #[allow(unsafe_code)]\n  {}\n }\n}", &[(Unsafe, 3, false)]);
    }

    #[test]
    fn spawning_is_lifted_by_the_lint_and_by_each_group_that_has_it() {
        for name in ["clippy::disallowed_methods", "clippy::style", "clippy::all", "warnings"] {
            check(&format!("#[allow({name})] fn f() {{}}"), &[(Guarded::Spawning, 1, false)]);
        }
    }

    #[test]
    fn two_lints_of_one_attribute_are_two_lifts() {
        check(
            "#![allow(unsafe_code, warnings)]",
            &[(Guarded::Unsafe, 1, false), (Guarded::Spawning, 1, false)],
        );
    }

    #[test]
    fn raising_a_level_naming_other_lints_and_talking_about_a_lint_are_no_lifts() {
        check("#![forbid(unsafe_code)]", &[]);
        check("#![deny(unsafe_code)]", &[]);
        check("#[allow(dead_code, clippy::pedantic)] fn f() {}", &[]);
        check("// #![allow(unsafe_code)]\n/// #[allow(unsafe_code)]\nfn f() {}", &[]);
        check("#[expect(dead_code, reason = \"as with allow(unsafe_code)\")] fn f() {}", &[]);
        check("const A: &str = \"#![allow(unsafe_code)]\";", &[]);
        check("fn f() { r.expect(warnings); m!(allow(warnings)); }", &[]);
    }

    #[test]
    fn an_item_that_only_tests_compile_is_marked_to_its_end_and_no_further() {
        use Guarded::Spawning;
        let lift = "#[expect(clippy::disallowed_methods)] fn f() {}";
        check(&format!("#[cfg(test)] mod tests {{ {lift} }}"), &[(Spawning, 1, true)]);
        check(&format!("#[cfg(test)] {lift}"), &[(Spawning, 1, true)]);
        check(&format!("#[cfg(all(test, unix))] mod tests {{ {lift} }}"), &[(Spawning, 1, true)]);
        check(&format!("#[cfg(test)] mod tests {{}} {lift}"), &[(Spawning, 1, false)]);
        check(&format!("#[cfg(test)] mod tests; {lift}"), &[(Spawning, 1, false)]);
        check(&format!("#[cfg(not(test))] {lift}"), &[(Spawning, 1, false)]);
    }

    #[test]
    fn text_that_is_not_rust_is_an_error() {
        assert!(lifts("fn f( {").is_err());
    }
}
