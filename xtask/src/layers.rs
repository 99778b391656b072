//! `layers`: every crate depends on what its place allows, and the guarded lints are lifted where they may be.
//!
//! The law is in [`table`], the judgement in [`rules`]; here the workspace is read: the declared
//! dependencies from `cargo metadata` (no resolution, so no network), the lints from the manifests,
//! the lifted lints from the sources.
//!
//! It judges declarations, not behaviour: what a permitted dependency is used for is for people to read.

mod lifts;
mod rules;
pub(crate) mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use walkdir::WalkDir;

use crate::command;
use rules::{Crate, Dependency};

/// What `layers` takes.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// The manifest of the workspace to check, where it is not this one
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// Print the table that is enforced, and check nothing
    #[arg(long)]
    show: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.show {
        println!("{}", rules::describe());
        return Ok(());
    }
    let manifest = args.manifest_path.clone().unwrap_or_else(|| command::root().join("Cargo.toml"));
    let crates = read(&manifest)?;
    let violations = rules::check(&crates);
    for violation in &violations {
        eprintln!("{violation}\n");
    }
    if !violations.is_empty() {
        bail!("{} broken rules of the layers; each is explained above", violations.len());
    }
    println!("layers: {} crates hold to the table", crates.len());
    Ok(())
}

/// The members of the workspace of this manifest.
fn read(manifest: &Path) -> anyhow::Result<Vec<Crate>> {
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .context("cargo could not read the manifests")?;
    let root = metadata.workspace_root.as_std_path();
    metadata.workspace_packages().into_iter().map(|package| member(root, package)).collect()
}

fn member(root: &Path, package: &Package) -> anyhow::Result<Crate> {
    let manifest = package.manifest_path.as_std_path();
    let folder = manifest.parent().unwrap_or(root);
    let dependencies = package.dependencies.iter().map(|dependency| Dependency {
        package: dependency.name.clone(),
        for_tests: dependency.kind == DependencyKind::Development,
    });
    Ok(Crate {
        package: package.name.to_string(),
        dir: below(root, folder),
        dependencies: dependencies.collect(),
        inherits_lints: inherits_lints(manifest)?,
        lifts: lifted(root, folder)?,
    })
}

/// `path` as the rules name it: below `root`, with `/` between its parts.
fn below(root: &Path, path: &Path) -> String {
    let parts = path.strip_prefix(root).unwrap_or(path).components();
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Whether the manifest says `[lints] workspace = true`, which `cargo metadata` does not tell.
fn inherits_lints(manifest: &Path) -> anyhow::Result<bool> {
    let text = fs::read_to_string(manifest).with_context(|| format!("reading {}", manifest.display()))?;
    let table: toml::Table = text.parse().with_context(|| format!("reading {}", manifest.display()))?;
    let inherits = table.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
    Ok(inherits == Some(true))
}

/// The lifted lints in every Rust file of the crate. What is neither in `src` nor the build script is
/// there for tests.
fn lifted(root: &Path, folder: &Path) -> anyhow::Result<Vec<(String, lifts::Lift)>> {
    let mut found = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type().is_file() || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let file = below(root, path);
        let text = fs::read_to_string(path).with_context(|| format!("reading {file}"))?;
        let lifts = lifts::lifts(&text).map_err(|error| anyhow!("{file} is not Rust: {error}"))?;
        let ships = path.starts_with(folder.join("src")) || path == folder.join("build.rs");
        found.extend(lifts.into_iter().map(|mut lift| {
            lift.in_tests |= !ships;
            (file.clone(), lift)
        }));
    }
    Ok(found)
}
