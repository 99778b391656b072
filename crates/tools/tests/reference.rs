//! `docs/tools.md` is what the schemas say: it is made here, and compared, or written with `PROCYARD_WRITE_DOCS=1`.
//! Every example in it was carried out, and every call that a page of the documentation shows fits its schema.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;
#[path = "reference/errors.rs"]
mod errors;
#[path = "reference/examples.rs"]
mod examples;
#[path = "reference/tables.rs"]
mod tables;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use common::Yard;
use procyard_testkit::Script;
use procyard_tools::ToolDefinition;
use serde_json::Value;

const INTRODUCTION: &str = "\
# The tools

What a model is offered, and what it gets back. This page is made from the schemas that clients see, with the defaults of
an ordinary configuration: `cargo xtask docs --write` writes it, `cargo xtask docs` fails when it is out of date.

Every argument is checked before anything happens; one that is unknown, of the wrong type or out of range is an
`invalid_arguments` that names it. A command that fails is a normal result. Only a call that could not be carried out is an
error: `isError`, with `{\"error\": {...}}` instead of the result. A field of a result is absent when there is no value for it.

";

const AFTER: &str = "\
## Where nothing may outlive its call

A runner that cannot end everything that a command starts, or a session that cannot announce an end, offers `Bash` without
`background`, `yield_time_ms` and `stall_ms`: they are in no schema and no description, and a call that gives one all the same
is refused with `lifetime_enforcement_unavailable` or `process_notifications_unsupported`. Without a runner there is no `Bash`.

";

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md")
}

async fn definitions() -> std::sync::Arc<[ToolDefinition]> {
    Yard::new(Script::new()).await.tools.definitions()
}

async fn page() -> String {
    let tools = definitions().await;
    let mut page = INTRODUCTION.to_owned();
    for tool in tools.iter() {
        let _ = writeln!(page, "## {}\n\n{}\n", tool.name, tool.description);
        let hints = tool.annotations;
        let said: Vec<&str> = [
            (hints.read_only, "reads only"),
            (hints.destructive, "may destroy"),
            (hints.idempotent, "repeating it changes nothing more"),
            (hints.open_world, "reaches beyond procyard"),
        ]
        .into_iter()
        .filter_map(|(holds, word)| holds.then_some(word))
        .collect();
        let _ = writeln!(page, "Hints: {}.\n\n### Arguments of {}\n", said.join(", "), tool.name);
        page.push_str(&tables::arguments(&tool.input_schema));
        let _ = writeln!(page, "\n### Result of {}\n", tool.name);
        page.push_str(&tables::result(tool));
        let _ = writeln!(page, "\nErrors: {}.\n", errors::of(tool.name));
        let example = examples::carried_out(tool.name).await;
        let _ =
            writeln!(page, "{}\n\n```json\n{}\n```\n", example.about, call(tool.name, &example.arguments));
        let _ = writeln!(page, "```json\n{}\n```\n", pretty(&example.result));
        let _ = writeln!(page, "As text:\n\n```text\n{}```\n", example.text);
    }
    page.push_str(&tables::shared(&tools));
    page.push_str(AFTER);
    page.push_str("## Errors\n\n");
    page.push_str(&errors::table());
    page
}

/// A call as a client sends it, its name first.
fn call(name: &str, arguments: &Value) -> String {
    format!("{{\n  \"name\": \"{name}\",\n  \"arguments\": {}\n}}", pretty(arguments).replace('\n', "\n  "))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_page_is_what_the_schemas_say() {
    let page = page().await;
    if std::env::var_os("PROCYARD_WRITE_DOCS").is_some() {
        fs::write(page_path(), page).unwrap();
        return;
    }
    let written = fs::read_to_string(page_path()).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).position(|(old, new)| old != new);
    assert!(
        written == page,
        "docs/tools.md is out of date from line {} on; write it with `cargo xtask docs --write`",
        differs.unwrap_or_else(|| written.lines().count().min(page.lines().count())) + 1
    );
}

/// The JSON blocks of a page.
fn blocks(page: &str) -> Vec<Value> {
    let blocks = page.split("```json\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.filter_map(|block| serde_json::from_str(block).ok()).collect()
}

#[tokio::test]
async fn every_call_that_the_documentation_shows_fits_its_schema() {
    let tools = definitions().await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    pages.extend(fs::read_dir(root.join("docs")).unwrap().map(|page| page.unwrap().path()));
    let mut calls = 0;
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        for block in blocks(&fs::read_to_string(page).unwrap()) {
            let (Some(name), Some(arguments)) = (block["name"].as_str(), block.get("arguments")) else {
                continue;
            };
            let tool = tools.iter().find(|tool| tool.name == name);
            let tool = tool.unwrap_or_else(|| panic!("{}: there is no tool {name}", page.display()));
            if let Err(error) = jsonschema::validate(&tool.input_schema, arguments) {
                panic!("{}: {error}: {arguments}", page.display());
            }
            calls += 1;
        }
    }
    assert!(calls >= tools.len(), "each tool has an example");
}
