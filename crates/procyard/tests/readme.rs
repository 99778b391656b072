//! The README shows what the examples, which are compiled and run, really say.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

#[test]
fn every_rust_block_of_the_readme_is_part_of_an_example() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(here.join("../../README.md")).unwrap();
    let examples: Vec<String> = std::fs::read_dir(here.join("examples"))
        .unwrap()
        .map(|entry| unindented(&std::fs::read_to_string(entry.unwrap().path()).unwrap()))
        .collect();
    let blocks: Vec<&str> =
        readme.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 5, "the README has an example of each layer");
    for block in blocks {
        let wanted = unindented(block);
        assert!(examples.iter().any(|example| example.contains(&wanted)), "no example says:\n{block}");
    }
}

fn unindented(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n").trim().to_owned()
}
