//! Builds the program that fuzzes, and makes sure that the crates of the workspace in it are instrumented.
//!
//! The compiler's own pass counts edges and shows comparisons; there is no sanitizer, and none is needed where `unsafe` is
//! not. Not for running it.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use cargo_metadata::Message;

use crate::command;

/// What a stable compiler needs to be told for coverage guidance.
const FLAGS: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The section of the counters, in the object files of a crate that is instrumented.
const COUNTERS: &[u8] = b"__sancov_cntrs";

/// The program, built in this target directory.
pub(super) fn build(root: &Path, target: &Path) -> anyhow::Result<PathBuf> {
    let fuzz = root.join("fuzz");
    take_versions(root, &fuzz)?;
    let triple = host()?;
    // With a target named, build scripts and procedural macros are built without the instrumentation.
    let mut build = command::cargo(["build", "--release", "--target", &triple, "--target-dir"]);
    build
        .arg(target)
        .arg("--manifest-path")
        .arg(fuzz.join("Cargo.toml"))
        .arg("--message-format=json-render-diagnostics")
        .env("RUSTFLAGS", FLAGS);
    let said = command::output(&mut build)?;
    let (mut program, mut libraries) = (None, Vec::new());
    for message in Message::parse_stream(Cursor::new(said)) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        if artifact.target.name == "procyard-fuzz" {
            program = artifact.executable.map(PathBuf::from);
        } else if artifact.manifest_path.starts_with(root.join("crates")) {
            let of_crate = artifact.filenames.iter().filter(|file| file.extension() == Some("rlib"));
            libraries.extend(of_crate.map(PathBuf::from));
        }
    }
    check_instrumented(&libraries)?;
    program.context("cargo built no program to fuzz with")
}

/// The versions of dependencies that are tested are fuzzed: those of the workspace, and of the engine the newest.
fn take_versions(root: &Path, fuzz: &Path) -> anyhow::Result<()> {
    let (ours, theirs) = (root.join("Cargo.lock"), fuzz.join("Cargo.lock"));
    let changed = |file: &Path| fs::metadata(file).and_then(|found| found.modified()).ok();
    // Without it, `None` is earlier than anything.
    if changed(&theirs) < changed(&ours) {
        fs::copy(&ours, &theirs).context("the versions of the workspace cannot be taken over")?;
    }
    Ok(())
}

/// Fails unless each of these libraries has counters: without them the engine works, and is blind.
fn check_instrumented(libraries: &[PathBuf]) -> anyhow::Result<()> {
    ensure!(!libraries.is_empty(), "no crate of the workspace is part of the program");
    for library in libraries {
        let bytes = fs::read(library).with_context(|| format!("{} cannot be read", library.display()))?;
        if !bytes.windows(COUNTERS.len()).any(|window| window == COUNTERS) {
            bail!("{} counts no coverage; did the compiler's flags change?", library.display());
        }
    }
    Ok(())
}

/// The machine that this is built on, as the compiler names it.
fn host() -> anyhow::Result<String> {
    let mut rustc = command::program(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let said = command::answer(rustc.arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("the compiler does not say what machine this is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_without_counters_is_refused_and_so_is_none() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = place.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let with = file("with.rlib", b"\x7fELF...__sancov_cntrs...");
        let without = file("without.rlib", b"\x7fELF...");
        assert!(check_instrumented(std::slice::from_ref(&with)).is_ok());
        assert!(check_instrumented(&[with, without]).is_err());
        assert!(check_instrumented(&[]).is_err());
    }
}
