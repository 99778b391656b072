//! `xtask layers` on copies of this workspace: it passes as it is, and each forbidden change fails it.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use walkdir::WalkDir;

/// A copy of the workspace that a test may spoil.
struct Copy {
    root: TempDir,
}

impl Copy {
    fn new() -> Self {
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let copy = Self { root: tempfile::tempdir().unwrap() };
        fs::copy(original.join("Cargo.toml"), copy.path("Cargo.toml")).unwrap();
        for folder in ["crates", "xtask"] {
            for entry in WalkDir::new(original.join(folder)) {
                let entry = entry.unwrap();
                let target = copy.path(entry.path().strip_prefix(original).unwrap());
                if entry.file_type().is_dir() {
                    fs::create_dir(target).unwrap();
                } else if entry
                    .path()
                    .extension()
                    .is_some_and(|extension| extension == "rs" || extension == "toml")
                {
                    fs::copy(entry.path(), target).unwrap();
                }
            }
        }
        copy
    }

    fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(below)
    }

    /// Rewrites a manifest by what `change` does to it.
    fn manifest(&self, dir: &str, change: impl FnOnce(&mut toml::Table)) {
        let path = self.path(dir).join("Cargo.toml");
        let mut manifest: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        change(&mut manifest);
        fs::write(path, manifest.to_string()).unwrap();
    }

    /// Declares a dependency in the table of that kind; `source` is what stands right of the name.
    fn depend(&self, dir: &str, kind: &str, package: &str, source: toml::Table) {
        self.manifest(dir, |manifest| {
            let entry = manifest.entry(kind).or_insert_with(|| toml::Table::new().into());
            entry.as_table_mut().unwrap().insert(package.to_owned(), source.into());
        });
    }

    /// Adds a line to the end of a source file.
    fn append(&self, file: &str, line: &str) {
        let path = self.path(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{text}\n{line}\n")).unwrap();
    }

    #[expect(clippy::disallowed_methods, reason = "the test runs the xtask that it tests")]
    fn layers(&self) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["layers", "--manifest-path"])
            .arg(self.path("Cargo.toml"))
            .output()
            .unwrap()
    }

    /// Checks that `layers` fails, and says each of these.
    #[track_caller]
    fn check_fails(&self, says: &[&str]) {
        let output = self.layers();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        for part in says {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}

fn inherited() -> toml::Table {
    toml::toml! { workspace = true }
}

#[test]
fn the_workspace_as_it_is_passes() {
    let output = Copy::new().layers();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("hold to the table"), "{text}");
}

#[test]
fn a_supervisor_that_depends_on_host_fails() {
    let copy = Copy::new();
    copy.depend("crates/supervisor", "dependencies", "procyard-host", inherited());
    copy.check_fails(&[
        "procyard-supervisor depends on procyard-host",
        "rule: supervisor may depend on core, spool, manifest, store, runner alone",
        "what to do: hand the thing in",
    ]);
}

#[test]
fn a_core_that_depends_on_a_runtime_fails() {
    let copy = Copy::new();
    copy.depend("crates/core", "dependencies", "tokio", inherited());
    copy.check_fails(&[
        "procyard-core depends on tokio",
        "core, which is pure, uses serde, thiserror, uuid, base64 alone",
    ]);
}

#[test]
fn a_forbidden_dependency_is_found_under_another_name_for_one_target_and_in_a_build_script() {
    let copy = Copy::new();
    copy.depend(
        "crates/spool",
        "dependencies",
        "disk",
        toml::toml! {
            package = "procyard-host"
            path = "../host"
        },
    );
    copy.check_fails(&["procyard-spool depends on procyard-host"]);

    let copy = Copy::new();
    copy.manifest("crates/spool", |manifest| {
        let target = toml::toml! { ["cfg(unix)".dependencies] procyard-host = { workspace = true } };
        manifest.insert("target".to_owned(), target.into());
    });
    copy.check_fails(&["procyard-spool depends on procyard-host"]);

    let copy = Copy::new();
    copy.depend("crates/spool", "build-dependencies", "procyard-host", inherited());
    copy.check_fails(&["procyard-spool depends on procyard-host"]);
}

#[test]
fn tests_that_look_up_fail() {
    let copy = Copy::new();
    copy.depend("crates/spool", "dependencies", "procyard-core", inherited());
    copy.depend("crates/core", "dev-dependencies", "procyard-spool", inherited());
    copy.check_fails(&["procyard-core dev-depends on procyard-spool"]);
}

#[test]
fn a_crate_that_is_not_in_the_table_fails() {
    let copy = Copy::new();
    fs::create_dir_all(copy.path("crates/extra/src")).unwrap();
    fs::write(copy.path("crates/extra/src/lib.rs"), "").unwrap();
    fs::copy(copy.path("crates/text/Cargo.toml"), copy.path("crates/extra/Cargo.toml")).unwrap();
    copy.manifest("crates/extra", |manifest| {
        let package = manifest.get_mut("package").and_then(toml::Value::as_table_mut).unwrap();
        package.insert("name".to_owned(), "procyard-extra".into());
    });
    copy.check_fails(&["`crates/extra`, which is not in the table", "xtask/src/layers/table.rs"]);
}

#[test]
fn a_crate_with_lints_of_its_own_fails() {
    let copy = Copy::new();
    copy.manifest("crates/text", |manifest| {
        manifest.insert("lints".to_owned(), toml::toml! { [rust] unsafe_code = "allow" }.into());
    });
    copy.check_fails(&["procyard-text does not inherit the lints of the workspace"]);
}

#[test]
fn unsafe_code_outside_of_host_fails_and_in_host_passes() {
    let lift = "#[allow(unsafe_code)] mod lifted {}";
    let copy = Copy::new();
    copy.append("crates/host/src/lib.rs", lift);
    assert!(copy.layers().status.success());
    copy.append("crates/store/src/lib.rs", lift);
    copy.check_fails(&["crates/store/src/lib.rs:", "procyard-store lifts `unsafe_code`"]);
}

#[test]
fn spawning_outside_of_host_fails_and_in_tests_passes() {
    let lift = "#[expect(clippy::disallowed_methods, reason = \"a process\")] fn spawns() {}";
    let copy = Copy::new();
    copy.append("crates/host/src/lib.rs", lift);
    copy.append("crates/supervisor/src/lib.rs", &format!("#[cfg(test)] mod spawning {{ {lift} }}"));
    fs::create_dir_all(copy.path("crates/supervisor/tests")).unwrap();
    fs::write(copy.path("crates/supervisor/tests/spawning.rs"), lift).unwrap();
    assert!(copy.layers().status.success());
    copy.append("crates/supervisor/src/lib.rs", lift);
    copy.check_fails(&[
        "crates/supervisor/src/lib.rs:",
        "procyard-supervisor lifts `clippy::disallowed_methods`",
    ]);
}
