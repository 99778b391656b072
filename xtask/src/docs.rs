//! `docs`: every test that a page of `docs/` names exists, every claim of a table says which test shows it, and the page
//! that is made from the schemas of the tools is up to date.
//!
//! A page names a test as `` `folder/file.rs::name` ``, from `crates/` on. The name is that of a function with a test
//! attribute, of a trial (which is a string), or of a rule of the conformance suite (`rules! { ... }`). A table whose
//! last column is called *shown by* names at least one test in each row.
//!
//! Whether a test shows what the page says is for people to read. `docs/tools.md` is made by a test of the tools, which
//! knows the schemas: here it is only run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

use crate::command;

/// Makes `docs/tools.md` instead of comparing it, in the test that does either.
const WRITE_VARIABLE: &str = "PROCYARD_WRITE_DOCS";

/// What `docs` takes.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Write docs/tools.md anew from the schemas, instead of comparing it with them
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    tools_page(args.write)?;
    references_hold()
}

/// Runs the test that makes or compares the page of the tools.
fn tools_page(write: bool) -> anyhow::Result<()> {
    let mut cargo = command::cargo(["test", "--quiet", "--package", "procyard-tools", "--test", "reference"]);
    if write {
        // The other tests read the page meanwhile.
        cargo.env(WRITE_VARIABLE, "1").args(["--", "the_page_is_what_the_schemas_say"]);
    }
    command::run(&mut cargo)
}

/// Checks what the pages name. Compiles nothing.
pub(crate) fn references_hold() -> anyhow::Result<()> {
    let root = command::root();
    let (mut named, mut problems) = (0, Vec::new());
    let mut sources = Sources { crates: &root.join("crates"), known: BTreeMap::new() };
    for page in fs::read_dir(root.join("docs"))? {
        let page = page?.path();
        if page.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&page)?;
            let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
            named += references(&text).count();
            problems.extend(
                check(&text, &mut sources)?.into_iter().map(|problem| format!("docs/{name}:{problem}")),
            );
        }
    }
    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} places of docs/ do not hold; each is named above", problems.len());
    }
    println!("docs: {named} references to tests hold");
    Ok(())
}

/// What is wrong with a page, each by its line.
fn check(page: &str, sources: &mut Sources) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut shows = false;
    for (number, line) in page.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        for (file, test) in references(line) {
            match sources.tests(file)? {
                None => problems.push(format!("{number}: there is no crates/{file}")),
                Some(tests) if !tests.contains(test) => {
                    problems.push(format!("{number}: crates/{file} has no test `{test}`"));
                }
                Some(_) => {}
            }
        }
        let last = line.trim_end().strip_suffix('|').and_then(|row| row.rsplit('|').next()).map(str::trim);
        match last {
            None => shows = false,
            Some("shown by") => shows = true,
            Some(rule) if rule.starts_with("---") => {}
            Some(cell) if shows && references(cell).next().is_none() => {
                problems.push(format!("{number}: the row names no test that shows it"));
            }
            Some(_) => {}
        }
    }
    Ok(problems)
}

/// The tests that a text names: the file below `crates/` and the name.
fn references(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter_map(|quoted| quoted.split_once("::")).filter(|(file, _)| is_rust(file))
}

fn is_rust(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension == "rs")
}

/// The sources of the workspace, each read once.
struct Sources<'a> {
    crates: &'a Path,
    known: BTreeMap<String, Option<BTreeSet<String>>>,
}

impl Sources<'_> {
    /// The tests of a file; `None` when there is no such file.
    fn tests(&mut self, file: &str) -> anyhow::Result<Option<&BTreeSet<String>>> {
        if !self.known.contains_key(file) {
            let path = self.crates.join(file);
            let tests = if path.is_file() {
                let source = fs::read_to_string(&path)?;
                Some(tests(&source).ok().with_context(|| format!("crates/{file} is not Rust"))?)
            } else {
                None
            };
            self.known.insert(file.to_owned(), tests);
        }
        Ok(self.known.get(file).and_then(Option::as_ref))
    }
}

