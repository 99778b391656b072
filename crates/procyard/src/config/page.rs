//! The page of the documentation, written from the table of keys and held against what is there.
//!
//! Run with `PROCYARD_WRITE_DOCS=1` to write it anew. Not shipped: it is a part of the tests.

use std::fmt::Write as _;
use std::path::Path;

use super::keys::{KEYS, SECTIONS};

const HEAD: &str = "\
# Configuration

One TOML file: `--config FILE`, else `$PROCYARD_CONFIG`, else `procyard/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`, where
there is one. Nothing needs to be set. A key that does not exist is an error that names the nearest one and the line.

Each of these overrides the one before: the default, the file, the environment (`PROCYARD_SECTION__KEY`, lists with commas; an
empty variable is none), `--set SECTION.KEY=VALUE`, the flag of a verb. `procyard config` prints every effective value and where
it is from, `procyard config --json` the same for programs.

Sizes are bytes, or a text with a binary unit: `\"64K\"`, `\"256M\"`, `\"2G\"`, `\"1T\"`. A relative path in the file is relative to
the file, one in a variable or a flag to the current directory. A default that contradicts a smaller counterpart that is set gives
way to it; two that are set and contradict each other are an error. Where sessions are kept is no key, because a file may be
shared: `--data-dir`, else `$PROCYARD_DATA`, else `$XDG_STATE_HOME/procyard`, else `~/.local/state/procyard`.

This page is written from the table in `crates/procyard/src/config/keys.rs`.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for section in SECTIONS {
        let _ = writeln!(page, "\n## `[{}]`\n\n{}", section.name, prose(section.doc));
        page.push_str("\n| key | is | default | example | for |\n| --- | --- | --- | --- | --- |\n");
        for key in KEYS.iter().filter(|key| key.section == section.name) {
            let default = key.default.map_or_else(|| "unset".to_owned(), |default| format!("`{default}`"));
            let _ = writeln!(
                page,
                "| `{}` | {} | {default} | `{}` | {} |",
                key.name,
                key.kind.in_words(),
                key.example,
                prose(key.doc)
            );
        }
    }
    let _ = writeln!(page, "\n## An example\n\n```toml");
    for (index, section) in SECTIONS.iter().enumerate() {
        let _ = writeln!(page, "{}[{}]", if index == 0 { "" } else { "\n" }, section.name);
        for key in KEYS.iter().filter(|key| key.section == section.name) {
            let _ = writeln!(page, "{} = {}", key.name, key.example);
        }
    }
    page.push_str("```\n");
    page
}

fn prose(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_of_the_documentation_tells_every_key() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = page();
    if std::env::var_os("PROCYARD_WRITE_DOCS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == page,
        "docs/configuration.md is not what the keys say; run this test with PROCYARD_WRITE_DOCS=1"
    );
}

#[test]
fn the_example_of_the_page_is_a_configuration() {
    let page = page();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let settings = super::file::parse(example, Path::new("/")).unwrap();
    assert_eq!(settings.len(), KEYS.len());
}
