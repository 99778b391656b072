//! The kept corpus of every fuzzing target, replayed: what fuzzing once found stays right, without its engine.
//!
//! The targets are those of `fuzz/`, in a workspace of its own that is built for fuzzing alone.

#![expect(clippy::expect_used, reason = "what a target builds on is there, or the test fails")]

#[path = "../../../fuzz/src/targets/mod.rs"]
mod targets;

use std::path::Path;

/// Inputs of a kept corpus are at most so long, so that it stays small and its replay short.
const LONGEST: u64 = 20 << 10;

fn replay(name: &str) {
    let (_, target) = targets::ALL.iter().find(|target| target.0 == name).expect("there is such a target");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "a target without a corpus shows nothing");
    for input in inputs {
        let data = std::fs::read(&input).expect("it can be read");
        assert!(data.len() as u64 <= LONGEST, "{} is too long to keep", input.display());
        // Seen where the replay of this one fails.
        println!("{}", input.display());
        target(&data);
    }
}

#[test]
fn the_corpus_of_text_holds() {
    replay("text");
}

#[test]
fn the_corpus_of_spool_holds() {
    replay("spool");
}

#[test]
fn the_corpus_of_manifest_holds() {
    replay("manifest");
}

#[test]
fn the_corpus_of_arguments_holds() {
    replay("arguments");
}

#[test]
fn the_corpus_of_mcp_holds() {
    replay("mcp");
}

#[test]
fn the_corpus_of_http_holds() {
    replay("http");
}

#[test]
fn every_target_is_replayed() {
    let names = targets::ALL.map(|target| target.0);
    assert_eq!(names, ["text", "spool", "manifest", "arguments", "mcp", "http"]);
}