/// The names of tests in a source. Read as tokens, so that comments never count.
fn tests(source: &str) -> Result<BTreeSet<String>, LexError> {
    let mut found = BTreeSet::new();
    walk(source.parse()?, &mut found);
    Ok(found)
}

fn walk(tokens: TokenStream, found: &mut BTreeSet<String>) {
    let (mut is_test, mut before) = (false, [String::new(), String::new()]);
    for token in tokens {
        match &token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket && before[1] == "#" => {
                is_test |= is_test_attribute(group.stream());
            }
            TokenTree::Group(group) if before == ["rules", "!"] => {
                let idents = group.stream().into_iter().filter(|token| matches!(token, TokenTree::Ident(_)));
                found.extend(idents.map(|ident| ident.to_string()));
            }
            TokenTree::Group(group) => {
                walk(group.stream(), found);
                is_test &= group.delimiter() != Delimiter::Brace;
            }
            TokenTree::Ident(name) if is_test && before[1] == "fn" => {
                found.insert(name.to_string());
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                found.extend(
                    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map(str::to_owned),
                );
            }
            _ => {}
        }
        let text = if let TokenTree::Group(_) = token { String::new() } else { token.to_string() };
        before = [std::mem::take(&mut before[1]), text];
    }
}

/// `#[test]`, or that of a runtime: `#[tokio::test(...)]`.
fn is_test_attribute(attribute: TokenStream) -> bool {
    let path = attribute.into_iter().take_while(|token| !matches!(token, TokenTree::Group(_)));
    path.last().is_some_and(|last| last.to_string() == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a page against `a/tests/x.rs` with a test of each kind.
    #[track_caller]
    fn problems(page: &str, expect: &[&str]) {
        let crates = tempfile::tempdir().unwrap();
        fs::create_dir_all(crates.path().join("a/tests")).unwrap();
        let source = r#"
            // a_comment, and #[test] fn in_a_comment() {}
            #[test]
            fn plain() { helper() }
            fn helper() {}
            #[tokio::test(start_paused = true)]
            #[ignore = "long"]
            pub async fn of_a_runtime() {}
            mod deeper { proptest! { #[test] fn in_a_macro(x in 0..1) {} } }
            fn trials() { Trial::test("a_trial", || Ok(())); }
            rules! { a_rule, another_rule }
        "#;
        fs::write(crates.path().join("a/tests/x.rs"), source).unwrap();
        let mut sources = Sources { crates: crates.path(), known: BTreeMap::new() };
        assert_eq!(check(page, &mut sources).unwrap(), expect);
    }

    #[test]
    fn a_page_may_name_tests_of_every_kind() {
        problems(
            "see `a/tests/x.rs::plain`, `a/tests/x.rs::of_a_runtime`\nand `a/tests/x.rs::in_a_macro`,\n\
             `a/tests/x.rs::a_trial`, `a/tests/x.rs::another_rule`; not `Type::method` or `x.rs`",
            &[],
        );
    }

    #[test]
    fn a_test_that_does_not_exist_fails_the_page() {
        problems("\n`a/tests/x.rs::gone`", &["2: crates/a/tests/x.rs has no test `gone`"]);
        problems("`a/tests/x.rs::helper`", &["1: crates/a/tests/x.rs has no test `helper`"]);
        problems("`a/tests/x.rs::in_a_comment`", &["1: crates/a/tests/x.rs has no test `in_a_comment`"]);
        problems("`a/tests/y.rs::plain`", &["1: there is no crates/a/tests/y.rs"]);
    }

    #[test]
    fn a_row_without_a_test_fails_where_the_table_says_what_shows_it() {
        let row = "| it rains | `a/tests/x.rs::plain` |\n| it snows | somebody saw it |\n";
        problems(
            &format!("| claim | shown by |\n|---|---|\n{row}"),
            &["4: the row names no test that shows it"],
        );
        problems(&format!("| claim | by whom |\n|---|---|\n{row}"), &[]);
        problems("| claim | shown by |\n|---|---|\n\n| another | table |\n", &[]);
    }
}
